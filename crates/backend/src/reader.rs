//! Looking up many keys of one bucket.
//!
//! The reader does the common work once: it finds the bucket in the file, and the [`KeyExtent`] of
//! each batch. A key outside all extents, as most keys are, then costs neither a lock nor a descent
//! from the root of the file: see [`Finger`].
//!
//! ```text
//!   batches      put from 9000      put from 8800
//!   file         … 7311 7312 …      finger at 7311
//!
//!   get 7312     below both: the next key in the file
//!   get 8900     not in the first; in the second, or in the file
//! ```
//!
//! A reader shows the same state as the view or transaction that created it.

use bolt::{CorruptPage, Finger};
use parking_lot::RwLock;

use crate::batch::{Batch, BucketChanges, KeyExtent, Sequence};
use crate::read::Value;
use crate::schema::Bucket;

/// Looks up keys of a bucket, each starting from the position of the last.
#[derive(Debug)]
pub struct Reader<'a> {
    bucket: Bucket,
    at: Sequence,
    /// The changes of the reading transaction.
    changes: Option<&'a BucketChanges>,
    /// Newest first.
    batches: [Option<(&'a RwLock<Batch>, KeyExtent)>; 2],
    /// `None` if the file does not have the bucket.
    file: Option<Finger<'a>>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(
        bucket: Bucket,
        at: Sequence,
        batches: [Option<&'a RwLock<Batch>>; 2],
        file: Option<Finger<'a>>,
    ) -> Reader<'a> {
        let extent = |batch: &'a RwLock<Batch>| (batch, batch.read().extent(bucket));
        let batches = batches.map(|batch| batch.map(extent));
        Reader { bucket, at, changes: None, batches, file }
    }

    /// Adds the changes of a transaction on top.
    pub(crate) fn over(self, changes: &'a BucketChanges) -> Reader<'a> {
        Reader { changes: Some(changes), ..self }
    }

    /// Returns the value of a key.
    #[inline]
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Value<'a>>, CorruptPage> {
        if let Some(changed) = self.changes.and_then(|changes| changes.get(key)) {
            return Ok(changed.clone().map(Value::Pending));
        }
        for (batch, extent) in self.batches.iter().flatten() {
            if extent.may_have(key)
                && let Some(found) = batch.read().get(self.bucket, key, self.at)
            {
                return Ok(found.map(Value::Pending));
            }
        }
        match &mut self.file {
            Some(file) => Ok(file.get(key)?.map(Value::File)),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use bytes::Bytes;
    use env::{SimClock, SimDisk};

    use super::*;
    use crate::batch::TxChanges;
    use crate::layers::{BackendView, Layers};
    use crate::{Backend, Config, Read as _};

    const B: Bucket = Bucket::Key;

    fn batch(last: u64, changes: &[(u64, &'static str)]) -> Batch {
        let mut batch = Batch::after(Sequence(last));
        changes.iter().zip(last + 1..).for_each(|(change, at)| add(&mut batch, *change, at));
        batch
    }

    /// Adds a change; an empty value deletes the key.
    fn add(batch: &mut Batch, (key, value): (u64, &'static str), at: u64) {
        let mut changes = TxChanges::default();
        let value = (!value.is_empty()).then(|| Bytes::from_static(value.as_bytes()));
        changes.set(B, Bytes::copy_from_slice(&key.to_be_bytes()), value, 1);
        batch.merge(changes, Sequence(at), Duration::ZERO);
    }

    /// A database with the keys 1 to 9 in the file.
    fn file() -> Backend {
        let (disk, clock) = (Arc::new(SimDisk::new(0)), Arc::new(SimClock::default()));
        let backend = Backend::open(disk, clock, "db".as_ref(), Config::default()).unwrap();
        let mut tx = backend.begin();
        for key in 1_u64..10 {
            tx.put(B, key.to_be_bytes().to_vec(), "file").unwrap();
        }
        tx.commit().unwrap();
        backend.force_commit().unwrap();
        backend
    }

    /// Looks up every key from 0 to 19 after every other: results must not depend on earlier
    /// lookups.
    fn assert_finds(view: &BackendView, expected: [&str; 20]) {
        let value = |found: Option<Value<'_>>| found.map(|value| value.to_vec());
        for first in 0_u64..20 {
            for (second, expected) in (0_u64..).zip(expected) {
                let expected = (!expected.is_empty()).then(|| expected.as_bytes().to_vec());
                let mut reader = view.reader(B).unwrap();
                reader.get(&first.to_be_bytes()).unwrap();
                let found = reader.get(&second.to_be_bytes()).unwrap();
                assert_eq!(value(found), expected, "{second} after {first}");
                assert_eq!(value(view.get(B, &second.to_be_bytes()).unwrap()), expected);
            }
        }
    }

    #[test]
    fn the_newest_layer_with_a_key_determines_its_value() {
        let backend = file();
        let frozen = batch(1, &[(10, "frozen"), (11, "frozen"), (12, "frozen"), (3, ""), (5, "")]);
        let active = batch(6, &[(13, "active"), (14, "active"), (11, ""), (5, "active")]);
        let layers = Arc::new(Layers {
            snapshot: backend.shared.db.snapshot(),
            frozen: Some(Arc::new(RwLock::new(frozen))),
            active: Arc::new(RwLock::new(active)),
        });
        let view = BackendView::new(Arc::clone(&layers));
        let shown = |key| match key {
            1 | 2 | 4 | 6..10 => "file",
            10 | 12 => "frozen",
            5 | 13 | 14 => "active",
            _ => "",
        };
        assert_finds(&view, std::array::from_fn(shown));

        // Later transactions are invisible to the view, wherever their keys are.
        for (change, at) in
            [(15, "later"), (7, ""), (0, "later"), (13, ""), (10, "later")].into_iter().zip(11..)
        {
            add(&mut layers.active.write(), change, at);
        }
        assert_finds(&view, std::array::from_fn(shown));
        let later = |key| match key {
            0 | 10 | 15 => "later",
            7 | 13 => "",
            key => shown(key),
        };
        assert_finds(&BackendView::new(layers), std::array::from_fn(later));
    }

    #[test]
    fn a_missing_bucket_reads_as_empty() {
        let view = file().view();
        let mut reader = view.reader(Bucket::AuthUsers).unwrap();
        assert_eq!(reader.get(b"root").unwrap(), None);
    }
}
