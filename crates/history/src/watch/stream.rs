//! Checks the responses of a watch on their own, without the log.

use std::collections::BTreeSet;

use super::coverage::Coverage;
use crate::options::Options;
use crate::record::{Event, History, Millis, Outcome, Request, Watch, WatchBody, WatchResponse};
use crate::violation::{Rule, Violation};

/// Checks that the responses of a watch form a valid sequence.
pub(crate) fn check(history: &History, options: &Options, watch: &Watch) -> Result<(), Violation> {
    let from = Coverage::new(0, watch).from;
    let mut state =
        StreamState { watch, from, last: 0, progress: 0, seen: BTreeSet::new(), canceled: false };
    watch.responses.iter().try_for_each(|response| state.take(history, options, response))
}

/// The state of a watch while its responses are checked in order.
struct StreamState<'a> {
    watch: &'a Watch,
    from: i64,
    /// The revision of the last event.
    last: i64,
    /// The revision of the last progress notification.
    progress: i64,
    seen: BTreeSet<(i64, &'a str)>,
    canceled: bool,
}

impl<'a> StreamState<'a> {
    fn take(
        &mut self,
        history: &History,
        options: &Options,
        response: &'a WatchResponse,
    ) -> Result<(), Violation> {
        self.require(!self.canceled, Rule::Canceled, response, || {
            "response after the cancellation".into()
        })?;
        match &response.body {
            WatchBody::Created => Ok(()),
            WatchBody::Events(events) => self.check_events(response, events),
            WatchBody::Progress => self.check_progress(response),
            WatchBody::Canceled { compact_revision } => {
                self.canceled = true;
                self.check_canceled(history, options, response, *compact_revision)
            }
        }
    }

    fn check_events(
        &mut self,
        response: &'a WatchResponse,
        events: &'a [Event],
    ) -> Result<(), Violation> {
        let before = self.last;
        for event in events {
            self.check_event(response, event, before)?;
            self.last = event.kv.modified;
        }
        self.require(response.revision >= self.last, Rule::WrongEvent, response, || {
            format!("a header at {} with an event of {}", response.revision, self.last)
        })
    }

    /// Checks one event; `before` is the last revision of the previous response.
    fn check_event(
        &mut self,
        response: &WatchResponse,
        event: &'a Event,
        before: i64,
    ) -> Result<(), Violation> {
        let revision = event.kv.modified;
        let Watch { request, .. } = self.watch;
        let text = || format!("{event}");
        let after = |what: i64| format!("{event}, after {what}");
        let is_requested_event =
            request.wants(&event.kv.key, event.delete) && revision >= self.from;
        self.require(is_requested_event, Rule::Filter, response, text)?;
        let new = self.seen.insert((revision, &event.kv.key));
        self.require(new, Rule::Unique, response, text)?;
        self.require(revision >= self.last, Rule::Ordered, response, || after(self.last))?;
        self.require(revision != before, Rule::Atomic, response, || {
            format!("{event}, in another response than the rest of revision {revision}")
        })?;
        let marked = self.progress;
        self.require(revision > marked, Rule::Bookmarkable, response, || {
            format!("{event}, after progress {marked}")
        })?;
        let is_requested = request.prev_kv || event.prev.is_none();
        self.require(is_requested, Rule::PrevKv, response, || {
            format!("{event}, which was not requested")
        })
    }

    fn check_progress(&mut self, response: &WatchResponse) -> Result<(), Violation> {
        let furthest = self.last.max(self.progress);
        self.require(response.revision >= furthest, Rule::Bookmarkable, response, || {
            format!("progress at {}, after {furthest}", response.revision)
        })?;
        self.progress = response.revision;
        Ok(())
    }

    /// Checks a cancellation. A compaction cancels a watch only if the watch needs compacted
    /// revisions and a client requested that compaction; without a compaction, only a missing
    /// permission does.
    fn check_canceled(
        &self,
        history: &History,
        options: &Options,
        response: &WatchResponse,
        compacted: i64,
    ) -> Result<(), Violation> {
        // Compat: as in etcd, a cancellation for a missing permission carries no compact revision.
        if compacted == 0 {
            let text = || "without a compaction".into();
            return self.require(options.has_permissions, Rule::Canceled, response, text);
        }
        let next = self.from.max(self.last + 1).max(self.progress + 1);
        self.require(next < compacted, Rule::Canceled, response, || {
            format!("compacted to {compacted}, but the watch needed nothing before {next}")
        })?;
        let is_requested =
            options.auto_compaction || compaction_requested(history, compacted, response.at_ns);
        self.require(is_requested, Rule::Canceled, response, || {
            format!("compacted to {compacted}, which no client requested")
        })
    }

    fn require(
        &self,
        holds: bool,
        rule: Rule,
        response: &WatchResponse,
        what: impl FnOnce() -> String,
    ) -> Result<(), Violation> {
        if holds {
            return Ok(());
        }
        let Watch { client, request, .. } = self.watch;
        let at = Millis(response.at_ns);
        Err(Violation::new(rule, format!("client {client}: {request} ({at} ms): {}", what())))
    }
}

/// Reports whether a client may have compacted to `revision` by `at_ns`.
fn compaction_requested(history: &History, revision: i64, at_ns: u64) -> bool {
    history.operations.iter().any(|operation| {
        operation.request == Request::Compact { revision }
            && operation.invoked_ns <= at_ns
            && !matches!(operation.outcome, Outcome::Refused { .. })
    })
}
