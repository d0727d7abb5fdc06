//! The hash by which members find out that they hold different things.
//!
//! CRC-32C over the name of the bucket, then key and value of every revision up to one. What a compaction has dropped, or is about to, is
//! left out, so that members agree however far their compactions have come: of the revisions at or below the compacted one only those count
//! that stay. The result belongs to that pair of revisions.
//!
//! A compaction looks at everything up to its revision anyway, and leaves the hash of it: the last few can be asked for also when what they
//! are about is gone.

use backend::schema::Bucket;
use backend::schema::revision::RevisionKey;
use backend::{Read, ReadError};
use parking_lot::Mutex;
use types::Revision;

use crate::error::{Error, Fault};
use crate::index::TreeIndex;
use crate::store::{Store, StoreState};

/// How many hashes of compactions are kept.
const HASHES_MAX: usize = 10;

/// A hash, and what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyValueHash {
    /// CRC-32C.
    pub hash: u32,
    /// The compacted revision that it was computed with.
    pub compact_revision: i64,
    /// The revision up to which it was computed.
    pub revision: i64,
}

/// A hash in the making. Revisions come in order.
#[derive(Clone, Debug)]
pub(crate) struct KeyValueHasher {
    hash: KeyValueHash,
    /// What stays, sorted.
    kept: Vec<Revision>,
    /// How many of these were passed.
    passed: usize,
    /// Whether everything counts if nothing stays.
    all_if_none: bool,
    /// Whether one of those that stay is no tombstone.
    has_live: bool,
}

impl KeyValueHasher {
    pub(crate) fn new(compact_revision: i64, revision: i64, kept: Vec<Revision>) -> KeyValueHasher {
        let hash = crc32c::crc32c(Bucket::Key.name().as_bytes());
        let hash = KeyValueHash { hash, compact_revision, revision };
        KeyValueHasher { hash, kept, passed: 0, all_if_none: true, has_live: false }
    }

    /// What a member holds by itself, however far its compaction has come.
    ///
    /// Compat: as in etcd, if nothing stays of what there is at `revision`, all that the file has counts. While a compaction is under way, that would be more than
    /// other members have who are done with theirs; so only what it leaves does, which is what etcd counts then, too.
    fn for_store(index: &TreeIndex, compact_revision: i64, revision: i64) -> KeyValueHasher {
        let kept = index.keep(revision);
        if kept.is_empty() {
            let kept = index.keep(compact_revision);
            return KeyValueHasher {
                all_if_none: false,
                ..KeyValueHasher::new(compact_revision, revision, kept)
            };
        }
        KeyValueHasher::new(compact_revision, revision, kept)
    }

    /// Adds a revision, unless it does not count. Returns whether it is one of those that stay.
    pub(crate) fn add(&mut self, at: RevisionKey, key: &[u8], value: &[u8]) -> bool {
        let stays = self.is_kept(at.revision);
        self.has_live |= stays && !at.tombstone;
        let KeyValueHash { compact_revision, revision, .. } = self.hash;
        let main = at.revision.main;
        // Compat: as in etcd, if nothing stays at all, everything counts.
        let all_count = self.all_if_none && self.kept.is_empty();
        let dropped = main <= compact_revision && !all_count && !stays;
        // Releases before 3.5.16 dropped a tombstone at the compacted revision, later ones keep it: it never counts.
        let unsure = main == compact_revision && at.tombstone;
        if main <= revision && !dropped && !unsure {
            self.hash.hash = crc32c::crc32c_append(self.hash.hash, key);
            self.hash.hash = crc32c::crc32c_append(self.hash.hash, value);
        }
        stays
    }

    /// Whether a compaction leaves nothing but tombstones. Whoever hashes the same revisions and has not compacted them yet finds that nothing stays, and counts
    /// everything, while the compaction did not: such hashes are not to be compared. (etcd does, and finds members corrupt that are not.)
    pub(crate) fn is_ambiguous(&self) -> bool {
        !self.kept.is_empty() && !self.has_live
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

/// HashStorage that compactions left.
#[derive(Debug, Default)]
pub(crate) struct HashStorage(Mutex<Vec<KeyValueHash>>);

impl HashStorage {
    pub(crate) fn store(&self, hash: KeyValueHash) {
        let mut hashes = self.0.lock();
        hashes.push(hash);
        hashes.sort_by_key(|hash| hash.revision);
        let surplus = hashes.len().saturating_sub(HASHES_MAX);
        hashes.drain(..surplus);
    }

    fn find(&self, revision: i64) -> Option<KeyValueHash> {
        let hashes = self.0.lock();
        hashes.iter().find(|hash| hash.revision == revision).copied()
    }

    fn all(&self) -> Vec<KeyValueHash> {
        self.0.lock().clone()
    }
}

impl Store {
    /// The hash of all revisions up to one, or up to the last if it is zero; and the revision of the store.
    ///
    /// # Errors
    /// If the revision is compacted, and no hash was left of it; or if it is still to come.
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

    /// The hash that a compaction to a revision would leave, if that is another than [`Store::hash_kv`] has. A member that has made it answers with this one.
    ///
    /// Compat: as in etcd, the two differ if no key is left, and the last went at that revision: a compaction keeps what deleted it, and so leaves out what was compacted
    /// before.
    ///
    /// # Errors
    /// The file cannot be read.
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

    /// The hashes that the last compactions left, by revision.
    #[must_use]
    pub fn compaction_hashes(&self) -> Vec<KeyValueHash> {
        self.hashes.all()
    }
}

/// The revision that a key of the file is.
pub(crate) fn decode(key: &[u8]) -> Result<RevisionKey, Fault> {
    let malformed = |error: backend::schema::revision::InvalidRevision| {
        ReadError::malformed(Bucket::Key, key, error.to_string())
    };
    Ok(RevisionKey::decode(key).map_err(malformed)?)
}
