//! The search for an order that explains all observations.
//!
//! The search builds the state revision by revision. Most revisions have a known writer: its
//! request is evaluated on the state so far, and the result must equal the recorded response. A
//! *hole* has no known writer and is filled by a candidate, an unknown write or the expiry of a
//! lease. If several candidates fit, the first is tried and the others are kept for backtracking.
//! After each revision all observations of the new state are checked.
//!
//! ```text
//! revision 2   client 1: put a="1"                     fits
//! revision 3   hole: put a="2" or put b="3"?           the first is tried
//! revision 4   client 2: put a="4", prev a="1" (mod 2)
//!              mismatch: `a` depends on the choice at 3, so the second candidate is tried there
//! ```
//!
//! Pruning:
//!
//! - *Conflict-directed backjumping.* The search returns not to the last choice, but to the last
//!   one that the failure may depend on: a choice that may change one of the keys concerned, or
//!   that used an unknown write which the failing hole needed ([`Conflict`]).
//! - *Memoization.* A dead end is remembered by revision, used writes and state. Once the search
//!   proves hard, states are compared by their observable part only ([`Observable`]).
//! - *Equivalent writes.* Of several interchangeable unknown writes only one is tried at a hole.
//!
//! A correct history takes about as many steps as it has revisions. A wrong one fails where it is
//! wrong, unless it has many holes with many candidates; then [`STEPS_MAX`] ends the search.
//!
//! This is the algorithm of Wing and Gong (1993) with Lowe's memoization of configurations (2017);
//! revisions remove nearly all choices. Keys cannot be checked one by one, as they could be without
//! revisions: all keys share the revision counter, so a history may be correct for each key and
//! wrong as a whole.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::rc::Rc;

use super::conflict::Conflict;
use super::constraints::Constraints;
use super::footprint::LeasedKeys;
use super::leases::Leases;
use super::observable::Observable;
use super::revision_table::{Observer, RevisionTable};
use super::timeline::Timeline;
use super::unknown_writes::UnknownWrites;
use super::version_bounds::VersionBounds;
use crate::log::{Log, RevisionWriter};
use crate::model::{Change, KeyHistory, evaluate};
use crate::record::{History, Request, Span};
use crate::violation::{Rule, Violation};
use crate::watch::Coverage;

/// The maximum number of steps, counting repeated ones; beyond it the verdict is `Undecided`.
pub(crate) const STEPS_MAX: u64 = 5_000_000;

/// Steps per revision above which a search counts as hard, so that computing [`Observable`] pays
/// off.
const EASY_STEPS_PER_REVISION: u64 = 4;

/// The input of the search; never modified.
pub(crate) struct SearchInput<'a> {
    pub(crate) history: &'a History,
    pub(crate) timeline: &'a Timeline,
    pub(crate) table: &'a RevisionTable<'a>,
    pub(crate) constraints: &'a Constraints<'a>,
    pub(crate) version_bounds: &'a VersionBounds<'a>,
    pub(crate) leases: &'a Leases<'a>,
    pub(crate) leased: &'a LeasedKeys,
    pub(crate) unknown_writes: &'a UnknownWrites<'a>,
    /// The trusted watches.
    pub(crate) watches: &'a [Coverage<'a>],
}

/// The state of the search.
pub(crate) struct Search<'a> {
    pub(super) input: SearchInput<'a>,
    pub(super) keys: KeyHistory,
    /// The writer of each revision, from 2 on.
    writers: Vec<RevisionWriter>,
    /// Leases that have ended in this order, with the revision of their end.
    pub(super) ended: Vec<(i64, i64)>,
    /// Whether each unknown write is in use, by its position.
    pub(super) used: Vec<bool>,
    used_digest: u64,
    choices: Vec<Choice>,
    /// Dead ends by position, each with its causes.
    dead_ends: BTreeMap<(i64, u64, u64), Rc<Conflict>>,
    steps: u64,
    /// Computed on demand: it takes as long as reading the whole history.
    observable: OnceCell<Observable<'a>>,
    deepest: Option<(i64, NoOrder)>,
}

/// The result if no order explains all observations.
#[derive(Debug)]
pub(crate) struct NoOrder {
    /// The failure at the highest revision.
    pub(crate) violation: Violation,
    /// The position of the trusted watch without which the search would have reached a higher
    /// revision.
    pub(crate) contradicting_watch: Option<usize>,
}

/// A hole that is filled, with its alternatives.
struct Choice {
    /// The revision of the hole, and digests of the used writes and of the state before it.
    position: (i64, u64, u64),
    /// Candidates not yet tried; the next one is last.
    remaining: Vec<Candidate>,
    /// The unknown write in use at this hole, if any.
    tried: Option<usize>,
    /// The keys that some candidate may change.
    writes: Vec<Span>,
    /// The causes of failure if no candidate works.
    conflict: Conflict,
}

/// A way to fill a hole.
pub(super) struct Candidate {
    pub(super) writer: RevisionWriter,
    /// The position in `UnknownWrites`; `None` for the expiry of a lease.
    pub(super) unknown_write: Option<usize>,
    pub(super) changes: Vec<Change>,
}

/// A contradiction, with its causes.
pub(super) struct Failure {
    pub(super) violation: Violation,
    pub(super) conflict: Conflict,
    pub(super) contradicting_watch: Option<usize>,
}

impl Failure {
    pub(super) fn new(violation: Violation, conflict: Conflict) -> Failure {
        Failure { violation, conflict, contradicting_watch: None }
    }
}

pub(super) type StepResult = Result<(), Failure>;

impl<'a> Search<'a> {
    pub(crate) fn new(input: SearchInput<'a>) -> Search<'a> {
        let used = vec![false; input.unknown_writes.all.len()];
        Search {
            input,
            keys: KeyHistory::default(),
            writers: Vec::new(),
            ended: Vec::new(),
            used,
            used_digest: 0,
            choices: Vec::new(),
            dead_ends: BTreeMap::new(),
            steps: 0,
            observable: OnceCell::new(),
            deepest: None,
        }
    }

    /// Runs the search. Returns an order, or the failure at the highest revision.
    pub(crate) fn run(mut self) -> Result<Log, NoOrder> {
        let mut step = self.check_observations();
        loop {
            step = match step {
                Ok(()) if self.keys.revision() == self.input.table.last() => break,
                Ok(()) => self.advance(),
                Err(failure) => self.backtrack(failure)?,
            };
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return Err(self.give_up());
            }
        }
        Ok(Log { keys: self.keys, writers: self.writers, steps: self.steps })
    }

    /// Builds the next revision.
    fn advance(&mut self) -> StepResult {
        let revision = self.keys.revision() + 1;
        match self.input.table.writer(revision) {
            Some(operation) => self.replay(operation),
            None => self.open_hole(revision),
        }
    }

    /// Replays an answered write as the next revision.
    fn replay(&mut self, operation: usize) -> StepResult {
        let it = &self.input.history.operations[operation];
        let (_, response) = it.answer().expect("the table contains only answered operations");
        let expected = evaluate(&self.keys, &it.request);
        match expected {
            Ok((body, changes)) if body == response.body && !changes.is_empty() => {
                self.check_watches(&changes)?;
                self.apply(RevisionWriter::Operation(operation), None, &changes)
            }
            Ok((body, _)) => {
                let observer = Observer::Operation(operation);
                Err(self.mismatch(observer, &it.request, &response.body, &body, response.revision))
            }
            Err(refusal) => {
                let text = format!("{it}; it should have been refused: {refusal}");
                let violation = Violation::new(Rule::WrongAnswer, text);
                Err(Failure::new(violation, self.depends_on(&it.request, response.revision)))
            }
        }
    }

    /// Collects the candidates of a hole and tries the first.
    fn open_hole(&mut self, revision: i64) -> StepResult {
        let position = (revision, self.used_digest, self.state_digest());
        if let Some(conflict) = self.dead_ends.get(&position) {
            let text = format!("revision {revision} was reached in another way before");
            let violation = Violation::new(Rule::UnexplainedRevision, text);
            return Err(Failure::new(violation, Conflict::clone(conflict)));
        }
        let SearchInput { constraints, leases, unknown_writes, .. } = &self.input;
        let eligible = unknown_writes.eligible(constraints, leases, revision);
        let conflict = self.hole_conflict(revision, &eligible);
        let (mut remaining, early) = self.candidates(revision, &eligible);
        remaining.reverse();
        let Some(candidate) = remaining.pop() else {
            let violation = early.unwrap_or_else(|| self.unexplained_revision(revision, &eligible));
            let contradicting_watch = self.contradicting_watch(revision, &eligible);
            return Err(Failure { violation, conflict, contradicting_watch });
        };
        // With other keys attached to it, the end of a lease could fill any hole.
        let eligible = eligible.iter().flat_map(|i| &unknown_writes.all[*i].writes);
        let writes: BTreeSet<Span> = eligible.chain(self.input.leased.all()).cloned().collect();
        let writes = writes.into_iter().collect();
        self.choices.push(Choice { position, remaining, tried: None, writes, conflict });
        self.fill(candidate)
    }

    /// Returns a digest of the state; states with equal digests lead to the same verdict.
    fn state_digest(&self) -> u64 {
        let ended: BTreeSet<i64> = self.ended.iter().map(|(lease, _)| *lease).collect();
        let SearchInput { history, table, constraints, unknown_writes, watches, .. } = &self.input;
        let keys = if self.steps < EASY_STEPS_PER_REVISION * table.last().unsigned_abs() {
            self.keys.digest()
        } else {
            let build = || Observable::new(history, table, constraints, unknown_writes, watches);
            self.observable.get_or_init(build).digest(&self.keys)
        };
        keys ^ digest(&ended)
    }

    /// Fills the newest hole with a candidate.
    fn fill(&mut self, candidate: Candidate) -> StepResult {
        let Candidate { writer, unknown_write, changes } = candidate;
        let choice = self.choices.last_mut().expect("fill follows open_hole");
        choice.tried = unknown_write;
        if let Some(i) = unknown_write {
            self.used[i] = true;
            self.used_digest ^= digest(&i);
        }
        let ends = match writer {
            RevisionWriter::Expiry(lease) => Some(lease),
            RevisionWriter::Operation(i) => match self.input.history.operations[i].request {
                Request::Revoke { lease } => Some(lease),
                _ => None,
            },
        };
        self.apply(writer, ends, &changes)
    }

    /// Applies `changes` as the next revision and checks its observations.
    fn apply(
        &mut self,
        writer: RevisionWriter,
        ends: Option<i64>,
        changes: &[Change],
    ) -> StepResult {
        self.check_leases(writer, changes)?;
        self.keys.apply(changes);
        self.writers.push(writer);
        if let Some(lease) = ends {
            self.ended.push((lease, self.keys.revision()));
        }
        self.check_observations()
    }

    /// Returns to the newest choice that the failure may depend on, and tries its next candidate.
    fn backtrack(&mut self, failure: Failure) -> Result<StepResult, NoOrder> {
        let Failure { violation, mut conflict, contradicting_watch } = failure;
        self.note_deepest(NoOrder { violation, contradicting_watch });
        let mut shared: Option<Rc<Conflict>> = None;
        while let Some(mut choice) = self.choices.pop() {
            let could_resolve = choice.could_resolve(&conflict);
            self.rewind(choice.position.0 - 1, choice.tried.take());
            if could_resolve {
                choice.conflict.merge(&conflict);
                if let Some(candidate) = choice.remaining.pop() {
                    self.choices.push(choice);
                    return Ok(self.fill(candidate));
                }
                (conflict, shared) = (choice.conflict, None);
            }
            let shared = shared.get_or_insert_with(|| Rc::new(conflict.clone()));
            self.dead_ends.insert(choice.position, Rc::clone(shared));
        }
        Err(self.deepest.take().expect("backtrack notes every failure").1)
    }

    /// Reverts all revisions after `revision` and releases the unknown write that was tried there.
    fn rewind(&mut self, revision: i64, tried: Option<usize>) {
        while self.keys.revision() > revision {
            self.keys.undo();
            self.writers.pop();
        }
        while self.ended.last().is_some_and(|(_, at)| *at > revision) {
            self.ended.pop();
        }
        if let Some(i) = tried {
            self.used[i] = false;
            self.used_digest ^= digest(&i);
        }
    }

    /// Keeps the failure with the highest revision, which explains most.
    fn note_deepest(&mut self, no_order: NoOrder) {
        let revision = self.keys.revision();
        if self.deepest.as_ref().is_none_or(|(deepest, _)| revision > *deepest) {
            self.deepest = Some((revision, no_order));
        }
    }

    /// Ends the search as undecided.
    fn give_up(mut self) -> NoOrder {
        let deepest = self.deepest.take().map(|(_, it)| it.violation.to_string());
        let text = format!(
            "no order was found in {STEPS_MAX} steps; the deepest attempt failed: {}",
            deepest.unwrap_or_default()
        );
        NoOrder { violation: Violation::new(Rule::Undecided, text), contradicting_watch: None }
    }
}

impl Choice {
    /// Reports whether another candidate at this hole could avoid the failure.
    fn could_resolve(&self, conflict: &Conflict) -> bool {
        self.tried.is_some_and(|i| conflict.depends_on_write(i))
            || conflict.depends_on_keys(&self.writes, self.position.0)
    }
}

fn digest<T: Hash>(it: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    it.hash(&mut hasher);
    hasher.finish()
}
