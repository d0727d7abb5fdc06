//! A member: a [`RawNode`] with its state machine, driven the way a server would drive it.
//!
//! A crash ends an incarnation and leaves the disk; a start begins the next incarnation from the
//! durable part. Each incarnation uses synchronous storage (`sync_storage`) or asynchronous storage
//! writes (`async_storage`).
//!
//! After each call into the core, [`Node::observe`] checks what it changed.

mod apply;
mod async_storage;
mod inputs;
mod recover;
mod storage;
mod sync_storage;

pub(crate) use recover::prepare_disk;

use raft::{
    BasicStatus, ConfState, Entry, HardState, Message, MessageType, RawNode, RoleKind, Snapshot,
};
use simkit::RandomExt as _;
use types::{Index, MemberId, Term};

use crate::app::App;
use crate::context::{Event, SimContext};
use crate::disk::Record;
use crate::invariants::{Check, Invariant, LogView, check_positions, ensure};
use crate::scenario::TICK;
use crate::trace::{TraceEvent, role_name};

use async_storage::Threads;
use storage::BusyStorage;
use sync_storage::PendingReady;

/// A member, running or not.
pub(crate) struct Node {
    pub(crate) id: MemberId,
    /// The number of starts.
    pub(crate) incarnation: u32,
    /// The last saved state machine, separate from the log.
    checkpoint: Option<App>,
    pub(crate) live: Option<Live>,
    /// The time until which the disk is slow.
    pub(crate) slow_until: u64,
    /// The commit index set by the operator; see [`crate::heal`].
    pub(crate) operator_commit: Index,
}

/// The state of a running member.
pub(crate) struct Live {
    pub(crate) raw: RawNode<BusyStorage>,
    pub(crate) app: App,
    /// The configuration that the core last returned or was given.
    pub(crate) conf: ConfState,
    /// The last observed status of the core.
    seen: BasicStatus,
    /// The log as handed out to be saved.
    view: LogView,
    /// Committed entries up to this index have been compared with the ledger.
    compared: Index,
    /// The term in which it was elected and the commit index at that time, until its log is
    /// checked.
    elected: Option<(Term, Index)>,
    /// The newest snapshot handed out to be restored. Entries before it that are still being
    /// applied are stale.
    floor: Index,
    /// The index of a conf change that the core skipped, so that a snapshot which covers it must
    /// follow.
    awaited: Option<Index>,
    /// Whether storage exposes writes in progress, or only durable ones.
    exposes_unsynced: bool,
    turn_scheduled: bool,
    tick: u64,
    driver: Driver,
}

enum Driver {
    Sync(Option<PendingReady>),
    Async(Threads),
}

/// The content of a `Ready` or an append message to make durable.
struct Batch {
    snapshot: Option<Snapshot>,
    entries: Vec<Entry>,
    state: Option<HardState>,
    sync: bool,
}

impl Node {
    pub(crate) fn new(id: MemberId) -> Node {
        Node {
            id,
            incarnation: 0,
            checkpoint: None,
            live: None,
            slow_until: 0,
            operator_commit: Index::ZERO,
        }
    }

    pub(crate) fn leads(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.seen.soft_state.role == RoleKind::Leader)
    }

    /// Returns the current term, while it runs.
    pub(crate) fn term(&self) -> Option<Term> {
        self.live.as_ref().map(|live| live.seen.hard_state.term)
    }

    /// Returns the highest committed index in its log, if the member does not know that it is
    /// committed.
    pub(crate) fn unknown_commit(&self, sim: &SimContext) -> Option<Index> {
        let live = self.live.as_ref()?;
        let committed = sim.invariants.commits.last_in(&live.view);
        (committed > live.seen.hard_state.commit).then_some(committed)
    }

    fn live(&mut self) -> &mut Live {
        self.live.as_mut().expect("the member is running")
    }

    /// Cuts the power.
    pub(crate) fn crash(&mut self, sim: &mut SimContext) {
        if self.live.take().is_none() {
            return;
        }
        let disk = sim.disks.get_mut(&self.id).expect("every member has a disk");
        let (kept, lost) = disk.crash(&mut sim.random);
        sim.totals.crashes += 1;
        sim.totals.lost_writes += lost;
        sim.record(self.id, TraceEvent::Crashed { kept, lost });
    }

    /// Checks what a call into the core has changed, and schedules its pending work.
    fn observe(&mut self, sim: &mut SimContext) -> Check {
        let (id, incarnation) = (self.id, self.incarnation);
        let live = self.live();
        let status = live.raw.basic_status();
        check_positions(&live.seen, &status)?;
        let before = std::mem::replace(&mut live.seen, status);
        if (before.soft_state.role, before.hard_state.term)
            != (status.soft_state.role, status.hard_state.term)
        {
            self.on_role_change(sim)?;
        }
        let live = self.live();
        let commit = status.hard_state.commit;
        if commit > before.hard_state.commit {
            sim.record(id, TraceEvent::Committed { index: commit.0 });
            let commits = &mut sim.invariants.commits;
            if status.soft_state.role == RoleKind::Leader {
                let term = status.hard_state.term;
                commits.leader_commits(id, term, &live.view, commit, &live.conf, &sim.disks)?;
            } else {
                commits.follower_learns(id, commit)?;
            }
        }
        if !live.turn_scheduled && live.raw.has_ready() {
            live.turn_scheduled = true;
            let delay = sim.delay(sim.scenario.turn_delay);
            sim.schedule(delay, Event::Turn { member: id, incarnation });
        }
        Ok(())
    }

    /// Handles a change of role or term.
    fn on_role_change(&mut self, sim: &mut SimContext) -> Check {
        let (id, incarnation) = (self.id, self.incarnation);
        let live = self.live();
        let (role, term) = (live.seen.soft_state.role, live.seen.hard_state.term);
        sim.trace.record(sim.now, id, TraceEvent::Became { role: role_name(role), term: term.0 });
        if role != RoleKind::Leader {
            return Ok(());
        }
        let durable = sim.disks[&id].durable().state;
        if !sim.invariants.elections.leads(term, id, incarnation, durable)? {
            return Ok(());
        }
        live.elected = Some((term, sim.invariants.commits.last_index()));
        self.maybe_crash_soon(sim, sim.scenario.crash_after_election);
        Ok(())
    }

    /// Schedules a crash with some probability, since a crash just after a promise is most likely
    /// to reveal bugs.
    fn maybe_crash_soon(&mut self, sim: &mut SimContext, per_mille: u64) {
        if sim.healing || !sim.random.per_mille(per_mille) {
            return;
        }
        let (member, incarnation) = (self.id, self.incarnation);
        let longest = sim.random.pick(&[20, 100, 400]);
        let delay = sim.random.below(longest);
        let downtime = sim.random.below(300);
        sim.schedule(delay, Event::Crash { member, incarnation, downtime });
    }

    /// Records and checks a batch that the core hands out to be saved, before it is processed.
    fn record_batch(&mut self, sim: &mut SimContext, batch: &Batch) -> Check {
        self.record_snapshot(sim, batch.snapshot.as_ref())?;
        let id = self.id;
        let live = self.live();
        sim.invariants.logs.appends(id, &mut live.view, &batch.entries, live.compared)?;
        let committed = live.seen.hard_state.commit.min(live.view.last_index());
        let commits = &sim.invariants.commits;
        commits.compare(id, &live.view, live.compared.next(), committed)?;
        live.compared = live.compared.max(committed);
        if let Some((term, committed)) = live.elected.take() {
            commits.leader_is_complete(id, term, &live.view, committed)?;
        }
        Ok(())
    }

    /// The core uses the configuration of a snapshot from the moment it is stepped.
    fn record_snapshot(&mut self, sim: &mut SimContext, snapshot: Option<&Snapshot>) -> Check {
        let id = self.id;
        let live = self.live();
        let index = snapshot.map(|snapshot| snapshot.metadata.index);
        let awaited = live.awaited.take();
        ensure(awaited.is_none() || awaited <= index, Invariant::ConfigurationSafety, || {
            format!("{id} skipped the conf change at {awaited:?}, but restores {index:?}")
        })?;
        let Some(snapshot) = snapshot else { return Ok(()) };
        let (index, conf) = (snapshot.metadata.index, &snapshot.metadata.conf_state);
        sim.invariants.configurations.restored(id, index, conf)?;
        live.conf = live.raw.status().config.to_conf_state();
        live.view = LogView::starting_after(snapshot.id());
        live.floor = index;
        ensure(live.conf == *conf, Invariant::ConfigurationSafety, || {
            format!("{id} restores {conf:?} and has {:?} in force", live.conf)
        })
    }

    /// Writes to disk without a sync. The hard state comes last: a crash that preserved it without
    /// the entries would commit the old entries in their place.
    fn write(&mut self, sim: &mut SimContext, batch: &Batch) {
        let disk = sim.disk(self.id);
        if let Some(snapshot) = &batch.snapshot {
            disk.write(Record::Received(snapshot.clone()));
        }
        if !batch.entries.is_empty() {
            disk.write(Record::Entries(batch.entries.clone()));
        }
        if let Some(state) = batch.state {
            disk.write(Record::State(state));
        }
        let last = batch.entries.last().map_or(0, |entry| entry.index.0);
        let snapshot = batch.snapshot.as_ref().map_or(0, |snapshot| snapshot.metadata.index.0);
        let entries = batch.entries.len() as u64;
        sim.record(self.id, TraceEvent::Wrote { entries, last, snapshot, synced: batch.sync });
    }

    /// Makes written data visible to the core.
    fn expose(&mut self, batch: &Batch) {
        let storage = &mut self.live().raw.storage_mut().memory;
        if let Some(snapshot) = &batch.snapshot {
            storage.apply_snapshot(snapshot.clone()).expect("restored snapshots are newer");
        }
        storage.append(&batch.entries).expect("batches leave no gap");
        if let Some(state) = batch.state {
            storage.set_hard_state(state);
        }
    }

    /// Handles a finished write, which is now durable if required. Restores a snapshot.
    fn finish_write(&mut self, sim: &mut SimContext, batch: &Batch) -> Check {
        let id = self.id;
        if batch.sync {
            sim.disk(id).sync();
            let last = sim.disk(id).durable().last_index().0;
            sim.record(id, TraceEvent::Durable { last });
        }
        if !self.live().exposes_unsynced {
            self.expose(batch);
        }
        match &batch.snapshot {
            Some(snapshot) => self.restore(sim, snapshot),
            None => Ok(()),
        }
    }

    /// Draws the delay of a sync.
    fn sync_delay(&mut self, sim: &mut SimContext, sync: bool) -> u64 {
        if !sync {
            return 0;
        }
        let slow = if sim.now < self.slow_until && !sim.healing { 10 * TICK } else { 0 };
        sim.delay(sim.scenario.sync_delay + slow)
    }

    /// Sends a message to another member; a granted vote counts from now on.
    fn send(&mut self, sim: &mut SimContext, message: &Message) -> Check {
        if message.kind == MessageType::MsgVoteResp && !message.reject {
            sim.invariants.elections.votes(self.id, message.term, message.to)?;
            self.maybe_crash_soon(sim, sim.scenario.crash_after_vote);
        }
        sim.send(self.id, message);
        Ok(())
    }

    /// Handles read states.
    fn answer_reads(&mut self, sim: &mut SimContext, states: Vec<raft::ReadState>) -> Check {
        for state in states {
            let context = state.request_context.as_ref().try_into();
            let read = context.map(u64::from_le_bytes).unwrap_or(u64::MAX);
            sim.totals.reads_answered += 1;
            sim.record(self.id, TraceEvent::ReadAnswered { read, index: state.index.0 });
            let committed = sim.invariants.commits.last_index();
            let by_lease = sim.scenario.by_lease;
            sim.invariants.reads.answered(self.id, read, state.index, committed, by_lease)?;
        }
        Ok(())
    }

    /// Processes the pending work.
    pub(crate) fn turn(&mut self, sim: &mut SimContext) -> Check {
        let live = self.live();
        live.turn_scheduled = false;
        match &live.driver {
            Driver::Sync(_) => self.turn_sync(sim),
            Driver::Async(_) => self.turn_async(sim),
        }
    }
}
