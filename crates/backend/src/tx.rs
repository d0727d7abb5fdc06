//! A write transaction.

use std::ops::Bound;
use std::sync::Arc;

use bolt::{CorruptPage, PutError};
use bytes::Bytes;
use failpoint::failpoint;
use parking_lot::MutexGuard;
use types::{Index, Term};

use crate::backend::{AppliedPosition, BackendShared};
use crate::batch::{Sequence, TxChanges};
use crate::error::CommitError;
use crate::layers::Layers;
use crate::range::{Range, RangeSource};
use crate::read::{Read, Value};
use crate::reader::Reader;
use crate::schema::{Bucket, meta};

/// Reads everything: no other transaction changes the database meanwhile.
const NEWEST: Sequence = Sequence(u64::MAX);

/// A set of changes that become visible together. There is one transaction at a time; it reads its
/// own changes, which are invisible to others until it is committed. Dropping it rolls it back.
#[derive(Debug)]
pub struct Tx<'b> {
    shared: &'b BackendShared,
    /// The layers before this transaction. Stays complete if batches are frozen and committed
    /// meanwhile.
    layers: Arc<Layers>,
    changes: TxChanges,
    applied: AppliedPosition,
    writer: MutexGuard<'b, AppliedPosition>,
}

impl<'b> Tx<'b> {
    pub(crate) fn new(
        shared: &'b BackendShared,
        writer: MutexGuard<'b, AppliedPosition>,
    ) -> Tx<'b> {
        let layers = shared.layers();
        Tx { shared, layers, changes: TxChanges::default(), applied: *writer, writer }
    }

    /// Sets the value of a key.
    ///
    /// Key and value are kept until a commit without copying: a slice of a larger buffer keeps all
    /// of it alive, which the limit on pending bytes does not see.
    pub fn put(
        &mut self,
        bucket: Bucket,
        key: impl Into<Bytes>,
        value: impl Into<Bytes>,
    ) -> Result<(), PutError> {
        let (key, value) = (key.into(), value.into());
        PutError::check(&key, &value)?;
        self.changes.set(bucket, key, Some(value), 1);
        Ok(())
    }

    /// Deletes a key, whether or not it exists.
    pub fn delete(&mut self, bucket: Bucket, key: impl Into<Bytes>) {
        self.changes.set(bucket, key.into(), None, 1);
    }

    /// Creates a bucket if it is missing. A put does so as well, but etcd's hash also covers empty
    /// buckets.
    pub fn create_bucket(&mut self, bucket: Bucket) {
        self.changes.create(bucket);
    }

    /// Sets the index and term of the last applied entry, including this transaction.
    ///
    /// # Panics
    /// If the index decreases: an entry would be applied twice.
    pub fn set_applied(&mut self, index: Index, term: Term) {
        let AppliedPosition { index: before, .. } = self.applied;
        assert!(index >= before, "applied index goes back from {before} to {index}");
        self.force_applied(index, term);
    }

    /// Sets the index and term of the last applied entry, unless that entry was applied before.
    /// Returns whether it was set.
    pub fn advance_applied(&mut self, index: Index, term: Term) -> bool {
        let is_new = index > self.applied.index;
        if is_new {
            self.force_applied(index, term);
        }
        is_new
    }

    /// Sets the index and term of the last applied entry, forward or back: for a database that
    /// becomes part of another cluster.
    pub fn force_applied(&mut self, index: Index, term: Term) {
        meta::set_applied_index(self, index);
        // The term changes rarely, and the index with every entry.
        if term != self.applied.term {
            meta::set_applied_term(self, term);
        }
        self.applied = AppliedPosition { index, term };
    }

    /// Makes the changes visible atomically; the committer makes them durable later. Returns the
    /// number of the transaction, or of the last one if nothing changed.
    ///
    /// If too much is pending, waits for a commit to the file or runs one. After an error nothing
    /// was changed.
    pub fn commit(mut self) -> Result<Sequence, CommitError> {
        let changes = std::mem::take(&mut self.changes);
        // As in etcd, a transaction that only advances the applied index passes neither point.
        let is_counted = changes.load.ops > 0;
        if is_counted {
            failpoint!("beforeWritebackBuf");
        }
        let sequence = self.shared.merge(changes)?;
        if is_counted {
            failpoint!("afterWritebackBuf");
        }
        *self.writer = self.applied;
        Ok(sequence)
    }

    /// Sets a value without validating the key.
    pub(crate) fn set(&mut self, bucket: Bucket, key: &'static [u8], value: Bytes) {
        self.changes.set(bucket, Bytes::from_static(key), Some(value), 1);
    }

    /// Sets a value that comes with every transaction and is written once per batch, so it does not
    /// count as a change.
    pub(crate) fn set_uncounted(
        &mut self,
        bucket: Bucket,
        key: &'static [u8],
        value: Option<Bytes>,
    ) {
        self.changes.set(bucket, Bytes::from_static(key), value, 0);
    }

    /// Index and term of the last applied entry, including this transaction.
    #[must_use]
    pub fn applied(&self) -> (Index, Term) {
        (self.applied.index, self.applied.term)
    }
}

impl Read for Tx<'_> {
    fn get(&self, bucket: Bucket, key: &[u8]) -> Result<Option<Value<'_>>, CorruptPage> {
        match self.changes.buckets[bucket.slot()].get(key) {
            Some(value) => Ok(value.clone().map(Value::Pending)),
            None => self.layers.get(bucket, key, NEWEST),
        }
    }

    fn range(
        &self,
        bucket: Bucket,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Result<Range<'_>, CorruptPage> {
        let mut range = Range::new(to);
        let from_on = (Bound::Included(from), Bound::Unbounded);
        let changed = self.changes.buckets[bucket.slot()].range::<[u8], _>(from_on);
        range.add(RangeSource::Changes(changed))?;
        self.layers.add_to(&mut range, bucket, from, NEWEST)?;
        Ok(range)
    }

    fn reader(&self, bucket: Bucket) -> Result<Reader<'_>, CorruptPage> {
        let reader = self.layers.reader(bucket, NEWEST)?;
        Ok(reader.over(&self.changes.buckets[bucket.slot()]))
    }
}
