//! A member that follows another.

use membership::{Change, Member};
use mvcc::KeyValueHash;
use raft::{Entry, Message, MessageType};
use types::{Index, MemberId, Term};

use super::among::{Among, heartbeat};
use super::clients::poll;
use super::stages::Stage;
use crate::lifecycle::StopReason;

const TERM: Term = Term(5);

/// The leader says that something is committed which this member has acknowledged and does not have.
#[test]
fn a_member_that_lost_its_log_stops() {
    let mut member = Among::new(1, 3, |_| {});
    let leader = member.others[0];
    member.follow(leader, TERM);
    member.sent();
    member.hear(leader, heartbeat(TERM, Index(100)));
    member.stages.turn(Stage::Raft);
    assert!(member.stages.is_over(), "at once");
    assert!(member.sent().is_empty(), "it says nothing more");
    let StopReason::Fault(fault) = member.stages.stop() else { panic!("it was a fault") };
    assert!(fault.contains("commit 100 is beyond the last entry 3"), "{fault}");
}

fn is_proposal(message: &Message) -> bool {
    let is_change = message.entries.iter().any(|entry| entry.kind.is_conf_change());
    message.kind == MessageType::MsgProp && is_change
}

/// Follows for a while. Returns how many changes of members were passed on to the leader.
fn changes_passed_on(member: &mut Among, ticks: u32) -> usize {
    let leader = member.others[0];
    let mut passed_on = 0;
    for _ in 0..ticks {
        member.hear(leader, heartbeat(TERM, Index::ZERO));
        member.tick();
        passed_on += member.sent().iter().filter(|message| is_proposal(message)).count();
    }
    passed_on
}

/// As long as a request may take: etcd's client waits until it gives up, and so does ours.
#[test]
fn a_change_of_members_that_got_lost_is_not_waited_for_by_those_who_come_after() {
    let mut member = Among::new(1, 3, |_| {});
    let leader = member.others[0];
    member.follow(leader, TERM);
    let server = member.server();
    let (mut lost, mut next) = {
        let change = |url: &str| Change::Add(Member::to_add(vec![url.to_owned()], true, 0));
        let propose = |url| server.propose_conf_change(&change(url)).unwrap();
        (propose("http://10.0.0.8:2380"), propose("http://10.0.0.9:2380"))
    };
    assert_eq!(changes_passed_on(&mut member, 10), 1, "one at a time");
    let config = server.config();
    let timeout = config.request_timeout().as_millis() / config.heartbeat.as_millis();
    let timeout = u32::try_from(timeout).unwrap();
    assert_eq!(changes_passed_on(&mut member, timeout - 15), 0);
    assert_eq!(changes_passed_on(&mut member, 10), 1, "the first may be lost");
    assert!(poll(&mut lost).is_none() && poll(&mut next).is_none());
}

/// One that leads, one that was just sent its database, and how far that is.
fn sent_a_snapshot() -> (Among, Among, Index) {
    let mut leader = Among::new(1, 3, |_| {});
    leader.lead();
    let (snapshot, image) = leader.snapshot();
    let from = leader.server().local();
    let index = snapshot.snapshot.as_ref().unwrap().metadata.index;

    let mut member = Among::new(2, 3, |_| {});
    member.follow(from, leader.server().term());
    member.sent();
    let snapshot = Message { from, to: member.server().local(), ..snapshot };
    member.server().receive_snapshot(snapshot, &mut &image[..]).unwrap();
    (leader, member, index)
}

/// To read a database to its end may take long, and to be silent for that long may cost the cluster its quorum.
#[test]
fn a_member_votes_and_takes_entries_while_it_takes_up_a_snapshot() {
    let (leader, mut member, index) = sent_a_snapshot();
    let (from, term, server) = (leader.server().local(), leader.server().term(), member.server());
    let log = |member: &mut Among| {
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
    member.hear(from, append);
    assert!(acknowledged(&log(&mut member), index.next()));

    let other = member.others.iter().copied().find(|id| *id != from).unwrap();
    let vote = Message::new(MessageType::MsgVote, server.local());
    let (next, context) = (Term(term.0 + 1), "CampaignTransfer".into());
    let vote = Message { term: next, index: index.next(), log_term: term, context, ..vote };
    member.hear(other, vote);
    let sent = log(&mut member);
    let is_vote =
        |it: &Message| it.kind == MessageType::MsgVoteResp && it.to == other && !it.reject;
    assert!(sent.iter().any(is_vote), "{sent:?}");

    assert!(server.applied() < index, "nothing was applied so far");
    member.tick();
    assert_eq!(server.applied(), index.next());
    assert_eq!(server.state().applied().unwrap(), (index.next(), term));
}

#[test]
fn a_disk_that_hangs_while_a_snapshot_is_taken_up_is_noticed() {
    let (_, mut member, _) = sent_a_snapshot();
    member.stages.turn(Stage::Raft);
    assert!(member.is_busy_in_a_hanging_log());
}

/// A member that is to be compared with others, who take their time to answer; it was asked for its vote meanwhile.
fn compared() -> Among {
    let mut member = Among::new(1, 3, |config| config.features.initial_corrupt_check = true);
    let vote = Message::new(MessageType::MsgVote, MemberId(0));
    let vote = Message { term: TERM, index: Index(3), log_term: Term(1), ..vote };
    for _ in 0..50 {
        member.hear(member.others[0], vote.clone());
        member.tick();
    }
    assert!(member.sent().is_empty(), "it neither votes nor stands for election");
    assert_eq!(member.server().applied(), Index::ZERO);
    member
}

#[test]
fn a_member_that_is_compared_with_others_takes_no_part_before() {
    let mut member = compared();
    let (hash, _) = member.server().state().store.hash_kv(0).unwrap();
    member.tell_hash(hash);
    (0..3).for_each(|_| member.tick());
    member.follow(member.others[0], TERM);
}

#[test]
fn a_member_that_holds_something_else_never_takes_part() {
    let mut member = compared();
    let (own, _) = member.server().state().store.hash_kv(0).unwrap();
    member.tell_hash(KeyValueHash { hash: !own.hash, ..own });
    (0..30).for_each(|_| member.tick());
    assert!(member.stages.is_over() && member.sent().is_empty());
    let StopReason::Fault(fault) = member.stages.stop() else { panic!("it was a fault") };
    assert!(fault.contains("found data inconsistency with peers"), "{fault}");
}
