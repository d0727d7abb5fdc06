//! The revisions that compactions keep, and the hash of the model.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use mvcc::{Error, KeyValueHash};
use types::Revision;

use crate::state::{Change, Job, Model};

/// The maximum number of stored hashes.
const HASHES_MAX: usize = 10;

impl Model {
    /// Schedules a compaction.
    pub(crate) fn compact(&mut self, at: i64) -> Result<(), Error> {
        if at <= self.compacted {
            return Err(Error::Compacted);
        }
        if at > self.current() {
            return Err(Error::FutureRevision);
        }
        let leaves_hash = self.scheduled == self.finished;
        let previous = std::mem::replace(&mut self.compacted, at);
        self.scheduled = Some(at);
        self.jobs.push_back(Job { at, previous, leaves_hash });
        Ok(())
    }

    /// Finishes the oldest compaction.
    pub(crate) fn finish_compaction(&mut self) {
        let Job { at, previous, leaves_hash } = self.jobs.pop_front().unwrap();
        let kept = self.kept(at);
        if leaves_hash {
            let before = hash(&self.pairs(), &self.live(at), previous, at);
            let hash = hash(&self.pairs(), &kept, previous, at);
            self.hashes.push((hash, hash == before));
            let surplus = self.hashes.len().saturating_sub(HASHES_MAX);
            self.hashes.drain(..surplus);
        }
        self.stored.retain(|revision, _| revision.main > at || kept.contains(revision));
        self.finished = Some(at);
    }

    /// Returns the revisions at or below `at` that a compaction keeps: the last one of each key,
    /// and a tombstone only at `at`.
    pub(crate) fn kept(&self, at: i64) -> BTreeSet<Revision> {
        let newest = self.newest(at);
        let stays = |change: &&&Change| change.kv.is_some() || change.revision.main == at;
        newest.values().filter(stays).map(|change| change.revision).collect()
    }

    /// Returns the database after all compactions.
    pub(crate) fn pairs(&self) -> Vec<(Bytes, Bytes)> {
        self.stored.values().map(Change::encode).collect()
    }

    /// Hashes the database.
    pub(crate) fn hash_kv(
        &self,
        file: &[(Bytes, Bytes)],
        revision: i64,
    ) -> Result<KeyValueHash, Error> {
        if let Some((left, _)) = self.hashes.iter().find(|(hash, _)| hash.revision == revision) {
            return Ok(*left);
        }
        if revision > self.current() {
            return Err(Error::FutureRevision);
        }
        if revision > 0 && revision < self.compacted {
            return Err(Error::Compacted);
        }
        let upto = if revision == 0 { self.current() } else { revision };
        let kept = self.live(upto);
        if kept.is_empty() {
            // Everything in the database counts, as it will be after the compaction.
            let done = self.live(self.compacted);
            let there = |(key, _): &&(Bytes, Bytes)| {
                let at = revision_of(key);
                at.main > self.compacted || done.contains(&at)
            };
            let file: Vec<_> = file.iter().filter(there).cloned().collect();
            return Ok(hash(&file, &kept, self.compacted, upto));
        }
        Ok(hash(file, &kept, self.compacted, upto))
    }

    /// Returns the stored hashes that members before the compaction have, too.
    pub(crate) fn comparable_hashes(&self) -> Vec<KeyValueHash> {
        self.hashes.iter().filter(|(_, comparable)| *comparable).map(|(hash, _)| *hash).collect()
    }

    /// Returns the last change of each key that exists at a revision.
    fn live(&self, at: i64) -> BTreeSet<Revision> {
        let newest = self.newest(at);
        let live = newest.values().filter(|change| change.kv.is_some());
        live.map(|change| change.revision).collect()
    }

    /// Returns the last change of each key at or below a revision.
    fn newest(&self, at: i64) -> BTreeMap<&Bytes, &Change> {
        let until = self.log.iter().filter(|change| change.revision.main <= at);
        until.map(|change| (&change.key, change)).collect()
    }
}

/// CRC-32C over the name of the bucket and the pairs that count: all up to a revision, but at or
/// below the compaction only the kept ones, if any is kept. A tombstone at the compaction never
/// counts.
fn hash(
    file: &[(Bytes, Bytes)],
    kept: &BTreeSet<Revision>,
    compacted: i64,
    upto: i64,
) -> KeyValueHash {
    let mut hashed = b"key".to_vec();
    for (key, value) in file {
        let revision = revision_of(key);
        let past = revision.main <= compacted && !kept.is_empty() && !kept.contains(&revision);
        let last_words = revision.main == compacted && key.len() == 18;
        if revision.main <= upto && !past && !last_words {
            hashed.extend_from_slice(key);
            hashed.extend_from_slice(value);
        }
    }
    KeyValueHash { hash: crc32c::crc32c(&hashed), compact_revision: compacted, revision: upto }
}

fn revision_of(key: &Bytes) -> Revision {
    let number = |at: usize| i64::from_be_bytes(key[at..at + 8].try_into().unwrap());
    Revision::new(number(0), number(9))
}
