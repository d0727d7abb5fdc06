//! Corruption checks name the members that differ.

use parking_lot::Mutex;

use super::super::tests::{LOCAL, ManualMember, SECOND, header};
use super::*;
use proto::etcdserverpb as pb;
use proto::etcdserverpb::InternalRaftRequest;
use testkit::waiting::{block_on, step_until};

pub(super) fn hash(hash: u32, compact_revision: i64, revision: i64) -> KeyValueHash {
    KeyValueHash { hash, compact_revision, revision }
}

pub(super) fn peer(member: u64, revision: i64, hash: KeyValueHash) -> PeerHash {
    PeerHash { member: MemberId(member), answer: Ok(PeerHashResponse { revision, hash }) }
}

pub(super) fn silent(member: u64) -> PeerHash {
    PeerHash {
        member: MemberId(member),
        answer: Err(PeerRequestError::Timeout("too long".to_owned())),
    }
}

/// Peers that return prepared answers per revision.
#[derive(Debug, Default)]
struct Fake {
    answers: Vec<(i64, Vec<PeerHash>)>,
    requested_revisions: Mutex<Vec<i64>>,
}

impl PeerHashes for Fake {
    fn at(&self, revision: i64) -> Pin<Box<dyn Future<Output = Vec<PeerHash>> + Send + '_>> {
        self.requested_revisions.lock().push(revision);
        let answer = self.answers.iter().find(|(at, _)| *at == revision);
        Box::pin(std::future::ready(answer.map_or_else(Vec::new, |(_, peers)| peers.clone())))
    }
}

/// Returns a leader with some keys and threads for long jobs.
fn leader() -> ManualMember {
    let mut member = ManualMember::new();
    member.lead();
    ["a", "b", "c"].into_iter().for_each(|key| member.put(key));
    let pool = Arc::clone(&member.server.inner.pools.long);
    std::thread::spawn(move || pool.work());
    member
}

fn own(member: &ManualMember) -> KeyValueHash {
    member.server.state().store.hash_kv(0).unwrap().0
}

fn alarms(member: &mut ManualMember) -> Vec<u64> {
    let alarm = |it: &InternalRaftRequest| {
        let alarm = it.alarm.unwrap();
        assert_eq!(alarm.alarm, i32::from(AlarmType::Corrupt));
        alarm.member_id
    };
    member.complete_all().iter().map(alarm).collect()
}

fn compact(member: &mut ManualMember, revision: i64) {
    let compaction = Some(pb::CompactionRequest { revision, physical: false });
    member.apply_ok(&InternalRaftRequest { compaction, ..header() });
    let state = member.server.state();
    let is_idle = || state.store.turn_compaction().unwrap() == mvcc::CompactionTurn::Idle;
    step_until("the compaction is finished", is_idle);
}

#[test]
fn a_check_without_peers_finds_nothing() {
    let mut member = leader();
    block_on(check_all_keys(member.server.clone(), Arc::new(ClusterPeers(member.server.clone()))))
        .unwrap();
    block_on(initial_check(member.server.clone(), Arc::new(ClusterPeers(member.server.clone()))))
        .unwrap();
    compact(&mut member, 2);
    assert_eq!(
        block_on(check_compactions(
            member.server.clone(),
            Arc::new(ClusterPeers(member.server.clone())),
            0
        )),
        0
    );
    assert!(alarms(&mut member).is_empty());
    assert_eq!(member.server.metrics().hash_rev_duration.get_sample_count(), 3);
}

#[test]
fn a_follower_that_differs_gets_the_alarm() {
    let mut member = leader();
    let own = own(&member);
    let differs = KeyValueHash { hash: own.hash ^ 1, ..own };
    let answers =
        vec![(own.revision, vec![peer(2, own.revision, own), peer(3, own.revision, differs)])];
    let peers = Arc::new(Fake { answers, ..Fake::default() });
    block_on(check_all_keys(member.server.clone(), peers)).unwrap();
    assert_eq!(alarms(&mut member), [3]);
    assert!(member.server.state().alarms.is_active(AlarmType::Corrupt));
}

#[test]
fn an_incomparable_hash_raises_no_alarm() {
    let mut member = leader();
    let own = own(&member);
    let differs = KeyValueHash { hash: own.hash ^ 1, ..own };
    let answers = vec![(own.revision, vec![peer(2, own.revision, differs)])];
    member.server.inner.raft.queue.close();
    member.server.inner.raft.progress.set_sole_leader(false);
    let peers = Arc::new(Fake { answers, ..Fake::default() });
    assert_eq!(block_on(check_all_keys(member.server.clone(), peers)), Err(Error::Stopped));
    assert!(alarms(&mut member).is_empty());
}

#[test]
fn a_member_that_differs_does_not_start() {
    let member = leader();
    let own = own(&member);
    let differs = KeyValueHash { hash: own.hash ^ 1, ..own };
    let answers = vec![(own.revision, vec![peer(2, own.revision, differs)])];
    let peers = Arc::new(Fake { answers, ..Fake::default() });
    let outcome = block_on(initial_check(member.server.clone(), peers));
    assert_eq!(outcome, Err(Inconsistent::Differs(LOCAL)));
    assert_eq!(outcome.unwrap_err().to_string(), "1 found data inconsistency with peers");
}

#[test]
fn compactions_are_compared_newest_first() {
    let mut member = leader();
    compact(&mut member, 2);
    compact(&mut member, 3);
    let hashes = member.server.state().store.compaction_hashes();
    let answers = vec![
        (3, vec![peer(2, 4, hashes[1]), silent(3)]),
        (2, vec![peer(2, 4, hashes[0]), peer(3, 4, hashes[0])]),
    ];
    let peers = Arc::new(Fake { answers, ..Fake::default() });
    let agreed = block_on(check_compactions(member.server.clone(), peers.clone(), 0));
    assert_eq!(agreed, 2, "the newest with all members in agreement");
    assert_eq!(*peers.requested_revisions.lock(), [3, 2]);
    assert_eq!(block_on(check_compactions(member.server.clone(), peers.clone(), 2)), 2);
    assert_eq!(
        *peers.requested_revisions.lock(),
        [3, 2, 3],
        "a checked revision is not requested again"
    );
    assert!(alarms(&mut member).is_empty());
}

#[test]
fn a_member_with_another_compaction_hash_gets_the_alarm() {
    let mut member = leader();
    compact(&mut member, 2);
    compact(&mut member, 3);
    let own = member.server.state().store.compaction_hashes()[1];
    let differs = KeyValueHash { hash: own.hash ^ 1, ..own };
    let answers = vec![(3, vec![peer(2, 4, own), peer(3, 4, differs)])];
    let peers = Arc::new(Fake { answers, ..Fake::default() });
    assert_eq!(block_on(check_compactions(member.server.clone(), peers.clone(), 0)), 0);
    assert_eq!(alarms(&mut member), [3]);
    assert_eq!(*peers.requested_revisions.lock(), [3], "older compactions are not checked");
}

#[test]
fn only_the_leader_compares_and_only_if_enabled() {
    let member = ManualMember::new();
    let peers: Arc<dyn PeerHashes> = Arc::new(ClusterPeers(member.server.clone()));
    assert!(AllKeys::new(member.server.clone(), Arc::clone(&peers)).is_none());
    assert!(Compactions::new(member.server.clone(), peers).is_none());

    let mut member = ManualMember::with(|config| {
        config.corrupt_check_time = SECOND;
        config.features.compact_hash_check = true;
    });
    member.put("a");
    compact(&mut member, 2);
    let fake = Arc::new(Fake::default());
    let peers: Arc<dyn PeerHashes> = fake.clone();
    let mut all = AllKeys::new(member.server.clone(), Arc::clone(&peers)).unwrap();
    let mut compactions = Compactions::new(member.server.clone(), peers).unwrap();
    member.follow();
    let now = member.advance(60 * SECOND);
    assert_eq!(all.turn(now), now + SECOND);
    assert_eq!(compactions.turn(now), now + 60 * SECOND);
    assert!(fake.requested_revisions.lock().is_empty());
    member.lead();
    let now = member.advance(60 * SECOND);
    assert!(all.turn(now) < now + SECOND, "pending");
    assert_eq!(compactions.turn(now), now + 60 * SECOND);
    assert_eq!(*fake.requested_revisions.lock(), [2]);
}
