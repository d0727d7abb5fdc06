//! Synchronous storage: one `Ready` at a time, and everything it asks for in order.
//!
//! ```text
//! ready ── write ── sync ── send ── apply ── advance
//!            └ a crash may come between any two; ticks and messages go on coming in
//! ```

use raft::{Entry, Message};

use crate::invariants::Check;
use crate::world::{Event, World};

use super::{Batch, Driver, Node};

/// A `Ready` that is being worked off.
pub(super) struct Classic {
    batch: Batch,
    messages: Vec<Message>,
    committed: Vec<Entry>,
    /// Whether it makes the member's vote for itself durable.
    own_vote: bool,
}

impl Node {
    pub(super) fn turn_classic(&mut self, world: &mut World) -> Check {
        let (member, life) = (self.id, self.life);
        let live = self.live();
        if !matches!(live.driver, Driver::Classic(None)) || !live.raw.has_ready() {
            return Ok(());
        }
        let ready = live.raw.ready();
        // A snapshot must be durable before it is acknowledged, whatever else there is.
        let sync = ready.must_sync || ready.snapshot.is_some();
        let own_vote = ready.hard_state.is_some_and(|state| state.vote == Some(member));
        let batch = Batch {
            snapshot: ready.snapshot,
            entries: ready.entries,
            state: ready.hard_state,
            sync,
        };
        self.absorb(world, &batch)?;
        self.answer_reads(world, ready.read_states)?;
        self.write(world, &batch);
        if self.live().shows_early {
            self.show(&batch);
        }
        let (messages, committed) = (ready.messages, ready.committed_entries);
        let work = Classic { batch, messages, committed, own_vote };
        self.live().driver = Driver::Classic(Some(work));
        let delay = self.sync_delay(world, sync);
        world.schedule(delay, Event::Saved { member, life });
        Ok(())
    }

    /// Written: the messages may go out.
    pub(crate) fn saved(&mut self, world: &mut World) -> Check {
        let mut work = self.take_work();
        self.finish_write(world, &work.batch)?;
        for message in std::mem::take(&mut work.messages) {
            self.send(world, &message)?;
        }
        let (member, life) = (self.id, self.life);
        let apply_delay = if work.committed.is_empty() { 0 } else { world.scenario.apply_delay };
        let delay = world.delay(apply_delay);
        self.live().driver = Driver::Classic(Some(work));
        world.schedule(delay, Event::Applied { member, life });
        Ok(())
    }

    /// Sent: apply, and tell the core that all is done.
    pub(super) fn applied_classic(&mut self, world: &mut World) -> Check {
        let work = self.take_work();
        self.apply(world, &work.committed)?;
        let term = self.live().seen.hard_state.term;
        if work.own_vote && work.batch.state.is_some_and(|state| state.term == term) {
            world.invariants.elections.votes(self.id, term, self.id)?;
        }
        self.live().raw.advance();
        self.observe(world)
    }

    fn take_work(&mut self) -> Classic {
        match &mut self.live().driver {
            Driver::Classic(work) => work.take().expect("there is a ready to work off"),
            Driver::Threads(_) => unreachable!("only synchronous storage works off a ready"),
        }
    }
}
