//! Unsynced watchers read history: one walk for many of them.
//!
//! A turn has three steps, and only the first and the last hold the hub's lock:
//!
//! ```text
//!   begin    choose watchers   A next 5, B next 9, C next 9      current 70; what is published from here on is kept as the tail
//!   walk     history 5..=70    each change to those that want it and are not past it
//!   finish   the tail 71..=73, a response for each, and then each is synced, or unsynced further on, or a victim
//! ```
//!
//! **Who is chosen.** Watchers wait in line. The first in line always reads, and sets where the walk begins: at the lowest revision
//! that any of the first 512 needs, if that is not far below its own. Those within reach of the walk read with it. Who is not done goes to
//! the end of the line; who was not reached keeps its place, and if that was the first in line, the next walk begins right there. So a
//! watcher that is a million revisions behind has its share of walks, each of bounded length, and those that need only the last few
//! revisions get theirs between them.
//!
//! **What bounds a walk.** A number of changes and of bytes, counted at the ends of revisions, because a revision is never split. What a watcher
//! gets in one response is bounded likewise. A single revision that is larger than these still goes through whole.
//!
//! **Why nothing is lost or doubled.** A watcher's `next` is the only thing that says what it has. It is changed when a response is in its
//! stream's queue, or held for it, and only to the revision after the last one that was looked at for it.

use std::ops::ControlFlow;

use super::group::Group;
use super::history::{History, HistoryError};
use super::limits::Limits;
use super::outbox::{Batch, event_bytes};
use super::request::Filters;
use super::state::{Alerts, State};
use super::tail::Tail;
use super::watcher::Standing;
use crate::event::Event;

/// Watchers that read history together, and what they have read.
pub(super) struct Round {
    limits: Limits,
    epoch: u64,
    from: i64,
    pub(super) to: i64,
    /// All up to here was looked at.
    reached: i64,
    readers: Vec<Reader>,
    group: Group,
    /// How many readers have room for more.
    open: usize,
}

/// A watcher for which history is read.
struct Reader {
    slot: usize,
    serial: u64,
    ticket: u64,
    next: i64,
    filters: Filters,
    events: Vec<Event>,
    revisions: usize,
    bytes: usize,
    /// The first revision that did not fit.
    more: Option<i64>,
}

impl State {
    /// Chooses who reads, and ends or parks those in line that cannot.
    pub(super) fn begin_round(&mut self, compacted: i64, alerts: &mut Alerts) -> Option<Round> {
        let line: Vec<usize> =
            self.unsynced.values().copied().take(self.limits.turn_watchers).collect();
        let ready: Vec<usize> =
            line.into_iter().filter(|&slot| self.is_ready(slot, compacted, alerts)).collect();
        let from = self.walk_start(&ready)?;
        let mut round = Round::new(from, self.current, self.epoch, self.limits);
        for slot in ready {
            self.enlist(slot, &mut round);
        }
        self.tail = Some(Tail::after(self.current));
        Some(round)
    }

    /// Puts what was read in the queues, and every reader in the group where it belongs now.
    pub(super) fn finish_round(
        &mut self,
        mut round: Round,
        walked: Result<bool, HistoryError>,
        alerts: &mut Alerts,
    ) -> Result<(), HistoryError> {
        let tail = self.tail.take();
        match walked {
            Ok(true) if round.epoch == self.epoch => {
                round.add_tail(tail);
                self.settle_readers(round, alerts);
            }
            Ok(_) => self.put_back(round),
            Err(HistoryError::Compacted(compacted)) => self.end_readers(round, compacted, alerts),
            Err(error) => {
                self.put_back(round);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Whether a watcher in line can read. If not, it is no longer in line.
    fn is_ready(&mut self, slot: usize, compacted: i64, alerts: &mut Alerts) -> bool {
        let watcher = &self.watchers[slot];
        if watcher.next < compacted {
            self.end_compacted(slot, compacted, alerts);
        } else if !watcher.outbox.wait_for_room() {
            self.detach(slot);
            self.join_victims(slot, None);
        } else if watcher.next > self.current {
            self.detach(slot);
            self.settle(slot);
        } else {
            return true;
        }
        false
    }

    /// Where the walk begins: where the first in line does, or a little before if that serves others too.
    fn walk_start(&mut self, ready: &[usize]) -> Option<i64> {
        let first = self.watchers[*ready.first()?].next;
        if std::mem::take(&mut self.first_missed) {
            return Some(first);
        }
        let near = self.limits.catch_up_revisions.min(self.limits.turn_changes);
        let near = first.saturating_sub(revisions(near));
        ready.iter().map(|&slot| self.watchers[slot].next).filter(|&next| next >= near).min()
    }

    /// Makes a watcher in line a reader, if the walk can reach it.
    fn enlist(&mut self, slot: usize, round: &mut Round) {
        let watcher = &mut self.watchers[slot];
        let Standing::Unsynced { ticket } = watcher.standing else { return };
        if !round.can_reach(watcher.next) {
            return;
        }
        self.unsynced.remove(&ticket);
        watcher.standing = Standing::Reading;
        round.group.add(&watcher.span, round.readers.len());
        round.open += 1;
        round.readers.push(Reader {
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

    fn settle_readers(&mut self, round: Round, alerts: &mut Alerts) {
        self.first_missed = round.readers.first().is_some_and(|first| first.next > round.reached);
        for reader in round.readers {
            if !self.watchers.has(reader.slot, reader.serial) {
                continue;
            }
            if reader.next > round.reached {
                self.join_unsynced(reader.slot, reader.ticket);
            } else {
                self.settle_reader(reader, round.reached, alerts);
            }
        }
    }

    /// Hands a watcher what was read for it.
    fn settle_reader(&mut self, reader: Reader, reached: i64, alerts: &mut Alerts) {
        let slot = reader.slot;
        let next = reader.more.unwrap_or(reached + 1);
        let watcher = &mut self.watchers[slot];
        watcher.next = next;
        if !reader.events.is_empty() {
            watcher.quiet = false;
            let item = watcher.events(self.current, Batch::counted(reader.events, reader.bytes));
            match watcher.outbox.offer(item) {
                Ok(tell) => alerts.add(&watcher.outbox, tell),
                Err(item) => return self.refused(slot, item, reader.next, next),
            }
        }
        self.settle(slot);
    }

    /// Ends the readers that compaction has overtaken. The others wait where they were.
    fn end_readers(&mut self, round: Round, compacted: i64, alerts: &mut Alerts) {
        for reader in round.readers {
            if !self.watchers.has(reader.slot, reader.serial) {
                continue;
            }
            if reader.next < compacted {
                self.end_compacted(reader.slot, compacted, alerts);
            } else {
                self.join_unsynced(reader.slot, reader.ticket);
            }
        }
    }

    /// Forgets what was read.
    fn put_back(&mut self, round: Round) {
        for reader in round.readers {
            if self.watchers.has(reader.slot, reader.serial) {
                self.join_unsynced(reader.slot, reader.ticket);
            }
        }
    }
}

impl Round {
    fn new(from: i64, to: i64, epoch: u64, limits: Limits) -> Round {
        let (readers, group) = (Vec::new(), Group::default());
        Round { limits, epoch, from, to, reached: from - 1, readers, group, open: 0 }
    }

    /// Reads history for all readers.
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

    /// Goes on with what was published during the walk, if the walk came that far.
    fn add_tail(&mut self, tail: Option<Tail>) {
        let Some(tail) = tail.filter(|_| self.reached == self.to) else { return };
        tail.transactions.iter().flat_map(|events| events.iter()).for_each(|event| self.add(event));
        self.reached = tail.end;
    }

    /// Gives a change to those that want it.
    fn add(&mut self, event: &Event) {
        let (readers, open, limits) = (&mut self.readers, &mut self.open, &self.limits);
        self.group.each(&event.key, &mut |i| {
            if readers[i].wants(event) && !readers[i].take(event, limits) {
                *open -= 1;
            }
        });
    }

    /// Whether the walk may come to a revision: each has one change at least.
    fn can_reach(&self, next: i64) -> bool {
        let reach = self.from.saturating_add(revisions(self.limits.turn_changes));
        (self.from..=reach).contains(&next)
    }
}

impl Reader {
    fn wants(&self, event: &Event) -> bool {
        let revision = event.revision.main;
        self.more.is_none() && revision >= self.next && self.filters.pass(event.kind)
    }

    /// Takes an event. False if it does not fit.
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

/// A bound as a number of revisions.
fn revisions(bound: usize) -> i64 {
    i64::try_from(bound).unwrap_or(i64::MAX)
}
