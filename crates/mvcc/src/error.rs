//! Errors of the store. Texts are etcd's where clients see them.

use backend::{CommitError, PutError, ReadError};
use types::Revision;

/// A request was refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The revision is below the compacted one.
    #[error("mvcc: required revision has been compacted")]
    Compacted,
    /// The revision is above the current one.
    #[error("mvcc: required revision is a future revision")]
    FutureRevision,
    /// The lease does not exist.
    #[error("lease not found")]
    LeaseNotFound,
    /// The put keeps the value or the lease of a key that does not exist.
    #[error("etcdserver: key not found")]
    KeyNotFound,
    /// The member has to stop.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// A failure of the local member alone: its database is damaged or cannot be written. The member
/// has to stop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A read failed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The index has a revision that the database lacks.
    #[error("bucket key: revision {0} is missing")]
    Missing(Revision),
    /// A write failed.
    #[error("bucket key: {0}")]
    Put(#[from] PutError),
    /// A compaction batch could not be committed.
    #[error("{0}")]
    Commit(String),
}

impl From<backend::CorruptPage> for Fault {
    fn from(damaged: backend::CorruptPage) -> Fault {
        Fault::Read(ReadError::from(damaged))
    }
}

impl From<CommitError> for Fault {
    fn from(error: CommitError) -> Fault {
        Fault::Commit(error.to_string())
    }
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Error {
        Error::Fault(error.into())
    }
}

impl From<backend::CorruptPage> for Error {
    fn from(damaged: backend::CorruptPage) -> Error {
        Error::Fault(damaged.into())
    }
}
