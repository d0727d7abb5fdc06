//! A member that follows another.

use types::{Index, Term};

use super::among::{Among, heartbeat};
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
