//! The leader revokes leases that have expired, and writes down what is left of long ones.
//!
//! ```text
//!   every 500 ms   lessor: expired 7, 8, 9      ─► does this member still lead? ─► backlog 7 8 9
//!                                                                                   │ at most REVOKES_MAX at once
//!                  checkpoints {12: 240 s} ─► proposed, nobody waits              ─► revoke 7, revoke 8, revoke 9
//! ```
//!
//! Leadership is confirmed before anything is proposed. A member that was paused still takes itself for the leader when it goes on, and all leases for
//! expired; what it proposed then would be passed on to the leader there is by now, and end leases that are being renewed.
//!
//! What was not revoked the lessor hands out again: nothing is kept here for long.

use std::collections::VecDeque;
use std::time::Duration;

use lease::{Checkpoint, Turn};
use proto::etcdserverpb as pb;
use types::{LeaseId, Term};

use super::BackgroundTask;
use super::pending_task::{Interval, POLL, PendingTask, poll};
use crate::error::Error;
use crate::planted_bug::{self, PlantedBug};
use crate::propose::pending::Proposal;
use crate::propose::typed::AppliedReply;
use crate::server::Server;

/// The most revokes that are proposed and not settled: with [`POLL`] between looks, six times what the lessor hands out in a second.
const REVOKES_MAX: usize = 64;

/// By how much leases expire early, if that mistake is planted.
const AHEAD: Duration = Duration::from_secs(1);

/// A proposed revoke.
type Revoke = Proposal<AppliedReply<pb::LeaseRevokeResponse>>;

/// Revokes what has expired.
#[derive(Debug)]
pub(super) struct Leases {
    server: Server,
    every: Interval,
    /// What the lessor said, while it is found out whether this member leads.
    found: Turn,
    /// The term in which it said so.
    leader_term: Term,
    confirming: PendingTask<Result<(), Error>>,
    /// To be revoked: at most what the lessor hands out in a turn.
    backlog: VecDeque<LeaseId>,
    revokes: Vec<(LeaseId, Revoke)>,
}

impl Leases {
    pub(super) fn new(server: Server) -> Leases {
        let every = Interval::after(lease::TURN_INTERVAL, server.now());
        Leases {
            server,
            every,
            found: Turn::default(),
            leader_term: Term::default(),
            confirming: PendingTask::default(),
            backlog: VecDeque::new(),
            revokes: Vec::new(),
        }
    }

    fn is_busy(&self) -> bool {
        self.confirming.is_under_way() || !self.backlog.is_empty() || !self.revokes.is_empty()
    }

    /// Asks the lessor what is due.
    fn look(&mut self, now: Duration) {
        if !self.server.is_leader() || planted_bug::is_planted(PlantedBug::NeverExpire) {
            return;
        }
        // What is found is for this leader_term: the next leader, be it this member again, gives leases their time anew.
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

    /// Whether this member leads is known: only then is anything proposed.
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

    /// Nobody waits for it: one that is lost is made up for by the next.
    fn checkpoint(&self, batch: &[Checkpoint]) {
        let leases = batch.len();
        let warn_of = move |error| tracing::warn!(%error, leases, "failed to checkpoint leases");
        let request = checkpoint_request(batch);
        let proposed =
            self.server.propose_with_callback(request, Some(self.leader_term), move |answer| {
                answer.and_then(AppliedReply::into_reply).unwrap_or_else(warn_of);
            });
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
                    // What holds up this one holds up all of them, and they will come again.
                    self.backlog.clear();
                }
            }
        }
    }

    /// In the name of root: whoever owns the keys of the lease is not asked.
    fn revoke(&self, id: LeaseId) -> Result<Revoke, Error> {
        let auth = &self.server.state().auth;
        let root = auth.enabled().then(|| auth.root_info());
        let request = pb::LeaseRevokeRequest { id: id.0 };
        self.server.propose_as_leader(root.as_ref(), request, self.leader_term)
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
        let may_look = !self.confirming.is_under_way() && self.backlog.is_empty();
        if may_look && self.every.is_due(now) {
            self.look(now);
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
