//! The storage of a running member: a log in memory whose snapshots may be unavailable.

use raft::{
    ConfState, Entry, HardState, LogError, MemoryStorage, Snapshot, SnapshotError, Storage,
};
use types::{Index, Term};

/// A [`MemoryStorage`] whose snapshot may be temporarily unavailable.
pub(crate) struct BusyStorage {
    pub(crate) memory: MemoryStorage,
    pub(crate) busy: bool,
}

impl Storage for BusyStorage {
    fn initial_state(&self) -> (HardState, ConfState) {
        self.memory.initial_state()
    }

    fn entries(&self, lo: Index, hi: Index, max_bytes: u64) -> Result<Vec<Entry>, LogError> {
        self.memory.entries(lo, hi, max_bytes)
    }

    fn term(&self, index: Index) -> Result<Term, LogError> {
        self.memory.term(index)
    }

    fn first_index(&self) -> Index {
        self.memory.first_index()
    }

    fn last_index(&self) -> Index {
        self.memory.last_index()
    }

    fn snapshot(&self) -> Result<Snapshot, SnapshotError> {
        if self.busy { Err(SnapshotError::TemporarilyUnavailable) } else { self.memory.snapshot() }
    }
}
