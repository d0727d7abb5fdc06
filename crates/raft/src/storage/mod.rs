//! The log as the core reads it: what has been made durable, kept where it can be read at once.
//!
//! The core never writes here. It hands out what must be written, and reads it back through this
//! trait once it was told that the writing is done. Reading must not fail for reasons of I/O: keep
//! the part of the log that followers may still need in memory, as etcd does, and compact it.

mod memory;

pub use memory::{MemoryStorage, MemoryStorageError};

use thiserror::Error;
use types::{Index, Term};

use crate::conf::ConfState;
use crate::entry::Entry;
use crate::snapshot::Snapshot;
use crate::state::HardState;

/// Why a part of the log cannot be read.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum LogError {
    /// It has been replaced by a snapshot.
    #[error("requested index is unavailable due to compaction")]
    Compacted,
    /// The log does not reach that far.
    #[error("requested entry at index is unavailable")]
    Unavailable,
}

/// Why there is no snapshot to send.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum SnapshotError {
    /// One is being made: ask again later.
    #[error("snapshot is temporarily unavailable")]
    TemporarilyUnavailable,
}

/// The durable part of the log.
pub trait Storage {
    /// What was saved last, to start from: the hard state, and the configuration in force at
    /// [`crate::Config::applied`].
    fn initial_state(&self) -> (HardState, ConfState);

    /// The entries in `lo..hi`, as many as fit into `max_bytes` but at least one.
    ///
    /// # Errors
    ///
    /// If `lo` was compacted away, or the log does not hold all of the range.
    fn entries(&self, lo: Index, hi: Index, max_bytes: u64) -> Result<Vec<Entry>, LogError>;

    /// The term of an entry, or of the one just before the first.
    ///
    /// # Errors
    ///
    /// If the index lies before or behind what is kept.
    fn term(&self, index: Index) -> Result<Term, LogError>;

    /// The index of the first entry kept.
    fn first_index(&self) -> Index;

    /// The index of the last entry, or of the snapshot if there is none behind it.
    fn last_index(&self) -> Index;

    /// The newest snapshot, to send to a member that needs what was compacted away.
    ///
    /// # Errors
    ///
    /// If there is none at the moment.
    fn snapshot(&self) -> Result<Snapshot, SnapshotError>;
}
