//! Maintenance requests: status, hashes, alarms, defragmentation, downgrades.

use membership::version::DowngradeError;
use pb::alarm_request::AlarmAction;
use pb::downgrade_request::DowngradeAction;
use proto::etcdserverpb as pb;
use server::{Error, Refusal, SERVER_VERSION, Server};

use super::{ANONYMOUS, TestMember, block_on, keys, put, put_repeatedly, wait_until};

fn alarm(server: &Server, action: AlarmAction, member_id: u64, alarm: pb::AlarmType) -> usize {
    let (action, alarm) = (action.into(), alarm.into());
    let request = pb::AlarmRequest { action, member_id, alarm };
    block_on(server.alarm(ANONYMOUS, request)).unwrap().alarms.len()
}

fn downgrade(
    server: &Server,
    action: DowngradeAction,
    version: &str,
) -> Result<pb::DowngradeResponse, Error> {
    let request = pb::DowngradeRequest { action: action.into(), version: version.to_owned() };
    block_on(server.downgrade(ANONYMOUS, request))
}

/// Waits until the cluster version is set.
fn await_version(server: &Server) {
    wait_until("the cluster version is set", || server.membership().version().is_some());
}

#[test]
fn status_describes_the_member() {
    let running =
        TestMember::builder().config(|config| config.quota_backend_bytes = 1 << 30).start();
    let server = running.server();
    put(&server, "a", "1");
    let status = block_on(server.status(ANONYMOUS)).unwrap();
    let header = status.header.unwrap();
    assert_eq!((header.revision, header.member_id), (2, server.local().0));
    assert_eq!(status.version, SERVER_VERSION);
    assert_eq!(status.leader, server.local().0);
    assert_eq!(status.raft_term, header.raft_term);
    assert!(status.raft_applied_index > 0 && status.raft_index >= status.raft_applied_index);
    assert!(status.db_size >= status.db_size_in_use && status.db_size_in_use > 0);
    assert_eq!(status.db_size_quota, 1 << 30);
    assert!(["3.5.0", "3.7.0"].contains(&status.storage_version.as_str()), "{status:?}");
    assert_eq!(status.downgrade_info, Some(pb::DowngradeInfo::default()));
    assert!(status.errors.is_empty() && !status.is_learner);
}

#[test]
fn alarms_are_raised_listed_and_cleared() {
    let running = TestMember::builder().start();
    let server = running.server();
    assert_eq!(alarm(&server, AlarmAction::Activate, 5, pb::AlarmType::Nospace), 1);
    assert_eq!(alarm(&server, AlarmAction::Activate, 0, pb::AlarmType::Corrupt), 1);
    assert_eq!(alarm(&server, AlarmAction::Get, 0, pb::AlarmType::None), 2);
    let status = block_on(server.status(ANONYMOUS)).unwrap();
    assert_eq!(status.errors, ["memberID:5 alarm:NOSPACE", "alarm:CORRUPT"]);
    let request = super::put_request("a", "1");
    let corrupt = block_on(server.put(ANONYMOUS, request)).unwrap_err();
    assert_eq!(corrupt, Error::Refused(Refusal::Corrupt));
    assert_eq!(alarm(&server, AlarmAction::Deactivate, 0, pb::AlarmType::Corrupt), 1);
    assert_eq!(alarm(&server, AlarmAction::Deactivate, 5, pb::AlarmType::Nospace), 1);
    assert_eq!(put(&server, "a", "1"), 2);
}

#[test]
fn hash_kv_covers_the_keys_and_hash_the_whole_file() {
    let running = TestMember::builder().start();
    let server = running.server();
    put_repeatedly(&server, "a", 10, "x");
    let hash = block_on(server.hash_kv(ANONYMOUS, 5)).unwrap();
    let (expected, current) = server.state().store().hash_kv(5).unwrap();
    assert_eq!((hash.hash, hash.hash_revision), (expected.hash, 5));
    assert_eq!(hash.compact_revision, expected.compact_revision);
    assert_eq!(hash.header.unwrap().revision, current);
    let future = block_on(server.hash_kv(ANONYMOUS, 50)).unwrap_err();
    assert_eq!(future, Error::Refused(Refusal::Keys(mvcc::Error::FutureRevision)));
    let whole = block_on(server.hash(ANONYMOUS)).unwrap();
    assert_eq!(whole.header.unwrap().revision, 11);
    put(&server, "b", "1");
    assert_ne!(block_on(server.hash(ANONYMOUS)).unwrap().hash, whole.hash);
}

#[test]
fn defragment_shrinks_the_database_and_keeps_the_keys() {
    let running = TestMember::builder().start();
    let server = running.server();
    put_repeatedly(&server, "a", 200, &"x".repeat(10_000));
    let compact = pb::CompactionRequest { revision: 201, physical: true };
    block_on(server.compact(ANONYMOUS, compact)).unwrap();
    let before = block_on(server.status(ANONYMOUS)).unwrap();
    block_on(server.defragment(ANONYMOUS)).unwrap();
    let after = block_on(server.status(ANONYMOUS)).unwrap();
    assert!(
        after.db_size < before.db_size,
        "size grew from {} to {}",
        before.db_size,
        after.db_size
    );
    assert_eq!(keys(&server, "a", "z"), ["a"]);
    assert_eq!(put(&server, "b", "1"), 202);
}

#[test]
fn a_downgrade_target_is_one_minor_version_below() {
    let running = TestMember::builder().start();
    let server = running.server();
    await_version(&server);
    let validate = |version| downgrade(&server, DowngradeAction::Validate, version);
    let response = validate("3.6").unwrap();
    assert_eq!((response.version.as_str(), response.header.unwrap().revision), ("3.7", 1));
    let refused = |error| Err(Error::Downgrade(error));
    for version in ["3.5", "3.7.0", "4.6"] {
        assert_eq!(validate(version), refused(DowngradeError::InvalidTarget), "{version}");
    }
    assert_eq!(validate("x"), refused(DowngradeError::WrongFormat));
    let enable = downgrade(&server, DowngradeAction::Enable, "3.5");
    assert_eq!(enable, refused(DowngradeError::InvalidTarget));
    assert!(!server.membership().downgrade().enabled);
}

#[test]
fn a_downgrade_is_enabled_once_and_cancel_is_idempotent() {
    let running = TestMember::builder().start();
    let server = running.server();
    await_version(&server);
    downgrade(&server, DowngradeAction::Enable, "3.6.16").unwrap();
    let status = block_on(server.status(ANONYMOUS)).unwrap();
    let info = status.downgrade_info.unwrap();
    assert_eq!((info.enabled, info.target_version.as_str()), (true, "3.6.0"));
    // The error depends on whether the cluster version is already lowered.
    let again = downgrade(&server, DowngradeAction::Enable, "3.6").unwrap_err();
    let possible = [DowngradeError::InProcess, DowngradeError::InvalidTarget];
    assert!(possible.map(Error::Downgrade).contains(&again), "{again}");
    for _ in 0..2 {
        downgrade(&server, DowngradeAction::Cancel, "").unwrap();
        assert!(!server.membership().downgrade().enabled);
    }
}

#[test]
fn an_unknown_downgrade_action_is_refused() {
    let running = TestMember::builder().start();
    let request = pb::DowngradeRequest { action: 9, version: "3.6".to_owned() };
    let error = block_on(running.server().downgrade(ANONYMOUS, request)).unwrap_err();
    assert_eq!(error, Error::UnknownMethod);
    assert_eq!(error.to_string(), "etcdserver: unknown method");
}
