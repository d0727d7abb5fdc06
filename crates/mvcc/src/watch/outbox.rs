//! The queue of a stream: bounded responses that wait for the client.
//!
//! ```text
//!   created 0  created 1  events 0 @7  events 1 @7  progress 0 @8  progress -1 @8  canceled 1
//!   answer     answer                                               answer          answer
//!
//!   at most 128 responses, 4 MiB, and 16 answers
//! ```
//!
//! A single queue carries all responses of a stream, and is filled under the lock of the hub. So no
//! event of a watcher precedes its creation, and no progress response precedes the events it
//! covers.
//!
//! Events are *offered*, and refused when the queue is full. A refusal also requests a notification
//! when the queue is half empty again. Progress notifications are skipped when the queue is full.
//! Answers are bounded by refusing requests. An answer, or the cancellation of a watcher by a
//! compaction, is always accepted: the latter takes less memory than its watcher.
//!
//! Only responses to requests count as answers. So the hub never uses up the bound of the client:
//! if a request is accepted now, it will be accepted until the client sends it.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::limits::Limits;
use crate::event::Event;

/// A callback that wakes the reader of a stream, or the thread that takes turns.
pub type Notify = Arc<dyn Fn() + Send + Sync>;

/// The queue of a stream.
pub(super) struct Outbox {
    /// The number of the stream in the hub.
    pub(super) stream: u64,
    queue: Mutex<Queue>,
    notify: Notify,
    limits: Limits,
    /// The number of events in all queues of the hub.
    pending: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<QueuedResponse>,
    bytes: usize,
    answers: usize,
    /// Whether a watcher was refused and waits for room.
    room_wanted: bool,
}

/// A response whose expensive parts are computed when the client reads it.
#[derive(Debug)]
pub(super) struct QueuedResponse {
    pub(super) watch_id: i64,
    pub(super) revision: i64,
    pub(super) body: ResponseBody,
}

/// The kind of a response, with its content.
#[derive(Debug)]
pub(super) enum ResponseBody {
    Created,
    Refused(Cow<'static, str>),
    Canceled,
    Compacted(i64),
    Progress {
        /// Whether the client requested it.
        requested: bool,
    },
    Events {
        batch: EventBatch,
        prev_kv: bool,
        fragment: bool,
    },
}

/// Events of one or more transactions. Watchers that get all events of a transaction share them.
#[derive(Clone, Debug)]
pub(super) struct EventBatch {
    events: Arc<Vec<Event>>,
    bytes: usize,
}

/// A response taken from the queue, and whether waiting watchers have room now.
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

    /// Appends a response regardless of the bounds. Returns whether the reader has to be notified.
    pub(super) fn push(&self, item: QueuedResponse) -> bool {
        self.add(&mut self.queue.lock(), item)
    }

    /// Appends events. Returns whether the reader has to be notified, or the response if the queue
    /// is full.
    pub(super) fn offer(&self, item: QueuedResponse) -> Result<bool, QueuedResponse> {
        let mut queue = self.queue.lock();
        if !queue.has_room(&self.limits) {
            queue.room_wanted = true;
            return Err(item);
        }
        Ok(self.add(&mut queue, item))
    }

    /// Returns whether there is room; if not, requests a notification.
    pub(super) fn wait_for_room(&self) -> bool {
        let mut queue = self.queue.lock();
        let room = queue.has_room(&self.limits);
        queue.room_wanted |= !room;
        room
    }

    /// Returns whether there is room, without requesting a notification.
    pub(super) fn has_room(&self) -> bool {
        self.queue.lock().has_room(&self.limits)
    }

    /// Returns whether another answer may be queued.
    pub(super) fn accepts(&self) -> bool {
        self.queue.lock().answers < self.limits.stream_answers
    }

    /// Takes the next response.
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

    /// Notifies the reader.
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
        // A response larger than the bound is accepted as long as the queue is below it.
        self.items.len() < limits.stream_responses && self.bytes < limits.stream_bytes
    }

    fn is_half_empty(&self, limits: &Limits) -> bool {
        self.items.len() <= limits.stream_responses / 2 && self.bytes <= limits.stream_bytes / 2
    }
}

impl QueuedResponse {
    /// Returns the size in bytes.
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

    /// Returns whether it answers a request.
    fn is_answer(&self) -> bool {
        match self.body {
            ResponseBody::Created | ResponseBody::Refused(_) | ResponseBody::Canceled => true,
            ResponseBody::Progress { requested } => requested,
            ResponseBody::Compacted(_) | ResponseBody::Events { .. } => false,
        }
    }
}

impl EventBatch {
    /// Creates a batch of events.
    pub(super) fn all(events: Vec<Event>) -> EventBatch {
        let bytes = events.iter().map(event_bytes).sum();
        EventBatch::counted(events, bytes)
    }

    /// Creates a batch of events whose size is known.
    pub(super) fn counted(events: Vec<Event>, bytes: usize) -> EventBatch {
        EventBatch { events: Arc::new(events), bytes }
    }

    /// Copies some events, so that the batch does not keep the others in memory.
    pub(super) fn pick(&self, picked: impl Iterator<Item = usize>) -> EventBatch {
        EventBatch::all(picked.map(|at| self.events[at].clone()).collect())
    }

    /// Returns the shared events.
    pub(super) fn events(&self) -> &Arc<Vec<Event>> {
        &self.events
    }

    /// Returns the number of events.
    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    /// Iterates over the events.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Event> {
        self.events.iter()
    }
}

/// Returns the memory of an event in bytes.
pub(super) fn event_bytes(event: &Event) -> usize {
    event.kv.len() + size_of::<Event>()
}
