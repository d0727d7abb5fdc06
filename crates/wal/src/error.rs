//! What can go wrong, and where.
//!
//! Where etcd has words for a failure, ours begin with the same ones.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use crate::SAVE_BYTES_MAX;

/// A call to the disk that failed.
#[derive(Debug, Error)]
#[error("{what} {}: {source}", file.display())]
pub struct Failure {
    /// What was tried, such as "sync".
    pub what: &'static str,
    /// With which file or folder.
    pub file: PathBuf,
    /// What the disk answered.
    pub source: io::Error,
}

impl Failure {
    pub(crate) fn new(what: &'static str, file: &Path, source: io::Error) -> Failure {
        Failure { what, file: file.to_owned(), source }
    }
}

/// Where a record is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The name of the segment.
    pub file: String,
    /// Where in it the record's frame begins.
    pub offset: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in file '{}' at position: {}", self.file, self.offset)
    }
}

/// Why a log could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The folder has no segments.
    #[error("wal: file not found")]
    FileNotFound,
    /// All segments begin after the snapshot.
    #[error("wal: file not found which matches the snapshot index '{index}'")]
    NoFileForSnapshot {
        /// Where reading was to start.
        index: u64,
    },
    /// A segment is missing.
    #[error(
        "wal: file sequence numbers (starting from {first}) do not increase continuously: \
         {after} follows {before}"
    )]
    SequenceGap {
        /// Which file in the folder was the first to read.
        first: usize,
        /// The sequence number before the gap.
        before: u64,
        /// The sequence number after it.
        after: u64,
    },
    /// Another process, or another part of this one, has the log open.
    #[error("fileutil: file already locked: {}", file.display())]
    Locked {
        /// The segment whose lock was held.
        file: PathBuf,
    },
    /// There is a log where one was to be created.
    #[error("file already exists: {}", dir.display())]
    Exists {
        /// The log's folder.
        dir: PathBuf,
    },
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] Failure),
}

/// Why a log could not be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The last write was cut short. What it held was never acknowledged, and [`repair`](crate::repair) can remove it.
    #[error("unexpected EOF: {place}: {why}")]
    Torn {
        /// The record that is not whole.
        place: Place,
        /// How that shows.
        why: &'static str,
    },
    /// The data is not what was written.
    #[error("walpb: crc mismatch: expected: {expected:x} computed: {computed:x}: {place}")]
    Crc {
        /// The record.
        place: Place,
        /// The checksum it carries.
        expected: u32,
        /// The checksum of what it holds.
        computed: u32,
    },
    /// The bytes are not those of a record.
    #[error("wal: damaged record: {place}: {why}")]
    Damaged {
        /// The record.
        place: Place,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A record of a kind that does not exist.
    #[error("unexpected block type {kind}: {place}")]
    UnknownKind {
        /// The record.
        place: Place,
        /// What it says it is.
        kind: u64,
    },
    /// Segments of different members or clusters.
    #[error("wal: conflicting metadata found: {place}")]
    MetadataConflict {
        /// The record that differs from those before.
        place: Place,
    },
    /// The log has the snapshot to start from, at another term.
    #[error(
        "wal: snapshot mismatch: {place}: at index {index} the log has term {found}, not {wanted}"
    )]
    SnapshotMismatch {
        /// The snapshot record.
        place: Place,
        /// The index of both.
        index: u64,
        /// The term asked for.
        wanted: u64,
        /// The term in the log.
        found: u64,
    },
    /// The log does not have the snapshot to start from.
    #[error("wal: snapshot not found: index {index}, term {term}")]
    SnapshotNotFound {
        /// The index asked for.
        index: u64,
        /// The term asked for.
        term: u64,
    },
    /// Entries are missing.
    #[error(
        "wal: slice bounds out of range, snapshot[Index: {start_index}, Term: {start_term}], \
         current entry[Index: {index}, Term: {term}], len(ents): {count}: {place}"
    )]
    SliceOutOfRange {
        /// The entry after the gap.
        place: Place,
        /// Where reading started.
        start_index: u64,
        /// At which term.
        start_term: u64,
        /// The entry's index.
        index: u64,
        /// The entry's term.
        term: u64,
        /// How many entries lie between the start and the gap.
        count: u64,
    },
    /// The log could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] Failure),
}

impl ReadError {
    /// Whether the log merely ends in a write that was cut short, so that [`repair`](crate::repair) may help.
    pub fn is_torn(&self) -> bool {
        matches!(self, ReadError::Torn { .. })
    }
}

/// Why a torn end could not be removed.
#[derive(Debug, Error)]
pub enum RepairError {
    /// The last segment is broken in another way than by a write that was cut short.
    #[error("cannot repair: {0}")]
    NotTorn(#[source] ReadError),
    /// The log could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] Failure),
}

/// Why nothing was appended, or why it is not known to be durable.
#[derive(Debug, Error)]
pub enum SaveError {
    /// The disk failed. What was to be saved may or may not be there after a restart. The log takes nothing more.
    #[error("wal: {0}")]
    Failed(#[source] Arc<Failure>),
    /// An earlier call failed; this is why. Nothing was written.
    #[error("wal: refused since an earlier failure: {0}")]
    Poisoned(#[source] Arc<Failure>),
    /// More than one save may bring. Nothing was written, and the log goes on: the caller must split the entries over
    /// several saves, of which only the last needs the state and a sync.
    #[error("wal: a save of {bytes} bytes is over the bound of {SAVE_BYTES_MAX}")]
    TooLarge {
        /// What was to be written, about.
        bytes: usize,
    },
    /// A snapshot record lacks what later readers need. Nothing was written, and the log goes on.
    #[error("wal: snapshot is missing {0}")]
    IncompleteSnapshot(&'static str),
}
