//! A transaction reaches those who watch.
//!
//! Its events are put into one shared list, and each watcher's response points into that: nothing is copied per watcher but a pointer.

use super::hub_state::{HubState, Notifications};
use super::outbox::EventBatch;
use super::watcher::WatcherState;
use crate::event::Event;

/// An event for a watcher: the watcher's slot, and which event of the transaction.
type Match = (usize, usize);

impl HubState {
    /// Hands the events of a transaction to the synced watchers that want them.
    pub(super) fn publish(
        &mut self,
        revision: i64,
        events: &[Event],
        notifications: &mut Notifications,
    ) {
        assert!(revision > self.current, "revisions grow: {revision} after {}", self.current);
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

    /// Who wants body, in order of watchers and then of events.
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

    /// Hands a synced watcher what it gets of a transaction. If its stream is full it is a victim from now on.
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
            Ok(tell) => notifications.add(&watcher.outbox, tell),
            Err(item) => {
                self.leave_group(slot);
                self.become_victim(slot, item, revision, revision + 1);
            }
        }
    }
}
