//! Snapshots: the state machine up to an index, replacing the log up to there.

use bytes::Bytes;
use types::{Index, Term};

use crate::conf::ConfState;
use crate::entry::EntryId;

/// The state machine at an index, with the configuration in force there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The state, opaque to consensus. Empty if the database is sent separately.
    pub data: Bytes,
    /// The position of the snapshot in the log.
    pub metadata: SnapshotMetadata,
}

/// The position of a snapshot in the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotMetadata {
    /// The configuration in force at `index`.
    pub conf_state: ConfState,
    /// The last index that the snapshot covers.
    pub index: Index,
    /// The term of that entry.
    pub term: Term,
}

impl Snapshot {
    /// Returns the id of the last entry that the snapshot covers.
    #[must_use]
    pub fn id(&self) -> EntryId {
        EntryId { term: self.metadata.term, index: self.metadata.index }
    }

    /// Reports whether the snapshot covers nothing, which stands for no snapshot.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.metadata.index == Index::ZERO
    }
}
