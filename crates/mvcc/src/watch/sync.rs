//! Syncs unsynced watchers: many of them read history in one pass.
//!
//! A turn has three steps, and only the first and the last hold the hub's lock:
//!
//! ```text
//!   begin    current 70: choose watchers A next 5, B next 9, C next 9; start the tail
//!   walk     history 5..=70: each change to the watchers that want it and have not passed it
//!   finish   the tail 71..=73, a response for each watcher; then it is synced, unsynced at a
//!            later revision, or a victim
//! ```
//!
//! **Choosing watchers.** Unsynced watchers form a FIFO. The first one always takes part. The walk
//! begins at the lowest revision that any of the first 512 needs, unless that is far below the
//! revision of the first. Watchers within reach of the walk take part. A watcher that is not done
//! goes to the end of the FIFO; one that was not reached keeps its position, and if it is the
//! first, the next walk begins at its revision. So a watcher that is a million revisions behind
//! gets its share of bounded walks, and watchers that need only a few revisions are served in
//! between.
//!
//! **Bounding a walk.** A walk is bounded in changes and bytes, counted at the ends of revisions,
//! because a revision is never split. So is the response to one watcher. A single larger revision
//! is still delivered as a whole.
//!
//! **Exactly once.** `Watcher::next` alone determines which events a watcher has. It advances when
//! a response is queued, or held for the queue, and only to the revision after the last one that
//! was examined for the watcher.

use std::ops::ControlFlow;

use super::history::{History, HistoryError};
use super::hub_state::{HubState, Notifications};
use super::limits::Limits;
use super::outbox::{EventBatch, event_bytes};
use super::request::Filters;
use super::tail::Tail;
use super::watcher::WatcherState;
use super::watcher_group::WatcherGroup;
use crate::event::Event;

/// Watchers that read history together, with the events found so far.
pub(super) struct SyncBatch {
    limits: Limits,
    epoch: u64,
    from: i64,
    pub(super) to: i64,
    /// The last revision that was examined.
    reached: i64,
    watchers: Vec<SyncingWatcher>,
    group: WatcherGroup,
    /// The number of watchers with room for more events.
    open: usize,
}

/// A watcher whose history is read.
struct SyncingWatcher {
    slot: usize,
    serial: u64,
    ticket: u64,
    next: i64,
    filters: Filters,
    events: Vec<Event>,
    revisions: usize,
    bytes: usize,
    /// The first revision that did not fit into the response.
    more: Option<i64>,
}

impl HubState {
    /// Chooses the watchers of a sync. Cancels watchers whose history is compacted, and makes
    /// victims of those with a full queue.
    pub(super) fn begin_sync(
        &mut self,
        compacted: i64,
        notifications: &mut Notifications,
    ) -> Option<SyncBatch> {
        let first: Vec<usize> =
            self.unsynced.values().copied().take(self.limits.turn_watchers).collect();
        let ready: Vec<usize> = first
            .into_iter()
            .filter(|&slot| self.is_ready(slot, compacted, notifications))
            .collect();
        let from = self.walk_start(&ready)?;
        let mut sync = SyncBatch::new(from, self.current, self.epoch, self.limits);
        for slot in ready {
            self.enlist(slot, &mut sync);
        }
        self.tail = Some(Tail::after(self.current));
        Some(sync)
    }

    /// Queues the responses, and assigns each watcher to its group.
    pub(super) fn finish_sync(
        &mut self,
        mut sync: SyncBatch,
        walked: Result<bool, HistoryError>,
        notifications: &mut Notifications,
    ) -> Result<(), HistoryError> {
        let tail = self.tail.take();
        match walked {
            Ok(true) if sync.epoch == self.epoch => {
                sync.add_tail(tail);
                self.finish_watchers(sync, notifications);
            }
            Ok(_) => self.requeue(sync),
            Err(HistoryError::Compacted(compacted)) => {
                self.cancel_overtaken(sync, compacted, notifications);
            }
            Err(error) => {
                self.requeue(sync);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Returns whether an unsynced watcher can be synced. If not, it leaves the group.
    fn is_ready(&mut self, slot: usize, compacted: i64, notifications: &mut Notifications) -> bool {
        let watcher = &self.watchers[slot];
        if watcher.next < compacted {
            self.cancel_compacted(slot, compacted, notifications);
        } else if !watcher.outbox.wait_for_room() {
            self.leave_group(slot);
            self.join_victims(slot, None);
        } else if watcher.next > self.current {
            self.leave_group(slot);
            self.assign_group(slot);
        } else {
            return true;
        }
        false
    }

    /// Returns the first revision of the walk: that of the first watcher, or a nearby lower one if
    /// that serves others too.
    fn walk_start(&mut self, ready: &[usize]) -> Option<i64> {
        let first = self.watchers[*ready.first()?].next;
        if std::mem::take(&mut self.first_missed) {
            return Some(first);
        }
        let near = self.limits.catch_up_revisions.min(self.limits.turn_changes);
        let near = first.saturating_sub(revisions(near));
        ready.iter().map(|&slot| self.watchers[slot].next).filter(|&next| next >= near).min()
    }

    /// Adds an unsynced watcher to the sync, if the walk can reach it.
    fn enlist(&mut self, slot: usize, sync: &mut SyncBatch) {
        let watcher = &mut self.watchers[slot];
        let WatcherState::Unsynced { ticket } = watcher.state else { return };
        if !sync.can_reach(watcher.next) {
            return;
        }
        self.unsynced.remove(&ticket);
        watcher.state = WatcherState::Syncing;
        sync.group.add(&watcher.span, sync.watchers.len());
        sync.open += 1;
        sync.watchers.push(SyncingWatcher {
            slot,
            serial: watcher.serial,
            ticket,
            next: watcher.next,
            filters: watcher.filters,
            events: Vec::new(),
            revisions: 0,
            bytes: 0,
            more: None,
        });
    }

    fn finish_watchers(&mut self, sync: SyncBatch, notifications: &mut Notifications) {
        self.first_missed = sync.watchers.first().is_some_and(|first| first.next > sync.reached);
        for syncing in sync.watchers {
            if !self.watchers.has(syncing.slot, syncing.serial) {
                continue;
            }
            if syncing.next > sync.reached {
                self.join_unsynced(syncing.slot, syncing.ticket);
            } else {
                self.finish_watcher(syncing, sync.reached, notifications);
            }
        }
    }

    /// Queues the events that were read for a watcher.
    fn finish_watcher(
        &mut self,
        syncing: SyncingWatcher,
        reached: i64,
        notifications: &mut Notifications,
    ) {
        let slot = syncing.slot;
        let next = syncing.more.unwrap_or(reached + 1);
        let watcher = &mut self.watchers[slot];
        watcher.next = next;
        if !syncing.events.is_empty() {
            watcher.quiet = false;
            let item =
                watcher.events(self.current, EventBatch::counted(syncing.events, syncing.bytes));
            match watcher.outbox.offer(item) {
                Ok(notify) => notifications.add(&watcher.outbox, notify),
                Err(item) => return self.become_victim(slot, item, syncing.next, next),
            }
        }
        self.assign_group(slot);
    }

    /// Cancels the watchers whose revisions were compacted meanwhile. The others stay unsynced.
    fn cancel_overtaken(
        &mut self,
        sync: SyncBatch,
        compacted: i64,
        notifications: &mut Notifications,
    ) {
        for syncing in sync.watchers {
            if !self.watchers.has(syncing.slot, syncing.serial) {
                continue;
            }
            if syncing.next < compacted {
                self.cancel_compacted(syncing.slot, compacted, notifications);
            } else {
                self.join_unsynced(syncing.slot, syncing.ticket);
            }
        }
    }

    /// Discards what was read.
    fn requeue(&mut self, sync: SyncBatch) {
        for syncing in sync.watchers {
            if self.watchers.has(syncing.slot, syncing.serial) {
                self.join_unsynced(syncing.slot, syncing.ticket);
            }
        }
    }
}

impl SyncBatch {
    fn new(from: i64, to: i64, epoch: u64, limits: Limits) -> SyncBatch {
        let (watchers, group) = (Vec::new(), WatcherGroup::default());
        SyncBatch { limits, epoch, from, to, reached: from - 1, watchers, group, open: 0 }
    }

    /// Reads history for all watchers of the sync.
    pub(super) fn walk(&mut self, history: &dyn History) -> Result<(), HistoryError> {
        let (mut changes, mut bytes) = (0, 0);
        let mut last = self.from - 1;
        let mut stopped = None;
        history.changes(self.from, self.to, &mut |event| {
            let revision = event.revision.main;
            let spent = changes >= self.limits.turn_changes || bytes >= self.limits.turn_bytes;
            if revision > last && (spent || self.open == 0) {
                stopped = Some(revision);
                return ControlFlow::Break(());
            }
            last = revision;
            changes += 1;
            bytes += event_bytes(&event);
            self.add(&event);
            ControlFlow::Continue(())
        })?;
        self.reached = stopped.map_or(self.to, |revision| revision - 1);
        Ok(())
    }

    /// Continues with the transactions published during the walk, if the walk was not cut short.
    fn add_tail(&mut self, tail: Option<Tail>) {
        let Some(tail) = tail.filter(|_| self.reached == self.to) else { return };
        tail.transactions.iter().flat_map(|events| events.iter()).for_each(|event| self.add(event));
        self.reached = tail.end;
    }

    /// Adds a change to the watchers that want it.
    fn add(&mut self, event: &Event) {
        let (watchers, open, limits) = (&mut self.watchers, &mut self.open, &self.limits);
        self.group.each(&event.key, &mut |i| {
            if watchers[i].wants(event) && !watchers[i].take(event, limits) {
                *open -= 1;
            }
        });
    }

    /// Returns whether the walk may reach a revision: each revision has at least one change.
    fn can_reach(&self, next: i64) -> bool {
        let reach = self.from.saturating_add(revisions(self.limits.turn_changes));
        (self.from..=reach).contains(&next)
    }
}

impl SyncingWatcher {
    fn wants(&self, event: &Event) -> bool {
        let revision = event.revision.main;
        self.more.is_none() && revision >= self.next && self.filters.pass(event.kind)
    }

    /// Adds an event. Returns false if it does not fit.
    fn take(&mut self, event: &Event, limits: &Limits) -> bool {
        let revision = event.revision.main;
        if self.events.last().is_none_or(|last| last.revision.main < revision) {
            if self.revisions >= limits.catch_up_revisions || self.bytes >= limits.catch_up_bytes {
                self.more = Some(revision);
                return false;
            }
            self.revisions += 1;
        }
        self.bytes += event_bytes(event);
        self.events.push(event.clone());
        true
    }
}

/// Converts a bound to a number of revisions.
fn revisions(bound: usize) -> i64 {
    i64::try_from(bound).unwrap_or(i64::MAX)
}
