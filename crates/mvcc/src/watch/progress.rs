//! Progress responses: report the revision that watchers have reached while there are no events.
//!
//! A progress response at a revision promises that all events up to it precede it in the stream.
//! There are two kinds:
//!
//! - *Notifications*, by default every ten minutes, to each watcher that wants them, is synced, has
//!   reached its start revision, and had no event since the last notification was due.
//! - The answer to a *request*, with watch id -1, for all watchers of a stream. There is no answer
//!   while one of them is behind.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::hub_state::{HubState, Notifications};
use super::outbox::{QueuedResponse, ResponseBody};
use super::response::NO_WATCH_ID;

/// The schedule of the progress notifications of a stream.
pub(super) struct ProgressSchedule {
    interval: Duration,
    due: Duration,
    /// The watchers that want notifications.
    ids: BTreeSet<i64>,
    /// The watcher to begin with: when the queue fills up, the next round begins where this one
    /// stopped.
    first: i64,
}

impl ProgressSchedule {
    pub(super) fn new(now: Duration, interval: Duration) -> ProgressSchedule {
        ProgressSchedule { interval, due: now + interval, ids: BTreeSet::new(), first: i64::MIN }
    }

    pub(super) fn add(&mut self, id: i64) {
        self.ids.insert(id);
    }

    pub(super) fn remove(&mut self, id: i64) {
        self.ids.remove(&id);
    }

    /// Returns when the next notifications are due.
    pub(super) fn due(&self) -> Duration {
        self.due
    }

    /// Advances to the next due time. Like a ticker, it keeps its phase and skips missed times.
    fn advance(&mut self, now: Duration) {
        let missed = now.saturating_sub(self.due).as_nanos() / self.interval.as_nanos().max(1);
        let beats = u32::try_from(missed).unwrap_or(u32::MAX).saturating_add(1);
        self.due = self.due.saturating_add(self.interval.saturating_mul(beats));
    }

    /// Returns the watch ids, beginning where the last round stopped.
    fn rotation(&self) -> Vec<i64> {
        self.ids.range(self.first..).chain(self.ids.range(..self.first)).copied().collect()
    }
}

impl HubState {
    /// Answers a progress request, if all watchers of the stream are caught up.
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
        let body = ResponseBody::Progress { requested: true };
        let item = QueuedResponse { watch_id: NO_WATCH_ID, revision: self.current, body };
        let notify = stream.outbox.push(item);
        notifications.add(&stream.outbox, notify);
        true
    }

    /// Sends the notifications that are due. Returns the time of the next ones.
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

    /// Notifies the watchers of a stream, and schedules the next round.
    fn notify_stream(&mut self, number: u64, now: Duration, notifications: &mut Notifications) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        stream.progress.advance(now);
        self.progress_due.insert((stream.progress.due, number));
        let ids = stream.progress.rotation();
        let last = ids.into_iter().find(|&id| !self.notify_watcher(number, id, notifications));
        self.stream(number).progress.first = last.unwrap_or(i64::MIN);
    }

    /// Notifies a watcher, if it was quiet. Returns false if the queue is full.
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
            let body = ResponseBody::Progress { requested: false };
            let item = QueuedResponse { watch_id: id, revision: self.current, body };
            notifications.add(&outbox, outbox.push(item));
        }
        room
    }

    /// Returns whether a watcher is synced and has reached its start revision. No progress is
    /// promised to one that starts in the future.
    fn is_caught_up(&self, slot: usize) -> bool {
        let watcher = &self.watchers[slot];
        watcher.is_synced() && self.current >= watcher.start
    }
}
