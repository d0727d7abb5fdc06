//! Tests of the log that a leader keeps for slow followers.

use raft::{Message, MessageType};
use simkit::poll_once;
use types::{Index, MemberId};

use crate::with_peers::MemberWithPeers;

/// The most ticks until a put is applied.
const TICKS_MAX: usize = 100;

/// Returns whether a follower that misses `missed` entries is sent a snapshot.
fn is_sent_a_snapshot(missed: usize, snapshot_count: u64, catchup_entries: u64) -> bool {
    let mut leader = MemberWithPeers::new(1, 3, |config| {
        config.snapshot_count = snapshot_count;
        config.snapshot_catchup_entries = catchup_entries;
    });
    leader.lead();
    let slow = leader.peers[1];
    let has = leader.server().applied();
    for _ in 0..missed {
        let mut put = leader.put(1);
        let applied = (0..TICKS_MAX).any(|_| {
            leader.tick_agreeing(|message| message.to != slow);
            poll_once(&mut put).map(|applied| applied.unwrap().result.unwrap()).is_some()
        });
        assert!(applied, "a put is not applied after {TICKS_MAX} ticks");
    }
    reject(&leader, slow, has);
    leader.tick();
    let status = leader.status();
    let (_, progress) = status.progress.iter().find(|(id, _)| *id == slow).unwrap();
    matches!(progress.state, raft::tracker::ProgressState::Snapshot { .. })
}

/// The follower rejects an append, because its log ends at an index.
fn reject(leader: &MemberWithPeers, follower: MemberId, last: Index) {
    let (term, index) = (leader.server().term(), leader.server().applied());
    let response = Message::new(MessageType::MsgAppResp, leader.server().local());
    let response =
        Message { term, index, reject: true, reject_hint: last, log_term: term, ..response };
    leader.deliver(follower, response);
}

/// As in etcd, the log in memory is trimmed with every snapshot, and every 100 entries
/// (`TestMixVersionsSnapshotByMockingPartition`).
#[test]
fn few_catch_up_entries_are_honored() {
    assert!(is_sent_a_snapshot(30, 10, 10), "the last snapshot left 10 entries");
    assert!(!is_sent_a_snapshot(5, 10, 50), "all of them are left");
    assert!(!is_sent_a_snapshot(30, 10_000, 10), "nothing was trimmed yet");
    assert!(is_sent_a_snapshot(130, 10_000, 10), "trimmed after 100 entries");
}
