//! What goes into a member from outside.

use bytes::Bytes;
use raft::{AnyConfChange, Message, StepError};
use types::{Index, MemberId};

use crate::disk::Record;
use crate::invariants::{Check, Invariant, Violation};
use crate::scenario::TICK;
use crate::trace::{Summary, What};
use crate::world::{Event, World};

use super::Node;

impl Node {
    pub(crate) fn tick(&mut self, world: &mut World) -> Check {
        let (member, life) = (self.id, self.life);
        let live = self.live();
        // Clocks are set right once the faults are over: a member with a fast one that may not be
        // elected could keep all others from standing.
        let period = if world.healing { TICK } else { live.tick };
        live.raw.tick();
        world.schedule(period, Event::Tick { member, life });
        self.observe(world)
    }

    /// A message of another member. Whatever a member sends must be acceptable to the others.
    pub(crate) fn receive(&mut self, world: &mut World, message: Message) -> Check {
        world.totals.messages += 1;
        world.record(self.id, What::Received(Summary::of(&message)));
        let (kind, from) = (message.kind, message.from);
        match self.live().raw.step(message) {
            Ok(()) | Err(StepError::PeerNotFound | StepError::Proposal(_)) => self.observe(world),
            Err(error) => {
                let detail = format!("{} refuses {kind:?} of {from}: {error}", self.id);
                Err(Violation { invariant: Invariant::NothingRefused, detail })
            }
        }
    }

    pub(crate) fn propose(&mut self, world: &mut World, batch: Vec<Bytes>) -> Check {
        let (first, count) = (String::from_utf8_lossy(&batch[0]).into_owned(), batch.len());
        let taken = self.live().raw.propose_batch(batch).is_ok();
        self.note_proposal(world, taken, format!("{count} entries from {first:.12}"));
        self.observe(world)
    }

    pub(crate) fn propose_change(&mut self, world: &mut World, change: AnyConfChange) -> Check {
        let text = format!("{change:?}");
        let taken = self.live().raw.propose_conf_change(change).is_ok();
        self.note_proposal(world, taken, text);
        self.observe(world)
    }

    fn note_proposal(&mut self, world: &mut World, taken: bool, text: String) {
        let totals = &mut world.totals;
        *if taken { &mut totals.proposals } else { &mut totals.proposals_dropped } += 1;
        world.record(self.id, What::Proposed { taken, text });
    }

    pub(crate) fn read(&mut self, world: &mut World) -> Check {
        let read = world.invariants.reads.ask(world.invariants.commits.last_index());
        world.totals.reads_asked += 1;
        world.record(self.id, What::ReadAsked { read });
        self.live().raw.read_index(Bytes::copy_from_slice(&read.to_le_bytes()));
        self.observe(world)
    }

    pub(crate) fn campaign(&mut self, world: &mut World) -> Check {
        world.totals.campaigns += 1;
        world.record(self.id, What::Did("is told to campaign"));
        self.live().raw.campaign();
        self.observe(world)
    }

    pub(crate) fn transfer(&mut self, world: &mut World, to: MemberId) -> Check {
        world.totals.transfers += 1;
        world.record(self.id, What::Note(format!("is told to transfer leadership to {to}")));
        self.live().raw.transfer_leader(to);
        self.observe(world)
    }

    pub(crate) fn forget_leader(&mut self, world: &mut World) -> Check {
        world.record(self.id, What::Did("is told to forget its leader"));
        self.live().raw.forget_leader();
        self.observe(world)
    }

    pub(crate) fn report_unreachable(&mut self, world: &mut World, about: MemberId) -> Check {
        self.live().raw.report_unreachable(about);
        self.observe(world)
    }

    pub(crate) fn report_snapshot(
        &mut self,
        world: &mut World,
        about: MemberId,
        arrived: bool,
    ) -> Check {
        world.record(self.id, What::Note(format!("hears: snapshot to {about} arrived {arrived}")));
        self.live().raw.report_snapshot(about, arrived);
        self.observe(world)
    }

    /// Makes snapshots unavailable, or available again.
    pub(crate) fn set_busy(&mut self, world: &mut World, busy: bool) {
        let words = if busy { "has no snapshot to give" } else { "has snapshots again" };
        world.record(self.id, What::Did(words));
        self.live().raw.storage_mut().busy = busy;
    }

    /// Saves the state machine, apart from the log.
    pub(crate) fn save_checkpoint(&mut self) {
        self.checkpoint = self.live.as_ref().map(|live| live.app.clone());
    }

    /// Makes a snapshot of what is applied and drops a part of the log, or none, that it covers.
    pub(crate) fn make_snapshot(&mut self, world: &mut World, compact: bool) {
        let live = self.live();
        let applied = live.app.applied.index;
        // After a restart the state machine may be ahead of what the core hands out again; and before
        // all of the first members are in force, no configuration is worth keeping.
        if applied != live.seen.applied || applied < world.genesis {
            return;
        }
        let snapshot = live.app.to_snapshot();
        let metadata = &snapshot.metadata;
        let storage = &mut live.raw.storage_mut().memory;
        let conf_state = Some(metadata.conf_state.clone());
        if storage.create_snapshot(applied, conf_state, snapshot.data.clone()).is_err() {
            return;
        }
        let first = raft::Storage::first_index(storage);
        let covered = applied.next() - first;
        let mut compacted = Index::ZERO;
        if compact && covered > 0 {
            compacted = first + world.random.below(covered);
            storage.compact(compacted).expect("what was applied can be compacted");
        }
        world.totals.snapshots_made += 1;
        world.disk(self.id).write(Record::Made(snapshot));
        world.record(self.id, What::Snapshot { index: applied.0, compacted: compacted.0 });
    }
}
