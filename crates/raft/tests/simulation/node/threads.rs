//! Asynchronous storage writes: an append thread and an apply thread, each with a queue.
//!
//! The core hands out messages to both and goes on. Each thread works in order, at its own speed; when it
//! is done, the responses attached go where they are addressed.

use std::collections::VecDeque;

use raft::{
    Entry, HardState, LOCAL_APPEND_THREAD, LOCAL_APPLY_THREAD, Message, MessageType, StepError,
};

use crate::invariants::{Check, Invariant, Violation};
use crate::world::{Event, World};

use super::{Batch, Driver, Node};

/// The threads of one life.
pub(super) struct Threads {
    /// The hard state that was last handed out to be written.
    told: HardState,
    append: Worker<Append>,
    apply: Worker<Apply>,
}

impl Threads {
    pub(super) fn new(saved: HardState) -> Threads {
        Threads { told: saved, append: Worker::default(), apply: Worker::default() }
    }

    /// What an append message asks to make durable. A commit index alone may be lost.
    fn batch(&mut self, message: &mut Message) -> Batch {
        let state = message.hard_state();
        let told = self.told;
        let promises =
            state.is_some_and(|state| (state.term, state.vote) != (told.term, told.vote));
        self.told = state.unwrap_or(told);
        let entries = std::mem::take(&mut message.entries);
        let snapshot = message.snapshot.take().map(|snapshot| *snapshot);
        let sync = !entries.is_empty() || snapshot.is_some() || promises;
        Batch { snapshot, entries, state, sync }
    }
}

/// Work of the append thread.
struct Append {
    batch: Batch,
    responses: Vec<Message>,
}

/// Work of the apply thread.
struct Apply {
    entries: Vec<Entry>,
    responses: Vec<Message>,
}

/// One thread: what waits, and what it is doing.
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
    /// Takes up some of what waits, unless busy.
    fn take_up(&mut self, count: usize) -> bool {
        if !self.doing.is_empty() || self.queue.is_empty() {
            return false;
        }
        let count = count.clamp(1, self.queue.len());
        self.doing = self.queue.drain(..count).collect();
        true
    }
}

impl Node {
    pub(super) fn turn_threads(&mut self, world: &mut World) -> Check {
        if !self.live().raw.has_ready() {
            return Ok(());
        }
        let ready = self.live().raw.ready();
        let mut to_send = Vec::new();
        for message in ready.messages {
            match message.to {
                LOCAL_APPEND_THREAD => self.queue_append(world, message)?,
                LOCAL_APPLY_THREAD => {
                    let Message { entries, responses, .. } = message;
                    self.threads().apply.queue.push_back(Apply { entries, responses });
                }
                _ => to_send.push(message),
            }
        }
        self.answer_reads(world, ready.read_states)?;
        for message in to_send {
            self.send(world, &message)?;
        }
        self.start_append(world);
        self.start_apply(world);
        Ok(())
    }

    fn threads(&mut self) -> &mut Threads {
        match &mut self.live().driver {
            Driver::Threads(threads) => threads,
            Driver::Classic(_) => unreachable!("only asynchronous storage has threads"),
        }
    }

    fn queue_append(&mut self, world: &mut World, mut message: Message) -> Check {
        let batch = self.threads().batch(&mut message);
        self.absorb(world, &batch)?;
        if self.live().shows_early {
            self.show(&batch);
        }
        let responses = message.responses;
        self.threads().append.queue.push_back(Append { batch, responses });
        Ok(())
    }

    /// The append thread writes some of what waits, and pays one sync for all of it.
    fn start_append(&mut self, world: &mut World) {
        let (member, life) = (self.id, self.life);
        let count = world.random.position(4) + 1;
        if !self.threads().append.take_up(count) {
            return;
        }
        let doing = std::mem::take(&mut self.threads().append.doing);
        doing.iter().for_each(|append| self.write(world, &append.batch));
        let sync = doing.iter().any(|append| append.batch.sync);
        self.threads().append.doing = doing;
        let delay = self.sync_delay(world, sync);
        world.schedule(delay, Event::Appended { member, life });
    }

    pub(crate) fn appended(&mut self, world: &mut World) -> Check {
        let done = std::mem::take(&mut self.threads().append.doing);
        for append in &done {
            self.finish_write(world, &append.batch)?;
        }
        for response in done.into_iter().flat_map(|append| append.responses) {
            self.respond(world, response)?;
        }
        self.start_append(world);
        Ok(())
    }

    fn start_apply(&mut self, world: &mut World) {
        let (member, life) = (self.id, self.life);
        if self.threads().apply.take_up(1) {
            let delay = world.delay(world.scenario.apply_delay);
            world.schedule(delay, Event::Applied { member, life });
        }
    }

    fn applied_threads(&mut self, world: &mut World) -> Check {
        let done = std::mem::take(&mut self.threads().apply.doing);
        for Apply { entries, responses } in done {
            self.apply(world, &entries)?;
            for response in responses {
                self.respond(world, response)?;
            }
        }
        self.start_apply(world);
        Ok(())
    }

    pub(crate) fn applied(&mut self, world: &mut World) -> Check {
        match &self.live().driver {
            Driver::Classic(_) => self.applied_classic(world),
            Driver::Threads(_) => self.applied_threads(world),
        }
    }

    /// Delivers a response: to this member itself, or over the network.
    fn respond(&mut self, world: &mut World, response: Message) -> Check {
        if response.to != self.id {
            return self.send(world, &response);
        }
        if response.kind == MessageType::MsgVoteResp && !response.reject {
            world.invariants.elections.votes(self.id, response.term, self.id)?;
        }
        let kind = response.kind;
        match self.live().raw.step_local(response) {
            // It may have been removed while its disk was busy.
            Ok(()) | Err(StepError::PeerNotFound) => self.observe(world),
            Err(error) => {
                let detail = format!("{} refuses its own {kind:?}: {error}", self.id);
                Err(Violation { invariant: Invariant::NothingRefused, detail })
            }
        }
    }
}
