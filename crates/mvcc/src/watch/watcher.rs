//! A watcher, and the table of all watchers.

use std::ops::{Index, IndexMut};
use std::sync::Arc;

use super::key_span::KeySpan;
use super::outbox::{EventBatch, Outbox, QueuedResponse, ResponseBody};
use super::request::{CreateRequest, Filters};

/// A registered interest in keys.
pub(super) struct Watcher {
    /// Distinguishes the watcher from earlier ones in the same slot.
    pub(super) serial: u64,
    /// The watch id in the stream.
    pub(super) id: i64,
    pub(super) outbox: Arc<Outbox>,
    pub(super) span: KeySpan,
    /// The requested revision, or zero.
    pub(super) start: i64,
    /// The next revision to deliver. While the watcher is synced, a lower bound: it has all events
    /// up to the current revision.
    pub(super) next: i64,
    pub(super) filters: Filters,
    pub(super) prev_kv: bool,
    pub(super) fragment: bool,
    /// Whether there was no event since the last progress notification was due.
    pub(super) quiet: bool,
    pub(super) state: WatcherState,
}

/// The group of a watcher.
#[derive(Debug)]
pub(super) enum WatcherState {
    /// Up to date. `position` is its index in a list of the
    /// [`WatcherGroup`](super::watcher_group::WatcherGroup) `synced`.
    Synced { position: usize },
    /// Behind, and waiting for a sync.
    Unsynced { ticket: u64 },
    /// Part of the current sync.
    Syncing,
    /// The stream is full. `next` is the revision after the held response.
    Victim { ticket: u64, held: Option<Box<QueuedResponse>> },
}

impl Watcher {
    pub(super) fn new(request: &CreateRequest, span: KeySpan, outbox: Arc<Outbox>) -> Watcher {
        Watcher {
            serial: 0,
            id: request.watch_id,
            outbox,
            span,
            start: request.start_revision,
            next: request.start_revision,
            filters: request.filters,
            prev_kv: request.prev_kv,
            fragment: request.fragment,
            quiet: true,
            state: WatcherState::Unsynced { ticket: 0 },
        }
    }

    /// Builds a response with events.
    pub(super) fn events(&self, revision: i64, batch: EventBatch) -> QueuedResponse {
        let (prev_kv, fragment) = (self.prev_kv, self.fragment);
        QueuedResponse {
            watch_id: self.id,
            revision,
            body: ResponseBody::Events { batch, prev_kv, fragment },
        }
    }

    pub(super) fn is_synced(&self) -> bool {
        matches!(self.state, WatcherState::Synced { .. })
    }
}

/// All watchers, each in a slot with a fixed number.
#[derive(Default)]
pub(super) struct Watchers {
    slots: Vec<Option<Watcher>>,
    free: Vec<usize>,
    serials: u64,
}

impl Watchers {
    pub(super) fn insert(&mut self, mut watcher: Watcher) -> usize {
        self.serials += 1;
        watcher.serial = self.serials;
        let slot = self.free.pop().unwrap_or(self.slots.len());
        match self.slots.get_mut(slot) {
            Some(empty) => *empty = Some(watcher),
            None => self.slots.push(Some(watcher)),
        }
        slot
    }

    pub(super) fn remove(&mut self, slot: usize) {
        self.slots[slot] = None;
        self.free.push(slot);
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns whether a watcher still exists.
    pub(super) fn has(&self, slot: usize, serial: u64) -> bool {
        let watcher = self.slots.get(slot).and_then(Option::as_ref);
        watcher.is_some_and(|watcher| watcher.serial == serial)
    }

    /// Returns the slots in use.
    pub(super) fn slots(&self) -> Vec<usize> {
        (0..self.slots.len()).filter(|&slot| self.slots[slot].is_some()).collect()
    }
}

impl Index<usize> for Watchers {
    type Output = Watcher;

    fn index(&self, slot: usize) -> &Watcher {
        self.slots[slot].as_ref().expect("the slot is in use")
    }
}

impl IndexMut<usize> for Watchers {
    fn index_mut(&mut self, slot: usize) -> &mut Watcher {
        self.slots[slot].as_mut().expect("the slot is in use")
    }
}
