//! The applier: the stage that applies committed entries to the state machine, in log order, and
//! completes their waiters.
//!
//! The applier does not wait for a disk: its changes go into the pending batch of the backend. Only
//! if that batch is too large does the backend make it wait. Applying then falls behind the commit
//! index, and new requests are refused.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use backend::Backend;
use failpoint::failpoint;
use proto::etcdserverpb::AlarmType;
use proto::raftpb;
use raft::{ConfChangeV2, Entry, EntryType, Message};
use sync::{Notify, Queue};
use types::{Index, MemberId, Term};

use crate::apply::{self, Applied, ConfChanges, Fault, Outcome, Refusal, Reply};
use crate::context::MemberContext;
use crate::lifecycle::{Lifecycle, StopReason};
use crate::pipeline::Inboxes;
use crate::pipeline::raft_handle::RaftHandle;
use crate::pipeline::raft_loop::Event;
use crate::pipeline::voters::{Voters, raft_conf_state};
use crate::planted_bug::{self, PlantedBug};
use crate::propose::Proposals;
use crate::propose::alarms::AlarmProposer;
use crate::propose::pending::AppliedProposal;
use crate::read::applied_index::AppliedIndex;
use crate::server::ServerInner;
use crate::snapshot::files::SnapshotFiles;
use crate::snapshot::{Snapshot, SnapshotWork, receive};
use crate::state::{StateHandle, StateMachine};
use crate::transport::Transport;

/// The work of the applier.
#[derive(Debug)]
pub(crate) enum ApplyWork {
    /// Committed entries, with the responses to send once they are applied.
    Apply(Box<Message>),
    /// A durable snapshot, whose database replaces the local one.
    Restore { index: Index, term: Term },
}

/// The number of applied entries between two compactions of the in-memory log.
const COMPACT_ENTRIES: u64 = 100;
/// The maximum number of applied requests whose waiters are completed together.
const COMPLETED_MAX: usize = 64;
/// The time that a removed member continues to run, so that peers get its acknowledgement.
const STOP_DELAY: Duration = Duration::from_secs(1);

/// Maintains the open database: commits its batches, and scrubs it.
pub(crate) trait BackendMaintenance: Send {
    /// Switches to a database that replaces the previous one.
    fn switch_to(&mut self, backend: &Backend) -> io::Result<()>;
}

/// The applier.
pub(crate) struct Applier {
    context: Arc<MemberContext>,
    lifecycle: Arc<Lifecycle>,
    raft: Arc<RaftHandle>,
    proposals: Arc<Proposals>,
    applied: Arc<AppliedIndex>,
    state: Arc<StateHandle>,
    snapshot_files: Arc<SnapshotFiles>,
    transport: Arc<dyn Transport>,
    compaction: Arc<Notify>,
    alarms: AlarmProposer,
    inbox: Arc<Queue<ApplyWork>>,
    snapshots: Arc<Queue<SnapshotWork>>,
    maintenance: Box<dyn BackendMaintenance>,
    work: Vec<ApplyWork>,
    voters: Voters,
    snapshot_index: Index,
    compacted_index: Index,
    /// Applied conf changes whose waiters the raft loop completes.
    conf_changes: Vec<(u64, Result<(), membership::ConfChangeRefusal>)>,
    /// Applied requests whose waiters complete together, so that their responses share a flush.
    completed: Vec<(u64, AppliedProposal)>,
    /// Forces a snapshot regardless of the count: the cluster version was lowered.
    is_snapshot_forced: bool,
}

impl Applier {
    pub(crate) fn new(
        server: &ServerInner,
        inboxes: &Inboxes,
        voters: Voters,
        snapshot_index: Index,
        maintenance: Box<dyn BackendMaintenance>,
    ) -> Applier {
        Applier {
            context: Arc::clone(&server.context),
            lifecycle: Arc::clone(&server.lifecycle),
            raft: Arc::clone(&server.raft),
            proposals: Arc::clone(&server.proposals),
            applied: Arc::clone(&server.applied),
            state: Arc::clone(&server.state),
            snapshot_files: Arc::clone(&server.snapshot_files),
            transport: Arc::clone(&server.transport),
            compaction: Arc::clone(&server.compaction),
            alarms: server.alarms.clone(),
            inbox: Arc::clone(&inboxes.apply),
            snapshots: Arc::clone(&inboxes.snapshots),
            maintenance,
            work: Vec::new(),
            voters,
            snapshot_index,
            compacted_index: snapshot_index,
            conf_changes: Vec::new(),
            completed: Vec::new(),
            is_snapshot_forced: false,
        }
    }

    /// Applies all queued work.
    ///
    /// # Errors
    /// The member has to stop.
    pub(crate) fn turn(&mut self) -> Result<(), Fault> {
        let mut work = std::mem::take(&mut self.work);
        self.inbox.take(&mut work);
        for item in work.drain(..) {
            match item {
                ApplyWork::Apply(message) => self.apply_all(*message)?,
                ApplyWork::Restore { index, term } => self.restore(index, term)?,
            }
        }
        self.work = work;
        Ok(())
    }

    fn apply_all(&mut self, message: Message) -> Result<(), Fault> {
        let state = self.state.get();
        for entry in &message.entries {
            self.apply(&state, entry)?;
            if self.completed.len() >= COMPLETED_MAX {
                self.complete_waiters();
            }
        }
        if let Some(last) = message.entries.last() {
            self.applied.advance(last.index);
            let (responses, conf_changes) =
                (message.responses, std::mem::take(&mut self.conf_changes));
            let is_deferrable = conf_changes.is_empty();
            let applied = Event::Applied { responses, conf_changes };
            if is_deferrable {
                self.raft.push_deferred(applied);
            } else {
                self.raft.push(applied);
            }
            self.complete_waiters();
            self.maybe_snapshot(&state, last.index, last.term);
        }
        Ok(())
    }

    /// Replaces the database by the one that the leader sent. Readers use the old one until the new
    /// one is read completely.
    fn restore(&mut self, index: Index, term: Term) -> Result<(), Fault> {
        // After a failure the member stops, so the gauge need not be reset.
        self.context.metrics.snapshot_apply_in_progress.inc();
        tracing::info!(
            current_snapshot_index = self.snapshot_index.0,
            current_applied_index = self.applied.get().0,
            incoming_leader_snapshot_index = index.0,
            incoming_leader_snapshot_term = term.0,
            "applying snapshot"
        );
        let before = self.state.get();
        before.backend.mark_replaced();
        failpoint!("applyBeforeOpenSnapshot");
        let backend = receive::open(&self.context, &self.snapshot_files, index)?;
        tracing::info!("applySnapshot: opened snapshot backend");
        failpoint!("applyAfterOpenSnapshot");
        let after = Arc::new(before.successor(backend.clone())?);
        receive::check_applied(&after, index)?;
        self.maintenance.switch_to(&backend).map_err(|error| receive::fault(index, &error))?;
        self.state.replace(after);
        self.continue_from(index);
        self.snapshot_files.remove_received_up_to(index);
        // The sender may have been compacting.
        self.compaction.notify();
        self.context.metrics.snapshot_apply_in_progress.dec();
        tracing::info!(
            current_snapshot_index = self.snapshot_index.0,
            current_applied_index = self.applied.get().0,
            incoming_leader_snapshot_index = index.0,
            incoming_leader_snapshot_term = term.0,
            "applied snapshot"
        );
        Ok(())
    }

    /// Continues after a restored snapshot.
    fn continue_from(&mut self, index: Index) {
        let members = self.state.get().cluster.now();
        if !planted_bug::is_planted(PlantedBug::SkipConfState) {
            self.voters = Voters::from(members.conf_state());
        }
        (self.snapshot_index, self.compacted_index) = (index, index);
        self.transport.set_members(&members);
        self.applied.advance(index);
        if members.is_removed(self.context.local) {
            self.on_removed(self.context.local);
        }
    }

    fn apply(&mut self, state: &StateMachine, entry: &Entry) -> Result<(), Fault> {
        let began = self.context.now();
        let mut conf_changes = ConfChangeForwarder {
            raft: &self.raft,
            lifecycle: &self.lifecycle,
            voters: &mut self.voters,
        };
        let pending = &self.proposals.pending;
        let has_waiter = |id| pending.has_waiter(id);
        match entry.kind {
            EntryType::Normal => {
                failpoint!("beforeApplyOneEntryNormal");
            }
            EntryType::ConfChange | EntryType::ConfChangeV2 => {
                failpoint!("beforeApplyOneConfChange");
            }
        }
        match state.apply(entry, &has_waiter, &mut conf_changes)? {
            Applied::AlreadyApplied => {}
            Applied::Empty => self.promote_lessor(state),
            Applied::Request(outcome) => {
                self.is_snapshot_forced |= outcome.version_lowered;
                self.proposals.timed.record_applied(outcome.id, began, || self.context.now());
                self.observe(entry, &outcome, self.context.now().saturating_sub(began));
                let completed = self.completion(state, outcome);
                self.completed.extend(completed);
            }
            Applied::ConfChange { id, result, removed } => {
                self.transport.set_members(&state.cluster.now());
                self.conf_changes.push((id, result));
                removed.into_iter().for_each(|member| self.on_removed(member));
            }
        }
        Ok(())
    }

    fn complete_waiters(&mut self) {
        self.proposals.pending.complete_all(self.completed.drain(..));
    }

    fn on_removed(&self, member: MemberId) {
        if member == self.context.local {
            tracing::warn!(local_member_id = %member, "this member was removed from the cluster; it stops");
            self.lifecycle.stop_at(self.context.now() + STOP_DELAY, StopReason::Removed);
        }
    }

    /// Compacts the in-memory log every [`COMPACT_ENTRIES`] and at every snapshot, and takes a
    /// snapshot every `snapshot_count` entries.
    fn maybe_snapshot(&mut self, state: &StateMachine, applied: Index, term: Term) {
        let forced = self.is_snapshot_forced && applied != self.snapshot_index;
        let since = applied.0.saturating_sub(self.snapshot_index.0);
        let is_due = forced || since > self.context.config.snapshot_count;
        if is_due || applied.0 > self.compacted_index.0 + COMPACT_ENTRIES {
            self.compacted_index = applied;
            let conf_state = raft_conf_state(self.voters.conf_state());
            self.raft.push_deferred(Event::CompactLog { applied, conf_state });
        }
        if is_due {
            self.take_snapshot(state, applied, term, forced);
        }
    }

    fn take_snapshot(&mut self, state: &StateMachine, applied: Index, term: Term, forced: bool) {
        tracing::info!(
            local_member_id = %self.context.local,
            local_member_applied_index = applied.0,
            local_member_snapshot_index = self.snapshot_index.0,
            local_member_snapshot_count = self.context.config.snapshot_count,
            snapshot_forced = forced,
            "triggering snapshot"
        );
        self.is_snapshot_forced = false;
        self.snapshot_index = applied;
        let members = membership::v2::encode(&state.cluster.now());
        let conf_state = self.voters.conf_state();
        let snapshot = Snapshot { index: applied, term, conf_state, members };
        self.snapshots.push(SnapshotWork::Take(snapshot));
    }

    /// Promotes the lessor of a new leader, once all entries of earlier terms are applied.
    fn promote_lessor(&self, state: &StateMachine) {
        let progress = &self.raft.progress;
        if !progress.is_leader() {
            return;
        }
        state.lessor.promote(self.context.config.election_timeout(), self.context.now());
        // Leadership may have been lost meanwhile: this would have undone the demotion.
        if !progress.is_leader() {
            state.lessor.demote();
        }
    }

    /// Records the metrics of an applied request, and logs one that was slow or refused.
    fn observe(&self, entry: &Entry, outcome: &Outcome, took: Duration) {
        // A read-only request without a waiter is skipped and does not count.
        let Some(result) = &outcome.result else { return };
        let (metrics, success) = (&self.context.metrics, outcome.is_success());
        metrics.apply_duration.observe(outcome.op, success, took);
        metrics.count(outcome.executed);
        let expected = self.context.config.warning_apply_duration;
        if took > expected {
            metrics.slow_apply.inc();
            tracing::warn!(
                took = ?took,
                expected_duration = ?expected,
                prefix = "",
                request = apply::describe(entry),
                response = outcome.response_size().map_or(String::new(), |size| format!("size:{size}")),
                error = result.as_ref().err().map(tracing::field::display),
                "apply request took too long"
            );
        }
        if !success {
            tracing::warn!(
                took = ?took,
                request = apply::describe(entry),
                response = "",
                error = result.as_ref().err().map(tracing::field::display),
                "failed to apply request"
            );
        }
    }

    /// Returns the result for the waiter, if there is one that can complete now.
    fn completion(&self, state: &StateMachine, outcome: Outcome) -> Option<(u64, AppliedProposal)> {
        let Outcome { id, revision, result, .. } = outcome;
        let result = result?;
        if matches!(result, Ok(Reply::Compaction(_))) {
            failpoint!("compactAfterCommitScheduledCompact");
            self.compaction.notify();
        }
        let needs_alarm =
            result == Err(Refusal::NoSpace) && !state.alarms.is_active(AlarmType::Nospace);
        let applied = AppliedProposal::Request { revision, result };
        if needs_alarm {
            self.complete_after_alarm(id, applied);
            return None;
        }
        Some((id, applied))
    }

    /// Raises `NOSPACE` on all members before the waiter gets its error. If that takes too long,
    /// the waiter times out instead.
    fn complete_after_alarm(&self, id: u64, applied: AppliedProposal) {
        let pending = Arc::clone(&self.proposals.pending);
        let complete = move || pending.complete(id, Ok(applied));
        if self.alarms.maybe_raise(AlarmType::Nospace, self.context.local, complete) {
            tracing::warn!(
                quota_size_bytes = self.context.config.quota_backend_bytes,
                error = %Refusal::NoSpace,
                "message exceeded backend quota; raising alarm"
            );
        }
    }
}

/// Tracks applied conf changes and forwards them to the raft loop.
struct ConfChangeForwarder<'a> {
    raft: &'a RaftHandle,
    lifecycle: &'a Lifecycle,
    voters: &'a mut Voters,
}

impl ConfChanges for ConfChangeForwarder<'_> {
    fn apply(&mut self, index: Index, change: &raftpb::ConfChange) -> raftpb::ConfState {
        let conf_state = self.voters.apply(index, change);
        match raft::ConfChange::try_from(change.clone()) {
            Ok(change) => {
                let change = ConfChangeV2::from(change);
                let conf_state = raft_conf_state(conf_state.clone());
                self.raft.push(Event::ConfChanged { index, change, conf_state });
            }
            Err(error) => self.lifecycle.fail("decode a conf change", &error),
        }
        conf_state
    }
}

#[cfg(test)]
mod tests;
