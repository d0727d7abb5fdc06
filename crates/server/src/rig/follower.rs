//! A member that follows another.

use membership::{Change, Member};
use raft::{Message, MessageType};
use types::{Index, Term};

use super::among::{Among, heartbeat};
use super::clients::poll;
use super::stages::Stage;
use crate::server::StopReason;

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
    assert!(fault.contains("commit 100 lies behind the last entry 3"), "{fault}");
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
