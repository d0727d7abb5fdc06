//! Which revisions a watch has told of, and what.

use std::collections::BTreeMap;

use crate::model::Change;
use crate::record::{Event, Kv, Watch, WatchBody, WatchRequest};

/// Which revisions a watch has told of, and what.
#[derive(Debug)]
pub(crate) struct Coverage<'a> {
    /// Which watch it is.
    pub(crate) watch: usize,
    pub(crate) request: &'a WatchRequest,
    /// The first revision that it must tell of.
    pub(crate) from: i64,
    /// The last revision that it has told of, or has said there is nothing of. None are, if this is before `from`.
    pub(crate) to: i64,
    /// Its events, by revision, in the order in which they came.
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
            // The first event of a watch from now on, if its creation was not recorded.
            self.from = if self.from <= 0 { revision } else { self.from };
            self.to = self.to.max(revision);
            self.events.entry(revision).or_default().push(event);
        }
    }

    /// What it has told of `revision`.
    pub(crate) fn events_at(&self, revision: i64) -> &[&'a Event] {
        self.events.get(&revision).map_or(&[], Vec::as_slice)
    }

    /// Whether it has told of just these changes, as far as it was asked to.
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

/// Whether an event tells what was there before a change, if it tells that.
fn prev_matches(event: &Event, change: &Change) -> bool {
    event.prev.is_none() || event.prev.as_ref() == change.before.as_deref()
}

/// Whether an event tells of a change.
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
