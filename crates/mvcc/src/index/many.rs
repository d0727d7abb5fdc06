//! The revisions of a key that was put over and over since the last compaction.
//!
//! The same as a [`History`], in a form in which a revision is found by halving, and one more is added in place. The revisions of a generation are in
//! chunks that are shared once they are full, so that a copy, made because somebody still reads the index as it was, stays small:
//!
//! ```text
//!   generation { version 2500, created 2 }   chunks  [2 .. 1025] [1026 .. 2049]   tail  [2050 .. 2501]
//! ```

use std::sync::Arc;

use types::Revision;

use super::Found;
use super::history::{History, Kept, write_generations};

/// Revisions of a full chunk.
const CHUNK: usize = if cfg!(test) { 16 } else { 1024 };

/// A long history.
#[derive(Clone, Debug)]
pub(super) struct Many {
    deleted: bool,
    /// The oldest first; none is empty, and all but the last end with a tombstone. The last does if the key is deleted.
    generations: Vec<Generation>,
}

#[derive(Clone, Debug)]
struct Generation {
    version: i64,
    created: i64,
    chunks: Vec<Arc<[Revision]>>,
    tail: Vec<Revision>,
}

impl Many {
    /// Whether the key is there by now.
    pub(super) fn is_live(&self) -> bool {
        !self.deleted
    }

    /// Bytes of memory behind it.
    pub(super) fn heap_bytes(&self) -> usize {
        let revisions: usize = self.generations.iter().map(Generation::capacity).sum();
        self.generations.capacity() * size_of::<Generation>() + revisions * size_of::<Revision>()
    }

    /// Revisions in all.
    pub(super) fn len(&self) -> usize {
        self.generations.iter().map(Generation::len).sum()
    }

    /// The key as of a revision.
    pub(super) fn at(&self, revision: i64) -> Option<Found> {
        let generation =
            self.generations.iter().rposition(|generation| generation.get(0).main <= revision)?;
        let closed = self.is_closed(generation);
        let generation = &self.generations[generation];
        if closed && generation.newest().main <= revision {
            return None;
        }
        let last = generation.len() - 1;
        let at = generation.position(revision)?;
        let version = generation.version - i64::try_from(last - at).expect("counted in memory");
        Some(Found { modified: generation.get(at), created: generation.created, version })
    }

    /// Adds a revision.
    ///
    /// # Panics
    /// If that is not the newest; or a tombstone of a key that is not there.
    pub(super) fn add(&mut self, revision: Revision, tombstone: bool) {
        assert!(!(tombstone && self.deleted), "a key that is not there is not deleted");
        if self.deleted {
            self.generations.push(Generation::new(0, revision.main));
        }
        self.deleted = tombstone;
        let generation = self.generations.last_mut().expect("there is at least one");
        generation.version += 1;
        generation.push(revision);
    }

    /// What a compaction keeps of it.
    pub(super) fn kept(&self, at: i64) -> Kept {
        let first = self.first_kept(at);
        let Some(generation) = self.generations.get(first) else {
            return Kept { revision: None, tombstone: false, drops: true, empty: true };
        };
        let position = generation.position(at);
        let revision = position.map(|position| generation.get(position));
        let last = position == Some(generation.len() - 1);
        let tombstone = last && self.is_closed(first);
        let drops = first > 0 || position.is_some_and(|position| position > 0);
        Kept { revision, tombstone, drops, empty: false }
    }

    /// What a compaction leaves of it.
    pub(super) fn compact(mut self, at: i64) -> Many {
        self.generations.drain(..self.first_kept(at));
        if let Some(first) = self.generations.first_mut()
            && let Some(position) = first.position(at)
        {
            first.drop_before(position);
        }
        self
    }

    /// Writes it in the short form.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let newest_first = self.generations.iter().rev().map(|generation| {
            let revisions: Vec<Revision> =
                (0..generation.len()).rev().map(|at| generation.get(at)).collect();
            (generation.version, generation.created, revisions)
        });
        write_generations(self.deleted, &newest_first.collect::<Vec<_>>(), out);
    }

    /// The first generation that was not over before a compaction. One transaction may end a generation and begin the next: then the
    /// later one counts.
    fn first_kept(&self, at: i64) -> usize {
        let over = |generation: usize| {
            let ended = self.generations[generation].newest().main;
            let next = self.generations.get(generation + 1);
            ended < at || (ended == at && next.is_some_and(|next| next.get(0).main == at))
        };
        let all = 0..self.generations.len();
        all.take_while(|generation| self.is_closed(*generation) && over(*generation)).count()
    }

    fn is_closed(&self, generation: usize) -> bool {
        self.deleted || generation + 1 < self.generations.len()
    }
}

impl From<History<'_>> for Many {
    fn from(history: History<'_>) -> Many {
        let (deleted, newest_first) = history.generations();
        let generations = newest_first.into_iter().rev().map(|(version, created, revisions)| {
            let mut generation = Generation::new(version, created);
            revisions.into_iter().rev().for_each(|revision| generation.push(revision));
            generation
        });
        Many { deleted, generations: generations.collect() }
    }
}

impl Generation {
    fn new(version: i64, created: i64) -> Generation {
        Generation { version, created, chunks: Vec::new(), tail: Vec::new() }
    }

    fn len(&self) -> usize {
        self.chunks.len() * CHUNK + self.tail.len()
    }

    fn capacity(&self) -> usize {
        self.chunks.len() * CHUNK + self.tail.capacity()
    }

    fn get(&self, at: usize) -> Revision {
        match self.chunks.get(at / CHUNK) {
            Some(chunk) => chunk[at % CHUNK],
            None => self.tail[at - self.chunks.len() * CHUNK],
        }
    }

    fn newest(&self) -> Revision {
        self.get(self.len() - 1)
    }

    /// Where the newest revision is that is not after another.
    fn position(&self, revision: i64) -> Option<usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.get(middle).main <= revision { low = middle + 1 } else { high = middle }
        }
        low.checked_sub(1)
    }

    fn push(&mut self, revision: Revision) {
        if self.len() > 0 {
            assert!(revision > self.newest(), "{revision} comes after {}", self.newest());
        }
        self.tail.push(revision);
        if self.tail.len() == CHUNK {
            self.chunks.push(std::mem::take(&mut self.tail).into());
        }
    }

    fn drop_before(&mut self, position: usize) {
        let rest: Vec<Revision> = (position..self.len()).map(|at| self.get(at)).collect();
        (self.chunks, self.tail) = (Vec::new(), Vec::new());
        rest.into_iter().for_each(|revision| self.push(revision));
    }
}
