//! What is not in the file yet: the changes of one transaction, and those of many.
//!
//! A batch keeps, for each key, the newest value and the older ones that some view may still have to show:
//!
//! ```text
//!   key  7_0               tx 31: "a"
//!   meta consistent_index  tx 33: 9     older: tx 31: 7          a view was taken after tx 31, none after tx 32
//! ```
//!
//! A view remembers the number of the last transaction it is to show, so views and transactions need not wait for each other. A value
//! that no view can ask for is replaced in place.

use std::collections::{BTreeMap, btree_map};
use std::fmt;
use std::ops::{AddAssign, Bound};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;

use crate::schema::Bucket;

/// What a change costs beside the bytes of its key and value, roughly: the places in the tree, and two allocations.
const CHANGE_BYTES: usize = 128;

/// The number of a transaction, counted from when the database was opened. Zero is before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How much is pending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Changes, not counting those of the applied index.
    pub ops: usize,
    /// Bytes of memory, roughly.
    pub bytes: usize,
}

impl AddAssign for Load {
    fn add_assign(&mut self, more: Load) {
        self.ops += more.ops;
        self.bytes += more.bytes;
    }
}

/// New values of one bucket; none stands for a key that is deleted.
pub(crate) type Pairs = BTreeMap<Bytes, Option<Bytes>>;

/// The changes of one transaction.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) buckets: [Pairs; Bucket::COUNT],
    created: [bool; Bucket::COUNT],
    pub(crate) load: Load,
}

impl Changes {
    pub(crate) fn set(&mut self, bucket: Bucket, key: Bytes, value: Option<Bytes>, ops: usize) {
        self.load += Load { ops, bytes: change_bytes(&key, value.as_ref()) };
        self.buckets[bucket.slot()].insert(key, value);
    }

    pub(crate) fn create(&mut self, bucket: Bucket) {
        self.load.ops += 1;
        self.created[bucket.slot()] = true;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.load == Load::default()
    }
}

/// A value as a transaction left it.
#[derive(Debug)]
struct Version {
    sequence: Sequence,
    value: Option<Bytes>,
}

/// What a key was, as far back as somebody may ask.
#[derive(Debug)]
struct Versions {
    newest: Version,
    /// Oldest first; seldom any.
    older: Vec<Version>,
}

impl Versions {
    fn at(&self, sequence: Sequence) -> Option<&Option<Bytes>> {
        if self.newest.sequence <= sequence {
            return Some(&self.newest.value);
        }
        let later = self.older.partition_point(|old| old.sequence <= sequence);
        Some(&self.older.get(later.checked_sub(1)?)?.value)
    }
}

/// Where in a bucket a batch may have something to say, told by the first eight bytes of a key as a number. Of `key` that is the revision.
///
/// ```text
///   revisions   … 310 311 312 …      … 9000 9001 →
///                 deleted                put               whatever is elsewhere is in the file, and nobody has to look in the batch
/// ```
///
/// Revisions are put in growing order, so that all before the first are elsewhere; a compaction deletes some, far below. What a transaction
/// adds later is for views that are taken later: where a view may have to look is known when it is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    put_from: u64,
    deleted: (u64, u64),
}

impl Extent {
    const NOWHERE: Extent = Extent { put_from: u64::MAX, deleted: (u64::MAX, 0) };

    /// Whether there may be something about a key.
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

/// The first eight bytes of a key, or what there is of them with zeros behind. Grows with the key.
#[inline]
fn leading(key: &[u8]) -> u64 {
    if let Some(chunk) = key.first_chunk() {
        return u64::from_be_bytes(*chunk);
    }
    let mut bytes = [0; 8];
    bytes[..key.len()].copy_from_slice(key);
    u64::from_be_bytes(bytes)
}

/// The changes of many transactions, to become one of the file.
#[derive(Debug)]
pub(crate) struct Batch {
    buckets: [BTreeMap<Bytes, Versions>; Bucket::COUNT],
    extents: [Extent; Bucket::COUNT],
    created: [bool; Bucket::COUNT],
    pub(crate) load: Load,
    /// The last transaction in it, or in what was before it.
    pub(crate) newest: Sequence,
    /// When the first transaction came in.
    pub(crate) since: Option<Duration>,
    /// The last transaction that the newest view shows.
    viewed: AtomicU64,
}

impl Batch {
    /// An empty one, to follow what ended with a transaction.
    pub(crate) fn after(newest: Sequence) -> Batch {
        Batch {
            buckets: Default::default(),
            extents: [Extent::NOWHERE; Bucket::COUNT],
            created: Default::default(),
            load: Load::default(),
            newest,
            since: None,
            viewed: AtomicU64::default(),
        }
    }

    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.since.is_none()
    }

    /// The last transaction, for a view that is to show everything up to it.
    pub(crate) fn note_view(&self) -> Sequence {
        // The batch is locked: nothing is replaced between this and the next look at it.
        self.viewed.fetch_max(self.newest.0, Ordering::Relaxed);
        self.newest
    }

    /// Takes in a transaction.
    pub(crate) fn merge(&mut self, changes: Changes, sequence: Sequence, now: Duration) {
        assert!(sequence > self.newest, "transactions come in order");
        let viewed = Sequence(*self.viewed.get_mut());
        let buckets = self.buckets.iter_mut().zip(&mut self.extents);
        for ((ours, extent), theirs) in buckets.zip(changes.buckets) {
            for (key, value) in theirs {
                extent.add(&key, value.is_none());
                self.load.bytes += add(ours, key, Version { sequence, value }, viewed);
            }
        }
        for (ours, theirs) in self.created.iter_mut().zip(changes.created) {
            *ours |= theirs;
        }
        self.load.ops += changes.load.ops;
        self.newest = sequence;
        self.since.get_or_insert(now);
    }

    /// What a key was after a transaction; none if this batch does not say.
    pub(crate) fn get(&self, bucket: Bucket, key: &[u8], at: Sequence) -> Option<Option<Bytes>> {
        // Most that is asked for is older than all of the batch.
        if !self.extent(bucket).may_have(key) {
            return None;
        }
        self.buckets[bucket.slot()].get(key)?.at(at).cloned()
    }

    /// Where it may have something to say, of what is in it by now.
    #[inline]
    pub(crate) fn extent(&self, bucket: Bucket) -> Extent {
        self.extents[bucket.slot()]
    }

    /// Some keys in order, as they were after a transaction.
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

    /// Whether a bucket is changed, or to be made.
    pub(crate) fn touches(&self, bucket: Bucket) -> bool {
        self.created[bucket.slot()] || !self.buckets[bucket.slot()].is_empty()
    }
}

/// Adds a version of a key. Returns how many bytes more there are.
fn add(
    pairs: &mut BTreeMap<Bytes, Versions>,
    key: Bytes,
    version: Version,
    viewed: Sequence,
) -> usize {
    let bytes = change_bytes(&key, version.value.as_ref());
    match pairs.entry(key) {
        btree_map::Entry::Vacant(place) => {
            place.insert(Versions { newest: version, older: Vec::new() });
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
        let mut changes = Changes::default();
        changes.set(B, Bytes::from_static(key), value.map(Bytes::from_static), 1);
        batch.merge(changes, Sequence(sequence), Duration::ZERO);
    }

    fn get(batch: &Batch, key: &[u8], at: u64) -> Option<Option<Vec<u8>>> {
        batch.get(B, key, Sequence(at)).map(|value| value.map(|bytes| bytes.to_vec()))
    }

    #[test]
    fn a_view_keeps_what_it_saw() {
        let mut batch = Batch::after(Sequence(5));
        put(&mut batch, 6, b"k", Some(b"one"));
        assert_eq!(batch.note_view(), Sequence(6));
        put(&mut batch, 7, b"k", None);
        put(&mut batch, 8, b"k", Some(b"three"));
        assert_eq!(get(&batch, b"k", 5), None, "the layer below knows");
        assert_eq!(get(&batch, b"k", 6), Some(Some(b"one".to_vec())));
        assert_eq!(get(&batch, b"k", 8), Some(Some(b"three".to_vec())));
        assert_eq!(batch.buckets[B.slot()][&b"k"[..]].older.len(), 1, "nobody saw the second");
    }

    #[test]
    fn what_nobody_saw_is_replaced() {
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
    fn whatever_is_in_a_batch_is_within_its_extent() {
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
    #[should_panic(expected = "in order")]
    fn a_transaction_out_of_order_is_a_bug() {
        let mut batch = Batch::after(Sequence(5));
        put(&mut batch, 5, b"k", None);
    }
}
