//! Log matching: index and term identify an entry and all entries before it.
//!
//! For every entry that any member was given to append, the term of the previous entry is recorded.
//! If an entry always follows the same one, then by induction two logs that share an entry share
//! everything before it.

use std::collections::BTreeMap;

use raft::{Entry, EntryId};
use simkit::Digest;
use types::{Index, MemberId, Term};

use crate::app::entry_digest;

use super::{Check, Invariant, ensure};

/// An entry without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryDigest {
    pub(crate) term: Term,
    pub(crate) digest: Digest,
}

/// The log of a member as its `Ready`s handed it out, durable or not. Unlike the member's own log
/// it is never compacted.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogView {
    before: EntryId,
    entries: Vec<EntryDigest>,
}

impl LogView {
    pub(crate) fn starting_after(before: EntryId) -> LogView {
        LogView { before, entries: Vec::new() }
    }

    /// Returns the entry just before the first visible one.
    pub(crate) fn before(&self) -> EntryId {
        self.before
    }

    pub(crate) fn last_index(&self) -> Index {
        self.before.index + self.entries.len() as u64
    }

    pub(crate) fn get(&self, index: Index) -> Option<EntryDigest> {
        let position = index.0.checked_sub(self.before.index.0 + 1)?;
        self.entries.get(usize::try_from(position).ok()?).copied()
    }

    fn term(&self, index: Index) -> Option<Term> {
        if index == self.before.index {
            return Some(self.before.term);
        }
        self.get(index).map(|known| known.term)
    }

    /// Appends an entry, or replaces one and truncates the log after it.
    fn put(&mut self, index: Index, known: EntryDigest) {
        let position = index - self.before.index - 1;
        self.entries.truncate(usize::try_from(position).expect("simulated logs are short"));
        self.entries.push(known);
    }
}

/// All entries that any member was given to append.
#[derive(Default)]
pub(crate) struct LogMatching {
    /// By index and term: the term of the previous entry, and the digest of the entry.
    entries: BTreeMap<(Index, Term), (Term, Digest)>,
}

impl LogMatching {
    /// Checks entries that a member is given to append.
    pub(crate) fn appends(
        &mut self,
        member: MemberId,
        view: &mut LogView,
        entries: &[Entry],
        committed: Index,
    ) -> Check {
        for entry in entries {
            let (index, term) = (entry.index, entry.term);
            let known = EntryDigest { term, digest: entry_digest(entry) };
            let Some(prev) = view.term(index.prev()) else {
                return ensure(false, Invariant::LogMatching, || {
                    format!("{member} appends {term}/{index} after a gap")
                });
            };
            let replaces = view.get(index).is_some_and(|old| old != known);
            ensure(!replaces || index > committed, Invariant::CommittedIsImmutable, || {
                format!("{member} replaces {index} although it has committed {committed}")
            })?;
            let first = *self.entries.entry((index, term)).or_insert((prev, known.digest));
            ensure(first == (prev, known.digest), Invariant::LogMatching, || {
                format!(
                    "{member} appends another {term}/{index}: {first:?}, {prev:?} {:?}",
                    known.digest
                )
            })?;
            view.put(index, known);
        }
        Ok(())
    }
}
