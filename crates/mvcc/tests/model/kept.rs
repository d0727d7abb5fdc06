//! What stays of the past, and the hash of it.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use mvcc::{Error, KeyValueHash};
use types::Revision;

use crate::state::{Change, Job, Model};

/// How many hashes of compactions are remembered.
const HASHES_MAX: usize = 10;

impl Model {
    /// Asks for a compaction.
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

    /// The compaction that was asked for first is done.
    pub(crate) fn finish_compaction(&mut self) {
        let Job { at, previous, leaves_hash } = self.jobs.pop_front().unwrap();
        let kept = self.kept(at);
        // If only tombstones stay, the hash would not be that of a member that has not compacted yet.
        let is_clear = kept.is_empty() || !self.live(at).is_empty();
        if leaves_hash && is_clear {
            let hash = hash(&self.pairs(), &kept, previous, at);
            self.hashes.push(hash);
            let surplus = self.hashes.len().saturating_sub(HASHES_MAX);
            self.hashes.drain(..surplus);
        }
        self.stored.retain(|revision, _| revision.main > at || kept.contains(revision));
        self.finished = Some(at);
    }

    /// The revisions at or before one that a compaction leaves: the newest of each key, a tombstone only if it is right there.
    pub(crate) fn kept(&self, at: i64) -> BTreeSet<Revision> {
        let newest = self.newest(at);
        let stays = |change: &&&Change| change.kv.is_some() || change.revision.main == at;
        newest.values().filter(stays).map(|change| change.revision).collect()
    }

    /// The file as it is once all is done.
    pub(crate) fn pairs(&self) -> Vec<(Bytes, Bytes)> {
        self.stored.values().map(Change::encode).collect()
    }

    /// The hash of what is in the file now.
    pub(crate) fn hash_kv(
        &self,
        file: &[(Bytes, Bytes)],
        revision: i64,
    ) -> Result<KeyValueHash, Error> {
        if let Some(left) = self.hashes.iter().find(|hash| hash.revision == revision) {
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
            // All that the file has counts, as it will be once the compaction is done.
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

    /// The last change of each key that is there at a revision.
    fn live(&self, at: i64) -> BTreeSet<Revision> {
        let newest = self.newest(at);
        let live = newest.values().filter(|change| change.kv.is_some());
        live.map(|change| change.revision).collect()
    }

    /// The last change of each key that is not after a revision.
    fn newest(&self, at: i64) -> BTreeMap<&Bytes, &Change> {
        let until = self.log.iter().filter(|change| change.revision.main <= at);
        until.map(|change| (&change.key, change)).collect()
    }
}

/// CRC-32C over the bucket's name and the pairs that count: those up to a revision, and of those that a compaction has to do with, the
/// ones that stay, if any do. A tombstone right at the compaction never counts.
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
