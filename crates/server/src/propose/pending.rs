//! Pending proposals by request id, each with its waiter.
//!
//! ```text
//!   id    since    bytes   waiter
//!   …41   12.0 s   70      Future: a task awaits a `Proposal`
//!   …42   12.1 s   1.5 M   Abandoned: the task gave up; the request may be applied all the same
//!   …43   12.1 s   30      Callback: a function that is called with the result
//!   …44   -        -       Future, of a conf change: has no timeout
//! ```
//!
//! Invariants: each waiter gets one result; no request stays longer than the request timeout, only
//! conf changes may; the number of pending proposals and their bytes are bounded, abandoned ones
//! included, because their entries are still on the way to the log.
//!
//! Request metrics are recorded here, where every proposal ends. Compat: as in etcd, only a request
//! that was never proposed counts as a failure in the duration histogram; a request with an unknown
//! outcome counts as a success there.
//!
//! ```text
//!   applied or refused by the state machine        2 ms, success=true
//!   dropped by consensus, or no leader in time     7 s,  success=false   proposals_failed + 1
//!   timed out, or abandoned by its waiter          7 s,  success=true    proposals_failed + 1
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use env::Clock;
use parking_lot::Mutex;
use prometheus::IntCounter;
use sync::oneshot;

use crate::apply::{Refusal, Reply};
use crate::error::Error;
use crate::metrics::{Metrics, Op, PerOp};

/// The maximum number of pending proposals.
pub const PROPOSALS_MAX: usize = 1 << 16;
/// The maximum size of all pending proposals together: the requests on their way to the log.
/// `unapplied_bytes_max` bounds the entries in the log, including those whose waiter has timed out.
pub const PROPOSAL_BYTES_MAX: usize = 1 << 30;

/// The result of a proposal that the local member has applied.
#[derive(Debug)]
pub(crate) enum AppliedProposal {
    /// A request: its reply, and the revision for the response header.
    Request {
        /// The revision of the store after the request.
        revision: i64,
        /// The reply, or the refusal by the state machine.
        result: Result<Reply, Refusal>,
    },
    /// A conf change.
    ConfChange(Result<(), membership::ConfChangeRefusal>),
}

/// The result that a waiter gets: of the applied proposal, or the reason why there is none.
pub(crate) type ProposalResult = Result<AppliedProposal, Error>;

/// All pending proposals of a member.
///
/// Request ids grow with time and all requests have the same timeout, so the proposals time out in
/// the order of their ids.
#[derive(Debug)]
pub(crate) struct PendingProposals {
    table: Mutex<PendingTable>,
    clock: Arc<dyn Clock>,
    request_duration: PerOp,
    proposals_failed: IntCounter,
}

#[derive(Debug, Default)]
struct PendingTable {
    by_id: BTreeMap<u64, PendingProposal>,
    bytes: usize,
    /// Set at shutdown: new proposals are refused.
    is_closed: bool,
}

#[derive(Debug)]
struct PendingProposal {
    kind: ProposalKind,
    waiter: Waiter,
}

/// The kind of a proposal: a request, which has a timeout, or a conf change, which has none.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ProposalKind {
    /// A request with its operation, encoded size and start time.
    Request { op: Op, bytes: usize, since: Duration },
    /// A conf change. It waits for as long as its future exists and is not counted in metrics.
    ConfChange,
}

impl ProposalKind {
    fn bytes(&self) -> usize {
        match self {
            ProposalKind::Request { bytes, .. } => *bytes,
            ProposalKind::ConfChange => 0,
        }
    }

    /// The start of the timeout, if there is one.
    fn since(&self) -> Option<Duration> {
        match self {
            ProposalKind::Request { since, .. } => Some(*since),
            ProposalKind::ConfChange => None,
        }
    }
}

/// The receiver of the result of a pending proposal.
enum Waiter {
    Future(oneshot::Sender<ProposalResult>),
    Callback(Box<dyn FnOnce(ProposalResult) + Send>),
    /// The future was dropped.
    Abandoned,
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Waiter::Future(_) => "Future",
            Waiter::Callback(_) => "Callback",
            Waiter::Abandoned => "Abandoned",
        })
    }
}

impl PendingTable {
    fn insert(&mut self, id: u64, proposal: PendingProposal) -> Result<(), Error> {
        if self.is_closed {
            return Err(Error::Stopped);
        }
        let bytes = self.bytes + proposal.kind.bytes();
        if self.by_id.len() >= PROPOSALS_MAX || bytes > PROPOSAL_BYTES_MAX {
            return Err(Error::TooManyRequests);
        }
        self.bytes = bytes;
        self.by_id.insert(id, proposal);
        Ok(())
    }

    fn remove(&mut self, id: u64) -> Option<PendingProposal> {
        let proposal = self.by_id.remove(&id)?;
        self.bytes -= proposal.kind.bytes();
        Some(proposal)
    }

    /// Replaces the waiter by `Abandoned`. The proposal stays in the table, because its entry is
    /// still on the way. Returns none if the proposal has completed.
    fn abandon(&mut self, id: u64) -> Option<Waiter> {
        let proposal = self.by_id.get_mut(&id)?;
        if proposal.kind.since().is_none() {
            // A conf change has no timeout that would remove it later.
            return self.remove(id).map(|proposal| proposal.waiter);
        }
        Some(std::mem::replace(&mut proposal.waiter, Waiter::Abandoned))
    }
}

impl PendingProposals {
    pub(crate) fn new(clock: Arc<dyn Clock>, metrics: &Metrics) -> PendingProposals {
        PendingProposals {
            table: Mutex::default(),
            clock,
            request_duration: metrics.request_duration.clone(),
            proposals_failed: metrics.proposals_failed.clone(),
        }
    }

    /// Adds a proposal under a new id and returns a future of its result. `extract` converts the
    /// result of an applied proposal.
    ///
    /// # Errors
    /// Too many proposals are pending, or the member is stopping.
    pub(crate) fn register<T>(
        self: &Arc<PendingProposals>,
        id: u64,
        kind: ProposalKind,
        extract: fn(AppliedProposal) -> Result<T, Error>,
    ) -> Result<Proposal<T>, Error> {
        let (sender, receiver) = oneshot::channel();
        let waiter = Waiter::Future(sender);
        self.table.lock().insert(id, PendingProposal { kind, waiter })?;
        let pending = Arc::clone(self);
        Ok(Proposal { id, kind, pending, receiver, is_complete: false, extract })
    }

    /// Adds a proposal whose result is passed to `callback`, on the thread that completes it: the
    /// callback must not block.
    ///
    /// # Errors
    /// As for [`PendingProposals::register`]; the callback is not called then.
    pub(crate) fn register_callback(
        &self,
        id: u64,
        kind: ProposalKind,
        callback: impl FnOnce(ProposalResult) + Send + 'static,
    ) -> Result<(), Error> {
        let waiter = Waiter::Callback(Box::new(callback));
        self.table.lock().insert(id, PendingProposal { kind, waiter })
    }

    /// Returns whether the proposal is pending and not abandoned.
    pub(crate) fn has_waiter(&self, id: u64) -> bool {
        let table = self.table.lock();
        let proposal = table.by_id.get(&id);
        proposal.is_some_and(|proposal| !matches!(proposal.waiter, Waiter::Abandoned))
    }

    /// Completes a proposal with its result.
    pub(crate) fn complete(&self, id: u64, result: ProposalResult) {
        // A statement of its own, so that the lock is free when the waiter runs.
        let proposal = self.table.lock().remove(id);
        if let Some(proposal) = proposal {
            self.deliver(proposal, result);
        }
    }

    /// Completes several applied proposals under one lock. Their waiters wake one after the other.
    pub(crate) fn complete_all(&self, applied: impl Iterator<Item = (u64, AppliedProposal)>) {
        let mut table = self.table.lock();
        let found: Vec<_> =
            applied.filter_map(|(id, applied)| Some((table.remove(id)?, applied))).collect();
        drop(table);
        found.into_iter().for_each(|(proposal, applied)| self.deliver(proposal, Ok(applied)));
    }

    /// Completes a proposal with an error and counts the failure.
    pub(crate) fn fail(&self, id: u64, error: Error) {
        let proposal = self.table.lock().remove(id);
        if let Some(proposal) = proposal {
            self.fail_removed(proposal, error);
        }
    }

    fn fail_removed(&self, proposal: PendingProposal, error: Error) {
        let is_abandoned = matches!(proposal.waiter, Waiter::Abandoned);
        if !is_abandoned && let ProposalKind::Request { .. } = proposal.kind {
            self.proposals_failed.inc();
        }
        self.deliver(proposal, Err(error));
    }

    fn deliver(&self, proposal: PendingProposal, result: ProposalResult) {
        match proposal.waiter {
            // The woken task records the metrics, off this thread. A failed send means that the
            // future is being dropped, which counts the proposal as abandoned.
            Waiter::Future(sender) => drop(sender.send(result)),
            Waiter::Callback(callback) => {
                self.observe(proposal.kind, was_proposed(&result));
                callback(result);
            }
            Waiter::Abandoned => {}
        }
    }

    fn observe(&self, kind: ProposalKind, success: bool) {
        if let ProposalKind::Request { op, since, .. } = kind {
            let took = self.clock.monotonic().saturating_sub(since);
            self.request_duration.observe(op, success, took);
        }
    }

    /// Fails the requests that started at `until` or earlier. `error` chooses the error by the
    /// start time.
    pub(crate) fn expire(&self, until: Duration, error: impl Fn(Duration) -> Error) {
        let mut table = self.table.lock();
        let is_due =
            |proposal: &PendingProposal| proposal.kind.since().is_none_or(|since| since <= until);
        let due = table.by_id.iter().take_while(|(_, proposal)| is_due(proposal));
        let due: Vec<_> =
            due.filter_map(|(id, proposal)| Some((*id, proposal.kind.since()?))).collect();
        let expired: Vec<_> =
            due.into_iter().filter_map(|(id, since)| Some((table.remove(id)?, since))).collect();
        drop(table);
        for (proposal, since) in expired {
            self.fail_removed(proposal, error(since));
        }
    }

    /// Fails all proposals and refuses new ones.
    pub(crate) fn fail_all(&self, error: &Error) {
        let mut table = self.table.lock();
        let by_id = std::mem::take(&mut table.by_id);
        (table.bytes, table.is_closed) = (0, true);
        drop(table);
        by_id.into_values().for_each(|proposal| self.deliver(proposal, Err(error.clone())));
    }

    /// The number of requests with a waiter. Conf changes do not count.
    pub(crate) fn request_count(&self) -> usize {
        let table = self.table.lock();
        let counts = |proposal: &&PendingProposal| {
            proposal.kind.since().is_some() && !matches!(proposal.waiter, Waiter::Abandoned)
        };
        table.by_id.values().filter(counts).count()
    }
}

/// Returns whether the proposal reached consensus. Compat: etcd counts a request that timed out
/// after that as a success.
fn was_proposed(result: &ProposalResult) -> bool {
    use Error::{DeadlineExceeded, ProposalDropped, TooManyRequests};
    !matches!(result, Err(ProposalDropped | TooManyRequests | DeadlineExceeded))
}

/// A pending proposal: a future of its result. Dropping it abandons the result, not the request,
/// which may be applied all the same.
#[derive(Debug)]
#[must_use = "a proposal is awaited only when it is polled"]
pub struct Proposal<T> {
    id: u64,
    kind: ProposalKind,
    pending: Arc<PendingProposals>,
    receiver: oneshot::Receiver<ProposalResult>,
    /// Whether the future has returned its result.
    is_complete: bool,
    extract: fn(AppliedProposal) -> Result<T, Error>,
}

impl<T> Proposal<T> {
    /// The id of the request.
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl<T> Future for Proposal<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let receiver = Pin::new(&mut self.receiver);
        let Poll::Ready(result) = receiver.poll(context) else { return Poll::Pending };
        let result = result.unwrap_or(Err(Error::Stopped));
        if !std::mem::replace(&mut self.is_complete, true) {
            self.pending.observe(self.kind, was_proposed(&result));
        }
        Poll::Ready(result.and_then(self.extract))
    }
}

impl<T> Drop for Proposal<T> {
    fn drop(&mut self) {
        if self.is_complete {
            return;
        }
        let abandoned = self.pending.table.lock().abandon(self.id);
        if let (Some(_), ProposalKind::Request { .. }) = (abandoned, self.kind) {
            self.pending.proposals_failed.inc();
            self.pending.observe(self.kind, true);
        }
    }
}

#[cfg(test)]
mod tests;
