//! The log of a member: the entries in storage and the unstable ones, with the commit and apply
//! positions.
//!
//! ```text
//!                 applied  applying  committed          last
//!                    ▼        ▼          ▼               ▼
//! 1 2 3 | 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21
//!       └ first                      storage ┘└ unstable
//! ```
//!
//! Invariants: `applied <= applying <= committed <= last`; a committed entry is never replaced.

#[cfg(test)]
mod tests;
mod unstable;

pub(crate) use unstable::Unstable;

use types::{Index, Term};

use crate::entry::{Entry, EntryId, encoded_bytes, fitting_count};
use crate::snapshot::Snapshot;
use crate::storage::{LogError, SnapshotError, Storage};

/// The log of a member.
#[derive(Debug)]
pub(crate) struct RaftLog<S> {
    pub(crate) storage: S,
    unstable: Unstable,
    committed: Index,
    applying: Index,
    applied: Index,
    /// The maximum encoded bytes handed out for applying and not yet acknowledged.
    max_applying_bytes: u64,
    applying_bytes: u64,
    /// Whether handing out is paused until more entries are applied.
    applying_paused: bool,
}

impl<S: Storage> RaftLog<S> {
    /// Creates a log from storage. Everything before its first entry counts as applied.
    pub(crate) fn new(storage: S, max_applying_bytes: u64) -> RaftLog<S> {
        let applied = storage.first_index().prev();
        RaftLog {
            unstable: Unstable::new(storage.last_index().next()),
            storage,
            committed: applied,
            applying: applied,
            applied,
            max_applying_bytes,
            applying_bytes: 0,
            applying_paused: false,
        }
    }

    /// Returns the commit index.
    pub(crate) fn committed(&self) -> Index {
        self.committed
    }

    /// Returns the applied index.
    pub(crate) fn applied(&self) -> Index {
        self.applied
    }

    /// Returns the limit of bytes being applied; scans of committed entries use it as their page
    /// size.
    pub(crate) fn max_applying_bytes(&self) -> u64 {
        self.max_applying_bytes
    }

    /// Returns the part that is not durable yet.
    pub(crate) fn unstable(&self) -> &Unstable {
        &self.unstable
    }

    /// Returns the part that is not durable yet, for modification.
    pub(crate) fn unstable_mut(&mut self) -> &mut Unstable {
        &mut self.unstable
    }

    /// Returns the index of the first available entry.
    pub(crate) fn first_index(&self) -> Index {
        self.unstable.maybe_first_index().unwrap_or_else(|| self.storage.first_index())
    }

    /// Returns the index of the last entry.
    pub(crate) fn last_index(&self) -> Index {
        self.unstable.maybe_last_index().unwrap_or_else(|| self.storage.last_index())
    }

    /// Returns the id of the last entry.
    pub(crate) fn last_id(&self) -> EntryId {
        let index = self.last_index();
        let term = self.term(index).expect("the term of the last entry is always known");
        EntryId { term, index }
    }

    /// Returns the term of an entry, or of the entry just before the first one.
    pub(crate) fn term(&self, index: Index) -> Result<Term, LogError> {
        if let Some(term) = self.unstable.maybe_term(index) {
            return Ok(term);
        }
        // The id of the entry before the first is kept, because appends are matched against it.
        if index < self.first_index().prev() {
            return Err(LogError::Compacted);
        }
        if index > self.last_index() {
            return Err(LogError::Unavailable);
        }
        self.storage.term(index)
    }

    /// Reports whether this log contains the entry with this id.
    pub(crate) fn matches(&self, id: EntryId) -> bool {
        self.term(id.index) == Ok(id.term)
    }

    /// Reports whether a log that ends with `theirs` is at least as up to date as this one. Only
    /// such a log is certain to contain everything committed.
    pub(crate) fn is_up_to_date(&self, theirs: EntryId) -> bool {
        let ours = self.last_id();
        (theirs.term, theirs.index) >= (ours.term, ours.index)
    }

    /// Returns the largest index at or below `index` whose term is at most `term`, with that term.
    /// The two logs cannot match above it. A term of zero means that the term is unknown.
    pub(crate) fn find_conflict_by_term(&self, index: Index, term: Term) -> EntryId {
        let mut index = index;
        while index > Index::ZERO {
            match self.term(index) {
                Err(_) => return EntryId { term: Term::ZERO, index },
                Ok(ours) if ours <= term => return EntryId { term: ours, index },
                Ok(_) => index = index.prev(),
            }
        }
        EntryId::default()
    }

    /// Appends the entries of a leader that follow `prev`, if this log contains `prev`. Returns the
    /// index of the last entry, up to which the two logs now agree.
    ///
    /// # Panics
    ///
    /// Panics if a committed entry would be replaced. The entries must follow `prev` without a gap,
    /// and `prev` must not be before the commit index; both are checked when a message is received.
    pub(crate) fn maybe_append(
        &mut self,
        prev: EntryId,
        mut entries: Vec<Entry>,
        leader_commit: Index,
    ) -> Option<Index> {
        if !self.matches(prev) {
            return None;
        }
        let last_new = prev.index + entries.len() as u64;
        if let Some(position) = entries.iter().position(|entry| !self.matches(entry.id())) {
            entries.drain(..position);
            self.append(entries);
        }
        self.commit_to(leader_commit.min(last_new));
        Some(last_new)
    }

    /// Appends entries, replacing an uncommitted tail. Returns the last index.
    ///
    /// # Panics
    ///
    /// Panics if a committed entry would be replaced.
    pub(crate) fn append(&mut self, entries: Vec<Entry>) -> Index {
        if let Some(first) = entries.first() {
            let from = first.index;
            assert!(
                from > self.committed,
                "entry {from} would replace a committed entry (commit index {})",
                self.committed
            );
            self.unstable.truncate_and_append(entries, from);
        }
        self.last_index()
    }

    /// Advances the commit index.
    ///
    /// # Panics
    ///
    /// Panics if the log ends before `commit`: then acknowledged entries were lost.
    pub(crate) fn commit_to(&mut self, commit: Index) {
        if commit > self.committed {
            let last = self.last_index();
            assert!(
                commit <= last,
                "commit {commit} is beyond the last entry {last}: was the log damaged or lost?"
            );
            self.committed = commit;
        }
    }

    /// Advances the commit index to this entry if the log contains it; returns false if nothing
    /// changes. A leader passes an entry of its own term: older entries are committed indirectly,
    /// never by counting replicas (thesis 3.6.2).
    pub(crate) fn maybe_commit(&mut self, id: EntryId) -> bool {
        let commits = id.term != Term::ZERO && id.index > self.committed && self.matches(id);
        if commits {
            self.commit_to(id.index);
        }
        commits
    }

    /// Restores the commit index at a restart.
    ///
    /// # Panics
    ///
    /// Panics if the index is outside the log.
    pub(crate) fn load_commit(&mut self, commit: Index) {
        let last = self.last_index();
        assert!(
            self.committed <= commit && commit <= last,
            "saved commit {commit} is outside the log ({}, {last})",
            self.committed
        );
        self.committed = commit;
    }

    /// Records that everything up to `index`, of this encoded size, has been applied.
    ///
    /// # Panics
    ///
    /// Panics if the index was applied before, or is not committed.
    pub(crate) fn applied_to(&mut self, index: Index, bytes: u64) {
        assert!(
            self.applied <= index && index <= self.committed,
            "applied {index} is outside ({}, {})",
            self.applied,
            self.committed
        );
        self.applied = index;
        self.applying = self.applying.max(index);
        self.applying_bytes = self.applying_bytes.saturating_sub(bytes);
        self.applying_paused = self.applying_bytes >= self.max_applying_bytes;
    }

    /// Records that everything up to `index`, of this encoded size, was handed out for applying.
    pub(crate) fn accept_applying(&mut self, index: Index, bytes: u64, allow_unstable: bool) {
        assert!(index <= self.committed, "entry {index} was handed out before it was committed");
        self.applying = index;
        self.applying_bytes = self.applying_bytes.saturating_add(bytes);
        // A batch that stops short was limited by its size: pause although some room may be left,
        // so that the next batch does not consist of a single entry.
        self.applying_paused = self.applying_bytes >= self.max_applying_bytes
            || index < self.max_appliable(allow_unstable);
    }

    /// Reports whether there are committed entries to apply.
    pub(crate) fn has_next_committed(&self, allow_unstable: bool) -> bool {
        !self.applying_paused
            && self.unstable.snapshot().is_none()
            && self.applying < self.max_appliable(allow_unstable)
    }

    /// Returns the next committed entries to apply. A pending snapshot is applied first.
    pub(crate) fn next_committed(&self, allow_unstable: bool) -> Vec<Entry> {
        if !self.has_next_committed(allow_unstable) {
            return Vec::new();
        }
        let room = self.max_applying_bytes - self.applying_bytes;
        let end = self.max_appliable(allow_unstable).next();
        self.slice(self.applying.next(), end, room)
            .expect("committed entries are kept until applied")
    }

    /// Returns the highest index that may be applied. With asynchronous storage writes an entry is
    /// applied only after it is durable on this member, so that applied entries survive a crash.
    fn max_appliable(&self, allow_unstable: bool) -> Index {
        if allow_unstable {
            self.committed
        } else {
            self.committed.min(self.unstable.offset().prev())
        }
    }

    /// Returns the entries from `lo` on, as many as fit.
    pub(crate) fn entries(&self, lo: Index, max_bytes: u64) -> Result<Vec<Entry>, LogError> {
        let end = self.last_index().next();
        if lo >= end { Ok(Vec::new()) } else { self.slice(lo, end, max_bytes) }
    }

    /// Returns the entries in `lo..hi`, as many as fit but at least one.
    ///
    /// # Panics
    ///
    /// Panics if `hi` is beyond the log.
    pub(crate) fn slice(
        &self,
        lo: Index,
        hi: Index,
        max_bytes: u64,
    ) -> Result<Vec<Entry>, LogError> {
        assert!(
            lo <= hi && hi <= self.last_index().next(),
            "entries {lo}..{hi} are not in the log"
        );
        if lo < self.first_index() {
            return Err(LogError::Compacted);
        }
        let offset = self.unstable.offset();
        if lo >= offset {
            let tail = self.unstable.slice(lo, hi);
            return Ok(tail[..fitting_count(tail, max_bytes)].to_vec());
        }
        let stable_end = hi.min(offset);
        if lo == stable_end {
            return Ok(Vec::new());
        }
        let mut entries = match self.storage.entries(lo, stable_end, max_bytes) {
            Err(LogError::Unavailable) => panic!("storage lacks entries {lo}..{stable_end}"),
            result => result?,
        };
        let cut_short = (entries.len() as u64) < stable_end - lo;
        if hi > offset && !cut_short {
            self.extend_from_unstable(&mut entries, hi, max_bytes);
        }
        Ok(entries)
    }

    /// Appends unstable entries while there is room.
    fn extend_from_unstable(&self, entries: &mut Vec<Entry>, hi: Index, max_bytes: u64) {
        let used = encoded_bytes(entries);
        if used >= max_bytes {
            return;
        }
        let room = max_bytes - used;
        let tail = self.unstable.slice(self.unstable.offset(), hi);
        let count = fitting_count(tail, room);
        // `fitting_count` always counts one entry; after stable entries it must really fit.
        if count == 1 && tail[0].encoded_bytes() > room {
            return;
        }
        entries.extend_from_slice(&tail[..count]);
    }

    /// Calls `visit` with pages of the entries in `lo..hi` until it returns true; reports whether
    /// it did.
    pub(crate) fn any_page(
        &self,
        mut lo: Index,
        hi: Index,
        page_bytes: u64,
        mut visit: impl FnMut(&[Entry]) -> bool,
    ) -> Result<bool, LogError> {
        while lo < hi {
            let page = self.slice(lo, hi, page_bytes)?;
            if visit(&page) {
                return Ok(true);
            }
            lo += page.len() as u64;
        }
        Ok(false)
    }

    /// Returns the newest snapshot.
    pub(crate) fn snapshot(&self) -> Result<Snapshot, SnapshotError> {
        match self.unstable.snapshot() {
            Some(snapshot) => Ok(snapshot.clone()),
            None => self.storage.snapshot(),
        }
    }

    /// Replaces the log with a snapshot.
    pub(crate) fn restore(&mut self, snapshot: Snapshot) {
        self.committed = snapshot.metadata.index;
        self.unstable.restore(snapshot);
    }
}
