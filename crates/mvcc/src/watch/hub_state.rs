//! All that the hub's lock guards: the watchers, and which group each is in.
//!
//! What moves a watcher from group to group is in `publish`, `victims` and `sync`; the moves themselves are here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::limits::Limits;
use super::outbox::{Outbox, QueuedResponse, ResponseBody};
use super::tail::Tail;
use super::watcher::{Watcher, WatcherState, Watchers};
use super::watcher_group::WatcherGroup;

/// The watchers of all streams.
pub(super) struct HubState {
    pub(super) limits: Limits,
    /// The revision of the store. Synced watchers have all events up to it.
    pub(super) current: i64,
    /// How often the store was replaced. What was read before is not used afterwards.
    pub(super) epoch: u64,
    pub(super) watchers: Watchers,
    pub(super) synced: WatcherGroup,
    /// Who waits to read history, by ticket.
    pub(super) unsynced: BTreeMap<u64, usize>,
    pub(super) streams: BTreeMap<u64, StreamState>,
    /// The first in line was not reached by the last walk: the next one begins there.
    pub(super) first_missed: bool,
    /// What is published while a turn reads history.
    pub(super) tail: Option<Tail>,
    /// When the watchers of each stream are told about their progress.
    pub(super) progress_due: BTreeSet<(Duration, u64)>,
    tickets: u64,
    stream_numbers: u64,
}

/// A stream's watchers.
pub(super) struct StreamState {
    pub(super) outbox: Arc<Outbox>,
    /// The slots of its watchers, by their ids.
    pub(super) ids: BTreeMap<i64, usize>,
    pub(super) next_id: i64,
    /// Watchers that compaction ended, and that the client has not cancelled.
    pub(super) ended: BTreeSet<i64>,
    /// Who waits for room, by ticket.
    pub(super) victims: BTreeMap<u64, usize>,
    /// The bytes that these hold.
    pub(super) victim_bytes: usize,
    pub(super) progress: super::progress::Progress,
}

/// Streams whose syncing have to be told, once the lock is released.
#[derive(Default)]
pub(super) struct Notifications(Vec<Arc<Outbox>>);

impl Notifications {
    pub(super) fn add(&mut self, outbox: &Arc<Outbox>, tell: bool) {
        if tell {
            self.0.push(Arc::clone(outbox));
        }
    }

    pub(super) fn send(self) {
        self.0.iter().for_each(|outbox| outbox.notify());
    }
}

impl HubState {
    pub(super) fn new(current: i64, limits: Limits) -> HubState {
        HubState {
            limits,
            current,
            epoch: 0,
            watchers: Watchers::default(),
            synced: WatcherGroup::default(),
            unsynced: BTreeMap::new(),
            streams: BTreeMap::new(),
            first_missed: false,
            tail: None,
            progress_due: BTreeSet::new(),
            tickets: 0,
            stream_numbers: 0,
        }
    }

    /// The number for a new stream.
    pub(super) fn stream_number(&mut self) -> u64 {
        self.stream_numbers += 1;
        self.stream_numbers
    }

    /// A ticket behind all others.
    pub(super) fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    pub(super) fn stream(&mut self, number: u64) -> &mut StreamState {
        self.streams.get_mut(&number).expect("a stream is there as long as its watchers are")
    }

    /// Adds a watcher: synced if it starts after all there is, else unsynced.
    pub(super) fn insert(&mut self, watcher: Watcher) {
        let (stream, id) = (watcher.outbox.stream, watcher.id);
        let from_now = watcher.start == 0;
        let slot = self.watchers.insert(watcher);
        self.stream(stream).ids.insert(id, slot);
        if from_now {
            self.watchers[slot].next = self.current + 1;
        }
        self.assign_group(slot);
    }

    /// Takes a watcher out, whatever group it is in.
    pub(super) fn remove(&mut self, slot: usize) {
        self.leave_group(slot);
        let (stream, id) = (self.watchers[slot].outbox.stream, self.watchers[slot].id);
        let stream = self.stream(stream);
        stream.ids.remove(&id);
        stream.progress.remove(id);
        self.watchers.remove(slot);
    }

    /// Ends a watcher whose next revision is compacted.
    pub(super) fn cancel_compacted(
        &mut self,
        slot: usize,
        compacted: i64,
        notifications: &mut Notifications,
    ) {
        let (id, outbox) = (self.watchers[slot].id, Arc::clone(&self.watchers[slot].outbox));
        self.remove(slot);
        let ended_max = self.limits.canceled_ids;
        let ended = &mut self.stream(outbox.stream).ended;
        if ended.len() < ended_max {
            ended.insert(id);
        }
        // Compat: as in etcd, this header has no revision.
        let item =
            QueuedResponse { watch_id: id, revision: 0, body: ResponseBody::Compacted(compacted) };
        notifications.add(&outbox, outbox.push(item));
    }

    /// Puts a watcher that is in no group where it belongs by what it still has to get.
    pub(super) fn assign_group(&mut self, slot: usize) {
        if self.watchers[slot].next > self.current {
            let place = self.synced.add(&self.watchers[slot].span, slot);
            self.watchers[slot].state = WatcherState::Synced { place };
        } else {
            let ticket = self.ticket();
            self.join_unsynced(slot, ticket);
        }
    }

    /// Puts a watcher that is in no group among those that wait to read history.
    pub(super) fn join_unsynced(&mut self, slot: usize, ticket: u64) {
        self.unsynced.insert(ticket, slot);
        self.watchers[slot].state = WatcherState::Unsynced { ticket };
    }

    /// Makes a watcher that is in no group wait for room in its stream, with what it was refused with, if that may be held.
    pub(super) fn join_victims(&mut self, slot: usize, held: Option<QueuedResponse>) {
        let ticket = self.ticket();
        let bytes = held.as_ref().map_or(0, QueuedResponse::bytes);
        let stream = self.watchers[slot].outbox.stream;
        let stream = self.stream(stream);
        stream.victims.insert(ticket, slot);
        stream.victim_bytes += bytes;
        self.watchers[slot].state = WatcherState::Victim { ticket, held: held.map(Box::new) };
    }

    /// Takes a watcher out of its group. What a victim holds is dropped.
    pub(super) fn leave_group(&mut self, slot: usize) {
        let watcher = &mut self.watchers[slot];
        match &mut watcher.state {
            WatcherState::Synced { place } => {
                let place = *place;
                let moved = self.synced.remove(&watcher.span, place);
                if let Some(moved) = moved {
                    self.watchers[moved].state = WatcherState::Synced { place };
                }
            }
            WatcherState::Unsynced { ticket } => drop(self.unsynced.remove(ticket)),
            // The turn that reads for it finds out at its end that it is gone.
            WatcherState::Syncing => {}
            WatcherState::Victim { ticket, held } => {
                let (ticket, bytes) = (*ticket, held.as_ref().map_or(0, |item| item.bytes()));
                let stream = watcher.outbox.stream;
                let stream = self.stream(stream);
                stream.victims.remove(&ticket);
                stream.victim_bytes -= bytes;
            }
        }
    }
}

impl StreamState {
    pub(super) fn new(outbox: Arc<Outbox>, progress: super::progress::Progress) -> StreamState {
        StreamState {
            outbox,
            ids: BTreeMap::new(),
            next_id: 0,
            ended: BTreeSet::new(),
            victims: BTreeMap::new(),
            victim_bytes: 0,
            progress,
        }
    }

    /// Whether the client can still cancel a watcher of this id.
    pub(super) fn knows(&self, id: i64) -> bool {
        self.ids.contains_key(&id) || self.ended.contains(&id)
    }

    /// An id that is not in use.
    pub(super) fn choose_id(&mut self) -> i64 {
        while self.knows(self.next_id) {
            self.next_id += 1;
        }
        self.next_id += 1;
        self.next_id - 1
    }
}
