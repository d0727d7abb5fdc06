//! Corruption checks name the members that differ.

use parking_lot::Mutex;

use super::super::tests::{LOCAL, Rig, SECOND, header};
use super::*;
use proto::etcdserverpb as pb;
use proto::etcdserverpb::InternalRaftRequest;
use testkit::waiting::block_on;

pub(super) fn hash(hash: u32, compact_revision: i64, revision: i64) -> KeyValueHash {
    KeyValueHash { hash, compact_revision, revision }
}

pub(super) fn peer(member: u64, revision: i64, hash: KeyValueHash) -> PeerHash {
    PeerHash { member: MemberId(member), answer: Ok(PeerAnswer { revision, hash }) }
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
    asked: Mutex<Vec<i64>>,
}

impl PeerHashes for Fake {
    fn at(&self, revision: i64) -> Pin<Box<dyn Future<Output = Vec<PeerHash>> + Send + '_>> {
        self.asked.lock().push(revision);
        let answer = self.answers.iter().find(|(at, _)| *at == revision);
        Box::pin(std::future::ready(answer.map_or_else(Vec::new, |(_, peers)| peers.clone())))
    }
}

/// Returns a leader with some keys and threads for long jobs.
fn leader() -> Rig {
    let mut rig = Rig::new();
    rig.lead();
    ["a", "b", "c"].into_iter().for_each(|key| rig.put(key));
    let pool = Arc::clone(&rig.server.inner.pools.long);
    std::thread::spawn(move || pool.work());
    rig
}

fn own(rig: &Rig) -> KeyValueHash {
    rig.server.state().store.hash_kv(0).unwrap().0
}

fn alarms(rig: &mut Rig) -> Vec<u64> {
    let alarm = |it: &InternalRaftRequest| {
        let alarm = it.alarm.unwrap();
        assert_eq!(alarm.alarm, i32::from(AlarmType::Corrupt));
        alarm.member_id
    };
    rig.complete_all().iter().map(alarm).collect()
}

fn compact(rig: &mut Rig, revision: i64) {
    let compaction = Some(pb::CompactionRequest { revision, physical: false });
    rig.apply_ok(&InternalRaftRequest { compaction, ..header() });
    let state = rig.server.state();
    while state.store.turn_compaction().unwrap() != mvcc::CompactionTurn::Idle {}
}

#[test]
fn a_check_without_peers_finds_nothing() {
    let mut rig = leader();
    block_on(check_all_keys(rig.server.clone(), Arc::new(ClusterPeers(rig.server.clone()))))
        .unwrap();
    block_on(initial_check(rig.server.clone(), Arc::new(ClusterPeers(rig.server.clone()))))
        .unwrap();
    compact(&mut rig, 2);
    assert_eq!(
        block_on(check_compactions(
            rig.server.clone(),
            Arc::new(ClusterPeers(rig.server.clone())),
            0
        )),
        0
    );
    assert!(alarms(&mut rig).is_empty());
    assert_eq!(rig.server.metrics().hash_rev_duration.get_sample_count(), 3);
}

#[test]
fn a_follower_that_differs_gets_the_alarm() {
    let mut rig = leader();
    let own = own(&rig);
    let differs = KeyValueHash { hash: own.hash ^ 1, ..own };
    let answers =
        vec![(own.revision, vec![peer(2, own.revision, own), peer(3, own.revision, differs)])];
    let peers = Arc::new(Fake { answers, ..Fake::default() });
    block_on(check_all_keys(rig.server.clone(), peers)).unwrap();
    assert_eq!(alarms(&mut rig), [3]);
    assert!(rig.server.state().alarms.is_active(AlarmType::Corrupt));
}

#[test]
fn an_incomparable_hash_raises_no_alarm() {
    let mut rig = leader();
    let own = own(&rig);
    let differs = KeyValueHash { hash: own.hash ^ 1, ..own };
    let answers = vec![(own.revision, vec![peer(2, own.revision, differs)])];
    rig.server.inner.raft.queue.close();
    rig.server.inner.raft.progress.set_sole_leader(false);
    let peers = Arc::new(Fake { answers, ..Fake::default() });
    assert_eq!(block_on(check_all_keys(rig.server.clone(), peers)), Err(Error::Stopped));
    assert!(alarms(&mut rig).is_empty());
}

#[test]
fn a_member_that_differs_does_not_start() {
    let rig = leader();
    let own = own(&rig);
    let differs = KeyValueHash { hash: own.hash ^ 1, ..own };
    let answers = vec![(own.revision, vec![peer(2, own.revision, differs)])];
    let peers = Arc::new(Fake { answers, ..Fake::default() });
    let outcome = block_on(initial_check(rig.server.clone(), peers));
    assert_eq!(outcome, Err(Inconsistent::Differs(LOCAL)));
    assert_eq!(outcome.unwrap_err().to_string(), "1 found data inconsistency with peers");
}

#[test]
fn compactions_are_compared_newest_first() {
    let mut rig = leader();
    compact(&mut rig, 2);
    compact(&mut rig, 3);
    let hashes = rig.server.state().store.compaction_hashes();
    let answers = vec![
        (3, vec![peer(2, 4, hashes[1]), silent(3)]),
        (2, vec![peer(2, 4, hashes[0]), peer(3, 4, hashes[0])]),
    ];
    let peers = Arc::new(Fake { answers, ..Fake::default() });
    let agreed = block_on(check_compactions(rig.server.clone(), peers.clone(), 0));
    assert_eq!(agreed, 2, "the newest with all members in agreement");
    assert_eq!(*peers.asked.lock(), [3, 2]);
    assert_eq!(block_on(check_compactions(rig.server.clone(), peers.clone(), 2)), 2);
    assert_eq!(*peers.asked.lock(), [3, 2, 3], "a checked revision is not requested again");
    assert!(alarms(&mut rig).is_empty());
}

#[test]
fn a_member_with_another_compaction_hash_gets_the_alarm() {
    let mut rig = leader();
    compact(&mut rig, 2);
    compact(&mut rig, 3);
    let own = rig.server.state().store.compaction_hashes()[1];
    let differs = KeyValueHash { hash: own.hash ^ 1, ..own };
    let answers = vec![(3, vec![peer(2, 4, own), peer(3, 4, differs)])];
    let peers = Arc::new(Fake { answers, ..Fake::default() });
    assert_eq!(block_on(check_compactions(rig.server.clone(), peers.clone(), 0)), 0);
    assert_eq!(alarms(&mut rig), [3]);
    assert_eq!(*peers.asked.lock(), [3], "older compactions are not checked");
}

#[test]
fn only_the_leader_compares_and_only_if_enabled() {
    let rig = Rig::new();
    let peers: Arc<dyn PeerHashes> = Arc::new(ClusterPeers(rig.server.clone()));
    assert!(AllKeys::new(rig.server.clone(), Arc::clone(&peers)).is_none());
    assert!(Compactions::new(rig.server.clone(), peers).is_none());

    let mut rig = Rig::with(|config| {
        config.corrupt_check_time = SECOND;
        config.features.compact_hash_check = true;
    });
    rig.put("a");
    compact(&mut rig, 2);
    let fake = Arc::new(Fake::default());
    let peers: Arc<dyn PeerHashes> = fake.clone();
    let mut all = AllKeys::new(rig.server.clone(), Arc::clone(&peers)).unwrap();
    let mut compactions = Compactions::new(rig.server.clone(), peers).unwrap();
    rig.follow();
    let now = rig.advance(60 * SECOND);
    assert_eq!(all.turn(now), now + SECOND);
    assert_eq!(compactions.turn(now), now + 60 * SECOND);
    assert!(fake.asked.lock().is_empty());
    rig.lead();
    let now = rig.advance(60 * SECOND);
    assert!(all.turn(now) < now + SECOND, "pending");
    assert_eq!(compactions.turn(now), now + 60 * SECOND);
    assert_eq!(*fake.asked.lock(), [2]);
}
