//! The order that explains a history: what each revision did, and who made it.

use std::fmt;

use crate::model::{Change, KeyHistory};

/// Who made a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// This operation of the history.
    Operation(usize),
    /// The expiry of this lease.
    Expiry(i64),
}

/// What each revision did, from 2 on. If more than one order would explain the history, this is one of them.
#[derive(Clone, Debug)]
pub struct Log {
    pub(crate) keys: KeyHistory,
    pub(crate) writers: Vec<Writer>,
    pub(crate) steps: u64,
}

impl Log {
    /// The keys, with their past.
    #[must_use]
    pub fn keys(&self) -> &KeyHistory {
        &self.keys
    }

    /// The last revision that anybody saw.
    #[must_use]
    pub fn revision(&self) -> i64 {
        self.keys.revision()
    }

    /// Who made `revision`.
    #[must_use]
    pub fn writer(&self, revision: i64) -> Option<Writer> {
        self.writers.get(usize::try_from(revision.checked_sub(2)?).ok()?).copied()
    }

    /// What `revision` changed, in order.
    pub fn changes(&self, revision: i64) -> impl Iterator<Item = Change> {
        self.keys.changes(revision)
    }

    /// How many steps the search took: about as many as there are revisions, if there was little to guess.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Writer::Operation(i) => write!(f, "operation {i}"),
            Writer::Expiry(lease) => write!(f, "expiry of lease {lease}"),
        }
    }
}
