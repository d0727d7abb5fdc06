//! The cluster version, the storage version, and the end of a downgrade.

use backend::schema::version::{Version, detect};
use proto::membershippb::{ClusterVersionSetRequest, DowngradeInfoSetRequest};

use proto::walpb::Snapshot;
use wal::Wal;

use super::super::BackgroundTask as _;
use super::super::storage::follow_cluster_version;
use super::super::versions::{ClusterVersion, DowngradeEnd};
use super::*;

fn set_version(member: &mut ManualMember, ver: &str) {
    member.apply_ok(&version_request(ver));
}

fn set_downgrade(member: &mut ManualMember, ver: &str) {
    let downgrade_info_set = Some(DowngradeInfoSetRequest { enabled: true, ver: ver.to_owned() });
    member.apply_ok(&InternalRaftRequest { downgrade_info_set, ..header() });
}

fn add_member(member: &ManualMember, id: u64) {
    let state = member.server.state();
    let mut tx = state.backend.begin();
    let urls = vec![format!("http://localhost:{id}")];
    let added = Member { id: MemberId(id), ..Member::at_bootstrap("", urls, "token") };
    state.cluster.add_member(&mut tx, added).unwrap();
    tx.commit().unwrap();
}

fn version(member: &ManualMember) -> Option<Version> {
    member.server.state().cluster.now().version()
}

fn versions_proposed(requests: &[InternalRaftRequest]) -> Vec<String> {
    requests.iter().filter_map(|it| it.cluster_version_set.clone()).map(|it| it.ver).collect()
}

#[test]
fn a_new_leader_decides_the_version_at_once() {
    let mut member = ManualMember::new();
    let mut task = ClusterVersion::new(member.server.clone());
    let now = member.now();
    assert!(task.turn(now) < now + SECOND / 10, "polls for a leader");
    assert!(member.take_proposed().is_empty());
    member.lead();
    task.turn(now);
    assert_eq!(versions_proposed(&member.complete_all()), ["3.7.0"]);
    assert_eq!(task.turn(now), now + 4 * SECOND);
    assert_eq!(version(&member), Some(Version::new(3, 7)));
}

#[test]
fn a_silent_member_keeps_the_cluster_at_the_oldest_version() {
    let mut member = ManualMember::new();
    add_member(&member, 2);
    member.lead();
    let mut task = ClusterVersion::new(member.server.clone());
    let now = member.now();
    task.turn(now);
    assert_eq!(versions_proposed(&member.complete_all()), ["3.0.0"]);
    task.turn(now);
    let now = member.advance(4 * SECOND);
    task.turn(now);
    assert!(member.take_proposed().is_empty(), "the version stays at 3.0");
}

#[test]
fn the_cluster_version_is_raised_within_four_seconds() {
    let mut member = ManualMember::new();
    set_version(&mut member, "3.6.0");
    member.lead();
    let mut task = ClusterVersion::new(member.server.clone());
    let now = member.now();
    assert_eq!(task.turn(now), now + 4 * SECOND);
    assert!(member.take_proposed().is_empty());
    let now = member.advance(4 * SECOND);
    task.turn(now);
    assert_eq!(versions_proposed(&member.complete_all()), ["3.7.0"]);
}

#[test]
fn a_failed_version_proposal_is_retried() {
    let mut member = ManualMember::new();
    set_version(&mut member, "3.6.0");
    member.lead();
    let mut task = ClusterVersion::new(member.server.clone());
    for _ in 0..2 {
        let now = member.advance(4 * SECOND);
        task.turn(now);
        member.take_events();
        assert_eq!(member.proposed.len(), 1);
        member.fail_all(&Error::Timeout);
        assert_eq!(task.turn(now), now + 4 * SECOND);
    }
}

#[test]
fn a_downgrade_lowers_the_cluster_version() {
    let mut member = ManualMember::new();
    set_version(&mut member, "3.7.0");
    set_downgrade(&mut member, "3.6.0");
    member.lead();
    let mut task = ClusterVersion::new(member.server.clone());
    let now = member.advance(4 * SECOND);
    task.turn(now);
    assert_eq!(versions_proposed(&member.complete_all()), ["3.6.0"]);
}

#[test]
fn a_downgrade_continues_while_a_member_runs_the_newer_release() {
    let mut member = ManualMember::new();
    set_version(&mut member, "3.7.0");
    set_downgrade(&mut member, "3.6.0");
    member.lead();
    let mut task = DowngradeEnd::new(member.server.clone()).unwrap();
    let now = member.advance(5 * SECOND);
    assert_eq!(task.turn(now), now + 5 * SECOND);
    assert!(member.take_proposed().is_empty());
}

#[test]
fn a_downgrade_ends_once_all_members_run_the_target_version() {
    let mut member = ManualMember::new();
    set_version(&mut member, "3.7.0");
    set_downgrade(&mut member, "3.7.0");
    let mut task = DowngradeEnd::new(member.server.clone()).unwrap();
    let now = member.advance(5 * SECOND);
    task.turn(now);
    assert!(member.take_proposed().is_empty(), "the leader ends it");
    member.lead();
    let now = member.advance(5 * SECOND);
    task.turn(now);
    member.complete_all();
    task.turn(now);
    assert!(!member.server.state().cluster.now().downgrade().enabled);
}

#[test]
fn the_downgrade_check_is_off_with_a_zero_interval() {
    let member = ManualMember::with(|config| config.downgrade_check_time = Duration::ZERO);
    assert!(DowngradeEnd::new(member.server.clone()).is_none());
}

#[test]
fn the_storage_version_follows_the_cluster_version() {
    let mut member = ManualMember::new();
    follow_cluster_version(&member.server);
    assert_eq!(stored(&member), None, "no cluster version yet");
    set_version(&mut member, "3.0.0");
    follow_cluster_version(&member.server);
    assert_eq!(stored(&member), Some(Version::new(3, 5)), "counts as undecided");
    set_version(&mut member, "3.7.0");
    follow_cluster_version(&member.server);
    assert_eq!(stored(&member), Some(Version::new(3, 7)));
}

/// Creates a log on the disk of a member, with the given requests as entries.
fn begin_log(member: &ManualMember, requests: &[InternalRaftRequest]) -> Wal {
    let (disk, dir) = (&member.server.inner.context.disk, member.server.config().wal_path());
    disk.create_dir_all_durably(dir.parent().unwrap()).unwrap();
    let mut log = Wal::create(Arc::clone(disk), &dir, "", wal::Config::default()).unwrap();
    let entry = |(number, request): (usize, &InternalRaftRequest)| proto::raftpb::Entry {
        term: Some(2),
        index: Some(number as u64 + 1),
        data: Some(request.encode_to_vec().into()),
        r#type: None,
    };
    let entries: Vec<_> = requests.iter().enumerate().map(entry).collect();
    let commit = Some(entries.len() as u64);
    let state = proto::raftpb::HardState { term: Some(2), vote: Some(1), commit };
    log.save(&state, &entries, true).unwrap();
    log
}

fn version_request(ver: &str) -> InternalRaftRequest {
    let cluster_version_set = Some(ClusterVersionSetRequest { ver: ver.to_owned() });
    InternalRaftRequest { cluster_version_set, ..header() }
}

/// Returns a request that only 3.7 understands.
fn newer_request() -> InternalRaftRequest {
    let test = pb::DowngradeVersionTestRequest { ver: "3.7.0".to_owned() };
    InternalRaftRequest { downgrade_version_test: Some(test), ..header() }
}

/// Returns a member in the middle of a downgrade from 3.7 to 3.6.
fn downgrading() -> ManualMember {
    let mut member = ManualMember::new();
    set_version(&mut member, "3.7.0");
    follow_cluster_version(&member.server);
    set_downgrade(&mut member, "3.6.0");
    set_version(&mut member, "3.6.0");
    member
}

fn stored(member: &ManualMember) -> Option<Version> {
    detect(&member.server.state().backend.view()).ok()
}

#[test]
fn the_database_is_downgraded_once_the_older_release_can_read_the_log() {
    let member = downgrading();
    let mut log = begin_log(&member, &[newer_request(), version_request("3.6.0")]);
    follow_cluster_version(&member.server);
    assert_eq!(stored(&member), Some(Version::new(3, 7)), "3.6 could not read the log");
    let conf_state = Some(proto::raftpb::ConfState::default());
    let snapshot = Snapshot { index: Some(2), term: Some(2), conf_state };
    log.save_snapshot(&snapshot).unwrap();
    follow_cluster_version(&member.server);
    assert_eq!(
        stored(&member),
        Some(Version::new(3, 6)),
        "the snapshot made that entry unnecessary"
    );
}

#[test]
fn the_database_is_not_downgraded_if_the_log_cannot_be_read() {
    let member = downgrading();
    follow_cluster_version(&member.server);
    assert_eq!(stored(&member), Some(Version::new(3, 7)));
}
