//! Writes that are not in the file yet: the changes of one transaction, and the batch of many.
//!
//! A batch keeps the newest value of each key, and older ones that a view may still need:
//!
//! ```text
//!   key  7_0               tx 31: "a"
//!   meta consistent_index  tx 33: 9     older: tx 31: 7       viewed after tx 31, not after tx 32
//! ```
//!
//! A view stores the number of the last transaction that it shows, so views and transactions do not
//! block each other. A value that no view can read is overwritten in place.

use std::collections::{BTreeMap, btree_map};
use std::fmt;
use std::ops::{AddAssign, Bound};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;

use crate::schema::Bucket;

/// Approximate memory overhead of a change, in bytes: tree nodes and two allocations.
const CHANGE_BYTES: usize = 128;

/// Number of a transaction, counted from the opening of the database. 0 is before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Size of pending writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchSize {
    /// Number of changes, excluding those of the applied index.
    pub ops: usize,
    /// Approximate memory, in bytes.
    pub bytes: usize,
}

impl AddAssign for BatchSize {
    fn add_assign(&mut self, more: BatchSize) {
        self.ops += more.ops;
        self.bytes += more.bytes;
    }
}

/// Changes of one bucket; `None` deletes the key.
pub(crate) type BucketChanges = BTreeMap<Bytes, Option<Bytes>>;

/// The changes of one transaction.
#[derive(Debug, Default)]
pub(crate) struct TxChanges {
    pub(crate) buckets: [BucketChanges; Bucket::COUNT],
    created: [bool; Bucket::COUNT],
    pub(crate) load: BatchSize,
}

impl TxChanges {
    pub(crate) fn set(&mut self, bucket: Bucket, key: Bytes, value: Option<Bytes>, ops: usize) {
        self.load += BatchSize { ops, bytes: change_bytes(&key, value.as_ref()) };
        self.buckets[bucket.slot()].insert(key, value);
    }

    pub(crate) fn create(&mut self, bucket: Bucket) {
        self.load.ops += 1;
        self.created[bucket.slot()] = true;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.load == BatchSize::default()
    }
}

/// A value as of a transaction.
#[derive(Debug)]
struct ValueVersion {
    sequence: Sequence,
    value: Option<Bytes>,
}

/// The newest value of a key, and older ones that views may need.
#[derive(Debug)]
struct KeyVersions {
    newest: ValueVersion,
    /// Oldest first; usually empty.
    older: Vec<ValueVersion>,
}

impl KeyVersions {
    fn at(&self, sequence: Sequence) -> Option<&Option<Bytes>> {
        if self.newest.sequence <= sequence {
            return Some(&self.newest.value);
        }
        let later = self.older.partition_point(|old| old.sequence <= sequence);
        Some(&self.older.get(later.checked_sub(1)?)?.value)
    }
}

/// The range of keys in a bucket that a batch may contain, by the first eight bytes of a key as a
/// number. In the bucket `key`, that is the revision.
///
/// ```text
///   revisions   … 310 311 312 …      … 9000 9001 →
///                 deleted                put          other keys are in the file only
/// ```
///
/// Revisions are put in ascending order, so all earlier ones are outside; a compaction deletes some
/// far below. Later transactions are invisible to existing views, so the extent of a view is known
/// when it is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyExtent {
    put_from: u64,
    deleted: (u64, u64),
}

impl KeyExtent {
    const NOWHERE: KeyExtent = KeyExtent { put_from: u64::MAX, deleted: (u64::MAX, 0) };

    /// Reports whether the batch may contain a key.
    #[inline]
    pub(crate) fn may_have(&self, key: &[u8]) -> bool {
        let at = leading(key);
        at >= self.put_from || (self.deleted.0 <= at && at <= self.deleted.1)
    }

    fn add(&mut self, key: &[u8], deleted: bool) {
        let at = leading(key);
        if deleted {
            self.deleted = (self.deleted.0.min(at), self.deleted.1.max(at));
        } else {
            self.put_from = self.put_from.min(at);
        }
    }
}

/// The first eight bytes of a key, padded with zeros. Monotonic in the key.
#[inline]
fn leading(key: &[u8]) -> u64 {
    if let Some(chunk) = key.first_chunk() {
        return u64::from_be_bytes(*chunk);
    }
    let mut bytes = [0; 8];
    bytes[..key.len()].copy_from_slice(key);
    u64::from_be_bytes(bytes)
}

/// The changes of many transactions, to be committed as one transaction of the file.
#[derive(Debug)]
pub(crate) struct Batch {
    buckets: [BTreeMap<Bytes, KeyVersions>; Bucket::COUNT],
    extents: [KeyExtent; Bucket::COUNT],
    created: [bool; Bucket::COUNT],
    pub(crate) load: BatchSize,
    /// The last transaction in the batch, or before it.
    pub(crate) newest: Sequence,
    /// Time of the first transaction in the batch.
    pub(crate) since: Option<Duration>,
    /// The last transaction that the newest view shows.
    viewed: AtomicU64,
}

impl Batch {
    /// Creates an empty batch that follows a transaction.
    pub(crate) fn after(newest: Sequence) -> Batch {
        Batch {
            buckets: Default::default(),
            extents: [KeyExtent::NOWHERE; Bucket::COUNT],
            created: Default::default(),
            load: BatchSize::default(),
            newest,
            since: None,
            viewed: AtomicU64::default(),
        }
    }

    /// Reports whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.since.is_none()
    }

    /// Registers a view of everything up to the last transaction, and returns its number.
    pub(crate) fn note_view(&self) -> Sequence {
        // The batch is locked, so no value is overwritten in between.
        self.viewed.fetch_max(self.newest.0, Ordering::Relaxed);
        self.newest
    }

    /// Merges a transaction.
    pub(crate) fn merge(&mut self, changes: TxChanges, sequence: Sequence, now: Duration) {
        assert!(sequence > self.newest, "transactions are merged in order");
        let viewed = Sequence(*self.viewed.get_mut());
        let buckets = self.buckets.iter_mut().zip(&mut self.extents);
        for ((ours, extent), theirs) in buckets.zip(changes.buckets) {
            for (key, value) in theirs {
                extent.add(&key, value.is_none());
                self.load.bytes += add(ours, key, ValueVersion { sequence, value }, viewed);
            }
        }
        for (ours, theirs) in self.created.iter_mut().zip(changes.created) {
            *ours |= theirs;
        }
        self.load.ops += changes.load.ops;
        self.newest = sequence;
        self.since.get_or_insert(now);
    }

    /// The value of a key after a transaction; `None` if the batch does not contain the key.
    pub(crate) fn get(&self, bucket: Bucket, key: &[u8], at: Sequence) -> Option<Option<Bytes>> {
        // Most lookups are for keys older than the batch.
        if !self.extent(bucket).may_have(key) {
            return None;
        }
        self.buckets[bucket.slot()].get(key)?.at(at).cloned()
    }

    /// The keys that the batch may contain by now.
    #[inline]
    pub(crate) fn extent(&self, bucket: Bucket) -> KeyExtent {
        self.extents[bucket.slot()]
    }

    /// The keys from `from` on, in order, with their values after a transaction.
    pub(crate) fn range(
        &self,
        bucket: Bucket,
        from: Bound<&[u8]>,
        at: Sequence,
    ) -> impl Iterator<Item = (&Bytes, &Option<Bytes>)> {
        let all = self.buckets[bucket.slot()].range::<[u8], _>((from, Bound::Unbounded));
        all.filter_map(move |(key, versions)| Some((key, versions.at(at)?)))
    }

    /// The newest values of a bucket, in order.
    pub(crate) fn newest(&self, bucket: Bucket) -> impl Iterator<Item = (&Bytes, Option<&Bytes>)> {
        let all = self.buckets[bucket.slot()].iter();
        all.map(|(key, versions)| (key, versions.newest.value.as_ref()))
    }

    /// Reports whether the batch changes or creates a bucket.
    pub(crate) fn touches(&self, bucket: Bucket) -> bool {
        self.created[bucket.slot()] || !self.buckets[bucket.slot()].is_empty()
    }
}

/// Adds a version of a key. Returns the growth in bytes.
fn add(
    pairs: &mut BTreeMap<Bytes, KeyVersions>,
    key: Bytes,
    version: ValueVersion,
    viewed: Sequence,
) -> usize {
    let bytes = change_bytes(&key, version.value.as_ref());
    match pairs.entry(key) {
        btree_map::Entry::Vacant(place) => {
            place.insert(KeyVersions { newest: version, older: Vec::new() });
            bytes
        }
        btree_map::Entry::Occupied(mut place) => {
            let versions = place.get_mut();
            let old = std::mem::replace(&mut versions.newest, version);
            if old.sequence <= viewed {
                versions.older.push(old);
                bytes
            } else {
                let value_len = |value: Option<&Bytes>| value.map_or(0, Bytes::len);
                value_len(versions.newest.value.as_ref())
                    .saturating_sub(value_len(old.value.as_ref()))
            }
        }
    }
}

fn change_bytes(key: &Bytes, value: Option<&Bytes>) -> usize {
    CHANGE_BYTES + key.len() + value.map_or(0, Bytes::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    const B: Bucket = Bucket::Meta;

    fn put(batch: &mut Batch, sequence: u64, key: &'static [u8], value: Option<&'static [u8]>) {
        let mut changes = TxChanges::default();
        changes.set(B, Bytes::from_static(key), value.map(Bytes::from_static), 1);
        batch.merge(changes, Sequence(sequence), Duration::ZERO);
    }

    fn get(batch: &Batch, key: &[u8], at: u64) -> Option<Option<Vec<u8>>> {
        batch.get(B, key, Sequence(at)).map(|value| value.map(|bytes| bytes.to_vec()))
    }

    #[test]
    fn values_needed_by_a_view_are_kept() {
        let mut batch = Batch::after(Sequence(5));
        put(&mut batch, 6, b"k", Some(b"one"));
        assert_eq!(batch.note_view(), Sequence(6));
        put(&mut batch, 7, b"k", None);
        put(&mut batch, 8, b"k", Some(b"three"));
        assert_eq!(get(&batch, b"k", 5), None, "the layer below has the value");
        assert_eq!(get(&batch, b"k", 6), Some(Some(b"one".to_vec())));
        assert_eq!(get(&batch, b"k", 8), Some(Some(b"three".to_vec())));
        assert_eq!(
            batch.buckets[B.slot()][&b"k"[..]].older.len(),
            1,
            "no view shows the second version"
        );
    }

    #[test]
    fn values_that_no_view_shows_are_overwritten() {
        let mut batch = Batch::after(Sequence(0));
        put(&mut batch, 1, b"k", Some(b"0123456789"));
        let before = batch.load;
        for sequence in 2..100 {
            put(&mut batch, sequence, b"k", Some(b"9876543210"));
        }
        assert_eq!(batch.load.bytes, before.bytes);
        assert_eq!(batch.load.ops, 99);
        assert!(batch.buckets[B.slot()][&b"k"[..]].older.is_empty());
    }

    #[test]
    fn every_key_of_a_batch_is_within_its_extent() {
        let mut batch = Batch::after(Sequence(0));
        let may_have = |batch: &Batch, key: &[u8]| batch.extent(B).may_have(key);
        assert!(!may_have(&batch, b"") && !may_have(&batch, b"zzzzzzzzz"));
        put(&mut batch, 1, b"m", Some(b"one"));
        assert!(may_have(&batch, b"m") && may_have(&batch, b"n") && may_have(&batch, b"mm"));
        assert!(!may_have(&batch, b"l") && !may_have(&batch, b"lzzzzzzzzzz"));
        put(&mut batch, 2, b"cccccccc1", None);
        put(&mut batch, 3, b"dd", None);
        assert!(
            may_have(&batch, b"cccccccc1") && may_have(&batch, b"d") && may_have(&batch, b"dd")
        );
        assert!(!may_have(&batch, b"b") && !may_have(&batch, b"ddd"));
    }

    #[test]
    #[should_panic(expected = "merged in order")]
    fn merging_a_transaction_out_of_order_panics() {
        let mut batch = Batch::after(Sequence(5));
        put(&mut batch, 5, b"k", None);
    }
}
