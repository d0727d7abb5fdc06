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
//! This is the search of Wing and Gong with Lowe's memory of configurations, in which the revisions leave hardly any choice. Keys are not checked one by
//! one, as they could be without revisions: the counter is shared by all, so a history may be right for each key and wrong as a whole.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::rc::Rc;

use super::clues::Clues;
use super::conflict::Conflict;
use super::footprint::LeasedKeys;
use super::horizon::Horizon;
use super::leases::Leases;
use super::lives::Lives;
use super::maybes::Maybes;
use super::script::{Script, Who};
use super::timeline::Timeline;
use crate::log::{Log, Writer};
use crate::model::{Change, Keys, evaluate};
use crate::record::{History, Request, Span};
use crate::violation::{Rule, Violation};
use crate::watch::Coverage;

/// How many revisions are tried, counting those tried again, before the search is given up.
pub(crate) const STEPS_MAX: u64 = 5_000_000;

/// A search that takes more steps than this for each revision is hard: then it is worth while to find out which states lead to the same, and not only which are the same.
const EASY_STEPS_PER_REVISION: u64 = 4;

/// All that the search looks at and does not change.
pub(crate) struct Given<'a> {
    pub(crate) history: &'a History,
    pub(crate) timeline: &'a Timeline,
    pub(crate) script: &'a Script<'a>,
    pub(crate) clues: &'a Clues<'a>,
    pub(crate) lives: &'a Lives<'a>,
    pub(crate) leases: &'a Leases<'a>,
    pub(crate) leased: &'a LeasedKeys,
    pub(crate) maybes: &'a Maybes<'a>,
    /// What watchers were told, if that is to be believed where nobody else knows.
    pub(crate) watchers: &'a [Coverage<'a>],
}

/// The search.
pub(crate) struct Search<'a> {
    pub(super) given: Given<'a>,
    pub(super) keys: Keys,
    /// Who made each revision, from 2 on.
    writers: Vec<Writer>,
    /// Leases that have ended on the way here, and by which revision.
    pub(super) ended: Vec<(i64, i64)>,
    /// Which of those that may have happened have been used.
    pub(super) used: Vec<bool>,
    used_digest: u64,
    choices: Vec<Choice>,
    /// What was shown to lead nowhere, and what that depends on.
    hopeless: BTreeMap<(i64, u64, u64), Rc<Conflict>>,
    steps: u64,
    /// Made when the search turns out to be hard: it takes as long as reading the history.
    horizon: OnceCell<Horizon<'a>>,
    deepest: Option<(i64, Unexplained)>,
}

/// No order explains everything.
#[derive(Debug)]
pub(crate) struct Unexplained {
    /// What came furthest, and failed.
    pub(crate) violation: Violation,
    /// The watcher without whom it would have come further, by its place among those that were believed.
    pub(crate) suspect: Option<usize>,
}

/// A hole that was filled.
struct Choice {
    /// The hole, with what was there before it was filled.
    place: (i64, u64, u64),
    /// What is still to be tried, the next one last.
    left: Vec<Filler>,
    /// What is being tried.
    tried: Option<usize>,
    /// The keys that some filler could change.
    writes: Vec<Span>,
    /// What could have been otherwise, if all fails.
    conflict: Conflict,
}

/// One way to fill a hole.
pub(super) struct Filler {
    pub(super) writer: Writer,
    /// Its place among those that may have happened, if it is one of them.
    pub(super) maybe: Option<usize>,
    pub(super) changes: Vec<Change>,
}

/// Something does not fit, and what that depends on.
pub(super) struct Failure {
    pub(super) violation: Violation,
    pub(super) conflict: Conflict,
    pub(super) suspect: Option<usize>,
}

impl Failure {
    pub(super) fn new(violation: Violation, conflict: Conflict) -> Failure {
        Failure { violation, conflict, suspect: None }
    }
}

pub(super) type Step = Result<(), Failure>;

impl<'a> Search<'a> {
    pub(crate) fn new(given: Given<'a>) -> Search<'a> {
        let used = vec![false; given.maybes.all.len()];
        Search {
            given,
            keys: Keys::default(),
            writers: Vec::new(),
            ended: Vec::new(),
            used,
            used_digest: 0,
            choices: Vec::new(),
            hopeless: BTreeMap::new(),
            steps: 0,
            horizon: OnceCell::new(),
            deepest: None,
        }
    }

    /// Finds an order, or says what speaks against every one.
    pub(crate) fn run(mut self) -> Result<Log, Unexplained> {
        let mut step = self.look();
        loop {
            step = match step {
                Ok(()) if self.keys.revision() == self.given.script.last() => break,
                Ok(()) => self.advance(),
                Err(failure) => self.go_back(failure)?,
            };
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return Err(self.give_up());
            }
        }
        Ok(Log { keys: self.keys, writers: self.writers, steps: self.steps })
    }

    /// Makes the next revision.
    fn advance(&mut self) -> Step {
        let revision = self.keys.revision() + 1;
        match self.given.script.writer(revision) {
            Some(operation) => self.replay(operation),
            None => self.open(revision),
        }
    }

    /// The next revision was made by an operation that was answered.
    fn replay(&mut self, operation: usize) -> Step {
        let it = &self.given.history.operations[operation];
        let (_, response) = it.answer().expect("only answers are in the script");
        let told = evaluate(&self.keys, &it.request);
        match told {
            Ok((body, changes)) if body == response.body && !changes.is_empty() => {
                self.hear_watchers(&changes)?;
                self.apply(Writer::Operation(operation), None, &changes)
            }
            Ok((body, _)) => {
                let who = Who::Operation(operation);
                Err(self.unlike(who, &it.request, &response.body, &body, response.revision))
            }
            Err(refusal) => {
                let text = format!("{it}; it should have been refused: {refusal}");
                let violation = Violation::new(Rule::WrongAnswer, text);
                Err(Failure::new(violation, self.depends_on(&it.request, response.revision)))
            }
        }
    }

    /// The next revision is a hole: gathers what could fill it, and tries the first.
    fn open(&mut self, revision: i64) -> Step {
        let place = (revision, self.used_digest, self.state_digest());
        if let Some(conflict) = self.hopeless.get(&place) {
            let text = format!("revision {revision} was reached in another way before");
            let violation = Violation::new(Rule::NobodyWrote, text);
            return Err(Failure::new(violation, Conflict::clone(conflict)));
        }
        let Given { clues, leases, maybes, .. } = &self.given;
        let eligible = maybes.eligible(clues, leases, revision);
        let conflict = self.could_be_otherwise(revision, &eligible);
        let (mut left, early) = self.fillers(revision, &eligible);
        left.reverse();
        let Some(filler) = left.pop() else {
            let violation = early.unwrap_or_else(|| self.nobody(revision, &eligible));
            let suspect = self.suspect(revision, &eligible);
            return Err(Failure { violation, conflict, suspect });
        };
        // The end of a lease could fill every hole, if other keys hung on it than do now.
        let eligible = eligible.iter().flat_map(|i| &maybes.all[*i].writes);
        let writes: BTreeSet<Span> = eligible.chain(self.given.leased.all()).cloned().collect();
        let writes = writes.into_iter().collect();
        self.choices.push(Choice { place, left, tried: None, writes, conflict });
        self.fill(filler)
    }

    /// A number for the state: two with the same lead to the same.
    fn state_digest(&self) -> u64 {
        let ended: BTreeSet<i64> = self.ended.iter().map(|(lease, _)| *lease).collect();
        let Given { history, script, clues, maybes, watchers, .. } = &self.given;
        let keys = if self.steps < EASY_STEPS_PER_REVISION * script.last().unsigned_abs() {
            self.keys.digest()
        } else {
            let made = || Horizon::new(history, script, clues, maybes, watchers);
            self.horizon.get_or_init(made).digest(&self.keys)
        };
        keys ^ digest(&ended)
    }

    /// Fills the newest hole.
    fn fill(&mut self, filler: Filler) -> Step {
        let Filler { writer, maybe, changes } = filler;
        let choice = self.choices.last_mut().expect("a hole has been opened");
        choice.tried = maybe;
        if let Some(i) = maybe {
            self.used[i] = true;
            self.used_digest ^= digest(&i);
        }
        let ends = match writer {
            Writer::Expiry(lease) => Some(lease),
            Writer::Operation(i) => match self.given.history.operations[i].request {
                Request::Revoke { lease } => Some(lease),
                _ => None,
            },
        };
        self.apply(writer, ends, &changes)
    }

    /// Makes the next revision of `changes`, and looks at it.
    fn apply(&mut self, writer: Writer, ends: Option<i64>, changes: &[Change]) -> Step {
        self.check_leases(writer, changes)?;
        self.keys.apply(changes);
        self.writers.push(writer);
        if let Some(lease) = ends {
            self.ended.push((lease, self.keys.revision()));
        }
        self.look()
    }

    /// Goes back to the newest choice that a failure could depend on, and tries what is next there.
    fn go_back(&mut self, failure: Failure) -> Result<Step, Unexplained> {
        let Failure { violation, mut conflict, suspect } = failure;
        self.note(Unexplained { violation, suspect });
        let mut shared: Option<Rc<Conflict>> = None;
        while let Some(mut choice) = self.choices.pop() {
            let concerned = choice.concerns(&conflict);
            self.rewind(choice.place.0 - 1, choice.tried.take());
            if concerned {
                choice.conflict.merge(&conflict);
                if let Some(filler) = choice.left.pop() {
                    self.choices.push(choice);
                    return Ok(self.fill(filler));
                }
                (conflict, shared) = (choice.conflict, None);
            }
            let shared = shared.get_or_insert_with(|| Rc::new(conflict.clone()));
            self.hopeless.insert(choice.place, Rc::clone(shared));
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
    fn note(&mut self, unexplained: Unexplained) {
        let revision = self.keys.revision();
        if self.deepest.as_ref().is_none_or(|(deepest, _)| revision > *deepest) {
            self.deepest = Some((revision, unexplained));
        }
    }

    fn give_up(mut self) -> Unexplained {
        let why = self.deepest.take().map(|(_, it)| it.violation.to_string());
        let text = format!(
            "no order was found in {STEPS_MAX} steps; what came furthest failed by: {}",
            why.unwrap_or_default()
        );
        Unexplained { violation: Violation::new(Rule::Undecided, text), suspect: None }
    }
}

impl Choice {
    /// Whether another choice here could change what failed.
    fn concerns(&self, conflict: &Conflict) -> bool {
        self.tried.is_some_and(|i| conflict.misses(i)) || conflict.meets(&self.writes, self.place.0)
    }
}

fn digest<T: Hash>(it: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    it.hash(&mut hasher);
    hasher.finish()
}
