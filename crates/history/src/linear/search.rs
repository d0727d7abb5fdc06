//! The search for an order that explains everything.
//!
//! Revisions are gone through from the first. Most have a writer who was told so: what it would be answered by the state so far is compared with
//! what it was answered. A *hole* has not, and is filled by a write that may have happened, or by the expiry of a lease; if several would do, one
//! is chosen, and whatever fails later may lead back here. Then everything that was seen of the new state is compared with it.
//!
//! ```text
//! revision 2   client 1: put a="1"            fits
//! revision 3   a hole: put a="2"? put b="3"?  the first is tried
//! revision 4   client 2: put a="4", saw prev a="1" (mod 2)
//!              does not fit: `a` depends on the choice at 3, so there the second is tried
//! ```
//!
//! It goes back not to the last choice, but to the last that what failed could depend on: the keys in question, and for holes that could not be
//! filled, the writes that were used up elsewhere ([`Conflict`]). What was shown to lead nowhere is remembered by the state, the revision and
//! the writes used up. So a history with nothing wrong takes about as many steps as it has revisions, and one with something wrong
//! fails there, unless holes and doubts are many; then [`STEPS_MAX`] ends it.
//!
//! This is the search of Wing and Gong with Lowe's memory of configurations, in which the revisions leave hardly any choice. KeyHistory are not checked one by
//! one, as they could be without revisions: the counter is shared by all, so a history may be right for each key and wrong as a whole.

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
use crate::log::{Log, Writer};
use crate::model::{Change, KeyHistory, evaluate};
use crate::record::{History, Request, Span};
use crate::violation::{Rule, Violation};
use crate::watch::Coverage;

/// How many revisions are tried, counting those tried again, before the search is given up.
pub(crate) const STEPS_MAX: u64 = 5_000_000;

/// A search that takes more steps than this for each revision is hard: then it is worth while to find out which states lead to the same, and not only which are the same.
const EASY_STEPS_PER_REVISION: u64 = 4;

/// All that the search looks at and does not change.
pub(crate) struct SearchInput<'a> {
    pub(crate) history: &'a History,
    pub(crate) timeline: &'a Timeline,
    pub(crate) table: &'a RevisionTable<'a>,
    pub(crate) constraints: &'a Constraints<'a>,
    pub(crate) version_bounds: &'a VersionBounds<'a>,
    pub(crate) leases: &'a Leases<'a>,
    pub(crate) leased: &'a LeasedKeys,
    pub(crate) unknown_writes: &'a UnknownWrites<'a>,
    /// What watchers were told, if that is to be believed where nobody else knows.
    pub(crate) watches: &'a [Coverage<'a>],
}

/// The search.
pub(crate) struct Search<'a> {
    pub(super) input: SearchInput<'a>,
    pub(super) keys: KeyHistory,
    /// Who made each revision, from 2 on.
    writers: Vec<Writer>,
    /// Leases that have ended on the way here, and by which revision.
    pub(super) ended: Vec<(i64, i64)>,
    /// Which of those that may have happened have been used.
    pub(super) used: Vec<bool>,
    used_digest: u64,
    choices: Vec<Choice>,
    /// What was shown to lead nowhere, and what that depends on.
    dead_ends: BTreeMap<(i64, u64, u64), Rc<Conflict>>,
    steps: u64,
    /// Made when the search turns out to be hard: it takes as long as reading the history.
    observable: OnceCell<Observable<'a>>,
    deepest: Option<(i64, NoOrder)>,
}

/// No order explains everything.
#[derive(Debug)]
pub(crate) struct NoOrder {
    /// What came furthest, and failed.
    pub(crate) violation: Violation,
    /// The watcher without whom it would have come further, by its place among those that were believed.
    pub(crate) contradicting_watch: Option<usize>,
}

/// A hole that was filled.
struct Choice {
    /// The hole, with what was there before it was filled.
    position: (i64, u64, u64),
    /// What is still to be tried, the next one last.
    remaining: Vec<Candidate>,
    /// What is being tried.
    tried: Option<usize>,
    /// The keys that some filler could change.
    writes: Vec<Span>,
    /// What could have been otherwise, if all fails.
    conflict: Conflict,
}

/// One way to fill a hole.
pub(super) struct Candidate {
    pub(super) writer: Writer,
    /// Its place among those that may have happened, if it is one of them.
    pub(super) unknown_write: Option<usize>,
    pub(super) changes: Vec<Change>,
}

/// Something does not fit, and what that depends on.
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

    /// Finds an order, or says what speaks against every one.
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

    /// Makes the next revision.
    fn advance(&mut self) -> StepResult {
        let revision = self.keys.revision() + 1;
        match self.input.table.writer(revision) {
            Some(operation) => self.replay(operation),
            None => self.open_hole(revision),
        }
    }

    /// The next revision was made by an operation that was answered.
    fn replay(&mut self, operation: usize) -> StepResult {
        let it = &self.input.history.operations[operation];
        let (_, response) = it.answer().expect("only answers are in the table");
        let expected = evaluate(&self.keys, &it.request);
        match expected {
            Ok((body, changes)) if body == response.body && !changes.is_empty() => {
                self.check_watches(&changes)?;
                self.apply(Writer::Operation(operation), None, &changes)
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

    /// The next revision is a hole: gathers what could fill it, and tries the first.
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
        // The end of a lease could fill every hole, if other keys hung on it than do now.
        let eligible = eligible.iter().flat_map(|i| &unknown_writes.all[*i].writes);
        let writes: BTreeSet<Span> = eligible.chain(self.input.leased.all()).cloned().collect();
        let writes = writes.into_iter().collect();
        self.choices.push(Choice { position, remaining, tried: None, writes, conflict });
        self.fill(candidate)
    }

    /// A number for the state: two with the same lead to the same.
    fn state_digest(&self) -> u64 {
        let ended: BTreeSet<i64> = self.ended.iter().map(|(lease, _)| *lease).collect();
        let SearchInput { history, table, constraints, unknown_writes, watches, .. } = &self.input;
        let keys = if self.steps < EASY_STEPS_PER_REVISION * table.last().unsigned_abs() {
            self.keys.digest()
        } else {
            let made = || Observable::new(history, table, constraints, unknown_writes, watches);
            self.observable.get_or_init(made).digest(&self.keys)
        };
        keys ^ digest(&ended)
    }

    /// Fills the newest hole.
    fn fill(&mut self, candidate: Candidate) -> StepResult {
        let Candidate { writer, unknown_write, changes } = candidate;
        let choice = self.choices.last_mut().expect("a hole has been opened");
        choice.tried = unknown_write;
        if let Some(i) = unknown_write {
            self.used[i] = true;
            self.used_digest ^= digest(&i);
        }
        let ends = match writer {
            Writer::Expiry(lease) => Some(lease),
            Writer::Operation(i) => match self.input.history.operations[i].request {
                Request::Revoke { lease } => Some(lease),
                _ => None,
            },
        };
        self.apply(writer, ends, &changes)
    }

    /// Makes the next revision of `changes`, and looks at it.
    fn apply(&mut self, writer: Writer, ends: Option<i64>, changes: &[Change]) -> StepResult {
        self.check_leases(writer, changes)?;
        self.keys.apply(changes);
        self.writers.push(writer);
        if let Some(lease) = ends {
            self.ended.push((lease, self.keys.revision()));
        }
        self.check_observations()
    }

    /// Goes back to the newest choice that a failure could depend on, and tries what is next there.
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
        Err(self.deepest.take().expect("a failure was noted").1)
    }

    /// Takes back everything after `revision`, and a filler that was used there.
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

    /// Keeps the failure that came furthest: it is the one that tells most.
    fn note_deepest(&mut self, no_order: NoOrder) {
        let revision = self.keys.revision();
        if self.deepest.as_ref().is_none_or(|(deepest, _)| revision > *deepest) {
            self.deepest = Some((revision, no_order));
        }
    }

    fn give_up(mut self) -> NoOrder {
        let why = self.deepest.take().map(|(_, it)| it.violation.to_string());
        let text = format!(
            "no order was found in {STEPS_MAX} steps; what came furthest failed by: {}",
            why.unwrap_or_default()
        );
        NoOrder { violation: Violation::new(Rule::Undecided, text), contradicting_watch: None }
    }
}

impl Choice {
    /// Whether another choice here could change what failed.
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
