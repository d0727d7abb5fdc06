//! The durable part of the log, as the core reads it.
//!
//! The core never writes here. It hands out what to write, and reads it back through this trait
//! after the write was reported as done. Reads must not fail for I/O reasons: as in etcd, the
//! caller keeps the part of the log that followers may still need in memory and compacts it.

mod memory;

pub use memory::{MemoryStorage, MemoryStorageError};

use thiserror::Error;
use types::{Index, Term};

use crate::conf::ConfState;
use crate::entry::Entry;
use crate::snapshot::Snapshot;
use crate::state::HardState;

/// The reason why an entry cannot be read.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum LogError {
    /// The entry was compacted.
    #[error("requested index is unavailable due to compaction")]
    Compacted,
    /// The index is beyond the log.
    #[error("requested entry at index is unavailable")]
    Unavailable,
}

/// The reason why no snapshot is available.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum SnapshotError {
    /// A snapshot is being created; retry later.
    #[error("snapshot is temporarily unavailable")]
    TemporarilyUnavailable,
}

/// The durable part of the log.
pub trait Storage {
    /// Returns the saved state to start from: the hard state, and the configuration in force at
    /// [`crate::Config::applied`].
    fn initial_state(&self) -> (HardState, ConfState);

    /// Returns the entries in `lo..hi`, as many as fit into `max_bytes` but at least one.
    ///
    /// # Errors
    ///
    /// Returns an error if `lo` is compacted, or the log does not contain the whole range.
    fn entries(&self, lo: Index, hi: Index, max_bytes: u64) -> Result<Vec<Entry>, LogError>;

    /// Returns the term of an entry, or of the entry just before the first one.
    ///
    /// # Errors
    ///
    /// Returns an error if the index is before or beyond the log.
    fn term(&self, index: Index) -> Result<Term, LogError>;

    /// Returns the index of the first entry.
    fn first_index(&self) -> Index;

    /// Returns the index of the last entry, or of the snapshot if no entry follows it.
    fn last_index(&self) -> Index;

    /// Returns the newest snapshot, for a member that needs compacted entries.
    ///
    /// # Errors
    ///
    /// Returns an error if none is available at the moment.
    fn snapshot(&self) -> Result<Snapshot, SnapshotError>;
}
