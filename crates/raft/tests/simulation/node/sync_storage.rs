//! Synchronous storage: one `Ready` at a time, processed in order.
//!
//! ```text
//! ready ── write ── sync ── send ── apply ── advance
//!            └ a crash may happen between any two; ticks and messages keep arriving
//! ```

use raft::{Entry, Message};

use crate::context::{Event, SimContext};
use crate::invariants::Check;

use super::{Batch, Driver, Node};

/// A `Ready` that is being processed.
pub(super) struct PendingReady {
    batch: Batch,
    messages: Vec<Message>,
    committed: Vec<Entry>,
    /// Whether this `Ready` makes the member's vote for itself durable.
    own_vote: bool,
}

impl Node {
    pub(super) fn turn_sync(&mut self, sim: &mut SimContext) -> Check {
        let (member, incarnation) = (self.id, self.incarnation);
        let live = self.live();
        if !matches!(live.driver, Driver::Sync(None)) || !live.raw.has_ready() {
            return Ok(());
        }
        let ready = live.raw.ready();
        // A snapshot must always be durable before it is acknowledged.
        let sync = ready.must_sync || ready.snapshot.is_some();
        let own_vote = ready.hard_state.is_some_and(|state| state.vote == Some(member));
        let batch = Batch {
            snapshot: ready.snapshot,
            entries: ready.entries,
            state: ready.hard_state,
            sync,
        };
        self.record_batch(sim, &batch)?;
        self.answer_reads(sim, ready.read_states)?;
        self.write(sim, &batch);
        if self.live().exposes_unsynced {
            self.expose(&batch);
        }
        let (messages, committed) = (ready.messages, ready.committed_entries);
        let work = PendingReady { batch, messages, committed, own_vote };
        self.live().driver = Driver::Sync(Some(work));
        let delay = self.sync_delay(sim, sync);
        sim.schedule(delay, Event::Saved { member, incarnation });
        Ok(())
    }

    /// Handles a finished write: sends the messages.
    pub(crate) fn saved(&mut self, sim: &mut SimContext) -> Check {
        let mut work = self.take_work();
        self.finish_write(sim, &work.batch)?;
        for message in std::mem::take(&mut work.messages) {
            self.send(sim, &message)?;
        }
        let (member, incarnation) = (self.id, self.incarnation);
        let apply_delay = if work.committed.is_empty() { 0 } else { sim.scenario.apply_delay };
        let delay = sim.delay(apply_delay);
        self.live().driver = Driver::Sync(Some(work));
        sim.schedule(delay, Event::Applied { member, incarnation });
        Ok(())
    }

    /// Applies the committed entries and advances the core.
    pub(super) fn applied_sync(&mut self, sim: &mut SimContext) -> Check {
        let work = self.take_work();
        self.apply(sim, &work.committed)?;
        let term = self.live().seen.hard_state.term;
        if work.own_vote && work.batch.state.is_some_and(|state| state.term == term) {
            sim.invariants.elections.votes(self.id, term, self.id)?;
        }
        self.live().raw.advance();
        self.observe(sim)
    }

    fn take_work(&mut self) -> PendingReady {
        match &mut self.live().driver {
            Driver::Sync(work) => work.take().expect("a Ready is being processed"),
            Driver::Async(_) => unreachable!("asynchronous storage has no pending Ready"),
        }
    }
}
