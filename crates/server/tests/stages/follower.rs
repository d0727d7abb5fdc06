//! Tests of a follower.

use membership::{Change, Member};
use mvcc::KeyValueHash;
use raft::{Entry, Message, MessageType};
use server::StopReason;
use server::stages::Stage;
use simkit::poll_once;
use types::{Index, MemberId, Term};

use crate::with_peers::{MemberWithPeers, heartbeat};

const TERM: Term = Term(5);

/// The leader reports a commit index beyond the log, although this member has acknowledged these
/// entries.
#[test]
fn a_member_that_lost_log_entries_stops() {
    let mut member = MemberWithPeers::new(1, 3, |_| {});
    let leader = member.peers[0];
    member.follow(leader, TERM);
    member.sent();
    member.deliver(leader, heartbeat(TERM, Index(100)));
    member.stages.turn(Stage::Raft);
    assert!(member.stages.is_over(), "the loop ends at once");
    assert!(member.sent().is_empty(), "it sends no more messages");
    let StopReason::Fault(fault) = member.stages.stop() else { panic!("it was a fault") };
    assert!(fault.contains("commit 100 is beyond the last entry 3"), "{fault}");
}

fn is_conf_change_proposal(message: &Message) -> bool {
    let is_change = message.entries.iter().any(|entry| entry.kind.is_conf_change());
    message.kind == MessageType::MsgProp && is_change
}

/// Follows the leader for some ticks. Returns the number of conf changes forwarded to the leader.
fn forwarded_conf_changes(member: &mut MemberWithPeers, ticks: u32) -> usize {
    let leader = member.peers[0];
    let mut forwarded = 0;
    for _ in 0..ticks {
        member.deliver(leader, heartbeat(TERM, Index::ZERO));
        member.tick();
        forwarded +=
            member.sent().iter().filter(|message| is_conf_change_proposal(message)).count();
    }
    forwarded
}

/// The timeout is the request timeout. The waiter itself has none: as in etcd, it waits until the
/// client gives up.
#[test]
fn a_lost_conf_change_blocks_later_ones_only_until_its_timeout() {
    let mut member = MemberWithPeers::new(1, 3, |_| {});
    let leader = member.peers[0];
    member.follow(leader, TERM);
    let server = member.server();
    let (mut lost, mut next) = {
        let change = |url: &str| Change::Add(Member::to_add(vec![url.to_owned()], true, 0));
        let propose = |url| server.propose_conf_change(&change(url)).unwrap();
        (propose("http://10.0.0.8:2380"), propose("http://10.0.0.9:2380"))
    };
    assert_eq!(forwarded_conf_changes(&mut member, 10), 1, "one at a time");
    let config = server.config();
    let timeout = config.request_timeout().as_millis() / config.heartbeat.as_millis();
    let timeout = u32::try_from(timeout).unwrap();
    assert_eq!(forwarded_conf_changes(&mut member, timeout - 15), 0);
    assert_eq!(forwarded_conf_changes(&mut member, 10), 1, "the first is considered lost");
    assert!(poll_once(&mut lost).is_none() && poll_once(&mut next).is_none());
}

/// Returns a leader, a follower that just received the leader's database, and the index of the
/// database.
fn with_received_snapshot() -> (MemberWithPeers, MemberWithPeers, Index) {
    let mut leader = MemberWithPeers::new(1, 3, |_| {});
    leader.lead();
    let (snapshot, image) = leader.snapshot();
    let from = leader.server().local();
    let index = snapshot.snapshot.as_ref().unwrap().metadata.index;

    let mut member = MemberWithPeers::new(2, 3, |_| {});
    member.follow(from, leader.server().term());
    member.sent();
    let snapshot = Message { from, to: member.server().local(), ..snapshot };
    member.server().receive_snapshot(snapshot, &mut &image[..]).unwrap();
    (leader, member, index)
}

/// Reading a received database may take long, and a silent member may cost the cluster its quorum.
#[test]
fn a_member_votes_and_appends_while_it_applies_a_snapshot() {
    let (leader, mut member, index) = with_received_snapshot();
    let (from, term, server) = (leader.server().local(), leader.server().term(), member.server());
    let log = |member: &mut MemberWithPeers| {
        [Stage::Raft, Stage::Log, Stage::Raft]
            .into_iter()
            .for_each(|stage| member.stages.turn(stage));
        member.sent()
    };
    let acknowledged = |sent: &[Message], to: Index| {
        sent.iter().any(|it| it.kind == MessageType::MsgAppResp && !it.reject && it.index == to)
    };
    assert!(acknowledged(&log(&mut member), index));

    let entry = Entry { term, index: index.next(), ..Entry::default() };
    let append = Message::new(MessageType::MsgApp, server.local());
    let append = Message {
        term,
        index,
        log_term: term,
        entries: vec![entry],
        commit: index.next(),
        ..append
    };
    member.deliver(from, append);
    assert!(acknowledged(&log(&mut member), index.next()));

    let other = member.peers.iter().copied().find(|id| *id != from).unwrap();
    let vote = Message::new(MessageType::MsgVote, server.local());
    let (next, context) = (Term(term.0 + 1), "CampaignTransfer".into());
    let vote = Message { term: next, index: index.next(), log_term: term, context, ..vote };
    member.deliver(other, vote);
    let sent = log(&mut member);
    let is_vote =
        |it: &Message| it.kind == MessageType::MsgVoteResp && it.to == other && !it.reject;
    assert!(sent.iter().any(is_vote), "{sent:?}");

    assert!(server.applied() < index, "nothing is applied yet");
    member.tick();
    assert_eq!(server.applied(), index.next());
    assert_eq!(server.state().applied().unwrap(), (index.next(), term));
}

#[test]
fn a_disk_that_hangs_during_a_received_snapshot_is_detected() {
    let (_, mut member, _) = with_received_snapshot();
    member.stages.turn(Stage::Raft);
    assert!(member.is_busy_in_a_hanging_log());
}

/// Returns a member during its initial corruption check, which waits for the peers. It has been
/// asked for its vote meanwhile.
fn during_initial_check() -> MemberWithPeers {
    let mut member =
        MemberWithPeers::new(1, 3, |config| config.features.initial_corrupt_check = true);
    let vote = Message::new(MessageType::MsgVote, MemberId(0));
    let vote = Message { term: TERM, index: Index(3), log_term: Term(1), ..vote };
    for _ in 0..50 {
        member.deliver(member.peers[0], vote.clone());
        member.tick();
    }
    assert!(member.sent().is_empty(), "it neither votes nor campaigns");
    assert_eq!(member.server().applied(), Index::ZERO);
    member
}

#[test]
fn a_member_joins_consensus_only_after_its_initial_check() {
    let mut member = during_initial_check();
    let (hash, _) = member.server().state().store().hash_kv(0).unwrap();
    member.set_peer_hash(hash);
    (0..3).for_each(|_| member.tick());
    member.follow(member.peers[0], TERM);
}

#[test]
fn a_member_with_a_different_hash_never_joins_consensus() {
    let mut member = during_initial_check();
    let (own, _) = member.server().state().store().hash_kv(0).unwrap();
    member.set_peer_hash(KeyValueHash { hash: !own.hash, ..own });
    (0..30).for_each(|_| member.tick());
    assert!(member.stages.is_over() && member.sent().is_empty());
    let StopReason::Fault(fault) = member.stages.stop() else { panic!("it was a fault") };
    assert!(fault.contains("found data inconsistency with peers"), "{fault}");
}
