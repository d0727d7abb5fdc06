//! The key index of a key with many revisions since the last compaction.
//!
//! Equivalent to a [`KeyIndex`], in a form that finds a revision by bisection and appends one in
//! place. A clone, made while a reader holds the previous index, shares all but the newest chunk
//! ([`ChunkedList`]).

use types::Revision;

use super::KeyMeta;
use super::chunked_list::ChunkedList;
use super::key_index::{KeyCompaction, KeyIndex, write_generations};

/// A decoded key index.
#[derive(Clone, Debug)]
pub(super) struct LongKeyIndex {
    deleted: bool,
    /// The generations, oldest first. None is empty, and all but the last end with a tombstone; the
    /// last one does if the key is deleted.
    generations: ChunkedList<Generation>,
}

#[derive(Clone, Debug)]
struct Generation {
    version: i64,
    created: i64,
    revisions: ChunkedList<Revision>,
}

impl LongKeyIndex {
    /// Returns whether the key exists at the latest revision.
    pub(super) fn is_live(&self) -> bool {
        !self.deleted
    }

    /// Returns the heap memory in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        let revisions = self.generations.iter().map(|generation| generation.revisions.capacity());
        self.generations.capacity() * size_of::<Generation>()
            + revisions.sum::<usize>() * size_of::<Revision>()
    }

    /// Returns the number of revisions.
    pub(super) fn len(&self) -> usize {
        self.generations.iter().map(|generation| generation.revisions.len()).sum()
    }

    /// Returns the key at a revision, or `None` if it does not exist then.
    pub(super) fn at(&self, revision: i64) -> Option<KeyMeta> {
        let later = self.generations.partition_point(|generation| generation.oldest() <= revision);
        let position = later.checked_sub(1)?;
        let generation = self.generations.get(position);
        if self.is_closed(position) && generation.newest().main <= revision {
            return None;
        }
        let at = generation.position(revision)?;
        let later = generation.revisions.len() - 1 - at;
        let version =
            generation.version - i64::try_from(later).expect("a count in memory fits into an i64");
        let modified = *generation.revisions.get(at);
        Some(KeyMeta { modified, created: generation.created, version })
    }

    /// Appends a revision.
    ///
    /// # Panics
    /// If the revision is not the newest, or a tombstone of a deleted key.
    pub(super) fn add(&mut self, revision: Revision, tombstone: bool) {
        let generation = self.generations.last().expect("a key index has at least one generation");
        let newest = generation.newest();
        assert!(revision > newest, "revision {revision} is not after {newest}");
        assert!(!(tombstone && self.deleted), "the key is deleted already");
        if self.deleted {
            let revisions = ChunkedList::default();
            self.generations.push(Generation { version: 0, created: revision.main, revisions });
        }
        self.deleted = tombstone;
        let generation =
            self.generations.last_mut().expect("a key index has at least one generation");
        generation.version += 1;
        generation.revisions.push(revision);
    }

    /// Returns the effect of a compaction.
    pub(super) fn plan_compaction(&self, at: i64) -> KeyCompaction {
        let first = self.first_kept(at);
        if first == self.generations.len() {
            return KeyCompaction { revision: None, tombstone: false, drops: true, empty: true };
        }
        let generation = self.generations.get(first);
        let position = generation.position(at);
        let revision = position.map(|position| *generation.revisions.get(position));
        let last = position == Some(generation.revisions.len() - 1);
        let tombstone = last && self.is_closed(first);
        let drops = first > 0 || position.is_some_and(|position| position > 0);
        KeyCompaction { revision, tombstone, drops, empty: false }
    }

    /// Returns the key index after a compaction.
    pub(super) fn compact(&self, at: i64) -> LongKeyIndex {
        let left = self.generations.iter().skip(self.first_kept(at));
        let mut generations: Vec<Generation> = left.cloned().collect();
        if let Some(first) = generations.first_mut()
            && let Some(position) = first.position(at)
        {
            first.revisions = first.revisions.iter().skip(position).copied().collect();
        }
        LongKeyIndex { deleted: self.deleted, generations: generations.into_iter().collect() }
    }

    /// Encodes it as a [`KeyIndex`].
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let newest_first = self.generations.iter().rev().map(|generation| {
            let revisions: Vec<Revision> = generation.revisions.iter().rev().copied().collect();
            (generation.version, generation.created, revisions)
        });
        write_generations(self.deleted, &newest_first.collect::<Vec<_>>(), out);
    }

    /// Returns the first generation that a compaction keeps. A transaction may end a generation and
    /// begin the next; if that is the compacted revision, the later generation is kept.
    fn first_kept(&self, at: i64) -> usize {
        let over = self.generations.partition_point(|generation| generation.newest().main < at);
        if over + 1 == self.generations.len() && !self.is_closed(over) {
            return over;
        }
        if over == self.generations.len() {
            return if self.deleted { over } else { over - 1 };
        }
        let next = (over + 1 < self.generations.len()).then(|| self.generations.get(over + 1));
        let ends_there = self.generations.get(over).newest().main == at;
        over + usize::from(ends_there && next.is_some_and(|next| next.oldest() == at))
    }

    fn is_closed(&self, generation: usize) -> bool {
        self.deleted || generation + 1 < self.generations.len()
    }
}

impl From<KeyIndex<'_>> for LongKeyIndex {
    fn from(history: KeyIndex<'_>) -> LongKeyIndex {
        let (deleted, newest_first) = history.generations();
        let generations = newest_first.into_iter().rev().map(|(version, created, revisions)| {
            let revisions = revisions.into_iter().rev().collect();
            Generation { version, created, revisions }
        });
        LongKeyIndex { deleted, generations: generations.collect() }
    }
}

impl Generation {
    fn oldest(&self) -> i64 {
        self.revisions.get(0).main
    }

    fn newest(&self) -> Revision {
        *self.revisions.last().expect("a generation has at least one revision")
    }

    /// Returns the position of the last revision at or below another.
    fn position(&self, revision: i64) -> Option<usize> {
        self.revisions.partition_point(|one| one.main <= revision).checked_sub(1)
    }
}
