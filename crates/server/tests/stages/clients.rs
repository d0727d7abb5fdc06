//! Clients: their requests, the results that they got, and the states that these permit.
//!
//! All requests go through one log, in the order of their proposal. So the state of a member is
//! always the state after some number of them:
//!
//! ```text
//!   requests     put a    put b    grant    txn      delete   put c
//!   states    0        1        2        3        4        5        6
//!   results      ok       ok                ok
//!   read                                             5
//!                                                    └─ known: a member must be in state 5 or 6
//! ```
//!
//! A restarted member is in one of these states, and the scenario continues from there: later
//! requests are lost for good.

use std::pin::Pin;

use env::SeededRandom;
use server::{AppliedReply, Error, Server, StateMachine};
use simkit::poll_once;
use types::{Index, LeaseId, Term};

use crate::model::{Model, keys_at};
use crate::op::{Op, OpResult, Proposed};

/// The share of conf changes: one request in this many.
const CHANGE_ONE_IN: u64 = 20;

/// The clients of a member.
pub(crate) struct Clients {
    /// The state at the last recovery, and after each request since then.
    states: Vec<ExpectedState>,
    /// The first state in which a member may be found.
    known: usize,
    /// The highest term and applied index at the time of a result.
    seen: (Term, Index),
    requests: Vec<PendingRequest>,
    reads: Vec<Read>,
    /// Counts of the results so far.
    pub(crate) stats: ClientStats,
}

/// The expected state after a request, and whether the request is accepted.
#[derive(Clone)]
struct ExpectedState {
    model: Model,
    accepted: bool,
}

/// A pending request.
struct PendingRequest {
    /// The number of the state that it leads to.
    number: usize,
    changes_members: bool,
    proposal: Proposed,
}

/// A future that a test polls.
pub(crate) type Pending = Pin<Box<dyn Future<Output = Result<(), Error>>>>;

/// A pending linearizable read.
struct Read {
    /// The first state that the read may return.
    known: usize,
    future: Pending,
}

simkit::counters! {
    /// Counts of the results that clients got.
    pub(crate) struct ClientStats {
        requests: "requests",
        acknowledged: "requests acknowledged",
        changed_members: "conf changes acknowledged",
        read: "reads",
        timed_out: "requests that timed out",
        stopped: "requests that failed because the member stopped",
    }
}

impl Clients {
    /// Returns the clients of a new member.
    pub(crate) fn new() -> Clients {
        Clients::with_states(vec![ExpectedState { model: Model::new(), accepted: true }])
    }

    fn with_states(states: Vec<ExpectedState>) -> Clients {
        let (requests, reads, seen) = (Vec::new(), Vec::new(), (Term(0), Index::ZERO));
        Clients { states, known: 0, seen, requests, reads, stats: ClientStats::default() }
    }

    /// Returns clients with the same knowledge and without pending requests.
    pub(crate) fn fork(&self) -> Clients {
        let Clients { known, seen, stats, .. } = *self;
        Clients { known, seen, stats, ..Clients::with_states(self.states.clone()) }
    }

    /// Returns the state after all requests.
    fn last(&self) -> &Model {
        &self.states.last().expect("states are never empty").model
    }

    /// Submits a random request. At most one conf change is pending at a time.
    pub(crate) fn submit(&mut self, server: &Server, random: &mut SeededRandom) {
        let is_changing = self.requests.iter().any(|request| request.changes_members);
        let changes_members = !is_changing && random.chance(1, CHANGE_ONE_IN);
        let draw = if changes_members { Op::draw_change } else { Op::draw };
        let op = draw(random, self.last(), self.stats.requests);
        match op.propose(server) {
            Ok(proposal) => {
                let mut model = self.last().clone();
                let accepted = model.apply(&op);
                self.requests.push(PendingRequest {
                    number: self.states.len(),
                    changes_members,
                    proposal,
                });
                self.states.push(ExpectedState { model, accepted });
                self.stats.requests += 1;
            }
            Err(error) => assert!(server.is_stopping(), "{op:?} was refused: {error}"),
        }
    }

    /// Starts a linearizable read.
    pub(crate) fn read(&mut self, server: &Server) {
        let (known, server) = (self.known, server.clone());
        let future = Box::pin(async move { server.linearizable().await });
        self.reads.push(Read { known, future });
    }

    /// Polls all pending requests and reads, and checks their results.
    pub(crate) fn poll_results(&mut self, server: &Server) {
        assert!(server.applied() <= server.committed(), "applied an uncommitted entry");
        for mut request in std::mem::take(&mut self.requests) {
            match request.proposal.poll() {
                Some(Ok(result)) => self.on_result(request.number, &result, server),
                Some(Err(error)) => self.on_error(&error),
                None => self.requests.push(request),
            }
        }
        for mut read in std::mem::take(&mut self.reads) {
            match poll_once(&mut read.future) {
                Some(Ok(())) => self.observe(server, read.known),
                Some(Err(error)) => self.on_error(&error),
                None => self.reads.push(read),
            }
        }
    }

    fn on_result(&mut self, number: usize, result: &OpResult, server: &Server) {
        let ExpectedState { model, accepted } = &self.states[number];
        match result {
            OpResult::Request(AppliedReply { revision, result }) => {
                assert_eq!(*revision, model.revision, "request {number} came to {result:?}");
                assert_eq!(result.is_ok(), *accepted, "request {number} came to {result:?}");
            }
            OpResult::ConfChange(result) => {
                assert_eq!(result.is_ok(), *accepted, "request {number} came to {result:?}");
                self.stats.changed_members += 1;
            }
        }
        self.known = self.known.max(number);
        self.seen = self.seen.max((server.term(), server.applied()));
        self.stats.acknowledged += 1;
    }

    /// Counts a request with an unknown outcome.
    fn on_error(&mut self, error: &Error) {
        match error {
            // Learners count as members and never connect.
            Error::Timeout | Error::TimeoutConnectionLost => self.stats.timed_out += 1,
            Error::Stopped => self.stats.stopped += 1,
            other => panic!("unexpected error: {other}"),
        }
    }

    /// Reads without consensus. On the only voter, this is linearizable too.
    pub(crate) fn read_local(&mut self, server: &Server) {
        self.observe(server, self.known);
    }

    /// Checks that the visible state is `known` or later, and that it is never lost from now on.
    fn observe(&mut self, server: &Server, known: usize) {
        if server.is_stopping() {
            // A failed apply may be partly visible in memory.
            return;
        }
        let seen = Model::of(&server.state());
        // Requests without an effect make several states equal.
        let first = self.states.iter().position(|state| state.model == seen);
        let last = self.states.iter().rposition(|state| state.model == seen);
        assert!(last >= Some(known), "read state {last:?}, expected {known} or later: {seen:#?}");
        self.known = self.known.max(first.unwrap_or(0));
        self.stats.read += 1;
    }

    /// Returns whether no request or read is pending.
    pub(crate) fn is_idle(&self) -> bool {
        self.requests.is_empty() && self.reads.is_empty()
    }

    /// Checks a database that was just opened. It may be behind the log, but must be in an expected
    /// state.
    pub(crate) fn assert_opened(&self, state: &StateMachine) {
        let found = Model::of(state);
        let is_known = self.states.iter().any(|state| state.model == found);
        assert!(is_known, "unexpected state: {found:#?}");
    }

    /// Checks a member that has restarted and applied its log, and continues from its state.
    pub(crate) fn recover(&mut self, server: &Server) {
        let state = server.state();
        let found = Model::of(&state);
        let number = self.states.iter().rposition(|state| state.model == found);
        let Some(number) = number.filter(|number| *number >= self.known) else {
            let (known, wanted) = (self.known, &self.states[self.known].model);
            panic!(
                "recovered state {number:?}: {found:#?}\nexpected {known} or later: {wanted:#?}"
            );
        };
        assert_attached(&state, &found);
        self.assert_history(&state, number);
        let (term, index) = self.seen;
        assert!(server.term() > term, "leader term {} after {term}", server.term());
        assert!(server.applied() > index, "applied index {} after {index}", server.applied());
        self.continue_from(number);
    }

    /// Checks the keys at each revision that is not compacted.
    fn assert_history(&self, state: &StateMachine, number: usize) {
        let compacted = state.store().compacted();
        for ExpectedState { model, .. } in &self.states[..=number] {
            if model.revision >= compacted {
                assert_eq!(keys_at(state, model.revision), model.keys, "at {}", model.revision);
            }
        }
    }

    fn continue_from(&mut self, number: usize) {
        assert!(self.is_idle(), "requests are still pending after the member has ended");
        self.states.truncate(number + 1);
        self.states.drain(..number);
        self.known = 0;
    }
}

/// Checks that keys and leases agree about attachments.
fn assert_attached(state: &StateMachine, model: &Model) {
    for lease in model.leases.keys() {
        let found = state.lessor().keys_of(LeaseId(*lease)).unwrap();
        let found = found.iter().map(|key| &**key);
        assert!(found.eq(model.attached(*lease)), "keys of lease {lease}");
    }
}
