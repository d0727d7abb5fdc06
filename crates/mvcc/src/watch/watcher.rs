//! A watcher, and the list of them all.

use std::ops::{Index, IndexMut};
use std::sync::Arc;

use super::key_span::KeySpan;
use super::outbox::{EventBatch, Outbox, QueuedResponse, ResponseBody};
use super::request::{CreateRequest, Filters};

/// What a client waits for.
pub(super) struct Watcher {
    /// Tells it from an earlier one in the same slot.
    pub(super) serial: u64,
    /// Its name within its stream.
    pub(super) id: i64,
    pub(super) outbox: Arc<Outbox>,
    pub(super) span: KeySpan,
    /// The revision that was asked for, zero for now.
    pub(super) start: i64,
    /// The first revision that it still has to get. While it is synced: a lower bound, and all up to the current revision is done.
    pub(super) next: i64,
    pub(super) filters: Filters,
    pub(super) prev_kv: bool,
    pub(super) fragment: bool,
    /// It had no event since the last progress notification was due.
    pub(super) quiet: bool,
    pub(super) state: WatcherState,
}

/// Which group a watcher is in.
#[derive(Debug)]
pub(super) enum WatcherState {
    /// It has all there is. Its place is in [`WatcherGroup`](super::watcher_group::WatcherGroup) `synced`.
    Synced { place: usize },
    /// It reads history, and waits for its turn, under this ticket.
    Unsynced { ticket: u64 },
    /// A turn reads history for it right now.
    Syncing,
    /// Its stream is full. It may hold what it was refused with; `next` is after that.
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

    /// The response that brings it some events.
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

/// All watchers, each in a slot whose number stays the same.
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

    /// Whether that very watcher is still there.
    pub(super) fn has(&self, slot: usize, serial: u64) -> bool {
        let watcher = self.slots.get(slot).and_then(Option::as_ref);
        watcher.is_some_and(|watcher| watcher.serial == serial)
    }

    /// The slots in use.
    pub(super) fn slots(&self) -> Vec<usize> {
        (0..self.slots.len()).filter(|&slot| self.slots[slot].is_some()).collect()
    }
}

impl Index<usize> for Watchers {
    type Output = Watcher;

    fn index(&self, slot: usize) -> &Watcher {
        self.slots[slot].as_ref().expect("only slots in use are looked up")
    }
}

impl IndexMut<usize> for Watchers {
    fn index_mut(&mut self, slot: usize) -> &mut Watcher {
        self.slots[slot].as_mut().expect("only slots in use are looked up")
    }
}
