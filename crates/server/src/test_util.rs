//! Inputs of a member that only its own stages produce, for tests that drive the stages
//! ([`Stages`](crate::stages::Stages)) and have to cause them at a chosen moment; and the parts of
//! the state machine, which tests compare.
//!
//! They exist only with the feature `test-util`, which no product build enables.

use std::time::Duration;

use auth::AuthStore;
use backend::Backend;
use bytes::Bytes;
use lease::Lessor;
use membership::{AlarmStore, Cluster};
use mvcc::WatchableStore;
use types::Term;

use crate::error::Error;
use crate::lifecycle::StopReason;
use crate::pipeline::raft_loop::Event;
use crate::propose::pending::Proposal;
use crate::propose::typed::{AppliedReply, Propose};
use crate::server::Server;
use crate::state::StateMachine;

/// Proposes a decision of the leader of `term`, as background tasks do. It is dropped if the member
/// does not lead in that term.
///
/// # Errors
/// As for [`Server::propose`].
pub fn propose_as_leader<P: Propose>(
    server: &Server,
    request: P,
    term: Term,
) -> Result<Proposal<AppliedReply<P::Reply>>, Error> {
    server.inner.proposer.propose_as_leader(None, request, term)
}

/// Proposes an entry with these bytes, which need not be a valid request. It has no waiter.
pub fn propose_bytes(server: &Server, data: Bytes) {
    let (id, since) = (server.next_id(), server.now());
    server.inner.raft.push(Event::Propose { id, data, since, leader_term: None });
}

/// Stops the member after `delay` because it was removed from its cluster, as the applier does
/// after it has applied the removal.
pub fn stop_after_removal(server: &Server, delay: Duration) {
    server.inner.lifecycle.stop_at(server.now() + delay, StopReason::Removed);
}

impl StateMachine {
    /// The database file and its pending batch.
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// Keys and their watchers.
    pub fn store(&self) -> &WatchableStore {
        &self.store
    }

    /// Leases.
    pub fn lessor(&self) -> &Lessor {
        &self.lessor
    }

    /// Users and roles.
    pub fn auth(&self) -> &AuthStore {
        &self.auth
    }

    /// Members.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Alarms.
    pub fn alarms(&self) -> &AlarmStore {
        &self.alarms
    }
}
