//! The part of the log that is not known to be durable.
//!
//! ```text
//! storage   … 5 6 7
//! unstable          8 9 | 10 11        offset = 8, in_progress = 10: 8 and 9 are being written
//! ```
//!
//! An entry is appended here first, then handed out, and removed only when a response reports that
//! it is durable. Until then reads find it here, before storage. After a change of leader the two
//! parts overlap:
//!
//! ```text
//! storage   … 5 6 7
//! unstable        7 8                  offset = 7: the new leader's 7 replaces the stored one
//! ```

use types::{Index, Term};

use crate::entry::{Entry, EntryId};
use crate::snapshot::Snapshot;

/// Entries and a snapshot that are not yet durable.
///
/// Invariants: `entries[i]` has index `offset + i`, and
/// `offset <= in_progress <= offset + entries.len()`.
#[derive(Debug)]
pub(crate) struct Unstable {
    snapshot: Option<Snapshot>,
    snapshot_in_progress: bool,
    entries: Vec<Entry>,
    offset: Index,
    in_progress: Index,
}

impl Unstable {
    /// Creates an empty part; the next entry will be `offset`.
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

    /// Returns the index of the first unstable entry, or of the next one if there is none.
    #[must_use]
    pub(crate) fn offset(&self) -> Index {
        self.offset
    }

    /// Reports whether any entry is not known to be durable.
    #[must_use]
    pub(crate) fn has_entries(&self) -> bool {
        !self.entries.is_empty()
    }

    /// Returns the snapshot, whether it is being written or not.
    #[must_use]
    pub(crate) fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }

    /// Returns the first index of the log if the snapshot determines it.
    #[must_use]
    pub(crate) fn maybe_first_index(&self) -> Option<Index> {
        self.snapshot.as_ref().map(|snapshot| snapshot.metadata.index.next())
    }

    /// Returns the last index of the log if this part determines it.
    #[must_use]
    pub(crate) fn maybe_last_index(&self) -> Option<Index> {
        let of_snapshot = || self.snapshot.as_ref().map(|snapshot| snapshot.metadata.index);
        self.entries.last().map(|entry| entry.index).or_else(of_snapshot)
    }

    /// Returns the term of an entry if it is known here.
    #[must_use]
    pub(crate) fn maybe_term(&self, index: Index) -> Option<Term> {
        if index < self.offset {
            let snapshot = self.snapshot.as_ref()?;
            return (snapshot.metadata.index == index).then_some(snapshot.metadata.term);
        }
        self.entries.get(self.position(index)).map(|entry| entry.term)
    }

    /// Returns the entries that are not being written yet.
    #[must_use]
    pub(crate) fn next_entries(&self) -> &[Entry] {
        &self.entries[self.position(self.in_progress)..]
    }

    /// Returns the snapshot if it is not being written yet.
    #[must_use]
    pub(crate) fn next_snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref().filter(|_| !self.snapshot_in_progress)
    }

    /// Marks everything as being written.
    pub(crate) fn accept_in_progress(&mut self) {
        self.in_progress = self.end();
        self.snapshot_in_progress = self.snapshot.is_some();
    }

    /// Removes entries up to `id`, which is durable. Does nothing unless this part still contains
    /// that very entry: it may have been replaced while it was written.
    ///
    /// The caller must ensure that no write in progress could replace the entry in storage; see
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

    /// Removes the snapshot that ends at `index`, which is durable.
    pub(crate) fn stable_snapshot_to(&mut self, index: Index) {
        if self.snapshot.as_ref().is_some_and(|snapshot| snapshot.metadata.index == index) {
            self.snapshot = None;
            self.snapshot_in_progress = false;
        }
    }

    /// Replaces everything with a snapshot.
    pub(crate) fn restore(&mut self, snapshot: Snapshot) {
        self.offset = snapshot.metadata.index.next();
        self.in_progress = self.offset;
        self.entries.clear();
        self.snapshot = Some(snapshot);
        self.snapshot_in_progress = false;
    }

    /// Appends entries, replacing existing ones from `from` on.
    ///
    /// # Panics
    ///
    /// Panics if there would be a gap.
    pub(crate) fn truncate_and_append(
        &mut self,
        entries: impl IntoIterator<Item = Entry>,
        from: Index,
    ) {
        assert!(from <= self.end(), "entry {from} would leave a gap after {}", self.end());
        if from <= self.offset {
            // Drop everything, including entries being written: the next write replaces them in
            // storage.
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

    /// Returns the entries in `lo..hi`.
    ///
    /// # Panics
    ///
    /// Panics if this part does not contain all of them.
    #[must_use]
    pub(crate) fn slice(&self, lo: Index, hi: Index) -> &[Entry] {
        assert!(
            self.offset <= lo && lo <= hi && hi <= self.end(),
            "unstable entries {lo}..{hi} are outside {}..{}",
            self.offset,
            self.end()
        );
        &self.entries[self.position(lo)..self.position(hi)]
    }

    /// Returns the index after the last entry.
    fn end(&self) -> Index {
        self.offset + self.entries.len() as u64
    }

    /// Returns the position of an index at or after `offset` in `entries`; past the end if it is
    /// not there.
    fn position(&self, index: Index) -> usize {
        usize::try_from(index - self.offset).unwrap_or(usize::MAX)
    }
}
