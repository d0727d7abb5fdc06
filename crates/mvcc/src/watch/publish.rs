//! Publishes a transaction to the synced watchers. Its events are in one shared list; each response
//! points to it, so that a watcher costs a pointer and no copy.

use super::hub_state::{HubState, Notifications};
use super::outbox::EventBatch;
use super::watcher::WatcherState;
use crate::event::Event;

/// The slot of a watcher, and the position of an event in the transaction.
type Match = (usize, usize);

impl HubState {
    /// Delivers the events of a transaction to the synced watchers that want them.
    pub(super) fn publish(
        &mut self,
        revision: i64,
        events: &[Event],
        notifications: &mut Notifications,
    ) {
        assert!(revision > self.current, "published revision {revision} after {}", self.current);
        let matches = self.matches(revision, events);
        if self.tail.is_some() || !matches.is_empty() {
            let batch = EventBatch::all(events.to_vec());
            if let Some(tail) = &mut self.tail {
                tail.add(revision, batch.events(), &self.limits);
            }
            self.deliver_all(revision, &matches, &batch, notifications);
        }
        self.current = revision;
    }

    /// Finds the events of each watcher, ordered by watcher and then by event.
    fn matches(&self, revision: i64, events: &[Event]) -> Vec<Match> {
        let mut matches = Vec::new();
        for (i, event) in events.iter().enumerate() {
            self.synced.each(&event.key, &mut |slot| {
                let watcher = &self.watchers[slot];
                if revision >= watcher.next && watcher.filters.pass(event.kind) {
                    matches.push((slot, i));
                }
            });
        }
        if events.len() > 1 {
            matches.sort_unstable();
        }
        matches
    }

    fn deliver_all(
        &mut self,
        revision: i64,
        matches: &[Match],
        all: &EventBatch,
        notifications: &mut Notifications,
    ) {
        for matched in matches.chunk_by(|a, b| a.0 == b.0) {
            let batch = if matched.len() == all.len() {
                all.clone()
            } else {
                all.pick(matched.iter().map(|&(_, i)| i))
            };
            self.deliver(matched[0].0, revision, batch, notifications);
        }
    }

    /// Delivers events to a synced watcher. If the queue of its stream is full, it becomes a
    /// victim.
    fn deliver(
        &mut self,
        slot: usize,
        revision: i64,
        batch: EventBatch,
        notifications: &mut Notifications,
    ) {
        let watcher = &mut self.watchers[slot];
        debug_assert!(
            matches!(watcher.state, WatcherState::Synced { .. }),
            "only these are matched"
        );
        watcher.quiet = false;
        match watcher.outbox.offer(watcher.events(revision, batch)) {
            Ok(notify) => notifications.add(&watcher.outbox, notify),
            Err(item) => {
                self.leave_group(slot);
                self.become_victim(slot, item, revision, revision + 1);
            }
        }
    }
}
