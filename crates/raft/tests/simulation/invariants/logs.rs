//! Log matching: an index and a term name one entry, with one history before it.
//!
//! For every entry that any member was ever told to save, the term of the entry before it is remembered. If
//! an entry always follows the same one, then by induction two logs that share an entry share all before.

use std::collections::BTreeMap;

use raft::{Entry, EntryId};
use types::{Index, MemberId, Term};

use crate::app::entry_digest;
use crate::random::Digest;

use super::{Check, Invariant, ensure};

/// An entry without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) term: Term,
    pub(crate) digest: Digest,
}

/// The log of one member as its `Ready`s told it: what was handed out to be saved, durable or not.
/// Unlike the member's own it is never compacted.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogView {
    before: EntryId,
    entries: Vec<Known>,
}

impl LogView {
    pub(crate) fn starting_after(before: EntryId) -> LogView {
        LogView { before, entries: Vec::new() }
    }

    /// The entry that cannot be seen any more, just before the first that can.
    pub(crate) fn before(&self) -> EntryId {
        self.before
    }

    pub(crate) fn last_index(&self) -> Index {
        self.before.index + self.entries.len() as u64
    }

    pub(crate) fn get(&self, index: Index) -> Option<Known> {
        let position = index.0.checked_sub(self.before.index.0 + 1)?;
        self.entries.get(usize::try_from(position).ok()?).copied()
    }

    fn term(&self, index: Index) -> Option<Term> {
        if index == self.before.index {
            return Some(self.before.term);
        }
        self.get(index).map(|known| known.term)
    }

    /// Puts an entry behind the log or in the place of another, after which nothing is left.
    fn put(&mut self, index: Index, known: Known) {
        let position = index - self.before.index - 1;
        self.entries.truncate(usize::try_from(position).expect("logs are short here"));
        self.entries.push(known);
    }
}

/// Every entry any member was told to save.
#[derive(Default)]
pub(crate) struct LogMatching {
    /// By index and term: the term of the entry before, and what the entry says.
    entries: BTreeMap<(Index, Term), (Term, Digest)>,
}

impl LogMatching {
    /// A member is told to append entries to its log.
    pub(crate) fn appends(
        &mut self,
        member: MemberId,
        view: &mut LogView,
        entries: &[Entry],
        committed: Index,
    ) -> Check {
        for entry in entries {
            let (index, term) = (entry.index, entry.term);
            let known = Known { term, digest: entry_digest(entry) };
            let Some(prev) = view.term(index.prev()) else {
                return ensure(false, Invariant::LogMatching, || {
                    format!("{member} appends {term}/{index} behind a hole")
                });
            };
            let replaces = view.get(index).is_some_and(|old| old != known);
            ensure(!replaces || index > committed, Invariant::CommittedIsForEver, || {
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
