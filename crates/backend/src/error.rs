//! Errors.

use std::io;
use std::sync::Arc;

use bolt::CorruptPage;

use crate::schema::Bucket;

/// Reason why the database could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file could not be opened.
    #[error(transparent)]
    Open(#[from] bolt::OpenError),
    /// The applied index could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The bucket `meta` could not be created.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// Reason why a read failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// A page is corrupt.
    #[error(transparent)]
    Corrupt(#[from] CorruptPage),
    /// A value has an invalid format.
    #[error("bucket {bucket}, key {}: {reason}", key.escape_ascii())]
    Malformed {
        /// The bucket.
        bucket: Bucket,
        /// The key.
        key: Vec<u8>,
        /// The format error.
        reason: String,
    },
}

impl ReadError {
    /// Creates the error of a value with an invalid format.
    #[must_use]
    pub fn malformed(bucket: Bucket, key: &[u8], reason: impl Into<String>) -> ReadError {
        ReadError::Malformed { bucket, key: key.to_vec(), reason: reason.into() }
    }
}

/// Reason why pending writes are not in the file.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CommitError {
    /// The file could not be written, or was opened read-only.
    #[error(transparent)]
    Commit(#[from] bolt::CommitError),
    /// A bucket could not be changed.
    #[error("bucket {bucket}: {source}")]
    Bucket {
        /// The bucket.
        bucket: Bucket,
        /// The error of the bucket.
        source: bolt::Error,
    },
    /// An earlier commit failed: writes are refused until the database is reopened.
    #[error("writes are refused because a commit failed: {0}")]
    Poisoned(Arc<str>),
}

/// Reason why the hash could not be computed.
#[derive(Debug, thiserror::Error)]
pub enum HashError {
    /// Pending writes could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The file could not be read.
    #[error(transparent)]
    Corrupt(#[from] CorruptPage),
    /// A top-level item that is not a bucket. The text is etcd's.
    #[error("cannot get hash of bucket {}", .0.escape_ascii())]
    NotABucket(Vec<u8>),
}

/// Reason why the database could not be copied.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// Pending writes could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The file could not be read, or the copy could not be written.
    #[error("copy the database: {0}")]
    Io(#[from] io::Error),
}

/// Reason why the database could not be defragmented.
#[derive(Debug, thiserror::Error)]
pub enum DefragmentError {
    /// Pending writes could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The file could not be rewritten.
    #[error(transparent)]
    Defrag(#[from] bolt::DefragError),
}

impl DefragmentError {
    /// Returns whether another file replaces this one: see
    /// [`Backend::mark_replaced`](crate::Backend::mark_replaced).
    #[must_use]
    pub fn is_replaced(&self) -> bool {
        matches!(self, DefragmentError::Defrag(bolt::DefragError::Ended))
    }
}

/// Reason why the database could not be closed.
#[derive(Debug, thiserror::Error)]
pub enum CloseError {
    /// Pending writes could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The page checksums could not be saved.
    #[error("save page checksums: {0}")]
    Io(#[from] io::Error),
    /// Another handle, committer or thread exists, so the file is still open. Pending writes are
    /// committed.
    #[error("the database is still in use")]
    InUse,
}
