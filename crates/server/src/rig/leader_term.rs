//! A decision of a leader is applied only in its own leader term.

use env::{SimClock, SimDisk};
use proto::etcdserverpb as pb;
use types::Term;

use super::clients::poll;
use super::scenario::small;
use super::stages::{Platform, Stages};
use crate::error::Error;

const REVOKE: pb::LeaseRevokeRequest = pb::LeaseRevokeRequest { id: 7 };

#[test]
fn a_proposal_of_another_leader_term_is_dropped() {
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
        poll(&mut proposal).expect("the proposal completes")
    };
    assert!(matches!(outcome(Term(term.0 - 1)), Err(Error::ProposalDropped)));
    assert!(outcome(term).is_ok(), "refusing an unknown lease is a result");
}
