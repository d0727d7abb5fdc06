//! A log in memory: the whole log, or its tail after a snapshot.

use bytes::Bytes;
use thiserror::Error;
use types::{Index, Term};

use crate::conf::ConfState;
use crate::entry::{Entry, EntryId, fitting_count};
use crate::snapshot::Snapshot;
use crate::state::HardState;

use super::{LogError, SnapshotError, Storage};

/// An error of [`MemoryStorage`].
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum MemoryStorageError {
    /// There is a newer snapshot.
    #[error("requested index is older than the existing snapshot")]
    SnapshotOutOfDate,
    /// The index is compacted.
    #[error("requested index is unavailable due to compaction")]
    Compacted,
    /// The index is beyond the log.
    #[error("index {index} is out of bound lastindex({last})")]
    BeyondLog {
        /// The requested index.
        index: Index,
        /// The last index.
        last: Index,
    },
    /// Appending would leave a gap.
    #[error("missing log entry [last: {last}, append at: {at}]")]
    Gap {
        /// The last index.
        last: Index,
        /// The index of the first new entry.
        at: Index,
    },
}

/// A log in memory after a snapshot.
///
/// ```text
/// snapshot at 4:7    before = 4:6    entries = [4:7 4:8 5:9]
/// ```
///
/// Compaction and snapshots are independent: entries that the snapshot covers may be kept for slow
/// followers. Invariant: `entries[i]` has index `before.index + 1 + i`.
#[derive(Clone, Debug, Default)]
pub struct MemoryStorage {
    hard_state: HardState,
    snapshot: Snapshot,
    /// The id of the entry just before the first one kept.
    before: EntryId,
    entries: Vec<Entry>,
}

impl MemoryStorage {
    /// Creates an empty log.
    #[must_use]
    pub fn new() -> MemoryStorage {
        MemoryStorage::default()
    }

    /// Creates an empty log with a configuration, as if from a snapshot at index zero.
    #[must_use]
    pub fn with_conf_state(conf_state: ConfState) -> MemoryStorage {
        let mut storage = MemoryStorage::default();
        storage.snapshot.metadata.conf_state = conf_state;
        storage
    }

    /// Saves the hard state.
    pub fn set_hard_state(&mut self, hard_state: HardState) {
        self.hard_state = hard_state;
    }

    /// Returns the saved hard state.
    #[must_use]
    pub fn hard_state(&self) -> HardState {
        self.hard_state
    }

    /// Replaces the log with a snapshot from the leader.
    ///
    /// # Errors
    ///
    /// Returns an error if the snapshot is not newer than the current one.
    pub fn apply_snapshot(&mut self, snapshot: Snapshot) -> Result<(), MemoryStorageError> {
        // A snapshot at index zero only carries the initial configuration.
        let current = self.snapshot.metadata.index;
        if current != Index::ZERO && current >= snapshot.metadata.index {
            return Err(MemoryStorageError::SnapshotOutOfDate);
        }
        self.before = snapshot.id();
        self.entries.clear();
        self.snapshot = snapshot;
        Ok(())
    }

    /// Creates a snapshot at an index of the log. Keeps the log; see [`MemoryStorage::compact`].
    ///
    /// # Errors
    ///
    /// Returns an error if there is a newer snapshot, or the index is beyond the log.
    pub fn create_snapshot(
        &mut self,
        index: Index,
        conf_state: Option<ConfState>,
        data: Bytes,
    ) -> Result<&Snapshot, MemoryStorageError> {
        if index <= self.snapshot.metadata.index {
            return Err(MemoryStorageError::SnapshotOutOfDate);
        }
        let term = self.term(index).map_err(|error| match error {
            LogError::Compacted => MemoryStorageError::Compacted,
            LogError::Unavailable => {
                MemoryStorageError::BeyondLog { index, last: self.last_index() }
            }
        })?;
        self.snapshot.metadata.index = index;
        self.snapshot.metadata.term = term;
        if let Some(conf_state) = conf_state {
            self.snapshot.metadata.conf_state = conf_state;
        }
        self.snapshot.data = data;
        Ok(&self.snapshot)
    }

    /// Drops the entries up to and including `index`.
    ///
    /// # Errors
    ///
    /// Returns an error if they were dropped before, or the index is beyond the log.
    pub fn compact(&mut self, index: Index) -> Result<(), MemoryStorageError> {
        if index <= self.before.index {
            return Err(MemoryStorageError::Compacted);
        }
        let last = self.last_index();
        if index > last {
            return Err(MemoryStorageError::BeyondLog { index, last });
        }
        let position = self.position(index);
        self.before = self.entries[position].id();
        self.entries.drain(..=position);
        Ok(())
    }

    /// Appends entries, replacing existing ones from their first index on. Skips entries that have
    /// been compacted.
    ///
    /// # Errors
    ///
    /// Returns an error if there would be a gap between the log and the entries.
    pub fn append(&mut self, entries: &[Entry]) -> Result<(), MemoryStorageError> {
        let compacted = entries.partition_point(|entry| entry.index <= self.before.index);
        let entries = &entries[compacted..];
        let Some(first) = entries.first() else {
            return Ok(());
        };
        let last = self.last_index();
        if first.index > last.next() {
            return Err(MemoryStorageError::Gap { last, at: first.index });
        }
        self.entries.truncate(self.position(first.index));
        self.entries.extend_from_slice(entries);
        Ok(())
    }

    /// Returns the position in `entries` of an index that is kept or comes next.
    fn position(&self, index: Index) -> usize {
        usize::try_from(index - self.before.index - 1).expect("positions fit into memory")
    }
}

impl Storage for MemoryStorage {
    fn initial_state(&self) -> (HardState, ConfState) {
        (self.hard_state, self.snapshot.metadata.conf_state.clone())
    }

    fn entries(&self, lo: Index, hi: Index, max_bytes: u64) -> Result<Vec<Entry>, LogError> {
        if lo <= self.before.index {
            return Err(LogError::Compacted);
        }
        if hi > self.last_index().next() || lo > hi {
            return Err(LogError::Unavailable);
        }
        let range = &self.entries[self.position(lo)..self.position(hi)];
        Ok(range[..fitting_count(range, max_bytes)].to_vec())
    }

    fn term(&self, index: Index) -> Result<Term, LogError> {
        if index < self.before.index {
            return Err(LogError::Compacted);
        }
        if index == self.before.index {
            return Ok(self.before.term);
        }
        let entry = self.entries.get(self.position(index)).ok_or(LogError::Unavailable)?;
        Ok(entry.term)
    }

    fn first_index(&self) -> Index {
        self.before.index.next()
    }

    fn last_index(&self) -> Index {
        self.before.index + self.entries.len() as u64
    }

    fn snapshot(&self) -> Result<Snapshot, SnapshotError> {
        Ok(self.snapshot.clone())
    }
}
