//! A simulated disk: what has been written is not yet durable, and a crash takes some of it.
//!
//! The log of a member is a sequence of records, as in a write-ahead log. Records that were written wait
//! here until a sync; a crash keeps a prefix of them, and may tear the last record kept.
//!
//! ```text
//! durable            state(t2, commit 4)  entries 1..=5
//! unsynced           entries 6 7 8 | state(t3) | entries 9
//! crash keeps, e.g.  entries 6 7
//! ```
//!
//! The durable part is the ground truth that the invariants look at: it is what would be left if the
//! power went this very moment.

use raft::{Entry, EntryId, HardState, MemoryStorage, Snapshot};
use types::{Index, Term};

use crate::random::Random;

/// One record of a member's log.
#[derive(Clone, Debug)]
pub(crate) enum Record {
    /// A snapshot from the leader: the log before and behind it goes.
    Received(Snapshot),
    /// A snapshot made here: the log behind it stays.
    Made(Snapshot),
    Entries(Vec<Entry>),
    State(HardState),
}

/// What survives.
#[derive(Clone, Debug, Default)]
pub(crate) struct Durable {
    pub(crate) state: HardState,
    pub(crate) snapshot: Snapshot,
    /// The entry just before the first.
    before: EntryId,
    entries: Vec<Entry>,
}

impl Durable {
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(crate) fn before(&self) -> EntryId {
        self.before
    }

    pub(crate) fn last_index(&self) -> Index {
        self.before.index + self.entries.len() as u64
    }

    /// Whether an entry is here, by itself or inside of a snapshot.
    pub(crate) fn holds(&self, id: EntryId) -> bool {
        id.index <= self.before.index || self.term(id.index) == Some(id.term)
    }

    fn term(&self, index: Index) -> Option<Term> {
        if index <= self.before.index {
            return (index == self.before.index).then_some(self.before.term);
        }
        self.entries.get(self.position(index)).map(|entry| entry.term)
    }

    fn position(&self, index: Index) -> usize {
        usize::try_from(index - self.before.index - 1).expect("logs are short here")
    }

    fn take(&mut self, record: Record) {
        match record {
            Record::State(state) => self.state = state,
            Record::Entries(entries) => self.append(entries),
            Record::Received(snapshot) => {
                self.before = snapshot.id();
                self.entries.clear();
                self.snapshot = snapshot;
            }
            Record::Made(snapshot) => self.compact(snapshot),
        }
    }

    fn append(&mut self, mut entries: Vec<Entry>) {
        entries.retain(|entry| entry.index > self.before.index);
        if let Some(first) = entries.first() {
            assert!(first.index <= self.last_index().next(), "a hole in the log on disk");
            self.entries.truncate(self.position(first.index));
            self.entries.append(&mut entries);
        }
    }

    /// Drops what a snapshot made here covers, unless a newer one came from the leader meanwhile.
    fn compact(&mut self, snapshot: Snapshot) {
        let id = snapshot.id();
        if id.index <= self.snapshot.metadata.index {
            return;
        }
        assert!(self.holds(id), "a snapshot of entries that are not durable");
        let covered = self.entries.partition_point(|entry| entry.index <= id.index);
        self.entries.drain(..covered);
        self.before = id;
        self.snapshot = snapshot;
    }
}

/// The disk of one member. It outlives the member's crashes.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    durable: Durable,
    unsynced: Vec<Record>,
}

impl Disk {
    /// A disk with a snapshot at index zero, which carries the first configuration.
    pub(crate) fn with_genesis(genesis: Snapshot) -> Disk {
        Disk { durable: Durable { snapshot: genesis, ..Durable::default() }, unsynced: Vec::new() }
    }

    pub(crate) fn durable(&self) -> &Durable {
        &self.durable
    }

    pub(crate) fn write(&mut self, record: Record) {
        self.unsynced.push(record);
    }

    /// Makes everything written so far durable.
    pub(crate) fn sync(&mut self) {
        for record in self.unsynced.drain(..) {
            self.durable.take(record);
        }
    }

    /// The power goes. Gives the number of unsynced records that survive, and of those that do not.
    pub(crate) fn crash(&mut self, random: &mut Random) -> (u64, u64) {
        let written = self.unsynced.len();
        let kept = random.position(written + 1);
        let mut records = self.unsynced.drain(..);
        for record in records.by_ref().take(kept) {
            self.durable.take(record);
        }
        // The record after those may survive in part.
        if let Some(Record::Entries(mut entries)) = records.next() {
            entries.truncate(random.position(entries.len()));
            self.durable.take(Record::Entries(entries));
        }
        drop(records);
        (kept as u64, (written - kept) as u64)
    }

    /// The storage that a member starts from: what is durable, and nothing else.
    pub(crate) fn to_storage(&self) -> MemoryStorage {
        let durable = &self.durable;
        let mut storage =
            MemoryStorage::with_conf_state(durable.snapshot.metadata.conf_state.clone());
        if !durable.snapshot.is_empty() {
            storage
                .apply_snapshot(durable.snapshot.clone())
                .expect("a new storage has no snapshot");
        }
        storage.append(&durable.entries).expect("no holes in a durable log");
        storage.set_hard_state(durable.state);
        storage
    }
}
