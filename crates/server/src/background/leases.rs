//! Revokes expired leases and checkpoints long ones. Only the leader does.
//!
//! ```text
//!   every 500 ms   lessor: expired 7, 8, 9          ─┐  confirm   ┌─► backlog ─► revoke 7, 8, 9
//!                          checkpoints {12: 240 s}  ─┴─ leader ───┤   at most REVOKES_MAX pending
//!                                                                 └─► checkpoints, no waiter
//! ```
//!
//! Leadership is confirmed before anything is proposed. A member that was paused still is leader in
//! its own state when it resumes, and its clock shows all leases expired. Its proposals would be
//! forwarded to the current leader and revoke leases that clients keep renewing.
//!
//! The lessor hands out a lease again if it was not revoked, so this task holds no state for long.

use std::collections::VecDeque;
use std::time::Duration;

use lease::{Checkpoint, LessorTurn};
use proto::etcdserverpb as pb;
use types::{LeaseId, Term};

use super::BackgroundTask;
use super::pending_task::{Interval, POLL, PendingTask, poll};
use crate::error::Error;
use crate::planted_bug::{self, PlantedBug};
use crate::propose::pending::Proposal;
use crate::propose::typed::AppliedReply;
use crate::server::Server;

/// The maximum number of pending revokes. With [`POLL`] between turns, this allows six times as
/// many revokes per second as the lessor hands out.
const REVOKES_MAX: usize = 64;

/// The time by which leases expire too early if that bug is planted.
const AHEAD: Duration = Duration::from_secs(1);

/// A proposed revoke.
type Revoke = Proposal<AppliedReply<pb::LeaseRevokeResponse>>;

/// Revokes expired leases.
#[derive(Debug)]
pub(super) struct Leases {
    server: Server,
    every: Interval,
    /// The result of the lessor's turn, while leadership is being confirmed.
    found: LessorTurn,
    /// The leader term of `found`.
    leader_term: Term,
    confirming: PendingTask<Result<(), Error>>,
    /// Leases to revoke: at most the number that the lessor hands out in a turn.
    backlog: VecDeque<LeaseId>,
    revokes: Vec<(LeaseId, Revoke)>,
}

impl Leases {
    pub(super) fn new(server: Server) -> Leases {
        let every = Interval::after(lease::TURN_INTERVAL, server.now());
        Leases {
            server,
            every,
            found: LessorTurn::default(),
            leader_term: Term::default(),
            confirming: PendingTask::default(),
            backlog: VecDeque::new(),
            revokes: Vec::new(),
        }
    }

    fn is_busy(&self) -> bool {
        self.confirming.is_pending() || !self.backlog.is_empty() || !self.revokes.is_empty()
    }

    /// Takes expired leases and due checkpoints from the lessor.
    fn take_due(&mut self, now: Duration) {
        if !self.server.is_leader() || planted_bug::is_planted(PlantedBug::NeverExpire) {
            return;
        }
        // The result is valid for this leader term only: the next leader, even if it is this member
        // again, extends all leases.
        self.leader_term = self.server.term();
        let ahead =
            if planted_bug::is_planted(PlantedBug::ExpireEarly) { AHEAD } else { Duration::ZERO };
        let found = self.server.state().lessor.turn(now + ahead);
        if found.expired.is_empty() && found.checkpoints.is_empty() {
            return;
        }
        self.found = found;
        let server = self.server.clone();
        self.confirming.begin(async move { server.linearizable().await });
    }

    /// Proposes checkpoints and queues revokes, if leadership is confirmed.
    fn on_confirmed(&mut self, confirmed: &Result<(), Error>) {
        let found = std::mem::take(&mut self.found);
        if confirmed.is_err() || !self.server.is_leader() {
            let why = confirmed.as_ref().err().map(ToString::to_string);
            tracing::warn!(
                local_member_id = %self.server.local(),
                error = why.as_deref().unwrap_or("not leader"),
                "Ignore the lease revoking request because current member isn't a leader"
            );
            return;
        }
        found.checkpoint_batches().for_each(|batch| self.checkpoint(batch));
        let under_way = |id: &LeaseId| self.revokes.iter().any(|(other, _)| other == id);
        self.backlog.extend(found.expired.into_iter().filter(|id| !under_way(id)));
    }

    /// Proposes checkpoints without a waiter. The next checkpoint makes up for a lost one.
    fn checkpoint(&self, batch: &[Checkpoint]) {
        let leases = batch.len();
        let warn_of = move |error| tracing::warn!(%error, leases, "failed to checkpoint leases");
        let request = checkpoint_request(batch);
        let proposed = self.server.inner.proposer.propose_with_callback(
            request,
            Some(self.leader_term),
            move |answer| {
                answer.and_then(AppliedReply::into_reply).unwrap_or_else(warn_of);
            },
        );
        proposed.unwrap_or_else(warn_of);
    }

    fn revoke_backlog(&mut self) {
        while self.revokes.len() < REVOKES_MAX
            && let Some(id) = self.backlog.pop_front()
        {
            match self.revoke(id) {
                Ok(proposal) => self.revokes.push((id, proposal)),
                Err(error) => {
                    warn_of(id, &error);
                    // The cause of this failure affects all proposals, and the lessor hands the
                    // leases out again.
                    self.backlog.clear();
                }
            }
        }
    }

    /// Proposes a revoke as root, independently of the permissions on the lease's keys.
    fn revoke(&self, id: LeaseId) -> Result<Revoke, Error> {
        let auth = &self.server.state().auth;
        let root = auth.enabled().then(|| auth.root_info());
        let request = pb::LeaseRevokeRequest { id: id.0 };
        self.server.inner.proposer.propose_as_leader(root.as_ref(), request, self.leader_term)
    }

    fn collect(&mut self) {
        let expired = &self.server.metrics().lease_expired;
        self.revokes.retain_mut(|(id, proposal)| {
            let Some(outcome) = poll(proposal) else { return true };
            match outcome.and_then(AppliedReply::into_reply) {
                Ok(_) => expired.inc(),
                Err(error) => warn_of(*id, &error),
            }
            false
        });
    }
}

impl BackgroundTask for Leases {
    fn turn(&mut self, now: Duration) -> Duration {
        self.collect();
        let may_take = !self.confirming.is_pending() && self.backlog.is_empty();
        if may_take && self.every.is_due(now) {
            self.take_due(now);
        }
        if let Some(confirmed) = self.confirming.poll() {
            self.on_confirmed(&confirmed);
        }
        self.revoke_backlog();
        if self.is_busy() { now + POLL } else { self.every.next() }
    }
}

fn warn_of(id: LeaseId, error: &Error) {
    tracing::warn!(lease_id = format!("{:016x}", id.0), %error, "failed to revoke lease");
}

fn checkpoint_request(batch: &[Checkpoint]) -> pb::LeaseCheckpointRequest {
    let checkpoint =
        |it: &Checkpoint| pb::LeaseCheckpoint { id: it.id.0, remaining_ttl: it.remaining_ttl };
    pb::LeaseCheckpointRequest { checkpoints: batch.iter().map(checkpoint).collect() }
}
