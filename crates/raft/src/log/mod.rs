//! The log of one member: what storage holds, what is on its way there, and how far it got.
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

use crate::entry::{Entry, EntryId, encoded_bytes, fitting};
use crate::snapshot::Snapshot;
use crate::storage::{LogError, SnapshotError, Storage};

/// The log of one member.
#[derive(Debug)]
pub(crate) struct RaftLog<S> {
    pub(crate) storage: S,
    unstable: Unstable,
    committed: Index,
    applying: Index,
    applied: Index,
    /// How much may be handed out for applying and not yet acknowledged.
    max_applying_bytes: u64,
    applying_bytes: u64,
    /// Whether nothing more is handed out until something was applied.
    applying_paused: bool,
}

impl<S: Storage> RaftLog<S> {
    /// The log as storage has it. Everything before its first entry has been applied.
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

    /// How far the log is known to be committed.
    pub(crate) fn committed(&self) -> Index {
        self.committed
    }

    /// How far it is known to be applied.
    pub(crate) fn applied(&self) -> Index {
        self.applied
    }

    /// The limit on what is being applied; scans of committed entries use it as their page.
    pub(crate) fn max_applying_bytes(&self) -> u64 {
        self.max_applying_bytes
    }

    /// The part that is not durable yet.
    pub(crate) fn unstable(&self) -> &Unstable {
        &self.unstable
    }

    /// The part that is not durable yet, to change.
    pub(crate) fn unstable_mut(&mut self) -> &mut Unstable {
        &mut self.unstable
    }

    /// The first entry that can be read.
    pub(crate) fn first_index(&self) -> Index {
        self.unstable.maybe_first_index().unwrap_or_else(|| self.storage.first_index())
    }

    /// The last entry.
    pub(crate) fn last_index(&self) -> Index {
        self.unstable.maybe_last_index().unwrap_or_else(|| self.storage.last_index())
    }

    /// The name of the last entry.
    pub(crate) fn last_id(&self) -> EntryId {
        let index = self.last_index();
        let term = self.term(index).expect("the term of the last entry is always kept");
        EntryId { term, index }
    }

    /// The term of an entry, or of the one just before the first.
    pub(crate) fn term(&self, index: Index) -> Result<Term, LogError> {
        if let Some(term) = self.unstable.maybe_term(index) {
            return Ok(term);
        }
        // The entry before the first is kept as a name, to match appends against.
        if index < self.first_index().prev() {
            return Err(LogError::Compacted);
        }
        if index > self.last_index() {
            return Err(LogError::Unavailable);
        }
        self.storage.term(index)
    }

    /// Whether this log holds the entry named.
    pub(crate) fn matches(&self, id: EntryId) -> bool {
        self.term(id.index) == Ok(id.term)
    }

    /// Whether a log that ends so is at least as good as this one: whoever leads must hold
    /// everything committed, and a better log does.
    pub(crate) fn is_up_to_date(&self, theirs: EntryId) -> bool {
        let ours = self.last_id();
        (theirs.term, theirs.index) >= (ours.term, ours.index)
    }

    /// The largest index at or below `index` whose term is at most `term`, with that term; the two
    /// logs cannot match anywhere above it. A term of zero says that it is not known here.
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

    /// Takes entries of a leader that follow `prev`, if this log holds `prev`; gives the index of
    /// the last of them, up to which the two logs now agree.
    ///
    /// # Panics
    ///
    /// If a committed entry would be replaced. The entries must follow `prev` without a hole, and
    /// `prev` must not lie before the committed part; both are checked where messages come in.
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

    /// Puts entries behind the log, replacing an uncommitted tail; gives the last index.
    ///
    /// # Panics
    ///
    /// If a committed entry would be replaced.
    pub(crate) fn append(&mut self, entries: Vec<Entry>) -> Index {
        if let Some(first) = entries.first() {
            let from = first.index;
            assert!(
                from > self.committed,
                "entry {from} would replace a committed one (commit is {})",
                self.committed
            );
            self.unstable.truncate_and_append(entries, from);
        }
        self.last_index()
    }

    /// Moves the commit index forward.
    ///
    /// # Panics
    ///
    /// If the log does not reach that far: then entries were lost that this member had acknowledged.
    pub(crate) fn commit_to(&mut self, commit: Index) {
        if commit > self.committed {
            let last = self.last_index();
            assert!(
                commit <= last,
                "commit {commit} lies behind the last entry {last}: was the log damaged or lost?"
            );
            self.committed = commit;
        }
    }

    /// Commits up to the entry named if it is here; false if that says nothing new. A leader names an
    /// entry of its own term: older ones are committed by it, never by counting (thesis 3.6.2).
    pub(crate) fn maybe_commit(&mut self, id: EntryId) -> bool {
        let commits = id.term != Term::ZERO && id.index > self.committed && self.matches(id);
        if commits {
            self.commit_to(id.index);
        }
        commits
    }

    /// Takes over the commit index of a restart.
    ///
    /// # Panics
    ///
    /// If it does not lie in the log.
    pub(crate) fn load_commit(&mut self, commit: Index) {
        let last = self.last_index();
        assert!(
            self.committed <= commit && commit <= last,
            "saved commit {commit} lies outside of the log ({}, {last})",
            self.committed
        );
        self.committed = commit;
    }

    /// Notes that everything up to `index`, of this encoded size, has been applied.
    ///
    /// # Panics
    ///
    /// If it was applied before, or has not been committed.
    pub(crate) fn applied_to(&mut self, index: Index, bytes: u64) {
        assert!(
            self.applied <= index && index <= self.committed,
            "applied {index} lies outside of ({}, {})",
            self.applied,
            self.committed
        );
        self.applied = index;
        self.applying = self.applying.max(index);
        self.applying_bytes = self.applying_bytes.saturating_sub(bytes);
        self.applying_paused = self.applying_bytes >= self.max_applying_bytes;
    }

    /// Notes that everything up to `index`, of this encoded size, was handed out for applying.
    pub(crate) fn accept_applying(&mut self, index: Index, bytes: u64, allow_unstable: bool) {
        assert!(index <= self.committed, "{index} was handed out before it was committed");
        self.applying = index;
        self.applying_bytes = self.applying_bytes.saturating_add(bytes);
        // A batch that stopped short was cut by its size: wait, although some room may be left, so
        // that the next one is not cut to a single entry.
        self.applying_paused = self.applying_bytes >= self.max_applying_bytes
            || index < self.max_appliable(allow_unstable);
    }

    /// Whether there is something to apply.
    pub(crate) fn has_next_committed(&self, allow_unstable: bool) -> bool {
        !self.applying_paused
            && self.unstable.snapshot().is_none()
            && self.applying < self.max_appliable(allow_unstable)
    }

    /// The next committed entries to apply. A snapshot on its way comes first.
    pub(crate) fn next_committed(&self, allow_unstable: bool) -> Vec<Entry> {
        if !self.has_next_committed(allow_unstable) {
            return Vec::new();
        }
        let room = self.max_applying_bytes - self.applying_bytes;
        let end = self.max_appliable(allow_unstable).next();
        self.slice(self.applying.next(), end, room)
            .expect("committed entries are kept until applied")
    }

    /// How far entries may be applied. Where storage is written asynchronously, an entry is applied
    /// only once this member has it durably, so that what was applied survives a crash.
    fn max_appliable(&self, allow_unstable: bool) -> Index {
        if allow_unstable {
            self.committed
        } else {
            self.committed.min(self.unstable.offset().prev())
        }
    }

    /// The entries from `lo` on, as many as fit.
    pub(crate) fn entries(&self, lo: Index, max_bytes: u64) -> Result<Vec<Entry>, LogError> {
        let end = self.last_index().next();
        if lo >= end { Ok(Vec::new()) } else { self.slice(lo, end, max_bytes) }
    }

    /// The entries in `lo..hi`, as many as fit but at least one.
    ///
    /// # Panics
    ///
    /// If `hi` lies behind the log.
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
            return Ok(tail[..fitting(tail, max_bytes)].to_vec());
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

    /// Fills what room is left behind the durable entries.
    fn extend_from_unstable(&self, entries: &mut Vec<Entry>, hi: Index, max_bytes: u64) {
        let used = encoded_bytes(entries);
        if used >= max_bytes {
            return;
        }
        let room = max_bytes - used;
        let tail = self.unstable.slice(self.unstable.offset(), hi);
        let count = fitting(tail, room);
        // One entry is always said to fit; here there are entries already, so it must really.
        if count == 1 && tail[0].encoded_bytes() > room {
            return;
        }
        entries.extend_from_slice(&tail[..count]);
    }

    /// Calls `visit` with pages of the entries in `lo..hi` until it returns true; whether it did.
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

    /// The newest snapshot.
    pub(crate) fn snapshot(&self) -> Result<Snapshot, SnapshotError> {
        match self.unstable.snapshot() {
            Some(snapshot) => Ok(snapshot.clone()),
            None => self.storage.snapshot(),
        }
    }

    /// Starts over from a snapshot.
    pub(crate) fn restore(&mut self, snapshot: Snapshot) {
        self.committed = snapshot.metadata.index;
        self.unstable.restore(snapshot);
    }
}
