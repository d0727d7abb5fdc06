//! A snapshot: the state machine up to an index, in place of the log up to there.

use bytes::Bytes;
use types::{Index, Term};

use crate::conf::ConfState;
use crate::entry::EntryId;

/// The state machine at an index, with the configuration in force there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The state, opaque to consensus. Large databases travel beside the message and leave it empty.
    pub data: Bytes,
    /// Where in the log the snapshot stands.
    pub metadata: SnapshotMetadata,
}

/// Where in the log a snapshot stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotMetadata {
    /// The configuration in force at `index`.
    pub conf_state: ConfState,
    /// The last entry the snapshot covers.
    pub index: Index,
    /// The term of that entry.
    pub term: Term,
}

impl Snapshot {
    /// The last entry the snapshot covers.
    #[must_use]
    pub fn id(&self) -> EntryId {
        EntryId { term: self.metadata.term, index: self.metadata.index }
    }

    /// A snapshot that covers nothing stands for the absence of one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.metadata.index == Index::ZERO
    }
}
