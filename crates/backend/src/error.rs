//! What can go wrong.

use std::io;
use std::sync::Arc;

use bolt::CorruptPage;

use crate::schema::Bucket;

/// Why the database could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file could not be opened.
    #[error(transparent)]
    Open(#[from] bolt::OpenError),
    /// What it says about itself could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The bucket that every file has could not be made.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// Why something could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// A page is damaged.
    #[error(transparent)]
    Corrupt(#[from] CorruptPage),
    /// A value is not what its key promises.
    #[error("bucket {bucket}, key {}: {reason}", key.escape_ascii())]
    Malformed {
        /// The bucket.
        bucket: Bucket,
        /// The key.
        key: Vec<u8>,
        /// What is wrong with the value.
        reason: String,
    },
}

impl ReadError {
    /// A value that is not what its key promises.
    #[must_use]
    pub fn malformed(bucket: Bucket, key: &[u8], reason: impl Into<String>) -> ReadError {
        ReadError::Malformed { bucket, key: key.to_vec(), reason: reason.into() }
    }
}

/// Why a pair cannot be put. The texts are bbolt's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PutError {
    /// A key has at least one byte.
    #[error("key required")]
    KeyRequired,
    /// A key has at most [`bolt::KEY_MAX`] bytes.
    #[error("key too large")]
    KeyTooLarge,
    /// A value has at most [`bolt::VALUE_MAX`] bytes.
    #[error("value too large")]
    ValueTooLarge,
}

/// Why what is pending is not in the file.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CommitError {
    /// The file could not be written, or was opened to be read.
    #[error(transparent)]
    Commit(#[from] bolt::CommitError),
    /// A bucket could not be changed.
    #[error("bucket {bucket}: {source}")]
    Bucket {
        /// The bucket.
        bucket: Bucket,
        /// What was wrong with it.
        source: bolt::Error,
    },
    /// An earlier commit failed: nothing is accepted until the database is opened again.
    #[error("no writes since a commit failed: {0}")]
    Poisoned(Arc<str>),
}

/// Why there is no hash.
#[derive(Debug, thiserror::Error)]
pub enum HashError {
    /// What was pending could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The file could not be read.
    #[error(transparent)]
    Corrupt(#[from] CorruptPage),
    /// Something at the top level that is no bucket. The text is etcd's.
    #[error("cannot get hash of bucket {}", .0.escape_ascii())]
    NotABucket(Vec<u8>),
}

/// Why the database could not be copied.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// What was pending could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The file could not be read, or the copy not be written.
    #[error("copy the database: {0}")]
    Io(#[from] io::Error),
}

/// Why the database was not defragmented.
#[derive(Debug, thiserror::Error)]
pub enum DefragmentError {
    /// What was pending could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The file could not be rewritten.
    #[error(transparent)]
    Defrag(#[from] bolt::DefragError),
}

/// Why the database was not closed as it should be.
#[derive(Debug, thiserror::Error)]
pub enum CloseError {
    /// What was pending could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The checksums of its pages could not be saved.
    #[error("save page checksums: {0}")]
    Io(#[from] io::Error),
    /// Somebody else has a handle, a committer or a thread: the file is still open. What was pending is committed.
    #[error("the database is still in use")]
    InUse,
}
