//! The part of the log that is not known to be durable yet.
//!
//! ```text
//! storage   … 5 6 7
//! unstable          8 9 | 10 11        offset = 8, in_progress = 10: 8 and 9 are being written
//! ```
//!
//! An entry is appended here first, then handed out, and forgotten only when a response says that it is
//! durable; until then reads come here before they go to storage. After a change of leader the two overlap:
//!
//! ```text
//! storage   … 5 6 7
//! unstable        7 8                  offset = 7: another leader's 7, which the next write puts in its place
//! ```

use types::{Index, Term};

use crate::entry::{Entry, EntryId};
use crate::snapshot::Snapshot;

/// Entries and a snapshot on their way to storage.
///
/// Invariants: `entries[i]` has index `offset + i`; `offset <= in_progress <= offset + entries.len()`.
#[derive(Debug)]
pub(crate) struct Unstable {
    snapshot: Option<Snapshot>,
    snapshot_in_progress: bool,
    entries: Vec<Entry>,
    offset: Index,
    in_progress: Index,
}

impl Unstable {
    /// Nothing is unstable; the next entry will be `offset`.
    #[must_use]
    pub(crate) fn new(offset: Index) -> Unstable {
        Unstable {
            snapshot: None,
            snapshot_in_progress: false,
            entries: Vec::new(),
            offset,
            in_progress: offset,
        }
    }

    /// The index of the first entry, were there one.
    #[must_use]
    pub(crate) fn offset(&self) -> Index {
        self.offset
    }

    /// Whether any entry is not known to be durable.
    #[must_use]
    pub(crate) fn has_entries(&self) -> bool {
        !self.entries.is_empty()
    }

    /// The snapshot, whether being written or not.
    #[must_use]
    pub(crate) fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }

    /// The first index of the log, if a snapshot here decides it.
    #[must_use]
    pub(crate) fn maybe_first_index(&self) -> Option<Index> {
        self.snapshot.as_ref().map(|snapshot| snapshot.metadata.index.next())
    }

    /// The last index of the log, if anything here decides it.
    #[must_use]
    pub(crate) fn maybe_last_index(&self) -> Option<Index> {
        let of_snapshot = || self.snapshot.as_ref().map(|snapshot| snapshot.metadata.index);
        self.entries.last().map(|entry| entry.index).or_else(of_snapshot)
    }

    /// The term of an entry, if it is known here.
    #[must_use]
    pub(crate) fn maybe_term(&self, index: Index) -> Option<Term> {
        if index < self.offset {
            let snapshot = self.snapshot.as_ref()?;
            return (snapshot.metadata.index == index).then_some(snapshot.metadata.term);
        }
        self.entries.get(self.position(index)).map(|entry| entry.term)
    }

    /// The entries that are not being written yet.
    #[must_use]
    pub(crate) fn next_entries(&self) -> &[Entry] {
        &self.entries[self.position(self.in_progress)..]
    }

    /// The snapshot, if it is not being written yet.
    #[must_use]
    pub(crate) fn next_snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref().filter(|_| !self.snapshot_in_progress)
    }

    /// Notes that everything here has been handed out for writing.
    pub(crate) fn accept_in_progress(&mut self) {
        self.in_progress = self.end();
        self.snapshot_in_progress = self.snapshot.is_some();
    }

    /// Forgets entries up to the one named, which is durable. Ignored unless that very entry is still
    /// here: it may have been replaced while it was written.
    ///
    /// The caller must know that no write under way could replace it in storage; see
    /// [`crate::RawNode::ready`].
    pub(crate) fn stable_to(&mut self, id: EntryId) {
        if id.index < self.offset || self.maybe_term(id.index) != Some(id.term) {
            return;
        }
        let durable = self.position(id.index) + 1;
        self.entries.drain(..durable);
        self.offset = id.index.next();
        self.in_progress = self.in_progress.max(self.offset);
    }

    /// Forgets the snapshot that ends at `index`, which is durable.
    pub(crate) fn stable_snapshot_to(&mut self, index: Index) {
        if self.snapshot.as_ref().is_some_and(|snapshot| snapshot.metadata.index == index) {
            self.snapshot = None;
            self.snapshot_in_progress = false;
        }
    }

    /// Starts over from a snapshot.
    pub(crate) fn restore(&mut self, snapshot: Snapshot) {
        self.offset = snapshot.metadata.index.next();
        self.in_progress = self.offset;
        self.entries.clear();
        self.snapshot = Some(snapshot);
        self.snapshot_in_progress = false;
    }

    /// Puts entries behind those here, replacing what is in their way.
    ///
    /// # Panics
    ///
    /// If there would be a hole.
    pub(crate) fn truncate_and_append(
        &mut self,
        entries: impl IntoIterator<Item = Entry>,
        from: Index,
    ) {
        assert!(from <= self.end(), "entry {from} would leave a hole behind {}", self.end());
        if from <= self.offset {
            // All of it goes, also what is being written: the next write replaces that in storage.
            self.entries.clear();
            self.offset = from;
            self.in_progress = from;
        } else {
            self.entries.truncate(self.position(from));
            self.in_progress = self.in_progress.min(from);
        }
        self.entries.extend(entries);
        debug_assert!(self.entries.last().is_none_or(|last| last.index.next() == self.end()));
    }

    /// The entries in `lo..hi`.
    ///
    /// # Panics
    ///
    /// If they are not all here.
    #[must_use]
    pub(crate) fn slice(&self, lo: Index, hi: Index) -> &[Entry] {
        assert!(
            self.offset <= lo && lo <= hi && hi <= self.end(),
            "unstable entries {lo}..{hi} asked of {}..{}",
            self.offset,
            self.end()
        );
        &self.entries[self.position(lo)..self.position(hi)]
    }

    /// The index behind the last entry.
    fn end(&self) -> Index {
        self.offset + self.entries.len() as u64
    }

    /// Where an index at or behind `offset` stands in `entries`; past the end if nowhere.
    fn position(&self, index: Index) -> usize {
        usize::try_from(index - self.offset).unwrap_or(usize::MAX)
    }
}
