//! A log in memory: all of it, or the tail behind a snapshot.

use bytes::Bytes;
use thiserror::Error;
use types::{Index, Term};

use crate::conf::ConfState;
use crate::entry::{Entry, EntryId, fitting};
use crate::snapshot::Snapshot;
use crate::state::HardState;

use super::{LogError, SnapshotError, Storage};

/// Why a [`MemoryStorage`] refuses to change.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum MemoryStorageError {
    /// There is a newer snapshot already.
    #[error("requested index is older than the existing snapshot")]
    SnapshotOutOfDate,
    /// That part is gone already.
    #[error("requested index is unavailable due to compaction")]
    Compacted,
    /// The log does not reach that far.
    #[error("index {index} is out of bound lastindex({last})")]
    BeyondLog {
        /// The index asked for.
        index: Index,
        /// The last index there is.
        last: Index,
    },
    /// Appending would leave a hole.
    #[error("missing log entry [last: {last}, append at: {at}]")]
    Gap {
        /// The last index there is.
        last: Index,
        /// Where the new entries start.
        at: Index,
    },
}

/// A log in memory with a snapshot before it.
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
    /// The entry just before the first one kept; only its id is known.
    before: EntryId,
    entries: Vec<Entry>,
}

impl MemoryStorage {
    /// An empty log.
    #[must_use]
    pub fn new() -> MemoryStorage {
        MemoryStorage::default()
    }

    /// An empty log of a cluster whose configuration is given, as if by a snapshot at index zero.
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

    /// The hard state saved last.
    #[must_use]
    pub fn hard_state(&self) -> HardState {
        self.hard_state
    }

    /// Starts over from a snapshot that came from the leader: the log before and behind it goes.
    ///
    /// # Errors
    ///
    /// If the snapshot is not newer than the one here.
    pub fn apply_snapshot(&mut self, snapshot: Snapshot) -> Result<(), MemoryStorageError> {
        // A snapshot at zero only carries a configuration, at bootstrap.
        let current = self.snapshot.metadata.index;
        if current != Index::ZERO && current >= snapshot.metadata.index {
            return Err(MemoryStorageError::SnapshotOutOfDate);
        }
        self.before = snapshot.id();
        self.entries.clear();
        self.snapshot = snapshot;
        Ok(())
    }

    /// Makes a snapshot at an index of the log. The log is kept; see [`MemoryStorage::compact`].
    ///
    /// # Errors
    ///
    /// If there is a newer snapshot, or the log does not reach that far.
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
    /// If they are gone already, or the log does not reach that far.
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

    /// Appends entries, replacing what is there from their first index on. Entries that were
    /// compacted away meanwhile are skipped.
    ///
    /// # Errors
    ///
    /// If there would be a hole between the log and the entries.
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

    /// Where an index that is kept, or comes next, stands in `entries`.
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
        Ok(range[..fitting(range, max_bytes)].to_vec())
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
