//! One member: a [`RawNode`] with its state machine, driven the way a server would drive it.
//!
//! A member has lives. A crash ends one and leaves the disk; a start begins the next from what the disk kept.
//! Each life uses synchronous storage (`classic`) or asynchronous storage writes (`threads`).
//!
//! After each call into the core, [`Node::observe`] looks at what it changed.

mod apply;
mod classic;
mod inputs;
mod recover;
mod storage;
mod threads;

pub(crate) use recover::prepare_disk;

use raft::{
    BasicStatus, ConfState, Entry, HardState, Message, MessageType, RawNode, RoleKind, Snapshot,
};
use types::{Index, MemberId, Term};

use crate::app::App;
use crate::disk::Record;
use crate::invariants::{Check, Invariant, LogView, check_positions, ensure};
use crate::scenario::TICK;
use crate::trace::{What, role_name};
use crate::world::{Event, World};

use classic::Classic;
use storage::BusyStorage;
use threads::Threads;

/// One member, running or not.
pub(crate) struct Node {
    pub(crate) id: MemberId,
    /// How often it was started.
    pub(crate) life: u32,
    /// What the state machine last saved of itself, apart from the log.
    checkpoint: Option<App>,
    pub(crate) live: Option<Live>,
    /// Whether its disk is slow, until when.
    pub(crate) slow_until: u64,
    /// What it was told to be committed by those who run it; see [`crate::heal`].
    pub(crate) told_commit: Index,
}

/// A member that runs.
pub(crate) struct Live {
    pub(crate) raw: RawNode<BusyStorage>,
    pub(crate) app: App,
    /// The configuration that the core was last told of, or told.
    pub(crate) conf: ConfState,
    /// What the core said of itself when it was last looked at.
    seen: BasicStatus,
    /// The log as it was handed out to be saved.
    view: LogView,
    /// Committed entries up to here have been compared with everybody's.
    compared: Index,
    /// It was elected in this term when this much was committed; its log has not been looked at since.
    elected: Option<(Term, Index)>,
    /// The newest snapshot handed out to be restored. What is still being applied before it is stale.
    floor: Index,
    /// A snapshot must come that covers this change, since the core would not apply it.
    awaited: Option<Index>,
    /// Whether storage shows what is being written, or only what is durable.
    shows_early: bool,
    turn_scheduled: bool,
    tick: u64,
    driver: Driver,
}

enum Driver {
    Classic(Option<Classic>),
    Threads(Threads),
}

/// What is to be made durable, from a `Ready` or an append message.
struct Batch {
    snapshot: Option<Snapshot>,
    entries: Vec<Entry>,
    state: Option<HardState>,
    sync: bool,
}

impl Node {
    pub(crate) fn new(id: MemberId) -> Node {
        Node { id, life: 0, checkpoint: None, live: None, slow_until: 0, told_commit: Index::ZERO }
    }

    pub(crate) fn leads(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.seen.soft_state.role == RoleKind::Leader)
    }

    /// The term it is in, while it runs.
    pub(crate) fn term(&self) -> Option<Term> {
        self.live.as_ref().map(|live| live.seen.hard_state.term)
    }

    /// How far its log is committed, if it does not know that itself.
    pub(crate) fn unknown_commit(&self, world: &World) -> Option<Index> {
        let live = self.live.as_ref()?;
        let committed = world.invariants.commits.last_in(&live.view);
        (committed > live.seen.hard_state.commit).then_some(committed)
    }

    fn live(&mut self) -> &mut Live {
        self.live.as_mut().expect("only members that run are called")
    }

    /// The power goes.
    pub(crate) fn crash(&mut self, world: &mut World) {
        if self.live.take().is_none() {
            return;
        }
        let disk = world.disks.get_mut(&self.id).expect("every member has a disk");
        let (kept, lost) = disk.crash(&mut world.random);
        world.totals.crashes += 1;
        world.totals.lost_writes += lost;
        world.record(self.id, What::Crashed { kept, lost });
    }

    /// Looks at what a call into the core has changed, and comes back for the work it left.
    fn observe(&mut self, world: &mut World) -> Check {
        let (id, life) = (self.id, self.life);
        let live = self.live();
        let status = live.raw.basic_status();
        check_positions(&live.seen, &status)?;
        let before = std::mem::replace(&mut live.seen, status);
        if (before.soft_state.role, before.hard_state.term)
            != (status.soft_state.role, status.hard_state.term)
        {
            self.became(world)?;
        }
        let live = self.live();
        let commit = status.hard_state.commit;
        if commit > before.hard_state.commit {
            world.record(id, What::Committed { index: commit.0 });
            let commits = &mut world.invariants.commits;
            if status.soft_state.role == RoleKind::Leader {
                let term = status.hard_state.term;
                commits.leader_commits(id, term, &live.view, commit, &live.conf, &world.disks)?;
            } else {
                commits.follower_learns(id, commit)?;
            }
        }
        if !live.turn_scheduled && live.raw.has_ready() {
            live.turn_scheduled = true;
            let delay = world.delay(world.scenario.turn_delay);
            world.schedule(delay, Event::Turn { member: id, life });
        }
        Ok(())
    }

    /// Role or term changed.
    fn became(&mut self, world: &mut World) -> Check {
        let (id, life) = (self.id, self.life);
        let live = self.live();
        let (role, term) = (live.seen.soft_state.role, live.seen.hard_state.term);
        world.trace.record(world.now, id, What::Became { role: role_name(role), term: term.0 });
        if role != RoleKind::Leader {
            return Ok(());
        }
        let durable = world.disks[&id].durable().state;
        if !world.invariants.elections.leads(term, id, life, durable)? {
            return Ok(());
        }
        live.elected = Some((term, world.invariants.commits.last_index()));
        self.maybe_crash_soon(world, world.scenario.crash_after_election);
        Ok(())
    }

    /// Trouble likes the moments just after a promise was made.
    fn maybe_crash_soon(&mut self, world: &mut World, per_mille: u64) {
        if world.healing || !world.random.chance(per_mille) {
            return;
        }
        let (member, life) = (self.id, self.life);
        let longest = world.random.pick(&[20, 100, 400]);
        let delay = world.random.below(longest);
        let downtime = world.random.below(300);
        world.schedule(delay, Event::Crash { member, life, downtime });
    }

    /// Takes note of what the core hands out to be saved. Comes before anything else is done with it.
    fn absorb(&mut self, world: &mut World, batch: &Batch) -> Check {
        self.absorb_snapshot(world, batch.snapshot.as_ref())?;
        let id = self.id;
        let live = self.live();
        world.invariants.logs.appends(id, &mut live.view, &batch.entries, live.compared)?;
        let committed = live.seen.hard_state.commit.min(live.view.last_index());
        let commits = &world.invariants.commits;
        commits.compare(id, &live.view, live.compared.next(), committed)?;
        live.compared = live.compared.max(committed);
        if let Some((term, committed)) = live.elected.take() {
            commits.leader_is_complete(id, term, &live.view, committed)?;
        }
        Ok(())
    }

    /// The core goes by the configuration of a snapshot from the moment it was stepped.
    fn absorb_snapshot(&mut self, world: &mut World, snapshot: Option<&Snapshot>) -> Check {
        let id = self.id;
        let live = self.live();
        let index = snapshot.map(|snapshot| snapshot.metadata.index);
        let awaited = live.awaited.take();
        ensure(awaited.is_none() || awaited <= index, Invariant::ConfigurationSafety, || {
            format!("{id} would not apply the change at {awaited:?} and restores {index:?}")
        })?;
        let Some(snapshot) = snapshot else { return Ok(()) };
        let (index, conf) = (snapshot.metadata.index, &snapshot.metadata.conf_state);
        world.invariants.configurations.restored(id, index, conf)?;
        live.conf = live.raw.status().config.to_conf_state();
        live.view = LogView::starting_after(snapshot.id());
        live.floor = index;
        ensure(live.conf == *conf, Invariant::ConfigurationSafety, || {
            format!("{id} restores {conf:?} and has {:?} in force", live.conf)
        })
    }

    /// Writes to disk without syncing. The hard state comes last: its commit index speaks of the
    /// entries, and a crash that kept it alone would commit whatever stood in their place.
    fn write(&mut self, world: &mut World, batch: &Batch) {
        let disk = world.disk(self.id);
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
        world.record(self.id, What::Wrote { entries, last, snapshot, synced: batch.sync });
    }

    /// Shows the core what was written.
    fn show(&mut self, batch: &Batch) {
        let storage = &mut self.live().raw.storage_mut().memory;
        if let Some(snapshot) = &batch.snapshot {
            storage.apply_snapshot(snapshot.clone()).expect("snapshots to restore are ever newer");
        }
        storage.append(&batch.entries).expect("what is handed out leaves no hole");
        if let Some(state) = batch.state {
            storage.set_hard_state(state);
        }
    }

    /// What was written is durable, if it had to be. The state machine takes over a snapshot now.
    fn finish_write(&mut self, world: &mut World, batch: &Batch) -> Check {
        let id = self.id;
        if batch.sync {
            world.disk(id).sync();
            let last = world.disk(id).durable().last_index().0;
            world.record(id, What::Durable { last });
        }
        if !self.live().shows_early {
            self.show(batch);
        }
        match &batch.snapshot {
            Some(snapshot) => self.restore(world, snapshot),
            None => Ok(()),
        }
    }

    /// How long this member's disk takes.
    fn sync_delay(&mut self, world: &mut World, sync: bool) -> u64 {
        if !sync {
            return 0;
        }
        let slow = if world.now < self.slow_until && !world.healing { 10 * TICK } else { 0 };
        world.delay(world.scenario.sync_delay + slow)
    }

    /// Sends to another member; a vote that leaves counts from now on.
    fn send(&mut self, world: &mut World, message: &Message) -> Check {
        if message.kind == MessageType::MsgVoteResp && !message.reject {
            world.invariants.elections.votes(self.id, message.term, message.to)?;
            self.maybe_crash_soon(world, world.scenario.crash_after_vote);
        }
        world.send(self.id, message);
        Ok(())
    }

    /// Hands out read states.
    fn answer_reads(&mut self, world: &mut World, states: Vec<raft::ReadState>) -> Check {
        for state in states {
            let context = state.request_context.as_ref().try_into();
            let read = context.map(u64::from_le_bytes).unwrap_or(u64::MAX);
            world.totals.reads_answered += 1;
            world.record(self.id, What::ReadAnswered { read, index: state.index.0 });
            let committed = world.invariants.commits.last_index();
            let by_lease = world.scenario.by_lease;
            world.invariants.reads.answered(self.id, read, state.index, committed, by_lease)?;
        }
        Ok(())
    }

    /// Does what there is to do.
    pub(crate) fn turn(&mut self, world: &mut World) -> Check {
        let live = self.live();
        live.turn_scheduled = false;
        match &live.driver {
            Driver::Classic(_) => self.turn_classic(world),
            Driver::Threads(_) => self.turn_threads(world),
        }
    }
}
