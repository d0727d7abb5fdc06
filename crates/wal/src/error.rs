//! Errors, with the location of the failure.
//!
//! Where etcd has a text for a failure, ours begins with the same words.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use crate::SAVE_BYTES_MAX;

/// A failed disk operation.
#[derive(Debug, Error)]
#[error("{action} {}: {source}", file.display())]
pub struct DiskError {
    /// The operation, such as "sync".
    pub action: &'static str,
    /// The file or directory.
    pub file: PathBuf,
    /// The error of the operating system.
    pub source: io::Error,
}

impl DiskError {
    pub(crate) fn new(action: &'static str, file: &Path, source: io::Error) -> DiskError {
        DiskError { action, file: file.to_owned(), source }
    }
}

/// Location of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordLocation {
    /// Name of the segment.
    pub file: String,
    /// Offset of the record's frame in it.
    pub offset: u64,
}

impl fmt::Display for RecordLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in file '{}' at position: {}", self.file, self.offset)
    }
}

/// Reason why a log could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The directory has no segments.
    #[error("wal: file not found")]
    FileNotFound,
    /// All segments begin after the snapshot.
    #[error("wal: file not found which matches the snapshot index '{index}'")]
    NoFileForSnapshot {
        /// Index at which reading was to start.
        index: u64,
    },
    /// A segment is missing.
    #[error(
        "wal: file sequence numbers (starting from {first}) do not increase continuously: \
         {after} follows {before}"
    )]
    SequenceGap {
        /// Position in the directory of the first file to read.
        first: usize,
        /// The sequence number before the gap.
        before: u64,
        /// The sequence number after it.
        after: u64,
    },
    /// Another process, or another part of this one, has the log open.
    #[error("fileutil: file already locked: {}", file.display())]
    Locked {
        /// The locked segment.
        file: PathBuf,
    },
    /// The directory already contains a log.
    #[error("file already exists: {}", dir.display())]
    Exists {
        /// The directory of the log.
        dir: PathBuf,
    },
    /// A disk operation failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// Reason why a log could not be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The last write is incomplete. Its data was never acknowledged, and [`repair`](crate::repair)
    /// can remove it.
    #[error("unexpected EOF: {location}: {reason}")]
    Torn {
        /// The incomplete record.
        location: RecordLocation,
        /// The evidence.
        reason: &'static str,
    },
    /// The data does not match its checksum.
    #[error("walpb: crc mismatch: expected: {expected:x} computed: {computed:x}: {location}")]
    Crc {
        /// The record.
        location: RecordLocation,
        /// The stored checksum.
        expected: u32,
        /// The checksum of the data.
        computed: u32,
    },
    /// The bytes are not a valid record.
    #[error("wal: corrupt record: {location}: {reason}")]
    Corrupt {
        /// The record.
        location: RecordLocation,
        /// The inconsistency.
        reason: &'static str,
    },
    /// A record of unknown kind.
    #[error("unexpected block type {kind}: {location}")]
    UnknownKind {
        /// The record.
        location: RecordLocation,
        /// The kind found.
        kind: u64,
    },
    /// The segments belong to different members or clusters.
    #[error("wal: conflicting metadata found: {location}")]
    MetadataConflict {
        /// The record that differs from earlier ones.
        location: RecordLocation,
    },
    /// The log has the start snapshot with another term.
    #[error(
        "wal: snapshot mismatch: {location}: at index {index} expected term {expected}, got {found}"
    )]
    SnapshotMismatch {
        /// The snapshot record.
        location: RecordLocation,
        /// The index of the snapshot.
        index: u64,
        /// The expected term.
        expected: u64,
        /// The term in the log.
        found: u64,
    },
    /// The log does not have the start snapshot.
    #[error("wal: snapshot not found: index {index}, term {term}")]
    SnapshotNotFound {
        /// The requested index.
        index: u64,
        /// The requested term.
        term: u64,
    },
    /// Entries are missing.
    #[error(
        "wal: slice bounds out of range, snapshot[Index: {start_index}, Term: {start_term}], \
         current entry[Index: {index}, Term: {term}], len(ents): {count}: {location}"
    )]
    SliceOutOfRange {
        /// The entry after the gap.
        location: RecordLocation,
        /// Index at which reading started.
        start_index: u64,
        /// Term at which reading started.
        start_term: u64,
        /// Index of the entry.
        index: u64,
        /// Term of the entry.
        term: u64,
        /// Number of entries between the start and the gap.
        count: u64,
    },
    /// The log could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A disk operation failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl ReadError {
    /// Reports whether the log merely has a torn tail, which [`repair`](crate::repair) can remove.
    pub fn is_torn(&self) -> bool {
        matches!(self, ReadError::Torn { .. })
    }

    /// Reports whether a segment was removed, which is normal while a log in use is read.
    pub(crate) fn is_segment_missing(&self) -> bool {
        match self {
            ReadError::Open(OpenError::NoFileForSnapshot { .. }) => true,
            ReadError::Open(OpenError::Disk(error)) | ReadError::Disk(error) => {
                error.source.kind() == io::ErrorKind::NotFound
            }
            _ => false,
        }
    }
}

/// Reason why a torn tail could not be removed.
#[derive(Debug, Error)]
pub enum RepairError {
    /// The last segment is corrupt, not torn.
    #[error("cannot repair: {0}")]
    NotTorn(#[source] ReadError),
    /// The log could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A disk operation failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// Reason why a save failed or may not be durable.
#[derive(Debug, Error)]
pub enum SaveError {
    /// A disk operation failed. The data may or may not be there after a restart. The log refuses
    /// further saves.
    #[error("wal: {0}")]
    Failed(#[source] Arc<DiskError>),
    /// An earlier call failed, with this error. Nothing was written.
    #[error("wal: writes are refused after an earlier failure: {0}; restart the member")]
    Poisoned(#[source] Arc<DiskError>),
    /// The save is too large. Nothing was written, and the log stays usable: the caller must split
    /// the entries over several saves, of which only the last needs the state and a sync.
    #[error("wal: save of {bytes} bytes exceeds the limit of {SAVE_BYTES_MAX}")]
    TooLarge {
        /// Approximate size, in bytes.
        bytes: usize,
    },
    /// A required field of a snapshot record is missing. Nothing was written, and the log stays
    /// usable.
    #[error("wal: snapshot is missing {0}")]
    IncompleteSnapshot(&'static str),
}
