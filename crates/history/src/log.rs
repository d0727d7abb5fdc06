//! The order that explains a history: the changes of each revision and its writer.

use std::fmt;

use crate::model::{Change, KeyHistory};

/// The writer of a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevisionWriter {
    /// The operation at this position in the history.
    Operation(usize),
    /// The expiry of the lease with this id.
    Expiry(i64),
}

/// The changes of each revision, from 2 on. Where several orders explain the history, this is one
/// of them.
#[derive(Clone, Debug)]
pub struct Log {
    pub(crate) keys: KeyHistory,
    pub(crate) writers: Vec<RevisionWriter>,
    pub(crate) steps: u64,
}

impl Log {
    /// Returns the keys with all their revisions.
    #[must_use]
    pub fn keys(&self) -> &KeyHistory {
        &self.keys
    }

    /// Returns the last revision that any observation shows.
    #[must_use]
    pub fn revision(&self) -> i64 {
        self.keys.revision()
    }

    /// Returns the writer of `revision`.
    #[must_use]
    pub fn writer(&self, revision: i64) -> Option<RevisionWriter> {
        self.writers.get(usize::try_from(revision.checked_sub(2)?).ok()?).copied()
    }

    /// Returns the changes of `revision`, in execution order.
    pub fn changes(&self, revision: i64) -> impl Iterator<Item = Change> {
        self.keys.changes(revision)
    }

    /// Returns the number of search steps. It is close to the number of revisions when the search
    /// rarely had to choose.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }
}

impl fmt::Display for RevisionWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RevisionWriter::Operation(i) => write!(f, "operation {i}"),
            RevisionWriter::Expiry(lease) => write!(f, "expiry of lease {lease}"),
        }
    }
}
