//! The revisions that a watch covers, with its events.

use std::collections::BTreeMap;

use crate::model::Change;
use crate::record::{Event, Kv, Watch, WatchBody, WatchRequest};

/// The revisions that a watch covers, with its events.
#[derive(Debug)]
pub(crate) struct Coverage<'a> {
    /// The position of the watch in the history.
    pub(crate) watch: usize,
    pub(crate) request: &'a WatchRequest,
    /// The first revision that the watch must deliver.
    pub(crate) from: i64,
    /// The last revision that the watch delivered or confirmed as complete; below `from` if there
    /// is none.
    pub(crate) to: i64,
    /// Events by revision, in the order of arrival.
    pub(crate) events: BTreeMap<i64, Vec<&'a Event>>,
}

impl<'a> Coverage<'a> {
    pub(crate) fn new(index: usize, watch: &'a Watch) -> Coverage<'a> {
        let mut coverage = Coverage {
            watch: index,
            request: &watch.request,
            from: watch.request.start,
            to: 0,
            events: BTreeMap::new(),
        };
        for response in &watch.responses {
            match &response.body {
                WatchBody::Created if coverage.from <= 0 => coverage.from = response.revision + 1,
                WatchBody::Created | WatchBody::Canceled { .. } => {}
                WatchBody::Progress => coverage.to = coverage.to.max(response.revision),
                WatchBody::Events(events) => coverage.take(events),
            }
        }
        coverage
    }

    fn take(&mut self, events: &'a [Event]) {
        for event in events {
            let revision = event.kv.modified;
            // The creation was not recorded: a watch without start revision begins with its first
            // event.
            self.from = if self.from <= 0 { revision } else { self.from };
            self.to = self.to.max(revision);
            self.events.entry(revision).or_default().push(event);
        }
    }

    /// Returns the events of `revision`.
    pub(crate) fn events_at(&self, revision: i64) -> &[&'a Event] {
        self.events.get(&revision).map_or(&[], Vec::as_slice)
    }

    /// Reports whether the watch delivered exactly the requested part of these changes, or does not
    /// cover the revision.
    pub(crate) fn agrees(&self, revision: i64, changes: &[Change]) -> bool {
        if revision < self.from || revision > self.to {
            return true;
        }
        let wanted = changes.iter().filter(|it| self.request.wants(&it.key, it.after.is_none()));
        let delivered = self.events_at(revision).iter();
        wanted.clone().count() == delivered.len()
            && wanted
                .zip(delivered)
                .all(|(it, event)| matches_change(event, it) && prev_matches(event, it))
    }
}

/// Reports whether the previous value in an event, if present, is the value before the change.
fn prev_matches(event: &Event, change: &Change) -> bool {
    event.prev.is_none() || event.prev.as_ref() == change.before.as_deref()
}

/// Reports whether an event describes a change.
pub(crate) fn matches_change(event: &Event, change: &Change) -> bool {
    match (&change.after, event.delete) {
        (Some(kv), false) => event.kv == **kv,
        (None, true) => {
            let Kv { key, value, create, version, lease, .. } = &event.kv;
            let bare = value.is_empty() && (*create, *version, *lease) == (0, 0, 0);
            bare && *key == change.key
        }
        _ => false,
    }
}
