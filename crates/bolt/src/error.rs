//! Errors. Each text names the file and, for corruption, the page.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::page::PageId;
use crate::write::{KEY_MAX, VALUE_MAX};

/// Reason why a file could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// An operation of the file system failed.
    #[error("{}: {action}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operation that failed.
        action: &'static str,
        /// The error of the operating system.
        error: io::Error,
    },
    /// Another process, or this one, holds the lock of the file.
    #[error("{}: timeout: locked by another process for {waited:?}", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
        /// Time waited for the lock.
        waited: Duration,
    },
    /// Neither meta page is usable.
    #[error("{}: not a bolt database: page 0: {first}; page 1: {second}; restore a backup", path.display())]
    NoMeta {
        /// The file.
        path: PathBuf,
        /// The error of the first meta page.
        first: &'static str,
        /// The error of the second meta page.
        second: &'static str,
    },
    /// The pages of the file are inconsistent.
    #[error(transparent)]
    Corrupt(CorruptPage),
    /// A file opened read-only is empty.
    #[error("{}: the file is empty and cannot be created in read-only mode", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be locked in memory.
    #[error(
        "{}: mlock error: {}; the file has {file_len} bytes: raise the limit of locked memory (RLIMIT_MEMLOCK, \
         ulimit -l, LimitMEMLOCK) beyond that, or do without",
        path.display(),
        gocompat::os_error_text(error)
    )]
    Mlock {
        /// The file.
        path: PathBuf,
        /// The size of the file.
        file_len: u64,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The page size option is invalid.
    #[error("page size {0} is not a power of two between 1 KiB and 16 MiB")]
    PageSize(usize),
}

/// Corruption found in a page of a file.
#[derive(Clone, PartialEq, Eq)]
pub struct CorruptPage(Box<CorruptPageInner>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct CorruptPageInner {
    path: Arc<Path>,
    page: PageId,
    reason: String,
}

impl CorruptPage {
    #[cold]
    pub(crate) fn new(path: &Arc<Path>, page: PageId, reason: impl Into<String>) -> CorruptPage {
        CorruptPage(Box::new(CorruptPageInner {
            path: Arc::clone(path),
            page,
            reason: reason.into(),
        }))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The page number. Its offset in the file is this number times the page size.
    pub fn page(&self) -> u64 {
        self.0.page
    }

    /// The inconsistency that was found.
    pub fn reason(&self) -> &str {
        &self.0.reason
    }
}

impl fmt::Display for CorruptPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: page {}: {}", self.0.path.display(), self.0.page, self.0.reason)
    }
}

impl fmt::Debug for CorruptPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for CorruptPage {}

/// Reason why a bucket could not be read or changed. The texts are bbolt's, except that of
/// `Corrupt`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file is corrupt.
    #[error(transparent)]
    Corrupt(#[from] CorruptPage),
    /// The bucket does not exist.
    #[error("bucket not found")]
    BucketNotFound,
    /// The bucket exists already.
    #[error("bucket already exists")]
    BucketExists,
    /// A bucket name must not be empty.
    #[error("bucket name required")]
    BucketNameRequired,
    /// Buckets can be nested at most [`NESTING_MAX`](crate::NESTING_MAX) deep.
    #[error("bucket nested too deeply")]
    BucketTooDeep,
    /// The sizes of the pair are out of bounds.
    #[error(transparent)]
    Put(#[from] PutError),
    /// The key holds a value where a bucket is expected, or a bucket where a value is expected.
    #[error("incompatible value")]
    IncompatibleValue,
}

/// Reason why a pair cannot be put. The texts are bbolt's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PutError {
    /// A key must not be empty.
    #[error("key required")]
    KeyRequired,
    /// A key may have at most [`KEY_MAX`] bytes.
    #[error("key too large")]
    KeyTooLarge,
    /// A value may have at most [`VALUE_MAX`] bytes.
    #[error("value too large")]
    ValueTooLarge,
}

impl PutError {
    /// Checks the sizes of a pair.
    ///
    /// # Errors
    /// The first bound that it exceeds.
    pub fn check(key: &[u8], value: &[u8]) -> Result<(), PutError> {
        match (key.len(), value.len()) {
            (0, _) => Err(PutError::KeyRequired),
            (key, _) if key > KEY_MAX => Err(PutError::KeyTooLarge),
            (_, value) if value > VALUE_MAX => Err(PutError::ValueTooLarge),
            _ => Ok(()),
        }
    }
}

/// Reason why a transaction could not be started or committed. Readers never see the failed
/// transaction. After `Io`, only reopening the file shows whether it was committed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CommitError {
    /// The file was opened read-only.
    #[error("{}: database is in read-only mode", .0.display())]
    ReadOnly(PathBuf),
    /// A disk operation failed.
    #[error("{}: {action}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operation that failed.
        action: &'static str,
        /// The error of the operating system.
        error: Arc<io::Error>,
    },
    /// A page that the transaction had to read is corrupt.
    #[error(transparent)]
    Corrupt(#[from] CorruptPage),
    /// An earlier commit failed. The content of the disk is unknown until the file is reopened.
    #[error("{}: writes are refused because a commit failed ({cause}); reopen the file", path.display())]
    Poisoned {
        /// The file.
        path: PathBuf,
        /// The error of the failed commit.
        cause: Arc<str>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "mlock error: cannot allocate memory" is bbolt's text.
    #[test]
    fn a_refused_mlock_names_the_limit_to_raise() {
        let error = io::Error::from_raw_os_error(12);
        let refused = OpenError::Mlock { path: "db".into(), file_len: 16384, error };
        assert_eq!(
            refused.to_string(),
            "db: mlock error: cannot allocate memory; the file has 16384 bytes: raise the limit of \
             locked memory (RLIMIT_MEMLOCK, ulimit -l, LimitMEMLOCK) beyond that, or do without"
        );
    }
}
