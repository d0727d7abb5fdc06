//! A transaction reaches those who watch.
//!
//! Its events are put into one shared list, and each watcher's response points into that: nothing is copied per watcher but a pointer.

use super::outbox::Batch;
use super::state::{Alerts, State};
use super::watcher::Standing;
use crate::event::Event;

/// An event for a watcher: the watcher's slot, and which event of the transaction.
type Match = (usize, usize);

impl State {
    /// Hands the events of a transaction to the synced watchers that want them.
    pub(super) fn publish(&mut self, revision: i64, events: &[Event], alerts: &mut Alerts) {
        assert!(revision > self.current, "revisions grow: {revision} after {}", self.current);
        let matches = self.matches(revision, events);
        if self.tail.is_some() || !matches.is_empty() {
            let batch = Batch::all(events.to_vec());
            if let Some(tail) = &mut self.tail {
                tail.add(revision, batch.events(), &self.limits);
            }
            self.deliver_all(revision, &matches, &batch, alerts);
        }
        self.current = revision;
    }

    /// Who wants what, in order of watchers and then of events.
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

    fn deliver_all(&mut self, revision: i64, matches: &[Match], all: &Batch, alerts: &mut Alerts) {
        for matched in matches.chunk_by(|a, b| a.0 == b.0) {
            let batch = if matched.len() == all.len() {
                all.clone()
            } else {
                all.pick(matched.iter().map(|&(_, i)| i))
            };
            self.deliver(matched[0].0, revision, batch, alerts);
        }
    }

    /// Hands a synced watcher what it gets of a transaction. If its stream is full it is a victim from now on.
    fn deliver(&mut self, slot: usize, revision: i64, batch: Batch, alerts: &mut Alerts) {
        let watcher = &mut self.watchers[slot];
        debug_assert!(
            matches!(watcher.standing, Standing::Synced { .. }),
            "only these are matched"
        );
        watcher.quiet = false;
        match watcher.outbox.offer(watcher.events(revision, batch)) {
            Ok(tell) => alerts.add(&watcher.outbox, tell),
            Err(item) => {
                self.detach(slot);
                self.refused(slot, item, revision, revision + 1);
            }
        }
    }
}
