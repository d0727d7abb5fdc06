//! A simulated disk: written records are not durable before a sync, and a crash loses some of them.
//!
//! The log of a member is a sequence of records, as in a write-ahead log. Written records are kept
//! here until a sync. A crash preserves a prefix of them and may tear the record after it.
//!
//! ```text
//! durable            state(t2, commit 4)  entries 1..=5
//! unsynced           entries 6 7 8 | state(t3) | entries 9
//! crash keeps, e.g.  entries 6 7
//! ```
//!
//! The durable part is the ground truth of the invariants: it is what remains if the power fails
//! now.

use env::SeededRandom;
use raft::{Entry, EntryId, HardState, MemoryStorage, Snapshot};
use simkit::RandomExt as _;
use types::{Index, Term};

/// A record of a member's log.
#[derive(Clone, Debug)]
pub(crate) enum Record {
    /// A snapshot from the leader; it replaces the whole log.
    Received(Snapshot),
    /// A snapshot of the local state machine; the log after it remains.
    Made(Snapshot),
    Entries(Vec<Entry>),
    State(HardState),
}

/// The durable part.
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

    /// Reports whether an entry is durable, in the log or covered by a snapshot.
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
        usize::try_from(index - self.before.index - 1).expect("simulated logs are short")
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
            assert!(first.index <= self.last_index().next(), "gap in the log on disk");
            self.entries.truncate(self.position(first.index));
            self.entries.append(&mut entries);
        }
    }

    /// Drops the entries that a local snapshot covers, unless a newer one came from the leader.
    fn compact(&mut self, snapshot: Snapshot) {
        let id = snapshot.id();
        if id.index <= self.snapshot.metadata.index {
            return;
        }
        assert!(self.holds(id), "snapshot of entries that are not durable");
        let covered = self.entries.partition_point(|entry| entry.index <= id.index);
        self.entries.drain(..covered);
        self.before = id;
        self.snapshot = snapshot;
    }
}

/// The disk of a member. It survives the member's crashes.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    durable: Durable,
    unsynced: Vec<Record>,
}

impl Disk {
    /// Creates a disk with a snapshot at index zero, which carries the initial configuration.
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

    /// Cuts the power. Returns the number of unsynced records that survive, and of those lost.
    pub(crate) fn crash(&mut self, random: &mut SeededRandom) -> (u64, u64) {
        let written = self.unsynced.len();
        let kept = random.position(written + 1);
        let mut records = self.unsynced.drain(..);
        for record in records.by_ref().take(kept) {
            self.durable.take(record);
        }
        // The next record may survive in part.
        if let Some(Record::Entries(mut entries)) = records.next() {
            entries.truncate(random.position(entries.len()));
            self.durable.take(Record::Entries(entries));
        }
        drop(records);
        (kept as u64, (written - kept) as u64)
    }

    /// Returns the storage of a restarted member: the durable part.
    pub(crate) fn to_storage(&self) -> MemoryStorage {
        let durable = &self.durable;
        let mut storage =
            MemoryStorage::with_conf_state(durable.snapshot.metadata.conf_state.clone());
        if !durable.snapshot.is_empty() {
            storage
                .apply_snapshot(durable.snapshot.clone())
                .expect("a new storage has no snapshot");
        }
        storage.append(&durable.entries).expect("a durable log has no gaps");
        storage.set_hard_state(durable.state);
        storage
    }
}
