//! The state behind the lock of the hub: the watchers and the group of each. `publish`, `victims`
//! and `sync` decide when a watcher changes its group; this module implements the change.

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
    /// Counts replacements of the store. History that was read in an earlier epoch is discarded.
    pub(super) epoch: u64,
    pub(super) watchers: Watchers,
    pub(super) synced: WatcherGroup,
    /// Unsynced watchers by ticket: a FIFO.
    pub(super) unsynced: BTreeMap<u64, usize>,
    pub(super) streams: BTreeMap<u64, StreamState>,
    /// Whether the last sync did not reach the first watcher in the FIFO. Then the next one begins
    /// there.
    pub(super) first_missed: bool,
    /// The transactions published while a turn reads history.
    pub(super) tail: Option<Tail>,
    /// The times at which streams are due for progress notifications.
    pub(super) progress_due: BTreeSet<(Duration, u64)>,
    tickets: u64,
    stream_numbers: u64,
}

/// The watchers of a stream.
pub(super) struct StreamState {
    pub(super) outbox: Arc<Outbox>,
    /// The slots of the watchers, by watch id.
    pub(super) ids: BTreeMap<i64, usize>,
    pub(super) next_id: i64,
    /// Watchers that were canceled by a compaction, and that the client has not canceled yet.
    pub(super) ended: BTreeSet<i64>,
    /// Victims by ticket: a FIFO.
    pub(super) victims: BTreeMap<u64, usize>,
    /// The bytes of the responses that the victims hold.
    pub(super) victim_bytes: usize,
    pub(super) progress: super::progress::ProgressSchedule,
}

/// Streams to notify after the lock is released.
#[derive(Default)]
pub(super) struct Notifications(Vec<Arc<Outbox>>);

impl Notifications {
    pub(super) fn add(&mut self, outbox: &Arc<Outbox>, notify: bool) {
        if notify {
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

    /// Returns the number of a new stream.
    pub(super) fn stream_number(&mut self) -> u64 {
        self.stream_numbers += 1;
        self.stream_numbers
    }

    /// Returns the next ticket.
    pub(super) fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    pub(super) fn stream(&mut self, number: u64) -> &mut StreamState {
        self.streams.get_mut(&number).expect("a stream outlives its watchers")
    }

    /// Adds a watcher: synced if it starts after the current revision, else unsynced.
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

    /// Removes a watcher from its group and its stream.
    pub(super) fn remove(&mut self, slot: usize) {
        self.leave_group(slot);
        let (stream, id) = (self.watchers[slot].outbox.stream, self.watchers[slot].id);
        let stream = self.stream(stream);
        stream.ids.remove(&id);
        stream.progress.remove(id);
        self.watchers.remove(slot);
    }

    /// Cancels a watcher whose next revision is compacted.
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
        // Compat: as in etcd, the header of this response has no revision.
        let item =
            QueuedResponse { watch_id: id, revision: 0, body: ResponseBody::Compacted(compacted) };
        notifications.add(&outbox, outbox.push(item));
    }

    /// Assigns a watcher without a group to the one that its next revision demands.
    pub(super) fn assign_group(&mut self, slot: usize) {
        if self.watchers[slot].next > self.current {
            let position = self.synced.add(&self.watchers[slot].span, slot);
            self.watchers[slot].state = WatcherState::Synced { position };
        } else {
            let ticket = self.ticket();
            self.join_unsynced(slot, ticket);
        }
    }

    /// Makes a watcher without a group unsynced.
    pub(super) fn join_unsynced(&mut self, slot: usize, ticket: u64) {
        self.unsynced.insert(ticket, slot);
        self.watchers[slot].state = WatcherState::Unsynced { ticket };
    }

    /// Makes a watcher without a group a victim, which may hold the response that did not fit.
    pub(super) fn join_victims(&mut self, slot: usize, held: Option<QueuedResponse>) {
        let ticket = self.ticket();
        let bytes = held.as_ref().map_or(0, QueuedResponse::bytes);
        let stream = self.watchers[slot].outbox.stream;
        let stream = self.stream(stream);
        stream.victims.insert(ticket, slot);
        stream.victim_bytes += bytes;
        self.watchers[slot].state = WatcherState::Victim { ticket, held: held.map(Box::new) };
    }

    /// Removes a watcher from its group. The response that a victim holds is dropped.
    pub(super) fn leave_group(&mut self, slot: usize) {
        let watcher = &mut self.watchers[slot];
        match &mut watcher.state {
            WatcherState::Synced { position } => {
                let position = *position;
                let moved = self.synced.remove(&watcher.span, position);
                if let Some(moved) = moved {
                    self.watchers[moved].state = WatcherState::Synced { position };
                }
            }
            WatcherState::Unsynced { ticket } => drop(self.unsynced.remove(ticket)),
            // The turn that syncs the watcher notices at its end.
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
    pub(super) fn new(
        outbox: Arc<Outbox>,
        progress: super::progress::ProgressSchedule,
    ) -> StreamState {
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

    /// Returns whether the client can still cancel a watcher with this id.
    pub(super) fn has_id(&self, id: i64) -> bool {
        self.ids.contains_key(&id) || self.ended.contains(&id)
    }

    /// Returns an unused id.
    pub(super) fn choose_id(&mut self) -> i64 {
        while self.has_id(self.next_id) {
            self.next_id += 1;
        }
        self.next_id += 1;
        self.next_id - 1
    }
}
