//! Compares the events of a watch with the log.

use super::coverage::{Coverage, matches_change};
use crate::log::Log;
use crate::model::Change;
use crate::options::Options;
use crate::record::{
    Event, History, Operation, Outcome, Request, Watch, WatchBody, WatchResponse, joined,
};
use crate::violation::{Rule, Violation};

/// Checks that a watch delivered all requested events in the revisions it covers, and no others.
pub(crate) fn check(
    history: &History,
    options: &Options,
    log: &Log,
    watch: &Watch,
) -> Result<(), Violation> {
    let coverage = Coverage::new(0, watch);
    let log_check = LogCheck { history, options, watch, coverage: &coverage };
    (coverage.from.max(2)..=coverage.to.min(log.revision())).try_for_each(|revision| {
        let wants = |it: &Change| watch.request.wants(&it.key, it.after.is_none());
        let wanted: Vec<Change> = log.changes(revision).filter(wants).collect();
        log_check.check_revision(revision, &wanted)
    })
}

struct LogCheck<'a> {
    history: &'a History,
    options: &'a Options,
    watch: &'a Watch,
    coverage: &'a Coverage<'a>,
}

impl LogCheck<'_> {
    fn check_revision(&self, revision: i64, wanted: &[Change]) -> Result<(), Violation> {
        let delivered = self.coverage.events_at(revision);
        let rule = match (delivered, wanted) {
            ([], []) => return Ok(()),
            ([], _) => Some(self.missing_rule(revision)),
            _ => compare(delivered, wanted),
        };
        if let Some(rule) = rule {
            let text = format!("delivered [{}]", joined(delivered, "; "));
            return Err(self.violation(rule, revision, wanted, &text));
        }
        delivered
            .iter()
            .zip(wanted)
            .try_for_each(|(event, change)| self.check_prev(revision, event, change))
    }

    /// Returns the guarantee that a missing revision breaks.
    fn missing_rule(&self, revision: i64) -> Rule {
        let last = self.coverage.events.keys().next_back().copied().unwrap_or(0);
        let first = self.coverage.events.keys().next().copied().unwrap_or(i64::MAX);
        if revision > last {
            Rule::Bookmarkable
        } else if revision < first && self.watch.request.start > 0 {
            Rule::Resumable
        } else {
            Rule::Reliable
        }
    }

    /// Checks that `prev_kv` is correct, and present if it was requested and cannot have been
    /// compacted.
    fn check_prev(&self, revision: i64, event: &Event, change: &Change) -> Result<(), Violation> {
        let right = match &event.prev {
            Some(prev) => change.before.as_deref() == Some(prev),
            None => {
                change.before.is_none()
                    || !self.watch.request.prev_kv
                    || self.may_be_compacted(revision, self.delivered_at(revision))
            }
        };
        if right {
            return Ok(());
        }
        let before = change.before.as_ref().map_or("nothing".to_owned(), ToString::to_string);
        let text = format!("delivered [{event}], but the previous value was {before}");
        Err(self.violation(Rule::PrevKv, revision, std::slice::from_ref(change), &text))
    }

    /// Returns the time at which the events of a revision arrived.
    fn delivered_at(&self, revision: i64) -> u64 {
        let matches_change = |response: &&WatchResponse| match &response.body {
            WatchBody::Events(events) => events.iter().any(|event| event.kv.modified == revision),
            _ => false,
        };
        self.watch.responses.iter().find(matches_change).map_or(0, |response| response.at_ns)
    }

    /// Reports whether the state before `revision` may have been compacted by `at_ns`.
    fn may_be_compacted(&self, revision: i64, at_ns: u64) -> bool {
        let reaches = |request: &Request| matches!(request, Request::Compact { revision: to } if *to >= revision);
        let may_have = |operation: &Operation| {
            operation.invoked_ns <= at_ns
                && reaches(&operation.request)
                && !matches!(operation.outcome, Outcome::Refused { .. })
        };
        self.options.auto_compaction || self.history.operations.iter().any(may_have)
    }

    fn violation(
        &self,
        rule: Rule,
        revision: i64,
        wanted: &[Change],
        delivered: &str,
    ) -> Violation {
        let Watch { client, request, .. } = self.watch;
        let wanted: Vec<String> = wanted.iter().map(describe).collect();
        let marks = self.watch.responses.iter().filter(|it| it.body == WatchBody::Progress).count();
        let marks =
            if marks == 0 { String::new() } else { format!(" ({marks} progress notifications)") };
        let text = format!(
            "client {client}: {request}{marks}: revision {revision} changed [{}]; {delivered}",
            wanted.join("; ")
        );
        Violation::new(rule, text)
    }
}

/// Returns the guarantee that these events break for these changes, if any.
fn compare(delivered: &[&Event], wanted: &[Change]) -> Option<Rule> {
    let finds = |change: &Change| delivered.iter().any(|event| matches_change(event, change));
    let known = |event: &&Event| wanted.iter().any(|change| matches_change(event, change));
    if !delivered.iter().all(known) {
        Some(Rule::WrongEvent)
    } else if !wanted.iter().all(finds) {
        Some(Rule::Atomic)
    } else if delivered.iter().zip(wanted).all(|(event, change)| matches_change(event, change)) {
        None
    } else {
        Some(Rule::Ordered)
    }
}

fn describe(change: &Change) -> String {
    match &change.after {
        Some(kv) => format!("put {kv}"),
        None => format!("delete {}", change.key),
    }
}
