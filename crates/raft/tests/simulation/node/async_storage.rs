//! Asynchronous storage writes: an append thread and an apply thread, each with a queue.
//!
//! The core hands out messages to both and continues. Each thread works in order, at its own speed;
//! when it is done, it delivers the attached responses.

use std::collections::VecDeque;

use raft::{
    Entry, HardState, LOCAL_APPEND_THREAD, LOCAL_APPLY_THREAD, Message, MessageType, StepError,
};
use simkit::RandomExt as _;

use crate::context::{Event, SimContext};
use crate::invariants::{Check, Invariant, Violation};

use super::{Batch, Driver, Node};

/// The storage threads of an incarnation.
pub(super) struct Threads {
    /// The hard state that was last handed out.
    saved: HardState,
    append: Worker<Append>,
    apply: Worker<Apply>,
}

impl Threads {
    pub(super) fn new(saved: HardState) -> Threads {
        Threads { saved, append: Worker::default(), apply: Worker::default() }
    }

    /// Takes the batch out of an append message. A commit index alone need not be synced.
    fn batch(&mut self, message: &mut Message) -> Batch {
        let state = message.hard_state();
        let saved = self.saved;
        let promises =
            state.is_some_and(|state| (state.term, state.vote) != (saved.term, saved.vote));
        self.saved = state.unwrap_or(saved);
        let entries = std::mem::take(&mut message.entries);
        let snapshot = message.snapshot.take().map(|snapshot| *snapshot);
        let sync = !entries.is_empty() || snapshot.is_some() || promises;
        Batch { snapshot, entries, state, sync }
    }
}

/// A job of the append thread.
struct Append {
    batch: Batch,
    responses: Vec<Message>,
}

/// A job of the apply thread.
struct Apply {
    entries: Vec<Entry>,
    responses: Vec<Message>,
}

/// A thread with its queue and its current jobs.
struct Worker<T> {
    queue: VecDeque<T>,
    doing: Vec<T>,
}

impl<T> Default for Worker<T> {
    fn default() -> Worker<T> {
        Worker { queue: VecDeque::new(), doing: Vec::new() }
    }
}

impl<T> Worker<T> {
    /// Starts some queued jobs unless the thread is busy; reports whether it did.
    fn start_jobs(&mut self, count: usize) -> bool {
        if !self.doing.is_empty() || self.queue.is_empty() {
            return false;
        }
        let count = count.clamp(1, self.queue.len());
        self.doing = self.queue.drain(..count).collect();
        true
    }
}

impl Node {
    pub(super) fn turn_async(&mut self, sim: &mut SimContext) -> Check {
        if !self.live().raw.has_ready() {
            return Ok(());
        }
        let ready = self.live().raw.ready();
        let mut to_send = Vec::new();
        for message in ready.messages {
            match message.to {
                LOCAL_APPEND_THREAD => self.queue_append(sim, message)?,
                LOCAL_APPLY_THREAD => {
                    let Message { entries, responses, .. } = message;
                    self.threads().apply.queue.push_back(Apply { entries, responses });
                }
                _ => to_send.push(message),
            }
        }
        self.answer_reads(sim, ready.read_states)?;
        for message in to_send {
            self.send(sim, &message)?;
        }
        self.start_append(sim);
        self.start_apply(sim);
        Ok(())
    }

    fn threads(&mut self) -> &mut Threads {
        match &mut self.live().driver {
            Driver::Async(threads) => threads,
            Driver::Sync(_) => unreachable!("only asynchronous storage has threads"),
        }
    }

    fn queue_append(&mut self, sim: &mut SimContext, mut message: Message) -> Check {
        let batch = self.threads().batch(&mut message);
        self.record_batch(sim, &batch)?;
        if self.live().exposes_unsynced {
            self.expose(&batch);
        }
        let responses = message.responses;
        self.threads().append.queue.push_back(Append { batch, responses });
        Ok(())
    }

    /// The append thread writes some queued batches with a single sync.
    fn start_append(&mut self, sim: &mut SimContext) {
        let (member, incarnation) = (self.id, self.incarnation);
        let count = sim.random.position(4) + 1;
        if !self.threads().append.start_jobs(count) {
            return;
        }
        let doing = std::mem::take(&mut self.threads().append.doing);
        doing.iter().for_each(|append| self.write(sim, &append.batch));
        let sync = doing.iter().any(|append| append.batch.sync);
        self.threads().append.doing = doing;
        let delay = self.sync_delay(sim, sync);
        sim.schedule(delay, Event::Appended { member, incarnation });
    }

    pub(crate) fn appended(&mut self, sim: &mut SimContext) -> Check {
        let done = std::mem::take(&mut self.threads().append.doing);
        for append in &done {
            self.finish_write(sim, &append.batch)?;
        }
        for response in done.into_iter().flat_map(|append| append.responses) {
            self.respond(sim, response)?;
        }
        self.start_append(sim);
        Ok(())
    }

    fn start_apply(&mut self, sim: &mut SimContext) {
        let (member, incarnation) = (self.id, self.incarnation);
        if self.threads().apply.start_jobs(1) {
            let delay = sim.delay(sim.scenario.apply_delay);
            sim.schedule(delay, Event::Applied { member, incarnation });
        }
    }

    fn applied_async(&mut self, sim: &mut SimContext) -> Check {
        let done = std::mem::take(&mut self.threads().apply.doing);
        for Apply { entries, responses } in done {
            self.apply(sim, &entries)?;
            for response in responses {
                self.respond(sim, response)?;
            }
        }
        self.start_apply(sim);
        Ok(())
    }

    pub(crate) fn applied(&mut self, sim: &mut SimContext) -> Check {
        match &self.live().driver {
            Driver::Sync(_) => self.applied_sync(sim),
            Driver::Async(_) => self.applied_async(sim),
        }
    }

    /// Delivers a response, to this member or over the network.
    fn respond(&mut self, sim: &mut SimContext, response: Message) -> Check {
        if response.to != self.id {
            return self.send(sim, &response);
        }
        if response.kind == MessageType::MsgVoteResp && !response.reject {
            sim.invariants.elections.votes(self.id, response.term, self.id)?;
        }
        let kind = response.kind;
        match self.live().raw.step_local(response) {
            // It may have been removed while its disk was busy.
            Ok(()) | Err(StepError::PeerNotFound) => self.observe(sim),
            Err(error) => {
                let detail = format!("{} refuses its own {kind:?}: {error}", self.id);
                Err(Violation { invariant: Invariant::NoMessageRefused, detail })
            }
        }
    }
}
