//! A decision of a leader is applied only in its own leader term.

use env::{SimClock, SimDisk};
use proto::etcdserverpb as pb;
use server::{Error, test_util};
use simkit::poll_once;
use types::Term;

use crate::scenario::small;
use crate::single_member::{SimPlatform, SingleMember};

const REVOKE: pb::LeaseRevokeRequest = pb::LeaseRevokeRequest { id: 7 };

#[test]
fn a_proposal_of_another_leader_term_is_dropped() {
    let platform = SimPlatform { disk: SimDisk::new(0), clock: SimClock::default() };
    let mut stages = SingleMember::boot(&platform, small()).unwrap();
    stages.settle(&platform.clock);
    let server = stages.server().clone();
    let term = server.term();
    let mut outcome = |term| {
        let mut proposal = test_util::propose_as_leader(&server, REVOKE, term).unwrap();
        (0..10).for_each(|_| stages.turn_all());
        poll_once(&mut proposal).expect("the proposal completes")
    };
    assert!(matches!(outcome(Term(term.0 - 1)), Err(Error::ProposalDropped)));
    assert!(outcome(term).is_ok(), "refusing an unknown lease is a result");
}
