//! The hash by which members detect that their data differ.
//!
//! CRC-32C over the name of the bucket, then key and value of every revision up to a given one. Of
//! the revisions at or below the compacted one, only those that the compaction keeps are hashed, so
//! that members agree whatever the progress of their compactions. A hash belongs to the pair of
//! both revisions:
//!
//! ```text
//!   revision 9, compacted 5    crc32c("key" ‖ 4.0 ‖ kv ‖ 6.0 ‖ kv ‖ .. ‖ 9.0 ‖ kv)
//!                              4.0 is the last revision of its key at or below 5
//! ```
//!
//! A compaction scans everything up to its revision anyway, and stores the hash. The last ten
//! remain available after their revisions are discarded.

use backend::schema::Bucket;
use backend::schema::revision::RevisionKey;
use backend::{Read, ReadError};
use parking_lot::Mutex;
use types::Revision;

use crate::error::{Error, Fault};
use crate::index::TreeIndex;
use crate::store::{Store, StoreState};

/// The maximum number of stored hashes.
const HASHES_MAX: usize = 10;

/// A hash with the revisions that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyValueHash {
    /// CRC-32C.
    pub hash: u32,
    /// The compacted revision when it was computed.
    pub compact_revision: i64,
    /// The last hashed revision.
    pub revision: i64,
}

/// An incremental hash. Revisions are added in order.
#[derive(Clone, Debug)]
pub(crate) struct KeyValueHasher {
    hash: KeyValueHash,
    /// The revisions that a compaction keeps, sorted.
    kept: Vec<Revision>,
    /// The number of kept revisions that were passed.
    passed: usize,
    /// Whether all revisions are hashed if none is kept.
    hash_all_if_none_kept: bool,
    /// Whether a kept revision is not a tombstone.
    has_live: bool,
    /// Whether a revision at or below the previous compaction did not count.
    left_out: bool,
}

impl KeyValueHasher {
    pub(crate) fn new(compact_revision: i64, revision: i64, kept: Vec<Revision>) -> KeyValueHasher {
        let hash = crc32c::crc32c(Bucket::Key.name().as_bytes());
        let hash = KeyValueHash { hash, compact_revision, revision };
        KeyValueHasher {
            hash,
            kept,
            passed: 0,
            hash_all_if_none_kept: true,
            has_live: false,
            left_out: false,
        }
    }

    /// Builds the hasher for the data of this member, independent of the progress of its
    /// compaction.
    ///
    /// Compat: as in etcd, if no revision at or below `revision` is kept, all that the database has
    /// is hashed. During a compaction that would be more than on members that have finished it, so
    /// only the revisions that it keeps are hashed, as etcd does then.
    fn for_store(index: &TreeIndex, compact_revision: i64, revision: i64) -> KeyValueHasher {
        let kept = index.keep(revision);
        if kept.is_empty() {
            let kept = index.keep(compact_revision);
            return KeyValueHasher {
                hash_all_if_none_kept: false,
                ..KeyValueHasher::new(compact_revision, revision, kept)
            };
        }
        KeyValueHasher::new(compact_revision, revision, kept)
    }

    /// Adds a revision, unless it does not count. Returns whether a compaction keeps it.
    pub(crate) fn add(&mut self, at: RevisionKey, key: &[u8], value: &[u8]) -> bool {
        let stays = self.is_kept(at.revision);
        self.has_live |= stays && !at.tombstone;
        let KeyValueHash { compact_revision, revision, .. } = self.hash;
        let main = at.revision.main;
        // Compat: as in etcd, if no revision is kept, all count.
        let all_count = self.hash_all_if_none_kept && self.kept.is_empty();
        let dropped = main <= compact_revision && !all_count && !stays;
        // Compat: etcd before 3.5.16 discards a tombstone at the compacted revision, later releases
        // keep it: it never counts.
        let is_tombstone_at_compaction = main == compact_revision && at.tombstone;
        self.left_out |= dropped && !is_tombstone_at_compaction;
        if main <= revision && !dropped && !is_tombstone_at_compaction {
            self.hash.hash = crc32c::crc32c_append(self.hash.hash, key);
            self.hash.hash = crc32c::crc32c_append(self.hash.hash, value);
        }
        stays
    }

    /// Returns the result of a compaction.
    pub(crate) fn finish_compaction(&self) -> CompactionHash {
        CompactionHash { hash: self.hash, is_comparable: !self.is_ambiguous() }
    }

    /// Returns whether the compaction keeps tombstones alone, and leaves out revisions that the
    /// previous one kept. A member that hashes the same revisions before this compaction finds no
    /// revision kept and hashes everything, so the two hashes differ.
    fn is_ambiguous(&self) -> bool {
        !self.kept.is_empty() && !self.has_live && self.left_out
    }

    pub(crate) fn finish(&self) -> KeyValueHash {
        self.hash
    }

    fn is_kept(&mut self, revision: Revision) -> bool {
        while self.kept.get(self.passed).is_some_and(|kept| *kept < revision) {
            self.passed += 1;
        }
        self.kept.get(self.passed) == Some(&revision)
    }
}

/// The hash that a compaction computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompactionHash {
    pub(crate) hash: KeyValueHash,
    /// Whether a member with the same data has the same hash before the compaction.
    is_comparable: bool,
}

/// The hashes of the last compactions.
#[derive(Debug, Default)]
pub(crate) struct HashStorage(Mutex<Vec<CompactionHash>>);

impl HashStorage {
    pub(crate) fn store(&self, hash: CompactionHash) {
        let mut hashes = self.0.lock();
        hashes.push(hash);
        hashes.sort_by_key(|stored| stored.hash.revision);
        let surplus = hashes.len().saturating_sub(HASHES_MAX);
        hashes.drain(..surplus);
    }

    fn find(&self, revision: i64) -> Option<KeyValueHash> {
        let hashes = self.0.lock();
        hashes.iter().map(|stored| stored.hash).find(|hash| hash.revision == revision)
    }

    fn comparable(&self) -> Vec<KeyValueHash> {
        let hashes = self.0.lock();
        hashes.iter().filter(|stored| stored.is_comparable).map(|stored| stored.hash).collect()
    }
}

impl Store {
    /// Returns the hash of all revisions up to one, or up to the last if it is zero, and the
    /// revision of the store.
    ///
    /// # Errors
    /// If the revision is compacted and its hash not stored, or if it is in the future.
    pub fn hash_kv(&self, revision: i64) -> Result<(KeyValueHash, i64), Error> {
        if let Some(stored) = self.hashes.find(revision) {
            return Ok((stored, self.current()));
        }
        let state = self.state();
        let StoreState { current, compacted, .. } = *state;
        if revision > 0 && revision < compacted {
            return Err(Error::Compacted);
        }
        if revision > current {
            return Err(Error::FutureRevision);
        }
        let (index, view) = (state.index.clone(), self.backend.view());
        drop(state);
        let upto = if revision == 0 { current } else { revision };
        let mut hasher = KeyValueHasher::for_store(&index, compacted, upto);
        for item in view.all(Bucket::Key)? {
            let item = item?;
            hasher.add(decode(&item.key)?, &item.key, &item.value);
        }
        Ok((hasher.finish(), current))
    }

    /// Returns the hash that a compaction at a revision would store, if that differs from
    /// [`Store::hash_kv`]. A member that executed the compaction reports this one.
    ///
    /// Compat: as in etcd, the two differ if no key is left, and the last was deleted at that
    /// revision: a compaction keeps that tombstone, and so leaves out the revisions compacted
    /// before.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn hash_as_compacted(&self, revision: i64) -> Result<Option<KeyValueHash>, Error> {
        let state = self.state();
        let compacted = state.compacted;
        let (mut index, view) = (state.index.clone(), self.backend.view());
        drop(state);
        if !index.keep(revision).is_empty() {
            return Ok(None);
        }
        let (mut kept, mut from) = (Vec::new(), Some(Box::default()));
        while let Some(at) = from {
            from = index.compact(&at, revision, &mut kept);
        }
        kept.sort_unstable();
        kept.dedup();
        let mut hasher = KeyValueHasher::new(compacted, revision, kept);
        for item in view.all(Bucket::Key)? {
            let item = item?;
            hasher.add(decode(&item.key)?, &item.key, &item.value);
        }
        Ok(Some(hasher.finish()))
    }

    /// Returns the hashes of the last compactions, by revision, that can be compared with those of
    /// other members.
    ///
    /// Left out are those that members without the compaction cannot have: see
    /// [`Store::hash_as_compacted`]. (etcd compares them too, and reports a corruption that is
    /// none.)
    #[must_use]
    pub fn compaction_hashes(&self) -> Vec<KeyValueHash> {
        self.hashes.comparable()
    }
}

/// Decodes a key of the bucket `key`.
pub(crate) fn decode(key: &[u8]) -> Result<RevisionKey, Fault> {
    let malformed = |error: backend::schema::revision::InvalidRevision| {
        ReadError::malformed(Bucket::Key, key, error.to_string())
    };
    Ok(RevisionKey::decode(key).map_err(malformed)?)
}
