//! What a leader decides by itself is for its own leader_term.

use env::{SimClock, SimDisk};
use proto::etcdserverpb as pb;
use types::Term;

use super::clients::poll;
use super::stages::{Platform, Stages};
use super::story::small;
use crate::error::Error;

const REVOKE: pb::LeaseRevokeRequest = pb::LeaseRevokeRequest { id: 7 };

#[test]
fn a_decision_of_another_reign_comes_to_nothing() {
    let machine = Platform { disk: SimDisk::new(0), clock: SimClock::default() };
    let mut stages = Stages::boot(&machine, small()).unwrap();
    while !stages.is_settled() {
        stages.turn_all();
        machine.clock.advance(small().heartbeat);
    }
    let server = stages.server().clone();
    let term = server.term();
    let mut outcome = |term| {
        let mut proposal = server.propose_as_leader(None, REVOKE, term).unwrap();
        (0..10).for_each(|_| stages.turn_all());
        poll(&mut proposal).expect("it is settled")
    };
    assert!(matches!(outcome(Term(term.0 - 1)), Err(Error::ProposalDropped)));
    assert!(outcome(term).is_ok(), "that there is no such lease is an answer");
}
