//! The apply thread: committed entries into the state machine, in the order of the log, and answers to those who wait.
//!
//! It never waits for a disk: what it changes goes into the pending batch of the backend. (Unless so much is pending that the backend makes it
//! wait; then requests are turned away, because applying falls behind what is committed.)

use std::io;
use std::sync::Arc;
use std::time::Duration;

use backend::Backend;
use failpoint::failpoint;
use proto::etcdserverpb::AlarmType;
use proto::raftpb;
use raft::{ConfChangeV2, Entry, EntryType, Message};
use types::{Index, MemberId, Term};

use crate::apply::{self, Applied, ConfChanges, Fault, Outcome, Refusal, Reply};
use crate::pipeline::raft_loop::Event;
use crate::pipeline::voters::{Voters, raft_conf_state};
use crate::planted_bug::{self, PlantedBug};
use crate::propose::pending::Settled;
use crate::server::{Server, Shared, StopReason};
use crate::snapshot::receive;
use crate::snapshot::{Snapshot, SnapshotWork};
use crate::state::StateMachine;
use crate::sync::queue::Inbox;

/// What is to be applied.
#[derive(Debug)]
pub(crate) enum Work {
    /// Committed entries, and what to say once they are applied.
    Apply(Box<Message>),
    /// A snapshot that is durable, and is to take the place of all there was.
    Restore(Index),
}

/// How many entries are applied before the log in memory is looked at. Fewer would gain little.
const COMPACT_ENTRIES: u64 = 100;

/// Who applies.
pub(crate) struct Applier {
    shared: Arc<Shared>,
    inbox: Arc<Inbox<Work>>,
    work: Vec<Work>,
    voters: Voters,
    /// Where the last snapshot is to be taken to.
    snapshots: Arc<Inbox<SnapshotWork>>,
    snapshot_index: Index,
    compacted_index: Index,
    /// Changes of members that were applied, for those who wait.
    conf_changes: Vec<(u64, Result<(), membership::ConfChangeRefusal>)>,
    /// Requests that were applied, for those who wait: they are woken together, and so answer together.
    settled: Vec<(u64, Settled)>,
    /// A snapshot is to be taken whatever the count: the cluster's version was lowered.
    is_snapshot_forced: bool,
    keeper: Box<dyn Keeper>,
}

/// Who commits the database, and looks after it.
pub(crate) trait Keeper: Send {
    /// Another database takes the place of the one before.
    fn take_over(&mut self, backend: &Backend) -> io::Result<()>;
}

/// Requests that are applied before those who wait for them are told.
const SETTLED_MAX: usize = 64;

/// How long a member that was removed goes on, so that others hear its acknowledgement.
const STOP_DELAY: Duration = Duration::from_secs(1);

impl Applier {
    pub(crate) fn new(
        shared: Arc<Shared>,
        inbox: Arc<Inbox<Work>>,
        snapshots: Arc<Inbox<SnapshotWork>>,
        voters: Voters,
        snapshot_index: Index,
        keeper: Box<dyn Keeper>,
    ) -> Applier {
        Applier {
            shared,
            inbox,
            work: Vec::new(),
            voters,
            snapshots,
            snapshot_index,
            compacted_index: snapshot_index,
            conf_changes: Vec::new(),
            settled: Vec::new(),
            is_snapshot_forced: false,
            keeper,
        }
    }

    /// Applies all that waits.
    ///
    /// # Errors
    /// This member has to stop.
    pub(crate) fn turn(&mut self) -> Result<(), Fault> {
        let mut work = std::mem::take(&mut self.work);
        self.inbox.take(&mut work);
        for item in work.drain(..) {
            match item {
                Work::Apply(message) => self.apply_all(*message)?,
                Work::Restore(index) => self.restore(index)?,
            }
        }
        self.work = work;
        Ok(())
    }

    fn apply_all(&mut self, message: Message) -> Result<(), Fault> {
        let state = self.shared.state();
        for entry in &message.entries {
            self.apply(&state, entry)?;
            if self.settled.len() >= SETTLED_MAX {
                self.settle();
            }
        }
        if let Some(last) = message.entries.last() {
            self.shared.applied.advance(last.index);
            let (responses, conf_changes) =
                (message.responses, std::mem::take(&mut self.conf_changes));
            let can_wait = conf_changes.is_empty();
            let applied = Event::Applied { responses, conf_changes };
            if can_wait {
                self.shared.raft.push_quietly(applied);
            } else {
                self.shared.raft.push(applied);
            }
            self.settle();
            self.maybe_snapshot(&state, last.index, last.term);
        }
        Ok(())
    }

    /// Puts the database that a leader sent in the place of ours. It was read to its end before: whoever reads goes on with the old one until then.
    fn restore(&mut self, index: Index) -> Result<(), Fault> {
        let began = self.shared.now();
        // If it fails the member stops, and its metrics with it.
        self.shared.metrics.snapshot_apply_in_progress.inc();
        tracing::info!(
            current_snapshot_index = self.snapshot_index.0,
            incoming_leader_snapshot_index = index.0,
            "applying snapshot"
        );
        let before = self.shared.state();
        before.backend.mark_replaced();
        failpoint!("applyBeforeOpenSnapshot");
        let backend = receive::open(&self.shared, index)?;
        failpoint!("applyAfterOpenSnapshot");
        let after = Arc::new(before.successor(backend.clone())?);
        receive::check_applied(&after, index)?;
        self.keeper.take_over(&backend).map_err(|error| receive::fault(index, &error))?;
        self.shared.replace_state(after);
        self.take_up(index);
        receive::release(&self.shared, index);
        // It may have been sent in the midst of one.
        self.shared.compaction.ring();
        self.shared.metrics.snapshot_apply_in_progress.dec();
        let took = self.shared.now().saturating_sub(began);
        tracing::info!(incoming_leader_snapshot_index = index.0, ?took, "applied snapshot");
        Ok(())
    }

    /// Goes on from a snapshot.
    fn take_up(&mut self, index: Index) {
        let shared = &self.shared;
        let members = shared.state().cluster.now();
        if !planted_bug::is_planted(PlantedBug::SkipConfState) {
            self.voters = Voters::from(members.conf_state());
        }
        (self.snapshot_index, self.compacted_index) = (index, index);
        shared.transport.set_members(&members);
        shared.applied.advance(index);
        if members.is_removed(shared.local) {
            self.note_removed(shared.local);
        }
    }

    fn apply(&mut self, state: &StateMachine, entry: &Entry) -> Result<(), Fault> {
        let shared = Arc::clone(&self.shared);
        let began = shared.now();
        let mut conf_changes = Told { shared: &shared, voters: &mut self.voters };
        let waits = |id| shared.waits.contains(id);
        match entry.kind {
            EntryType::Normal => {
                failpoint!("beforeApplyOneEntryNormal");
            }
            EntryType::ConfChange | EntryType::ConfChangeV2 => {
                failpoint!("beforeApplyOneConfChange");
            }
        }
        match state.apply(entry, &waits, &mut conf_changes)? {
            Applied::AlreadyApplied => {}
            Applied::Empty => promote(&shared, state),
            Applied::Request(outcome) => {
                self.is_snapshot_forced |= outcome.version_lowered;
                shared.marked.applied(outcome.id, began, || shared.now());
                count(&shared, entry, &outcome, shared.now().saturating_sub(began));
                self.settled.extend(answer(&shared, state, outcome));
            }
            Applied::ConfChange { id, result, removed } => {
                shared.transport.set_members(&state.cluster.now());
                self.conf_changes.push((id, result));
                removed.into_iter().for_each(|member| self.note_removed(member));
            }
        }
        Ok(())
    }

    fn settle(&mut self) {
        self.shared.waits.settle_all(self.settled.drain(..));
    }

    fn note_removed(&self, member: MemberId) {
        if member == self.shared.local {
            tracing::warn!(local_member_id = %member, "this member was removed from the cluster; it stops");
            self.shared.end_at(self.shared.now() + STOP_DELAY, StopReason::Removed);
        }
    }

    /// Every so often the log can be shortened: in memory, and by a snapshot on disk.
    fn maybe_snapshot(&mut self, state: &StateMachine, applied: Index, term: Term) {
        let config = &self.shared.config;
        if applied.0 > self.compacted_index.0 + COMPACT_ENTRIES {
            self.compacted_index = applied;
            let conf_state = raft_conf_state(self.voters.conf_state());
            self.shared.raft.push_quietly(Event::Compact { applied, conf_state });
        }
        let forced = self.is_snapshot_forced && applied != self.snapshot_index;
        if !forced && applied.0.saturating_sub(self.snapshot_index.0) <= config.snapshot_count {
            return;
        }
        tracing::info!(
            local_member_id = %self.shared.local,
            local_member_applied_index = applied.0,
            local_member_snapshot_index = self.snapshot_index.0,
            local_member_snapshot_count = config.snapshot_count,
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
}

/// A leader's lessor takes over once everything of earlier terms is applied.
fn promote(shared: &Shared, state: &StateMachine) {
    if !shared.progress.leads() {
        return;
    }
    state.lessor.promote(shared.config.election_timeout(), shared.now());
    // Leadership may have been lost between the two, and the demotion that came with it undone.
    if !shared.progress.leads() {
        state.lessor.demote();
    }
}

/// Counts a request that was applied, and tells of one that took long or was refused.
fn count(shared: &Shared, entry: &Entry, outcome: &Outcome, took: Duration) {
    // What was left out, because nobody waits for it, does not count.
    let Some(result) = &outcome.result else { return };
    let (metrics, success) = (&shared.metrics, outcome.is_success());
    metrics.apply_duration.observe(outcome.op, success, took);
    metrics.count(outcome.executed);
    let expected = shared.config.warning_apply_duration;
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

/// The answer for whoever waits, if there is one that can be given now.
fn answer(shared: &Arc<Shared>, state: &StateMachine, outcome: Outcome) -> Option<(u64, Settled)> {
    let Outcome { id, revision, result, .. } = outcome;
    let result = result?;
    if matches!(result, Ok(Reply::Compaction(_))) {
        failpoint!("compactAfterCommitScheduledCompact");
        shared.compaction.ring();
    }
    let is_new_alarm =
        result == Err(Refusal::NoSpace) && !state.alarms.is_active(AlarmType::Nospace);
    let settled = Settled::Request { revision, result };
    if is_new_alarm {
        answer_once_raised(shared, id, settled);
        return None;
    }
    Some((id, settled))
}

/// All members are told that there is no space before the one who asked is. Should that take too long, they are told so instead.
fn answer_once_raised(shared: &Arc<Shared>, id: u64, settled: Settled) {
    let (server, waits) = (Server { shared: Arc::clone(shared) }, Arc::clone(&shared.waits));
    let answer = move || waits.settle(id, Ok(settled));
    if server.maybe_raise(AlarmType::Nospace, shared.local, answer) {
        tracing::warn!(
            quota_size_bytes = shared.config.quota_backend_bytes,
            error = %Refusal::NoSpace,
            "message exceeded backend quota; raising alarm"
        );
    }
}

/// Tells consensus of changes of members, and follows them.
struct Told<'a> {
    shared: &'a Shared,
    voters: &'a mut Voters,
}

impl ConfChanges for Told<'_> {
    fn apply(&mut self, index: Index, change: &raftpb::ConfChange) -> raftpb::ConfState {
        let conf_state = self.voters.apply(index, change);
        match raft::ConfChange::try_from(change.clone()) {
            Ok(change) => {
                let change = ConfChangeV2::from(change);
                let conf_state = raft_conf_state(conf_state.clone());
                self.shared.raft.push(Event::ConfChanged { index, change, conf_state });
            }
            Err(error) => self.shared.fail("read a change of members", &error),
        }
        conf_state
    }
}

#[cfg(test)]
mod tests;
