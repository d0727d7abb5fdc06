//! Inputs of a member.

use bytes::Bytes;
use raft::{AnyConfChange, Message, StepError};
use types::{Index, MemberId};

use crate::context::{Event, SimContext};
use crate::disk::Record;
use crate::invariants::{Check, Invariant, Violation};
use crate::scenario::TICK;
use crate::trace::{Summary, TraceEvent};

use super::Node;

impl Node {
    pub(crate) fn tick(&mut self, sim: &mut SimContext) -> Check {
        let (member, incarnation) = (self.id, self.incarnation);
        let live = self.live();
        // Clocks are correct after the faults: a member with a fast clock that cannot win could
        // keep all others from campaigning.
        let period = if sim.healing { TICK } else { live.tick };
        live.raw.tick();
        sim.schedule(period, Event::Tick { member, incarnation });
        self.observe(sim)
    }

    /// Steps a message from another member. Every message of a correct member must be accepted.
    pub(crate) fn receive(&mut self, sim: &mut SimContext, message: Message) -> Check {
        sim.totals.messages += 1;
        sim.record(self.id, TraceEvent::Received(Summary::of(&message)));
        let (kind, from) = (message.kind, message.from);
        match self.live().raw.step(message) {
            Ok(()) | Err(StepError::PeerNotFound | StepError::Proposal(_)) => self.observe(sim),
            Err(error) => {
                let detail = format!("{} refuses {kind:?} of {from}: {error}", self.id);
                Err(Violation { invariant: Invariant::NoMessageRefused, detail })
            }
        }
    }

    pub(crate) fn propose(&mut self, sim: &mut SimContext, batch: Vec<Bytes>) -> Check {
        let (first, count) = (String::from_utf8_lossy(&batch[0]).into_owned(), batch.len());
        let taken = self.live().raw.propose_batch(batch).is_ok();
        self.record_proposal(sim, taken, format!("{count} entries from {first:.12}"));
        self.observe(sim)
    }

    pub(crate) fn propose_change(&mut self, sim: &mut SimContext, change: AnyConfChange) -> Check {
        let text = format!("{change:?}");
        let taken = self.live().raw.propose_conf_change(change).is_ok();
        self.record_proposal(sim, taken, text);
        self.observe(sim)
    }

    fn record_proposal(&mut self, sim: &mut SimContext, taken: bool, text: String) {
        let totals = &mut sim.totals;
        *if taken { &mut totals.proposals } else { &mut totals.proposals_dropped } += 1;
        sim.record(self.id, TraceEvent::Proposed { taken, text });
    }

    pub(crate) fn read(&mut self, sim: &mut SimContext) -> Check {
        let read = sim.invariants.reads.request(sim.invariants.commits.last_index());
        sim.totals.reads_requested += 1;
        sim.record(self.id, TraceEvent::ReadRequested { read });
        self.live().raw.read_index(Bytes::copy_from_slice(&read.to_le_bytes()));
        self.observe(sim)
    }

    pub(crate) fn campaign(&mut self, sim: &mut SimContext) -> Check {
        sim.totals.campaigns += 1;
        sim.record(self.id, TraceEvent::Did("campaign requested"));
        self.live().raw.campaign();
        self.observe(sim)
    }

    pub(crate) fn transfer(&mut self, sim: &mut SimContext, to: MemberId) -> Check {
        sim.totals.transfers += 1;
        sim.record(self.id, TraceEvent::Note(format!("transfer to {to} requested")));
        self.live().raw.transfer_leader(to);
        self.observe(sim)
    }

    pub(crate) fn forget_leader(&mut self, sim: &mut SimContext) -> Check {
        sim.record(self.id, TraceEvent::Did("forget leader requested"));
        self.live().raw.forget_leader();
        self.observe(sim)
    }

    pub(crate) fn report_unreachable(&mut self, sim: &mut SimContext, about: MemberId) -> Check {
        self.live().raw.report_unreachable(about);
        self.observe(sim)
    }

    pub(crate) fn report_snapshot(
        &mut self,
        sim: &mut SimContext,
        about: MemberId,
        arrived: bool,
    ) -> Check {
        sim.record(
            self.id,
            TraceEvent::Note(format!("report: snapshot to {about} arrived: {arrived}")),
        );
        self.live().raw.report_snapshot(about, arrived);
        self.observe(sim)
    }

    /// Makes snapshots unavailable, or available again.
    pub(crate) fn set_busy(&mut self, sim: &mut SimContext, busy: bool) {
        let words = if busy { "snapshots unavailable" } else { "snapshots available" };
        sim.record(self.id, TraceEvent::Did(words));
        self.live().raw.storage_mut().busy = busy;
    }

    /// Saves the state machine separately from the log.
    pub(crate) fn save_checkpoint(&mut self) {
        self.checkpoint = self.live.as_ref().map(|live| live.app.clone());
    }

    /// Creates a snapshot of the applied state and compacts the log up to a random index that it
    /// covers, or not at all.
    pub(crate) fn make_snapshot(&mut self, sim: &mut SimContext, compact: bool) {
        let live = self.live();
        let applied = live.app.applied.index;
        // After a restart the state machine may be ahead of the core. Before all initial members
        // are in force, no configuration may be saved.
        if applied != live.seen.applied || applied < sim.genesis {
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
            compacted = first + sim.random.below(covered);
            storage.compact(compacted).expect("applied entries can be compacted");
        }
        sim.totals.snapshots_made += 1;
        sim.disk(self.id).write(Record::Made(snapshot));
        sim.record(self.id, TraceEvent::Snapshot { index: applied.0, compacted: compacted.0 });
    }
}
