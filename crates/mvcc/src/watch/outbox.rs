//! What waits to be read by the client of a stream: a queue with bounds.
//!
//! ```text
//!   created 0   created 1   events 0 @7   events 1 @7   progress 0 @8   progress -1 @8   canceled 1
//!   answer      answer      ◄───────── 128 responses, 4 MiB ─────────►  answer          answer          16 answers
//! ```
//!
//! There is one queue for everything, filled under the hub's lock, so order within a stream is order of events in the hub: no event
//! of a watcher is before its creation, and no progress before what it promises.
//!
//! Events are *offered*, and refused when there is no room; whoever offered them asks, by that, to be told when there is room again, which
//! is when half of it is free. Notifications of progress are left out when there is none. Answers are bounded by refusing the requests. An answer or a
//! watcher's end always gets in: the latter takes less than the watcher that it is the end of.
//!
//! Only what answers a request counts as an answer. So nobody but the client uses up what it may leave unread: a request that is accepted now is accepted until it is
//! made, whatever the hub has to say meanwhile.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::limits::Limits;
use crate::event::Event;

/// Called when there is something to read, or to do.
pub type Notify = Arc<dyn Fn() + Send + Sync>;

/// The queue of a stream.
pub(super) struct Outbox {
    /// The stream's number in the hub.
    pub(super) stream: u64,
    queue: Mutex<Queue>,
    notify: Notify,
    limits: Limits,
    /// Events in all queues of the hub.
    pending: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<QueuedResponse>,
    bytes: usize,
    answers: usize,
    /// Somebody was refused, and waits for room.
    room_wanted: bool,
}

/// A response in the making: what is expensive is left to who reads it.
#[derive(Debug)]
pub(super) struct QueuedResponse {
    pub(super) watch_id: i64,
    pub(super) revision: i64,
    pub(super) body: ResponseBody,
}

/// What a response says.
#[derive(Debug)]
pub(super) enum ResponseBody {
    Created,
    Refused(Cow<'static, str>),
    Canceled,
    Compacted(i64),
    Progress {
        /// Whether the client asked for it.
        asked: bool,
    },
    Events {
        batch: EventBatch,
        prev_kv: bool,
        fragment: bool,
    },
}

/// Some events of a transaction, or of several. Watchers that want all events of a transaction share them.
#[derive(Clone, Debug)]
pub(super) struct EventBatch {
    events: Arc<Vec<Event>>,
    bytes: usize,
}

/// What was taken from the queue, and whether somebody waited for the room.
pub(super) struct Popped {
    pub(super) item: QueuedResponse,
    pub(super) room: bool,
}

impl Outbox {
    pub(super) fn new(
        stream: u64,
        notify: Notify,
        limits: Limits,
        pending: Arc<AtomicUsize>,
    ) -> Outbox {
        Outbox { stream, queue: Mutex::default(), notify, limits, pending }
    }

    /// Adds what must get in. Returns whether the reader has to be told.
    pub(super) fn push(&self, item: QueuedResponse) -> bool {
        self.add(&mut self.queue.lock(), item)
    }

    /// Adds events, and returns whether the reader has to be told; or returns the item, if there is no room.
    pub(super) fn offer(&self, item: QueuedResponse) -> Result<bool, QueuedResponse> {
        let mut queue = self.queue.lock();
        if !queue.has_room(&self.limits) {
            queue.room_wanted = true;
            return Err(item);
        }
        Ok(self.add(&mut queue, item))
    }

    /// Whether there is room. If not, room is wanted.
    pub(super) fn wait_for_room(&self) -> bool {
        let mut queue = self.queue.lock();
        let room = queue.has_room(&self.limits);
        queue.room_wanted |= !room;
        room
    }

    /// Whether there is room. Nobody is told about it.
    pub(super) fn has_room(&self) -> bool {
        self.queue.lock().has_room(&self.limits)
    }

    /// Whether further answers may be added.
    pub(super) fn accepts(&self) -> bool {
        self.queue.lock().answers < self.limits.stream_answers
    }

    /// The next item.
    pub(super) fn pop(&self) -> Option<Popped> {
        let mut queue = self.queue.lock();
        let item = queue.items.pop_front()?;
        queue.bytes -= item.bytes();
        queue.answers -= usize::from(item.is_answer());
        self.pending.fetch_sub(item.events(), Ordering::Relaxed);
        let room = queue.room_wanted && queue.is_half_empty(&self.limits);
        queue.room_wanted &= !room;
        Some(Popped { item, room })
    }

    /// Tells the reader that there is something.
    pub(super) fn notify(&self) {
        (self.notify)();
    }

    fn add(&self, queue: &mut Queue, item: QueuedResponse) -> bool {
        queue.bytes += item.bytes();
        queue.answers += usize::from(item.is_answer());
        self.pending.fetch_add(item.events(), Ordering::Relaxed);
        queue.items.push_back(item);
        queue.items.len() == 1
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        let queue = self.queue.get_mut();
        let events = queue.items.iter().map(QueuedResponse::events).sum();
        self.pending.fetch_sub(events, Ordering::Relaxed);
    }
}

impl Queue {
    fn has_room(&self, limits: &Limits) -> bool {
        // A response that alone is larger than all that may wait has to get through too: it is let in while there is room at all.
        self.items.len() < limits.stream_responses && self.bytes < limits.stream_bytes
    }

    fn is_half_empty(&self, limits: &Limits) -> bool {
        self.items.len() <= limits.stream_responses / 2 && self.bytes <= limits.stream_bytes / 2
    }
}

impl QueuedResponse {
    /// How much it holds.
    pub(super) fn bytes(&self) -> usize {
        match &self.body {
            ResponseBody::Events { batch, .. } => batch.bytes,
            _ => 0,
        }
    }

    fn events(&self) -> usize {
        match &self.body {
            ResponseBody::Events { batch, .. } => batch.len(),
            _ => 0,
        }
    }

    /// Whether it was asked for, one by one.
    fn is_answer(&self) -> bool {
        match self.body {
            ResponseBody::Created | ResponseBody::Refused(_) | ResponseBody::Canceled => true,
            ResponseBody::Progress { asked } => asked,
            ResponseBody::Compacted(_) | ResponseBody::Events { .. } => false,
        }
    }
}

impl EventBatch {
    /// All of some events.
    pub(super) fn all(events: Vec<Event>) -> EventBatch {
        let bytes = events.iter().map(event_bytes).sum();
        EventBatch::counted(events, bytes)
    }

    /// Likewise, with their bytes counted already.
    pub(super) fn counted(events: Vec<Event>, bytes: usize) -> EventBatch {
        EventBatch { events: Arc::new(events), bytes }
    }

    /// Some of the events of a whole batch. They do not keep the others in memory.
    pub(super) fn pick(&self, picked: impl Iterator<Item = usize>) -> EventBatch {
        EventBatch::all(picked.map(|at| self.events[at].clone()).collect())
    }

    /// The events, to share them.
    pub(super) fn events(&self) -> &Arc<Vec<Event>> {
        &self.events
    }

    /// How many events there are.
    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    /// The events.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Event> {
        self.events.iter()
    }
}

/// What an event counts as: its bytes, and the place it takes.
pub(super) fn event_bytes(event: &Event) -> usize {
    event.kv.len() + size_of::<Event>()
}
