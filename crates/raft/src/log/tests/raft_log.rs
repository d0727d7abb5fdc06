//! The whole log against a list of entries, with writes and applications in progress.

use std::collections::VecDeque;

use proptest::collection::vec;
use proptest::prelude::*;
use types::{Index, Term};

use super::{Truth, cut, run_of, snapshot_at};
use crate::entry::{Entry, EntryId, encoded_bytes};
use crate::log::RaftLog;
use crate::snapshot::Snapshot;
use crate::storage::{LogError, MemoryStorage};

/// An operation on the log.
#[derive(Clone, Debug)]
enum Op {
    /// This member leads and accepts proposals.
    Append { count: u64 },
    /// The leader of a new term sends its log, which shares this many entries after the commit
    /// index and continues with its own. The append starts this far before the commit index and
    /// carries its own commit index.
    MaybeAppend { shared: u64, own: u64, start: u64, commit: u64 },
    /// This many more entries are committed.
    Commit { count: u64 },
    /// A snapshot this far beyond the commit index replaces the log.
    Restore { ahead: u64 },
    /// Pending entries are handed out for writing.
    StartWrite,
    /// The oldest write in progress finishes.
    FinishWrite,
    /// Committed entries are handed out for applying.
    StartApply,
    /// The oldest application in progress finishes.
    FinishApply,
    /// Storage drops this many applied entries.
    Compact { count: u64 },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (1..6u64).prop_map(|count| Op::Append { count }),
        4 => (0..8u64, 0..6u64, 0..10u64, 0..20u64).prop_map(|(shared, own, start, commit)| {
            Op::MaybeAppend { shared, own, start, commit }
        }),
        4 => (1..8u64).prop_map(|count| Op::Commit { count }),
        1 => (1..10u64).prop_map(|ahead| Op::Restore { ahead }),
        4 => Just(Op::StartWrite),
        4 => Just(Op::FinishWrite),
        4 => Just(Op::StartApply),
        4 => Just(Op::FinishApply),
        2 => (1..8u64).prop_map(|count| Op::Compact { count }),
    ]
}

/// A write in progress, with its response.
struct Write {
    snapshot: Option<Snapshot>,
    entries: Vec<Entry>,
    durable: EntryId,
    term: Term,
}

/// The log under test with its model.
struct Pair {
    log: RaftLog<MemoryStorage>,
    truth: Truth,
    term: Term,
    committed: Index,
    applied: Index,
    /// The last entry handed out for applying, or covered by a snapshot that was.
    applying: Index,
    /// Whether the last batch was cut by its size, or used all the room.
    paused: bool,
    snapshot_pending: bool,
    writes: VecDeque<Write>,
    applications: VecDeque<Vec<Entry>>,
    allow_unstable: bool,
}

impl Pair {
    fn new(allow_unstable: bool, max_applying_bytes: u64) -> Pair {
        Pair {
            log: RaftLog::new(MemoryStorage::new(), max_applying_bytes),
            truth: Truth::starting_at(EntryId::default()),
            term: Term(1),
            committed: Index::ZERO,
            applied: Index::ZERO,
            applying: Index::ZERO,
            paused: false,
            snapshot_pending: false,
            writes: VecDeque::new(),
            applications: VecDeque::new(),
            allow_unstable,
        }
    }

    fn apply(&mut self, op: &Op) -> Result<(), TestCaseError> {
        let last = self.truth.last().index;
        match *op {
            Op::Append { count } => {
                let entries = run_of(self.term, last.next(), count);
                prop_assert_eq!(self.log.append(entries.clone()), last + count);
                self.truth.write(&entries);
            }
            Op::MaybeAppend { shared, own, start, commit } => {
                self.term = self.term.next();
                let shared = (self.committed + shared).min(last);
                self.maybe_append(shared, own, start, Index(commit))?;
            }
            Op::Commit { count } => {
                self.committed = (self.committed + count).min(last);
                self.log.commit_to(self.committed);
            }
            Op::Restore { ahead } => {
                self.term = self.term.next();
                let id = EntryId { term: self.term, index: self.committed + ahead };
                self.log.restore(snapshot_at(id));
                self.truth = Truth::starting_at(id);
                self.committed = id.index;
                self.snapshot_pending = true;
            }
            Op::StartWrite => self.start_write(),
            Op::FinishWrite => self.finish_write(),
            Op::StartApply => self.start_apply()?,
            Op::FinishApply => self.finish_apply(),
            Op::Compact { count } => self.compact(count),
        }
        Ok(())
    }

    /// Steps the append of a leader whose log equals this one up to `shared` and differs after it.
    fn maybe_append(
        &mut self,
        shared: Index,
        own: u64,
        start: u64,
        commit: Index,
    ) -> Result<(), TestCaseError> {
        let mut leader = self.truth.clone();
        leader.entries.retain(|entry| entry.index <= shared);
        leader.write(&run_of(self.term, shared.next(), own));
        let last = leader.last().index;
        let prev = (self.committed + start).min(last);
        let prev = EntryId { term: leader.term(prev).unwrap(), index: prev };
        let entries = leader.range(prev.index.next(), last.next()).to_vec();

        let durable = self.log.unstable().offset().prev();
        let taken = self.log.maybe_append(prev, entries.clone(), commit);
        if self.truth.term(prev.index) != Some(prev.term) {
            prop_assert_eq!(taken, None);
            return Ok(());
        }
        prop_assert_eq!(taken, Some(last));
        // Only from the first entry that differs: a stale append must not truncate later entries.
        let differs = |entry: &Entry| self.truth.term(entry.index) != Some(entry.term);
        let position = entries.iter().position(differs).unwrap_or(entries.len());
        self.truth.write(&entries[position..]);
        // Durable entries are not written again.
        let kept = entries.get(position).map_or(durable, |entry| durable.min(entry.index.prev()));
        prop_assert_eq!(self.log.unstable().offset(), kept.next());
        self.committed = self.committed.max(commit.min(last));
        Ok(())
    }

    fn start_write(&mut self) {
        let unstable = self.log.unstable();
        let snapshot = unstable.next_snapshot().cloned();
        let entries = unstable.next_entries().to_vec();
        let durable = if unstable.has_entries() { self.log.last_id() } else { EntryId::default() };
        self.log.unstable_mut().accept_in_progress();
        self.writes.push_back(Write { snapshot, entries, durable, term: self.term });
    }

    fn finish_write(&mut self) {
        let Some(write) = self.writes.pop_front() else {
            return;
        };
        if let Some(snapshot) = &write.snapshot {
            self.log.storage.apply_snapshot(snapshot.clone()).unwrap();
        }
        self.log.storage.append(&write.entries).unwrap();
        // As in the core: in a later term another write to the same index may be in progress.
        if write.term == self.term && write.durable.index != Index::ZERO {
            self.log.unstable_mut().stable_to(write.durable);
        }
        if let Some(snapshot) = &write.snapshot {
            let index = snapshot.metadata.index;
            self.log.unstable_mut().stable_snapshot_to(index);
            self.snapshot_pending = self.log.unstable().snapshot().is_some();
            self.log.applied_to(index, 0);
            self.applied = self.applied.max(index);
            self.applying = self.applying.max(index);
            self.paused = self.room() == 0;
        }
    }

    /// Returns the bytes that may still be handed out for applying.
    fn room(&self) -> u64 {
        let under_way: u64 = self.applications.iter().map(|batch| encoded_bytes(batch)).sum();
        self.log.max_applying_bytes().saturating_sub(under_way)
    }

    /// Takes a batch to apply, which continues after the last one and fits into the remaining room.
    fn start_apply(&mut self) -> Result<(), TestCaseError> {
        let batch = self.log.next_committed(self.allow_unstable);
        let end = self.appliable().next();
        let waiting = !self.paused && !self.snapshot_pending && self.applying.next() < end;
        prop_assert_eq!(self.log.has_next_committed(self.allow_unstable), waiting);
        if !waiting {
            prop_assert!(batch.is_empty());
            return Ok(());
        }
        let range = self.truth.range(self.applying.next(), end);
        prop_assert_eq!(&batch, &cut(range, self.room()));
        let last = batch.last().unwrap().index;
        self.log.accept_applying(last, encoded_bytes(&batch), self.allow_unstable);
        self.applying = last;
        self.applications.push_back(batch);
        self.paused = self.room() == 0 || last.next() < end;
        Ok(())
    }

    fn finish_apply(&mut self) {
        // With synchronous storage, entries are saved before they are applied.
        while self.allow_unstable && !self.writes.is_empty() {
            self.finish_write();
        }
        if let Some(batch) = self.applications.pop_front() {
            self.applied = self.applied.max(batch.last().unwrap().index);
            self.log.applied_to(self.applied, encoded_bytes(&batch));
            self.paused = self.room() == 0;
        }
    }

    fn compact(&mut self, count: u64) {
        let durable = self.log.unstable().offset().prev();
        let index = (self.truth.before.index + count).min(self.applied).min(durable);
        if !self.snapshot_pending && index > self.truth.before.index {
            self.log.storage.compact(index).unwrap();
            self.truth.compact(index);
        }
    }

    fn appliable(&self) -> Index {
        let durable = self.log.unstable().offset().prev();
        if self.allow_unstable { self.committed } else { self.committed.min(durable) }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.log.first_index(), self.truth.first());
        prop_assert_eq!(self.log.last_id(), self.truth.last());
        prop_assert_eq!(self.log.committed(), self.committed);
        prop_assert_eq!(self.log.applied(), self.applied);
        let last = self.truth.last().index;
        for index in (0..=last.0 + 2).map(Index) {
            let absent = if index > last { LogError::Unavailable } else { LogError::Compacted };
            let term = self.truth.term(index).ok_or(absent);
            prop_assert_eq!(self.log.term(index), term, "at {}", index);
        }
        Ok(())
    }

    /// Reads any part of the log with any limit.
    fn check_slices(&self, lo: Index, hi: Index, max_bytes: u64) -> Result<(), TestCaseError> {
        let (first, end) = (self.truth.first(), self.truth.last().index.next());
        let (lo, hi) = (lo.min(end), hi.min(end).max(lo.min(end)));
        if lo < first {
            prop_assert_eq!(self.log.slice(lo, hi, max_bytes), Err(LogError::Compacted));
            return Ok(());
        }
        let range = self.truth.range(lo, hi);
        prop_assert_eq!(self.log.slice(lo, hi, max_bytes), Ok(cut(range, max_bytes)));
        let rest = self.truth.range(lo, end);
        prop_assert_eq!(self.log.entries(lo, max_bytes), Ok(cut(rest, max_bytes)));
        let mut pages = Vec::new();
        let visit = |page: &[Entry]| {
            pages.extend_from_slice(page);
            false
        };
        prop_assert_eq!(self.log.any_page(lo, hi, max_bytes, visit), Ok(false));
        prop_assert_eq!(&pages, range);
        Ok(())
    }

    fn check_conflict(&self, index: Index, term: Term) -> Result<(), TestCaseError> {
        let found = self.log.find_conflict_by_term(index, term);
        let at_most = |at: &u64| self.truth.term(Index(*at)).is_none_or(|ours| ours <= term);
        // Downwards to the first entry that could match, or whose term is unknown.
        let expected = Index((0..=index.0).rev().find(at_most).unwrap_or(0));
        prop_assert_eq!(found.index, expected);
        prop_assert_eq!(found.term, self.truth.term(expected).unwrap_or(Term::ZERO));
        Ok(())
    }

    fn check_up_to_date(&self, theirs: EntryId) -> Result<(), TestCaseError> {
        let ours = self.truth.last();
        let newer = theirs.term > ours.term;
        let longer = theirs.term == ours.term && theirs.index >= ours.index;
        prop_assert_eq!(self.log.is_up_to_date(theirs), newer || longer);
        Ok(())
    }

    /// Finishes everything in progress: then everything committed is applied.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        while self.applied < self.committed || !self.writes.is_empty() {
            self.start_write();
            while !self.writes.is_empty() {
                self.finish_write();
            }
            self.start_apply()?;
            self.finish_apply();
            self.check()?;
        }
        prop_assert!(!self.log.unstable().has_entries());
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_log_equals_its_model_while_writes_are_in_progress(
        allow_unstable: bool,
        max_applying_bytes in 1..200u64,
        ops in vec(op(), 0..60),
        probes in vec((0..40u64, 0..40u64, 0..200u64, 0..20u64), 60),
    ) {
        let mut pair = Pair::new(allow_unstable, max_applying_bytes);
        for (op, (one, other, bytes, term)) in ops.iter().zip(probes) {
            pair.apply(op)?;
            pair.check()?;
            pair.check_slices(Index(one.min(other)), Index(one.max(other)), bytes)?;
            pair.check_conflict(Index(one), Term(term))?;
            pair.check_up_to_date(EntryId { term: Term(term), index: Index(other) })?;
        }
        pair.start_write();
        pair.settle()?;
    }
}

#[test]
#[should_panic(expected = "would replace a committed entry")]
fn replacing_a_committed_entry_panics() {
    let mut log = RaftLog::new(MemoryStorage::new(), 100);
    log.append(run_of(Term(1), Index(1), 3));
    log.commit_to(Index(2));
    log.append(run_of(Term(2), Index(2), 1));
}

#[test]
#[should_panic(expected = "was the log damaged or lost?")]
fn committing_beyond_the_log_panics() {
    let mut log = RaftLog::new(MemoryStorage::new(), 100);
    log.append(run_of(Term(1), Index(1), 3));
    log.commit_to(Index(4));
}

/// An entry of an older term is committed by one of the leader's own term, never by counting
/// (thesis 3.6.2).
#[test]
fn only_an_entry_of_the_given_term_is_committed() {
    let mut log = RaftLog::new(MemoryStorage::new(), 100);
    log.append(run_of(Term(1), Index(1), 3));
    log.append(run_of(Term(2), Index(4), 1));
    assert!(!log.maybe_commit(EntryId { term: Term(2), index: Index(3) }));
    assert!(!log.maybe_commit(EntryId { term: Term::ZERO, index: Index(3) }));
    assert!(!log.maybe_commit(EntryId { term: Term(2), index: Index(5) }));
    assert!(log.maybe_commit(EntryId { term: Term(2), index: Index(4) }));
    assert_eq!(log.committed(), Index(4));
    assert!(!log.maybe_commit(EntryId { term: Term(2), index: Index(4) }));
}
