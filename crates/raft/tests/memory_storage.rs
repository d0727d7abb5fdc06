//! The log in memory: its errors, and a property test against a list of entries.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use raft::{
    ConfState, Entry, EntryId, HardState, LogError, MemoryStorage, MemoryStorageError, Snapshot,
    SnapshotMetadata, Storage,
};
use types::{Index, MemberId, Term};

/// Returns entries of one term from an index on, of various sizes.
fn run_of(term: u64, first: u64, count: u64) -> Vec<Entry> {
    const PAYLOAD: &[u8] = b"0123456789abcdef";
    let payload = |index: u64| Bytes::from_static(&PAYLOAD[..(index * 5 % 17) as usize]);
    (first..first + count)
        .map(|at| Entry { term: Term(term), index: Index(at), ..Entry::normal(payload(at)) })
        .collect()
}

fn snapshot_at(term: u64, index: u64) -> Snapshot {
    let conf_state = ConfState::of_voters([MemberId(1)]);
    let metadata = SnapshotMetadata { conf_state, index: Index(index), term: Term(term) };
    Snapshot { data: Bytes::from_static(b"state"), metadata }
}

/// Returns a log with the entries `first..=last` of term 1, compacted before that.
fn holding(first: u64, last: u64) -> MemoryStorage {
    let mut storage = MemoryStorage::new();
    storage.append(&run_of(1, 1, last)).expect("entries start at index 1");
    if first > 1 {
        storage.compact(Index(first - 1)).expect("the index is in the log");
    }
    storage
}

/// Returns all entries.
fn all(storage: &MemoryStorage) -> Vec<Entry> {
    let (first, end) = (storage.first_index(), storage.last_index().next());
    storage.entries(first, end, u64::MAX).expect("all entries")
}

#[test]
fn an_empty_log_starts_at_index_one() {
    let storage = MemoryStorage::new();
    assert_eq!((storage.first_index(), storage.last_index()), (Index(1), Index(0)));
    assert_eq!(storage.term(Index(0)), Ok(Term::ZERO));
    assert_eq!(storage.term(Index(1)), Err(LogError::Unavailable));
    assert_eq!(storage.initial_state(), (HardState::default(), ConfState::default()));
    assert!(storage.snapshot().unwrap().is_empty());
}

#[test]
fn hard_state_and_configuration_are_restored() {
    let members = ConfState::of_voters([MemberId(1), MemberId(2)]);
    let mut storage = MemoryStorage::with_conf_state(members.clone());
    let state = HardState { term: Term(3), vote: Some(MemberId(2)), commit: Index(5) };
    storage.set_hard_state(state);
    assert_eq!(storage.hard_state(), state);
    assert_eq!(storage.initial_state(), (state, members));
}

#[test]
fn an_append_replaces_an_overlapping_tail() {
    let mut storage = holding(1, 5);
    storage.append(&run_of(2, 3, 1)).unwrap();
    assert_eq!(storage.last_index(), Index(3));
    assert_eq!(all(&storage), [run_of(1, 1, 2), run_of(2, 3, 1)].concat());
}

#[test]
fn an_append_skips_compacted_entries() {
    let mut storage = holding(4, 5);
    storage.append(&run_of(1, 2, 5)).unwrap();
    assert_eq!(all(&storage), run_of(1, 4, 3));
    storage.append(&run_of(1, 1, 2)).unwrap();
    assert_eq!(all(&storage), run_of(1, 4, 3), "compacted entries are skipped");
}

#[test]
fn an_append_after_a_gap_is_refused() {
    let mut storage = holding(1, 3);
    let error = MemoryStorageError::Gap { last: Index(3), at: Index(5) };
    assert_eq!(storage.append(&run_of(1, 5, 1)), Err(error));
    assert_eq!(storage.last_index(), Index(3));
}

#[test]
fn compaction_keeps_the_id_of_the_last_dropped_entry() {
    let mut storage = holding(1, 5);
    storage.compact(Index(3)).unwrap();
    assert_eq!(storage.first_index(), Index(4));
    assert_eq!(storage.term(Index(2)), Err(LogError::Compacted));
    assert_eq!(storage.term(Index(3)), Ok(Term(1)));
    let dropped = storage.entries(Index(3), Index(5), u64::MAX);
    assert_eq!(dropped, Err(LogError::Compacted));
    assert_eq!(storage.compact(Index(3)), Err(MemoryStorageError::Compacted));
    let error = MemoryStorageError::BeyondLog { index: Index(6), last: Index(5) };
    assert_eq!(storage.compact(Index(6)), Err(error));
    assert_eq!(all(&storage), run_of(1, 4, 2));
}

#[test]
fn creating_a_snapshot_keeps_the_log() {
    let mut storage = holding(3, 5);
    let members = ConfState::of_voters([MemberId(7)]);
    let made = storage.create_snapshot(Index(4), Some(members.clone()), Bytes::from_static(b"a"));
    let made = made.unwrap().clone();
    assert_eq!(made.id(), EntryId { term: Term(1), index: Index(4) });
    assert_eq!((&made.metadata.conf_state, &made.data[..]), (&members, &b"a"[..]));
    assert_eq!(storage.snapshot().unwrap(), made);
    assert_eq!(all(&storage), run_of(1, 3, 3));

    let again = storage.create_snapshot(Index(4), None, Bytes::new());
    assert_eq!(again.unwrap_err(), MemoryStorageError::SnapshotOutOfDate);
    let beyond = storage.create_snapshot(Index(6), None, Bytes::new());
    let error = MemoryStorageError::BeyondLog { index: Index(6), last: Index(5) };
    assert_eq!(beyond.unwrap_err(), error);
    let kept = storage.create_snapshot(Index(5), None, Bytes::new()).unwrap();
    assert_eq!(
        kept.metadata.conf_state, members,
        "the configuration is unchanged without a new one"
    );
}

#[test]
fn a_snapshot_at_a_compacted_index_is_refused() {
    let mut storage = holding(4, 5);
    let made = storage.create_snapshot(Index(2), None, Bytes::new());
    assert_eq!(made.unwrap_err(), MemoryStorageError::Compacted);
    // The id of the entry just before the first is known, which suffices for a snapshot.
    assert!(storage.create_snapshot(Index(3), None, Bytes::new()).is_ok());
}

#[test]
fn applying_a_snapshot_replaces_the_log() {
    let mut storage = holding(1, 5);
    storage.apply_snapshot(snapshot_at(2, 3)).unwrap();
    assert_eq!((storage.first_index(), storage.last_index()), (Index(4), Index(3)));
    assert_eq!(storage.term(Index(3)), Ok(Term(2)));
    assert_eq!(storage.initial_state().1, ConfState::of_voters([MemberId(1)]));
    let older = storage.apply_snapshot(snapshot_at(2, 2));
    assert_eq!(older, Err(MemoryStorageError::SnapshotOutOfDate));
    assert_eq!(
        storage.apply_snapshot(snapshot_at(2, 3)),
        Err(MemoryStorageError::SnapshotOutOfDate)
    );
    storage.append(&run_of(2, 4, 1)).unwrap();
    assert_eq!(all(&storage), run_of(2, 4, 1));
}

#[test]
fn ranges_outside_the_log_are_unavailable() {
    let storage = holding(3, 5);
    let read = |lo, hi| storage.entries(Index(lo), Index(hi), u64::MAX);
    assert_eq!(read(2, 4), Err(LogError::Compacted));
    assert_eq!(read(3, 7), Err(LogError::Unavailable));
    assert_eq!(read(5, 4), Err(LogError::Unavailable));
    assert_eq!(read(6, 6), Ok(Vec::new()));
    assert_eq!(read(u64::MAX, u64::MAX), Err(LogError::Unavailable));
    assert_eq!(storage.term(Index::MAX), Err(LogError::Unavailable));
}

/// An operation on a log.
#[derive(Clone, Debug)]
enum Op {
    Append { first: u64, count: u64 },
    Compact { index: u64 },
    CreateSnapshot { index: u64 },
    ApplySnapshot { index: u64 },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (1..30u64, 0..6u64).prop_map(|(first, count)| Op::Append { first, count }),
        1 => (0..30u64).prop_map(|index| Op::Compact { index }),
        1 => (0..30u64).prop_map(|index| Op::CreateSnapshot { index }),
        1 => (1..30u64).prop_map(|index| Op::ApplySnapshot { index }),
    ]
}

/// The model: the entries, the id of the one before, and the id of the newest snapshot.
#[derive(Debug, Default)]
struct Model {
    before: EntryId,
    entries: Vec<Entry>,
    snapshot: EntryId,
}

impl Model {
    fn last(&self) -> Index {
        self.entries.last().map_or(self.before.index, |entry| entry.index)
    }

    fn term(&self, index: Index) -> Option<Term> {
        let entry = self.entries.iter().find(|entry| entry.index == index);
        let before = Some(self.before).filter(|id| id.index == index);
        entry.map(Entry::id).or(before).map(|id| id.term)
    }

    /// Applies an operation and reports whether it is valid.
    fn apply(&mut self, term: u64, op: &Op) -> bool {
        match *op {
            Op::Append { first, count } => {
                let mut entries = run_of(term, first, count);
                entries.retain(|entry| entry.index > self.before.index);
                let Some(start) = entries.first().map(|entry| entry.index) else {
                    return true;
                };
                if start > self.last().next() {
                    return false;
                }
                self.entries.retain(|entry| entry.index < start);
                self.entries.extend(entries);
            }
            Op::Compact { index } => {
                let index = Index(index);
                let Some(term) = self.term(index).filter(|_| index > self.before.index) else {
                    return false;
                };
                self.before = EntryId { term, index };
                self.entries.retain(|entry| entry.index > index);
            }
            Op::CreateSnapshot { index } => {
                let index = Index(index);
                let Some(term) = self.term(index).filter(|_| index > self.snapshot.index) else {
                    return false;
                };
                self.snapshot = EntryId { term, index };
            }
            Op::ApplySnapshot { index } => {
                let id = EntryId { term: Term(term), index: Index(index) };
                if self.snapshot.index != Index::ZERO && id.index <= self.snapshot.index {
                    return false;
                }
                *self = Model { before: id, entries: Vec::new(), snapshot: id };
            }
        }
        true
    }
}

fn apply(storage: &mut MemoryStorage, term: u64, op: &Op) -> Result<(), MemoryStorageError> {
    match *op {
        Op::Append { first, count } => storage.append(&run_of(term, first, count)),
        Op::Compact { index } => storage.compact(Index(index)),
        Op::CreateSnapshot { index } => {
            storage.create_snapshot(Index(index), None, Bytes::new()).map(drop)
        }
        Op::ApplySnapshot { index } => storage.apply_snapshot(snapshot_at(term, index)),
    }
}

/// Defines the size limit: as many entries as fit, but at least one.
fn cut(entries: &[Entry], max_bytes: u64) -> &[Entry] {
    let mut count = entries.len();
    while count > 1 && entries[..count].iter().map(Entry::encoded_bytes).sum::<u64>() > max_bytes {
        count -= 1;
    }
    &entries[..count]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_log_in_memory_equals_its_model(
        ops in vec(op(), 0..40), lo in 0..35u64, count in 0..10u64, max_bytes in 0..100u64
    ) {
        let (mut storage, mut model) = (MemoryStorage::new(), Model::default());
        for (term, op) in (1..).zip(&ops) {
            let possible = model.apply(term, op);
            prop_assert_eq!(apply(&mut storage, term, op).is_ok(), possible, "{:?}", op);

            prop_assert_eq!(storage.first_index(), model.before.index.next());
            prop_assert_eq!(storage.last_index(), model.last());
            prop_assert_eq!(storage.snapshot().unwrap().id(), model.snapshot);
            prop_assert_eq!(&all(&storage), &model.entries);
            for index in (0..40).map(Index) {
                prop_assert_eq!(storage.term(index).ok(), model.term(index));
            }
        }
        let range: Vec<Entry> = model
            .entries
            .iter()
            .filter(|entry| (lo..lo + count).contains(&entry.index.0))
            .cloned()
            .collect();
        let read = storage.entries(Index(lo), Index(lo + count), max_bytes);
        match read {
            Ok(entries) => prop_assert_eq!(&entries, cut(&range, max_bytes)),
            Err(LogError::Compacted) => prop_assert!(lo <= model.before.index.0),
            Err(LogError::Unavailable) => prop_assert!(lo + count > model.last().0 + 1),
        }
    }
}
