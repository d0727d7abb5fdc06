//! Telling clients how far they are when nothing happens.
//!
//! A progress response promises that every event up to its revision is before it in the stream. There are two:
//!
//! - *notifications*, every ten minutes or so, for each watcher that wants them, has all there is, has reached its start, and had no
//!   event since the last time;
//! - the answer to a *request*, with the id -1, for all watchers of a stream at once. If one of them has not all there is, there is no answer.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::hub_state::{HubState, Notifications};
use super::outbox::{QueuedResponse, ResponseBody};
use super::response::NO_WATCH_ID;

/// When the watchers of a stream are told.
pub(super) struct Progress {
    interval: Duration,
    due: Duration,
    /// Who wants it.
    ids: BTreeSet<i64>,
    /// Who comes first next time: a stream that is filled by some of them must not leave out the same ones each time.
    first: i64,
}

impl Progress {
    pub(super) fn new(now: Duration, interval: Duration) -> Progress {
        Progress { interval, due: now + interval, ids: BTreeSet::new(), first: i64::MIN }
    }

    pub(super) fn add(&mut self, id: i64) {
        self.ids.insert(id);
    }

    pub(super) fn remove(&mut self, id: i64) {
        self.ids.remove(&id);
    }

    /// When they are told next.
    pub(super) fn due(&self) -> Duration {
        self.due
    }

    /// Sets when it is due next. As with a ticker, the beat is kept, and what was missed is left out.
    fn advance(&mut self, now: Duration) {
        let missed = now.saturating_sub(self.due).as_nanos() / self.interval.as_nanos().max(1);
        let beats = u32::try_from(missed).unwrap_or(u32::MAX).saturating_add(1);
        self.due = self.due.saturating_add(self.interval.saturating_mul(beats));
    }

    /// The ids, beginning where the last time ended.
    fn rotation(&self) -> Vec<i64> {
        self.ids.range(self.first..).chain(self.ids.range(..self.first)).copied().collect()
    }
}

impl HubState {
    /// Answers a client that asks how far its stream is, if all its watchers are that far.
    pub(super) fn answer_progress(
        &mut self,
        stream: u64,
        notifications: &mut Notifications,
    ) -> bool {
        let stream = &self.streams[&stream];
        let current = stream.ids.values().all(|&slot| self.is_caught_up(slot));
        if stream.ids.is_empty() || !current {
            return false;
        }
        let body = ResponseBody::Progress { asked: true };
        let item = QueuedResponse { watch_id: NO_WATCH_ID, revision: self.current, body };
        let tell = stream.outbox.push(item);
        notifications.add(&stream.outbox, tell);
        true
    }

    /// Tells the streams that are due. Returns when the next one is.
    pub(super) fn tick_progress(
        &mut self,
        now: Duration,
        notifications: &mut Notifications,
    ) -> Option<Duration> {
        while let Some(&(due, number)) = self.progress_due.first() {
            if due > now {
                return Some(due);
            }
            self.progress_due.remove(&(due, number));
            self.notify_stream(number, now, notifications);
        }
        None
    }

    /// Tells the watchers of a stream, and sets when they are told again.
    fn notify_stream(&mut self, number: u64, now: Duration, notifications: &mut Notifications) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        stream.progress.advance(now);
        self.progress_due.insert((stream.progress.due, number));
        let told = stream.progress.rotation();
        let last = told.into_iter().find(|&id| !self.notify_watcher(number, id, notifications));
        self.stream(number).progress.first = last.unwrap_or(i64::MIN);
    }

    /// Tells a watcher, if it was quiet. False if there is no room.
    fn notify_watcher(&mut self, number: u64, id: i64, notifications: &mut Notifications) -> bool {
        let stream = &self.streams[&number];
        let slot = stream.ids[&id];
        let was_quiet = std::mem::replace(&mut self.watchers[slot].quiet, true);
        if !was_quiet || !self.is_caught_up(slot) {
            return true;
        }
        let room = stream.outbox.has_room();
        if room {
            let outbox = Arc::clone(&stream.outbox);
            let body = ResponseBody::Progress { asked: false };
            let item = QueuedResponse { watch_id: id, revision: self.current, body };
            notifications.add(&outbox, outbox.push(item));
        }
        room
    }

    /// Whether a watcher has all there is, and there is something: a watcher of the future has not begun, and is promised nothing.
    fn is_caught_up(&self, slot: usize) -> bool {
        let watcher = &self.watchers[slot];
        watcher.is_synced() && self.current >= watcher.start
    }
}
