//! Property tests of the log against a list of entries, whatever part of it is durable, being
//! written, or waiting.

mod raft_log;
mod unstable;

use bytes::Bytes;
use types::{Index, Term};

use crate::conf::ConfState;
use crate::entry::{Entry, EntryId};
use crate::snapshot::{Snapshot, SnapshotMetadata};

/// Returns entries of one term from an index on. Payload sizes differ, so that limits apply
/// anywhere.
fn run_of(term: Term, first: Index, count: u64) -> Vec<Entry> {
    let payload = |index: u64| Bytes::from(vec![b'x'; usize::try_from(index * 7 % 23).unwrap()]);
    (first.0..first.0 + count)
        .map(|index| Entry { term, index: Index(index), ..Entry::normal(payload(index)) })
        .collect()
}

fn snapshot_at(id: EntryId) -> Snapshot {
    let conf_state = ConfState::default();
    let metadata = SnapshotMetadata { conf_state, index: id.index, term: id.term };
    Snapshot { data: Bytes::new(), metadata }
}

/// Defines the size limit: as many entries as fit, but at least one.
fn cut(entries: &[Entry], max_bytes: u64) -> Vec<Entry> {
    let fits = |count: &usize| {
        let bytes: u64 = entries[..*count].iter().map(Entry::encoded_bytes).sum();
        *count == 1 || bytes <= max_bytes
    };
    let count = (1..=entries.len()).take_while(fits).last().unwrap_or(0);
    entries[..count].to_vec()
}

/// The model: all entries after `before`, of which only the id is known.
#[derive(Clone, Debug)]
struct Truth {
    before: EntryId,
    entries: Vec<Entry>,
}

impl Truth {
    fn starting_at(before: EntryId) -> Truth {
        Truth { before, entries: Vec::new() }
    }

    fn first(&self) -> Index {
        self.before.index.next()
    }

    fn last(&self) -> EntryId {
        self.entries.last().map_or(self.before, Entry::id)
    }

    /// Returns the available entries in `lo..hi`.
    fn range(&self, lo: Index, hi: Index) -> &[Entry] {
        let position = |index: Index| usize::try_from(index - self.first()).unwrap();
        &self.entries[position(lo)..position(hi)]
    }

    /// Returns the term at an index, also just before the first entry.
    fn term(&self, index: Index) -> Option<Term> {
        let ids = std::iter::once(self.before).chain(self.entries.iter().map(Entry::id));
        ids.into_iter().find(|id| id.index == index).map(|id| id.term)
    }

    /// Appends entries or replaces the tail.
    fn write(&mut self, entries: &[Entry]) {
        if let Some(first) = entries.first() {
            self.entries.retain(|entry| entry.index < first.index);
            self.entries.extend_from_slice(entries);
        }
    }

    /// Drops entries up to an index.
    fn compact(&mut self, index: Index) {
        if let Some(term) = self.term(index) {
            self.before = EntryId { term, index };
            self.entries.retain(|entry| entry.index > index);
        }
    }
}
