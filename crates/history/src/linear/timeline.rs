//! Checks that revisions agree with real time.
//!
//! Every response carries a revision and so has a *rank* in the order: the write of revision 5 has
//! rank 10, an observation of the state at revision 5 has rank 11, and the next write has rank 12.
//!
//! ```text
//! client 1   |--- put a=1 → 5 ---|                        rank 10
//! client 2                          |- read a → at 4 -|   rank  9, begins after rank 10: stale
//! client 3      |------- read a → at 4 -------|           rank  9, begins before: correct
//! ```
//!
//! Time and revisions agree if no operation begins after another one of higher rank has ended. One
//! pass over the responses, sorted by their end, decides that.

use crate::record::{History, Millis, Operation, Request, WatchBody};
use crate::violation::{Rule, Violation};

/// The source of a milestone.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// The response of this operation.
    Operation(usize),
    /// A response of this watch.
    Watch(usize),
    /// This final state of a member.
    Final(usize),
}

/// A time by which a rank is known to be reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Milestone {
    pub(crate) at_ns: u64,
    rank: i64,
    pub(crate) source: Source,
}

impl Milestone {
    /// Returns the observed revision.
    pub(crate) fn revision(&self) -> i64 {
        self.rank / 2
    }
}

/// All milestones, ordered by time and by rank.
#[derive(Debug)]
pub(crate) struct Timeline {
    /// Sorted by time.
    milestones: Vec<Milestone>,
    /// For each milestone, the position of the highest-ranked one up to it.
    highest: Vec<usize>,
    /// Sorted by rank: each rank with the position of the earliest milestone of this rank or
    /// higher.
    earliest: Vec<(i64, usize)>,
}

/// Returns the rank of an answered operation; `None` if its response does not determine one.
fn rank(operation: &Operation) -> Option<i64> {
    let (_, response) = operation.answer()?;
    let wrote = response.body.wrote() == Some(true);
    Some(2 * response.revision + i64::from(!wrote))
}

/// Reports whether a request must reflect everything observed before it. Serializable reads need
/// not, and the revision of a keep-alive is that of the contacted member.
pub(crate) fn is_linearizable(request: &Request) -> bool {
    use crate::record::Op;
    match request {
        Request::Range(range) => !range.serializable,
        Request::KeepAlive { .. } => false,
        Request::Txn(txn) => {
            let mut ops = txn.then.iter().chain(&txn.otherwise);
            !ops.all(|op| matches!(op, Op::Range(range) if range.serializable))
        }
        Request::Put(_)
        | Request::Delete(_)
        | Request::Grant { .. }
        | Request::Revoke { .. }
        | Request::Compact { .. } => true,
    }
}

impl Timeline {
    pub(crate) fn new(history: &History) -> Timeline {
        let mut milestones = collect(history);
        milestones.sort_by_key(|milestone| (milestone.at_ns, milestone.rank));
        let mut highest = Vec::with_capacity(milestones.len());
        let mut best = 0;
        for (i, milestone) in milestones.iter().enumerate() {
            if milestone.rank > milestones[best].rank {
                best = i;
            }
            highest.push(best);
        }
        let earliest = earliest(&milestones);
        Timeline { milestones, highest, earliest }
    }

    /// Returns the highest-ranked milestone before `at_ns`.
    pub(crate) fn highest_before(&self, at_ns: u64) -> Option<&Milestone> {
        let count = self.milestones.partition_point(|milestone| milestone.at_ns < at_ns);
        let best = *self.highest.get(count.checked_sub(1)?)?;
        self.milestones.get(best)
    }

    /// Returns the earliest milestone of `revision` or later: by then the revision existed.
    pub(crate) fn first_seen(&self, revision: i64) -> Option<&Milestone> {
        let place = self.earliest.partition_point(|(rank, _)| *rank < 2 * revision);
        self.earliest.get(place).map(|(_, index)| &self.milestones[*index])
    }

    /// Returns the highest observed revision.
    pub(crate) fn last_revision(&self) -> i64 {
        self.earliest.last().map_or(1, |(rank, _)| (rank / 2).max(1))
    }

    /// Returns the lowest revision that a write invoked at `invoked_ns` may have made.
    pub(crate) fn earliest_write(&self, invoked_ns: u64) -> i64 {
        self.highest_before(invoked_ns).map_or(2, |milestone| (milestone.revision() + 1).max(2))
    }

    /// Checks that time and revisions agree.
    pub(crate) fn check(&self, history: &History) -> Result<(), Violation> {
        history
            .operations
            .iter()
            .filter(|operation| is_linearizable(&operation.request))
            .try_for_each(|operation| self.check_one(history, operation))
    }

    fn check_one(&self, history: &History, operation: &Operation) -> Result<(), Violation> {
        let Some(rank) = rank(operation) else { return Ok(()) };
        let Some(seen) = self.highest_before(operation.invoked_ns) else { return Ok(()) };
        if seen.rank <= rank {
            return Ok(());
        }
        let rule = match (rank % 2 == 0, seen.revision() == rank / 2) {
            (false, _) => Rule::StaleRead,
            (true, true) => Rule::SeenBeforeWritten,
            (true, false) => Rule::RevisionOrder,
        };
        let text = format!("{operation}; yet, before it began, {}", describe(history, seen));
        Err(Violation::new(rule, text))
    }
}

/// Collects a milestone for each response.
fn collect(history: &History) -> Vec<Milestone> {
    let operations = history.operations.iter().enumerate().filter_map(|(i, operation)| {
        let (at_ns, _) = operation.answer()?;
        Some(Milestone { at_ns, rank: rank(operation)?, source: Source::Operation(i) })
    });
    let finals = history.finals.iter().enumerate().map(|(i, last)| Milestone {
        at_ns: last.at_ns,
        rank: 2 * last.revision + 1,
        source: Source::Final(i),
    });
    let mut all: Vec<Milestone> = operations.chain(finals).collect();
    for (i, watch) in history.watches.iter().enumerate() {
        for response in &watch.responses {
            let newest = match &response.body {
                WatchBody::Events(events) => events.iter().map(|event| event.kv.modified).max(),
                WatchBody::Created | WatchBody::Progress | WatchBody::Canceled { .. } => None,
            };
            let revision = response.revision.max(newest.unwrap_or(0));
            let source = Source::Watch(i);
            all.push(Milestone { at_ns: response.at_ns, rank: 2 * revision + 1, source });
        }
    }
    all
}

/// Returns each rank, ascending, with the position of the earliest milestone of that rank or
/// higher.
fn earliest(milestones: &[Milestone]) -> Vec<(i64, usize)> {
    let mut by_rank: Vec<(i64, usize)> =
        milestones.iter().enumerate().map(|(i, milestone)| (milestone.rank, i)).collect();
    by_rank.sort_unstable();
    let mut best: Option<usize> = None;
    for (_, index) in by_rank.iter_mut().rev() {
        let earlier = best.is_none_or(|best| milestones[*index].at_ns < milestones[best].at_ns);
        let first = if earlier { *index } else { best.unwrap_or(*index) };
        best = Some(first);
        *index = first;
    }
    by_rank
}

/// Describes a milestone for messages.
pub(crate) fn describe(history: &History, seen: &Milestone) -> String {
    match seen.source {
        Source::Operation(i) => format!("{}", history.operations[i]),
        Source::Watch(i) => {
            let watch = &history.watches[i];
            let (at, revision) = (Millis(seen.at_ns), seen.revision());
            format!(
                "client {} ({at} ms): {}, received revision {revision}",
                watch.client, watch.request
            )
        }
        Source::Final(i) => {
            let last = &history.finals[i];
            format!("member {} ended at revision {}", last.member, last.revision)
        }
    }
}
