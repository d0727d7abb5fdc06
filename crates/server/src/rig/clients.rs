//! Clients: what they ask for, what they are told, and so what they may rely on.
//!
//! All requests go through one log, in the order in which they were made. So what a member may hold is the state after some number of them:
//!
//! ```text
//!   requests     put a    put b    grant    txn      delete   put c
//!   states    0        1        2        3        4        5        6
//!   told         ok       ok                ok
//!   read                                             5
//!                                                    └─ known: no member may be found with less, nor with more than 6
//! ```
//!
//! A member that is started again is in one of those states, and from there the story goes on: what came behind is lost for good.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use env::SeededRandom;
use types::{Index, LeaseId, Term};

use super::model::{Model, keys_at};
use super::op::{Op, OpResult, Proposed};
use crate::error::Error;
use crate::propose::typed::AppliedReply;
use crate::server::Server;
use crate::state::StateMachine;

/// One request in so many is a change of members.
const CHANGE_ONE_IN: u64 = 20;

/// All clients of a member.
pub(super) struct Clients {
    /// The state when the member was last looked at as a whole, and after each request since.
    states: Vec<State>,
    /// The first of the states in which a member may be found.
    known: usize,
    /// The last term and the last index that they were told something of.
    seen: (Term, Index),
    asked: Vec<Asked>,
    reads: Vec<Read>,
    /// What they have gone through.
    pub(super) told: Told,
}

/// A state, and whether the request that led to it was not refused.
#[derive(Clone)]
struct State {
    model: Model,
    accepted: bool,
}

/// A request that is under way.
struct Asked {
    /// The number of the state that it leads to.
    number: usize,
    changes_members: bool,
    proposal: Proposed,
}

/// Something that takes time.
pub(super) type Pending = Pin<Box<dyn Future<Output = Result<(), Error>>>>;

/// A linearizable read that is under way.
struct Read {
    /// What it must see at least.
    known: usize,
    future: Pending,
}

/// How often they were told what.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    pub(super) asked: usize,
    pub(super) acknowledged: usize,
    pub(super) changed_members: usize,
    pub(super) read: usize,
    pub(super) timed_out: usize,
    pub(super) stopped: usize,
}

impl Clients {
    /// Of a member that has not begun.
    pub(super) fn new() -> Clients {
        Clients::who_know(vec![State { model: Model::new(), accepted: true }])
    }

    fn who_know(states: Vec<State>) -> Clients {
        let (asked, reads, seen) = (Vec::new(), Vec::new(), (Term(0), Index::ZERO));
        Clients { states, known: 0, seen, asked, reads, told: Told::default() }
    }

    /// Others who know the same.
    pub(super) fn fork(&self) -> Clients {
        let Clients { known, seen, told, .. } = *self;
        Clients { known, seen, told, ..Clients::who_know(self.states.clone()) }
    }

    /// The state after all that was asked for.
    fn last(&self) -> &Model {
        &self.states.last().expect("there is always one").model
    }

    /// Somebody asks for something. There is one who changes members, and waits for the answer.
    pub(super) fn ask(&mut self, server: &Server, random: &mut SeededRandom) {
        let is_changing = self.asked.iter().any(|asked| asked.changes_members);
        let changes_members = !is_changing && random.chance(1, CHANGE_ONE_IN);
        let draw = if changes_members { Op::draw_change } else { Op::draw };
        let op = draw(random, self.last(), self.told.asked);
        match op.propose(server) {
            Ok(proposal) => {
                let mut model = self.last().clone();
                let accepted = model.carry_out(&op);
                self.asked.push(Asked { number: self.states.len(), changes_members, proposal });
                self.states.push(State { model, accepted });
                self.told.asked += 1;
            }
            Err(error) => assert!(server.is_stopping(), "{op:?} was turned away: {error}"),
        }
    }

    /// Somebody wants to read what is there.
    pub(super) fn read(&mut self, server: &Server) {
        let (known, server) = (self.known, server.clone());
        let future = Box::pin(async move { server.linearizable().await });
        self.reads.push(Read { known, future });
    }

    /// Hears what they are told.
    pub(super) fn listen(&mut self, server: &Server) {
        assert!(server.applied() <= server.committed(), "applied what was not committed");
        for mut asked in std::mem::take(&mut self.asked) {
            match asked.proposal.poll() {
                Some(Ok(settled)) => self.answered(asked.number, &settled, server),
                Some(Err(error)) => self.failed(&error),
                None => self.asked.push(asked),
            }
        }
        for mut read in std::mem::take(&mut self.reads) {
            match poll(&mut read.future) {
                Some(Ok(())) => self.look(server, read.known),
                Some(Err(error)) => self.failed(&error),
                None => self.reads.push(read),
            }
        }
    }

    fn answered(&mut self, number: usize, settled: &OpResult, server: &Server) {
        let State { model, accepted } = &self.states[number];
        match settled {
            OpResult::Request(AppliedReply { revision, result }) => {
                assert_eq!(*revision, model.revision, "request {number} came to {result:?}");
                assert_eq!(result.is_ok(), *accepted, "request {number} came to {result:?}");
            }
            OpResult::ConfChange(result) => {
                assert_eq!(result.is_ok(), *accepted, "request {number} came to {result:?}");
                self.told.changed_members += 1;
            }
        }
        self.known = self.known.max(number);
        self.seen = self.seen.max((server.term(), server.applied()));
        self.told.acknowledged += 1;
    }

    /// Nobody knows what became of it.
    fn failed(&mut self, error: &Error) {
        match error {
            // Learners count as members, and are never heard of.
            Error::Timeout | Error::TimeoutConnectionLost => self.told.timed_out += 1,
            Error::Stopped => self.told.stopped += 1,
            other => panic!("no reason to be told: {other}"),
        }
    }

    /// Somebody looks without asking consensus. On a member that leads alone there is no difference.
    pub(super) fn glance(&mut self, server: &Server) {
        self.look(server, self.known);
    }

    /// What somebody sees has all that was known, and must be there for ever.
    fn look(&mut self, server: &Server, known: usize) {
        if server.is_stopping() {
            // It could not apply an entry, of which some may show in memory.
            return;
        }
        let seen = Model::of(&server.state());
        // Requests that change nothing leave it open which of some states it is.
        let first = self.states.iter().position(|state| state.model == seen);
        let last = self.states.iter().rposition(|state| state.model == seen);
        assert!(last >= Some(known), "seen is {last:?}, not {known} or later: {seen:#?}");
        self.known = self.known.max(first.unwrap_or(0));
        self.told.read += 1;
    }

    /// Whether nobody waits any more.
    pub(super) fn is_everybody_told(&self) -> bool {
        self.asked.is_empty() && self.reads.is_empty()
    }

    /// Looks at a database that was just opened: it may be behind the log, but has the state after some request.
    pub(super) fn assert_opened(&self, state: &StateMachine) {
        let found = Model::of(state);
        let is_known = self.states.iter().any(|state| state.model == found);
        assert!(is_known, "no state that there ever was: {found:#?}");
    }

    /// Looks at a member that has started again and applied its log, and goes on from there.
    pub(super) fn recover(&mut self, server: &Server) {
        let state = server.state();
        let found = Model::of(&state);
        let number = self.states.iter().rposition(|state| state.model == found);
        let Some(number) = number.filter(|number| *number >= self.known) else {
            let (known, wanted) = (self.known, &self.states[self.known].model);
            panic!("found is {number:?}: {found:#?}\nknown is {known}: {wanted:#?}");
        };
        assert_attached(&state, &found);
        self.assert_history(&state, number);
        let (term, index) = self.seen;
        assert!(server.term() > term, "a leader in {} after one in {term}", server.term());
        assert!(server.applied() > index, "{} applied after {index}", server.applied());
        self.go_on_from(number);
    }

    /// What keys were at each revision that can be asked for.
    fn assert_history(&self, state: &StateMachine, number: usize) {
        let compacted = state.store.compacted();
        for State { model, .. } in &self.states[..=number] {
            if model.revision >= compacted {
                assert_eq!(keys_at(state, model.revision), model.keys, "at {}", model.revision);
            }
        }
    }

    fn go_on_from(&mut self, number: usize) {
        assert!(self.is_everybody_told(), "somebody still waits for a member that has ended");
        self.states.truncate(number + 1);
        self.states.drain(..number);
        self.known = 0;
    }
}

/// Keys and leases agree about who is attached to whom.
fn assert_attached(state: &StateMachine, model: &Model) {
    for lease in model.leases.keys() {
        let found = state.lessor.keys_of(LeaseId(*lease)).unwrap();
        let found = found.iter().map(|key| &**key);
        assert!(found.eq(model.attached(*lease)), "keys of lease {lease}");
    }
}

/// Looks at a future without being woken by it.
pub(super) fn poll<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
    match Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}
