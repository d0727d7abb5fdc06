//! Checks compactions: compacted revisions stay unreadable, and no other read is refused.
//!
//! A compaction takes effect at some instant between its request and its response and creates no
//! revision. So the checks use time: after the response the old revisions are compacted, and before
//! the request they were readable.

use super::timeline::{Timeline, describe, is_linearizable};
use crate::record::{History, Op, Operation, Outcome, Range, Refusal, Request};
use crate::violation::{Rule, Violation};

/// Checks that historical reads and compactions agree. `auto_compaction` says whether the store
/// also compacts on its own.
pub(crate) fn check(
    history: &History,
    timeline: &Timeline,
    auto_compaction: bool,
) -> Result<(), Violation> {
    let done = FinishedCompactions::new(history);
    history.operations.iter().try_for_each(|operation| match &operation.outcome {
        Outcome::Answered { .. } => done.check_answer(history, operation),
        Outcome::Refused { at_ns, refusal: Refusal::Compacted } if !auto_compaction => {
            check_compacted(history, operation, *at_ns)
        }
        Outcome::Refused { refusal: Refusal::FutureRevision, .. } => {
            check_future(history, timeline, operation)
        }
        Outcome::Refused { .. } | Outcome::Unknown { .. } => Ok(()),
    })
}

/// Answered compactions by response time, each with the highest compacted revision so far.
struct FinishedCompactions {
    by_end: Vec<(u64, i64, usize)>,
}

impl FinishedCompactions {
    fn new(history: &History) -> FinishedCompactions {
        let mut by_end: Vec<(u64, i64, usize)> = Vec::new();
        for (i, operation) in history.operations.iter().enumerate() {
            if let (Request::Compact { revision }, Some((at_ns, _))) =
                (&operation.request, operation.answer())
            {
                by_end.push((at_ns, *revision, i));
            }
        }
        by_end.sort_unstable();
        for i in 1..by_end.len() {
            if by_end[i - 1].1 > by_end[i].1 {
                (by_end[i].1, by_end[i].2) = (by_end[i - 1].1, by_end[i - 1].2);
            }
        }
        FinishedCompactions { by_end }
    }

    /// Returns the highest compaction that had ended before `at_ns`.
    fn furthest_before(&self, at_ns: u64) -> Option<(i64, usize)> {
        let count = self.by_end.partition_point(|(end, ..)| *end < at_ns);
        self.by_end.get(count.checked_sub(1)?).map(|(_, revision, i)| (*revision, *i))
    }

    /// Checks that a response contains no revision that was compacted before the request.
    fn check_answer(&self, history: &History, operation: &Operation) -> Result<(), Violation> {
        let Some((compacted, by)) = self.furthest_before(operation.invoked_ns) else {
            return Ok(());
        };
        let reads_compacted = match &operation.request {
            Request::Compact { revision } => *revision <= compacted,
            request if is_linearizable(request) => executed_reads(operation)
                .any(|range| range.revision > 0 && range.revision < compacted),
            _ => false,
        };
        if !reads_compacted {
            return Ok(());
        }
        let text = format!("{operation}; it was compacted by then: {}", history.operations[by]);
        Err(Violation::new(Rule::Compaction, text))
    }
}

/// Returns the reads that an answered operation executed.
fn executed_reads(operation: &Operation) -> impl Iterator<Item = &Range> {
    use crate::record::Body;
    let then = operation
        .answer()
        .is_some_and(|(_, response)| matches!(response.body, Body::Txn { succeeded: true, .. }));
    reads(&operation.request, Some(then))
}

/// Returns the reads in a request; of a transaction only those of the given branch, or of both for
/// `None`.
fn reads(request: &Request, then: Option<bool>) -> impl Iterator<Item = &Range> {
    let (alone, one, two) = match request {
        Request::Range(range) => (Some(range), &[][..], &[][..]),
        Request::Txn(txn) => (
            None,
            if then == Some(false) { &[][..] } else { txn.then.as_slice() },
            if then == Some(true) { &[][..] } else { txn.otherwise.as_slice() },
        ),
        _ => (None, &[][..], &[][..]),
    };
    let inside = one.iter().chain(two).filter_map(|op| match op {
        Op::Range(range) => Some(range),
        Op::Put(_) | Op::Delete(_) => None,
    });
    alone.into_iter().chain(inside)
}

/// Checks that a `Compacted` refusal follows a request that may have compacted the revision.
fn check_compacted(history: &History, operation: &Operation, at_ns: u64) -> Result<(), Violation> {
    let oldest = match &operation.request {
        // Compat: as in etcd, a negative revision and a repeated compaction get the same refusal.
        Request::Compact { revision: ..0 } => None,
        Request::Compact { revision } => Some(*revision - 1),
        request => reads(request, None).map(|range| range.revision).filter(|it| *it > 0).min(),
    };
    let Some(oldest) = oldest else { return Ok(()) };
    let explains = |other: &&Operation| {
        let refused = matches!(other.outcome, Outcome::Refused { .. });
        matches!(other.request, Request::Compact { revision } if revision > oldest)
            && !refused
            && other.invoked_ns <= at_ns
    };
    if history.operations.iter().any(|other| explains(&other)) {
        return Ok(());
    }
    let text = format!("{operation}; no client requested that compaction");
    Err(Violation::new(Rule::Compaction, text))
}

/// Checks that a `FutureRevision` refusal names a revision that nothing had shown before the
/// request.
fn check_future(
    history: &History,
    timeline: &Timeline,
    operation: &Operation,
) -> Result<(), Violation> {
    if !is_linearizable(&operation.request) {
        return Ok(());
    }
    let newest = match &operation.request {
        Request::Compact { revision } => Some(*revision),
        request => reads(request, None).map(|range| range.revision).max(),
    };
    match (newest, timeline.highest_before(operation.invoked_ns)) {
        (Some(newest), Some(seen)) if seen.revision() >= newest => {
            let text = format!("{operation}; yet, before it began, {}", describe(history, seen));
            Err(Violation::new(Rule::StaleRead, text))
        }
        _ => Ok(()),
    }
}
