//! Tests of a leader with followers.

use std::sync::Arc;
use std::time::Duration;

use env::Disk as _;
use raft::{Entry, Message, MessageType};
use server::Error;
use server::stages::Stage;
use simkit::poll_once;
use testkit::waiting::step_until;
use types::{Index, MemberId};
use wal::snap::Snapshotter;

use crate::with_peers::MemberWithPeers;

/// Returns the leader of three members, with all entries applied.
fn leader(unapplied_bytes_max: u64) -> MemberWithPeers {
    let mut leader =
        MemberWithPeers::new(1, 3, |config| config.unapplied_bytes_max = unapplied_bytes_max);
    leader.lead();
    leader
}

/// Returns the last index that was sent to any peer.
fn last_sent(sent: &[Message]) -> Option<Index> {
    sent.iter().flat_map(|message| &message.entries).map(|entry| entry.index).max()
}

/// Requests time out, but their entries stay in the log.
#[test]
fn unapplied_entries_of_a_leader_without_a_quorum_are_bounded() {
    let mut leader = leader(1000);
    let mut first = leader.put(500);
    leader.tick();
    let (mut second, mut third) = (leader.put(300), leader.put(300));
    leader.tick();
    assert!(poll_once(&mut first).is_none());
    for refused in [&mut second, &mut third] {
        assert!(
            matches!(poll_once(refused), Some(Err(Error::TooManyRequests))),
            "refused as one batch"
        );
    }
    let sent = last_sent(&leader.sent()).expect("the first put is sent");

    let entries = vec![Entry::normal(vec![b'v'; 600].into())];
    let forwarded = Message { entries, ..Message::new(MessageType::MsgProp, MemberId(0)) };
    leader.deliver(leader.peers[0], forwarded);
    let mut fourth = leader.put(100);
    leader.tick();
    assert!(poll_once(&mut fourth).is_none(), "a small put is accepted");
    assert_eq!(last_sent(&leader.sent()), Some(sent.next()), "the forwarded proposal was refused");

    step_until("the first put is applied", || {
        leader.tick_agreeing(|_| true);
        poll_once(&mut first).is_some()
    });
    leader.tick_agreeing(|_| true);
    let mut fifth = leader.put(900);
    leader.tick();
    assert!(poll_once(&mut fifth).is_none(), "accepted after the first was applied");
}

/// Returns the leader of `of` members, whose disk hangs. It is connected to all peers, longest to
/// the last one.
fn stalled(of: usize) -> MemberWithPeers {
    let mut leader = MemberWithPeers::new(1, of, |_| {});
    leader.lead();
    for (number, id) in leader.peers.iter().enumerate() {
        leader.connect(*id, Duration::from_secs(10 - number as u64));
    }
    leader.hang_log();
    leader
}

/// Advances time while peers agree to the selected messages and do not campaign. Returns each
/// target of a leader transfer.
fn transferees(
    leader: &mut MemberWithPeers,
    ticks: u32,
    agrees: impl Fn(&Message) -> bool,
) -> Vec<MemberId> {
    let (mut all, mut last) = (Vec::new(), None);
    for _ in 0..ticks {
        leader.tick_agreeing(&agrees);
        let transferee = leader.status().basic.lead_transferee;
        if transferee != last {
            all.extend(transferee);
        }
        last = transferee;
    }
    all
}

/// The peer with the oldest connection may be behind.
#[test]
fn a_leader_with_a_hanging_disk_transfers_to_the_peer_with_the_longest_log() {
    let mut leader = stalled(5);
    let ahead = leader.peers[1];
    let mut put = leader.put(10);
    let agrees =
        |message: &Message| message.kind == MessageType::MsgHeartbeat || message.to == ahead;
    assert!(transferees(&mut leader, 9, agrees).is_empty(), "before the stall threshold");
    assert_eq!(transferees(&mut leader, 15, agrees), [ahead]);
    assert!(poll_once(&mut put).is_none());
}

#[test]
fn a_leader_with_a_hanging_disk_tries_each_peer_in_turn() {
    let mut leader = stalled(3);
    let (longest, other) = (leader.peers[1], leader.peers[0]);
    let tried = transferees(&mut leader, 100, |_| true);
    assert!(tried.len() >= 3, "{tried:?}");
    assert_eq!(tried[..3], [longest, other, longest]);
}

/// Without this disk nothing can be committed under any leader, and nothing can be proposed during
/// a transfer.
#[test]
fn a_leader_with_a_hanging_disk_stays_if_its_peers_form_no_quorum() {
    let mut of_two = stalled(2);
    assert!(transferees(&mut of_two, 60, |_| true).is_empty());
    let mut of_three = stalled(3);
    let (there, away) = (of_three.peers[0], of_three.peers[1]);
    of_three.disconnect(away);
    assert!(transferees(&mut of_three, 60, |message| message.to == there).is_empty());
}

/// Returns the files in the snapshot directory with a suffix.
fn files(member: &MemberWithPeers, suffix: &str) -> Vec<String> {
    let mut names = member.disk.read_dir(&member.server().config().snap_path()).unwrap();
    names.retain(|name| name.ends_with(suffix));
    names
}

/// Puts keys until a snapshot is taken, and stops before the log records it.
fn until_a_snapshot(leader: &mut MemberWithPeers) {
    use Stage::{Apply, Log, Raft, Snapshot};
    step_until("a snapshot is taken", || {
        drop(leader.put(1));
        for stage in [Raft, Log, Raft, Log, Apply, Snapshot] {
            leader.stages.turn(stage);
            leader.agree(|_| true);
        }
        !files(leader, ".snap").is_empty()
    });
}

fn with_a_snapshot() -> MemberWithPeers {
    let mut leader = MemberWithPeers::new(1, 3, |config| config.snapshot_count = 20);
    leader.lead();
    assert!(files(&leader, ".snap").is_empty());
    let files =
        Snapshotter::new(Arc::new(leader.disk.clone()), leader.server().config().snap_path());
    let received = files.receive_db(&mut &b"a database"[..]).unwrap();
    received.sync().unwrap().keep(2).unwrap();
    until_a_snapshot(&mut leader);
    leader
}

/// Consensus did not use the database.
#[test]
fn an_unused_received_database_is_removed_by_the_next_snapshot() {
    assert!(files(&with_a_snapshot(), ".snap.db").is_empty());
}

#[test]
fn a_disk_that_hangs_during_a_snapshot_record_is_detected() {
    assert!(with_a_snapshot().is_busy_in_a_hanging_log());
}
