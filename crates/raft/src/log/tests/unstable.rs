//! The unstable part against a list of entries with three marks.

use proptest::collection::vec;
use proptest::prelude::*;
use types::{Index, Term};

use super::{Truth, run_of, snapshot_at};
use crate::entry::EntryId;
use crate::log::Unstable;
use crate::snapshot::Snapshot;

/// An operation on the unstable part.
#[derive(Clone, Debug)]
enum Op {
    /// Entries of a later leader replace this many of the last ones.
    Append { over: u64, count: u64 },
    /// Everything is handed out for writing.
    Accept,
    /// An entry this far from the end is reported durable, possibly one that was replaced since.
    StableTo { behind: u64, stale: bool },
    /// A snapshot this far ahead replaces everything.
    Restore { ahead: u64 },
    /// The snapshot is reported durable, or another one.
    StableSnapshotTo { stale: bool },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..8u64, 1..6u64).prop_map(|(over, count)| Op::Append { over, count }),
        3 => Just(Op::Accept),
        4 => (0..8u64, any::<bool>()).prop_map(|(behind, stale)| Op::StableTo { behind, stale }),
        1 => (1..6u64).prop_map(|ahead| Op::Restore { ahead }),
        2 => any::<bool>().prop_map(|stale| Op::StableSnapshotTo { stale }),
    ]
}

/// The model, with the positions up to which it is durable and handed out.
struct Model {
    log: Truth,
    term: Term,
    durable: Index,
    handed_out: Index,
    snapshot: Option<Snapshot>,
    snapshot_handed_out: bool,
}

impl Model {
    fn new(before: EntryId) -> Model {
        Model {
            log: Truth::starting_at(before),
            term: before.term,
            durable: before.index,
            handed_out: before.index,
            snapshot: None,
            snapshot_handed_out: false,
        }
    }

    /// Applies an operation to the model and to the unstable part.
    fn apply(&mut self, op: &Op, unstable: &mut Unstable) {
        let last = self.log.last();
        match *op {
            Op::Append { over, count } => {
                self.term = self.term.next();
                let kept = last.index.0.saturating_sub(over).max(self.log.before.index.0);
                let entries = run_of(self.term, Index(kept).next(), count);
                unstable.truncate_and_append(entries.clone(), Index(kept).next());
                self.log.write(&entries);
                self.durable = self.durable.min(Index(kept));
                self.handed_out = self.handed_out.min(Index(kept));
            }
            Op::Accept => {
                unstable.accept_in_progress();
                self.handed_out = last.index;
                self.snapshot_handed_out = self.snapshot.is_some();
            }
            Op::StableTo { behind, stale } => {
                let index = Index(last.index.0.saturating_sub(behind)).max(self.log.before.index);
                let real = self.log.term(index).unwrap();
                let term = if stale { Term(real.0.saturating_sub(1)) } else { real };
                unstable.stable_to(EntryId { term, index });
                if term == real {
                    self.durable = self.durable.max(index);
                    self.handed_out = self.handed_out.max(index);
                }
            }
            Op::Restore { ahead } => {
                self.term = self.term.next();
                let id = EntryId { term: self.term, index: last.index + ahead };
                unstable.restore(snapshot_at(id));
                let term = self.term;
                *self = Model { snapshot: Some(snapshot_at(id)), term, ..Model::new(id) };
            }
            Op::StableSnapshotTo { stale } => {
                let Some(snapshot) = &self.snapshot else {
                    return unstable.stable_snapshot_to(last.index);
                };
                let index = snapshot.metadata.index;
                unstable.stable_snapshot_to(if stale { index.prev() } else { index });
                if !stale {
                    self.snapshot = None;
                    self.snapshot_handed_out = false;
                }
            }
        }
    }

    fn check(&self, unstable: &Unstable) -> Result<(), TestCaseError> {
        let (next, end) = (self.durable.next(), self.log.last().index.next());
        prop_assert_eq!(unstable.offset(), next);
        prop_assert_eq!(unstable.has_entries(), next < end);
        prop_assert_eq!(unstable.slice(next, end), self.log.range(next, end));
        let waiting = self.log.range(self.handed_out.next(), end);
        prop_assert_eq!(unstable.next_entries(), waiting);
        self.check_terms(unstable)?;
        self.check_snapshot(unstable)
    }

    /// Terms of unstable entries and of the end of a snapshot are known.
    fn check_terms(&self, unstable: &Unstable) -> Result<(), TestCaseError> {
        let covered = self.snapshot.as_ref().map(Snapshot::id);
        for index in (0..self.log.last().index.0 + 3).map(Index) {
            let here = if index > self.durable { self.log.term(index) } else { None };
            let of_snapshot = covered.filter(|id| id.index == index).map(|id| id.term);
            // The term of a snapshot stays known until it is durable, even if entries after it are
            // durable.
            prop_assert_eq!(unstable.maybe_term(index), here.or(of_snapshot), "at {}", index);
        }
        Ok(())
    }

    fn check_snapshot(&self, unstable: &Unstable) -> Result<(), TestCaseError> {
        prop_assert_eq!(unstable.snapshot(), self.snapshot.as_ref());
        let waiting = self.snapshot.as_ref().filter(|_| !self.snapshot_handed_out);
        prop_assert_eq!(unstable.next_snapshot(), waiting);
        let covered = self.snapshot.as_ref().map(|snapshot| snapshot.metadata.index);
        prop_assert_eq!(unstable.maybe_first_index(), covered.map(Index::next));
        let last = if unstable.has_entries() { Some(self.log.last().index) } else { covered };
        prop_assert_eq!(unstable.maybe_last_index(), last);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_unstable_part_equals_its_model(
        start in 0..6u64,
        ops in vec(op(), 0..40),
    ) {
        let before = EntryId { term: Term(start.min(1)), index: Index(start) };
        let mut unstable = Unstable::new(before.index.next());
        let mut model = Model::new(before);
        for op in ops {
            model.apply(&op, &mut unstable);
            model.check(&unstable)?;
        }
    }
}

#[test]
#[should_panic(expected = "would leave a gap")]
fn appending_after_a_gap_panics() {
    let mut unstable = Unstable::new(Index(5));
    unstable.truncate_and_append(run_of(Term(1), Index(7), 1), Index(7));
}
