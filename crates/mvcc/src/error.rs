//! What can go wrong, in etcd's words.

use backend::{CommitError, PutError, ReadError};
use types::Revision;

/// Why a request about keys was not carried out. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The revision is below the compacted one.
    #[error("mvcc: required revision has been compacted")]
    Compacted,
    /// The revision is above the current one.
    #[error("mvcc: required revision is a future revision")]
    FutureRevision,
    /// The lease is not known.
    #[error("lease not found")]
    LeaseNotFound,
    /// The value or the lease of a key was to stay as it is, but the key is not there.
    #[error("etcdserver: key not found")]
    KeyNotFound,
    /// This member cannot go on: what it holds is not what it should.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// What other members do not share: the file of this one is damaged or cannot be written. It has to stop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Something could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The index has a revision that the file does not have.
    #[error("bucket key: revision {0} is missing")]
    Missing(Revision),
    /// Something could not be put.
    #[error("bucket key: {0}")]
    Put(#[from] PutError),
    /// A batch of a compaction could not be committed.
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
