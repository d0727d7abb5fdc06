//! What can go wrong, in words that name the file and the place.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::page::PageId;

/// Why a file could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The operating system said no.
    #[error("{}: {action}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What it said.
        error: io::Error,
    },
    /// Somebody else has the file open: another process, or this one.
    #[error("{}: timeout: locked by another process for {waited:?}", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
        /// How long we waited.
        waited: Duration,
    },
    /// Neither meta page is usable.
    #[error("{}: not a database: page 0: {first}; page 1: {second}", path.display())]
    NoMeta {
        /// The file.
        path: PathBuf,
        /// What is wrong with the first meta page.
        first: &'static str,
        /// What is wrong with the second.
        second: &'static str,
    },
    /// The pages contradict each other.
    #[error(transparent)]
    Damaged(Damaged),
    /// The file is empty or missing, and may not be written.
    #[error("{}: nothing to read: the file is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// An option that makes no sense.
    #[error("page size {0} is no power of two between 1 KiB and 16 MiB")]
    PageSize(usize),
}

/// Bytes in a file that cannot be right.
#[derive(Clone, PartialEq, Eq)]
pub struct Damaged(Box<Damage>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Damage {
    path: Arc<Path>,
    page: PageId,
    reason: String,
}

impl Damaged {
    #[cold]
    pub(crate) fn new(path: &Arc<Path>, page: PageId, reason: impl Into<String>) -> Damaged {
        Damaged(Box::new(Damage { path: Arc::clone(path), page, reason: reason.into() }))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The number of the page, counted from the start of the file. Its offset is that times the page size.
    pub fn page(&self) -> u64 {
        self.0.page
    }

    /// What is wrong there.
    pub fn reason(&self) -> &str {
        &self.0.reason
    }
}

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: page {}: {}", self.0.path.display(), self.0.page, self.0.reason)
    }
}

impl fmt::Debug for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Damaged {}

/// Why a bucket could not be read or changed. Apart from `Damaged`, the texts are bbolt's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file is damaged.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// There is no such bucket.
    #[error("bucket not found")]
    BucketNotFound,
    /// There is one already.
    #[error("bucket already exists")]
    BucketExists,
    /// A bucket has a name.
    #[error("bucket name required")]
    BucketNameRequired,
    /// Buckets are at most [`NESTING_MAX`](crate::NESTING_MAX) inside each other.
    #[error("bucket too deep inside others")]
    BucketTooDeep,
    /// A key has at least one byte.
    #[error("key required")]
    KeyRequired,
    /// A key has at most [`KEY_MAX`](crate::KEY_MAX) bytes.
    #[error("key too large")]
    KeyTooLarge,
    /// A value has at most [`VALUE_MAX`](crate::VALUE_MAX) bytes.
    #[error("value too large")]
    ValueTooLarge,
    /// A pair where a bucket was meant, or the other way round.
    #[error("incompatible value")]
    IncompatibleValue,
}

/// Why a transaction could not be started or committed. Readers do not see it; after `Io`, whether it is in the file shows when that is
/// opened again.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CommitError {
    /// The file was opened to be read.
    #[error("{}: database is in read-only mode", .0.display())]
    ReadOnly(PathBuf),
    /// The disk failed.
    #[error("{}: {action}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the disk said.
        error: Arc<io::Error>,
    },
    /// A page that had to be read is damaged.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// An earlier commit failed. What the disk holds is unknown until the file is opened again.
    #[error("{}: no writes since a commit failed ({cause}); open the file again", path.display())]
    Poisoned {
        /// The file.
        path: PathBuf,
        /// What went wrong then.
        cause: Arc<str>,
    },
}
