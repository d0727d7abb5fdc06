//! A transaction.

use std::ops::Bound;
use std::sync::{Arc, MutexGuard};

use bolt::{CorruptPage, KEY_MAX, VALUE_MAX};
use bytes::Bytes;
use failpoint::failpoint;
use types::{Index, Term};

use crate::backend::{Applied, Shared};
use crate::batch::{Changes, Sequence};
use crate::error::{CommitError, PutError};
use crate::layers::Layers;
use crate::range::{Range, Source};
use crate::read::{Read, Value};
use crate::reader::Reader;
use crate::schema::{Bucket, meta};

/// Everything: nobody else changes anything while a transaction is open.
const NEWEST: Sequence = Sequence(u64::MAX);

/// Changes that come into being together. There is one transaction at a time; it reads what it has changed, and nobody else does before
/// it is committed. Dropping it undoes it.
#[derive(Debug)]
pub struct Tx<'b> {
    shared: &'b Shared,
    /// Before this transaction. Stays complete if batches are frozen and committed meanwhile.
    layers: Arc<Layers>,
    changes: Changes,
    applied: Applied,
    writer: MutexGuard<'b, Applied>,
}

impl<'b> Tx<'b> {
    pub(crate) fn new(shared: &'b Shared, writer: MutexGuard<'b, Applied>) -> Tx<'b> {
        let layers = shared.layers();
        Tx { shared, layers, changes: Changes::default(), applied: *writer, writer }
    }

    /// Sets the value of a key.
    ///
    /// Key and value are kept as they are handed over until a commit: a slice of a larger buffer keeps all of that, which the bound
    /// on pending bytes does not see.
    pub fn put(
        &mut self,
        bucket: Bucket,
        key: impl Into<Bytes>,
        value: impl Into<Bytes>,
    ) -> Result<(), PutError> {
        let (key, value) = (key.into(), value.into());
        if key.is_empty() {
            return Err(PutError::KeyRequired);
        }
        if key.len() > KEY_MAX {
            return Err(PutError::KeyTooLarge);
        }
        if value.len() > VALUE_MAX {
            return Err(PutError::ValueTooLarge);
        }
        self.changes.set(bucket, key, Some(value), 1);
        Ok(())
    }

    /// Deletes a key, whether it is there or not.
    pub fn delete(&mut self, bucket: Bucket, key: impl Into<Bytes>) {
        self.changes.set(bucket, key.into(), None, 1);
    }

    /// Makes a bucket if it is missing. Putting something into it does so as well; but etcd's hash counts empty ones too.
    pub fn create_bucket(&mut self, bucket: Bucket) {
        self.changes.create(bucket);
    }

    /// Sets which entry of the log was applied last, this transaction included.
    ///
    /// # Panics
    /// If that would go back: an entry would be applied twice.
    pub fn set_applied(&mut self, index: Index, term: Term) {
        let Applied { index: before, .. } = self.applied;
        assert!(index >= before, "applied index goes back from {before} to {index}");
        self.force_applied(index, term);
    }

    /// Likewise, forward or back: for a database that is made part of another cluster.
    pub fn force_applied(&mut self, index: Index, term: Term) {
        meta::set_applied_index(self, index);
        // Terms change seldom, and the index with every entry.
        if term != self.applied.term {
            meta::set_applied_term(self, term);
        }
        self.applied = Applied { index, term };
    }

    /// Makes the changes visible, all at once, and leaves it to the committer to make them durable. Returns the number of the
    /// transaction; if nothing was changed, that of the last.
    ///
    /// If too much is pending it waits for a commit to the file, or does it itself. After an error nothing was changed.
    pub fn commit(mut self) -> Result<Sequence, CommitError> {
        let changes = std::mem::take(&mut self.changes);
        failpoint!("beforeWritebackBuf");
        let sequence = self.shared.merge(changes)?;
        failpoint!("afterWritebackBuf");
        *self.writer = self.applied;
        Ok(sequence)
    }

    /// Sets the value of a key that is known to be valid.
    pub(crate) fn set(&mut self, bucket: Bucket, key: &'static [u8], value: Bytes) {
        self.changes.set(bucket, Bytes::from_static(key), Some(value), 1);
    }

    /// Likewise, for what comes with every transaction, and is written only once for each batch.
    pub(crate) fn set_uncounted(
        &mut self,
        bucket: Bucket,
        key: &'static [u8],
        value: Option<Bytes>,
    ) {
        self.changes.set(bucket, Bytes::from_static(key), value, 0);
    }

    /// The last entry that was applied, this transaction included.
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
        range.add(Source::Changes(changed))?;
        self.layers.add_to(&mut range, bucket, from, NEWEST)?;
        Ok(range)
    }

    fn reader(&self, bucket: Bucket) -> Result<Reader<'_>, CorruptPage> {
        let reader = self.layers.reader(bucket, NEWEST)?;
        Ok(reader.over(&self.changes.buckets[bucket.slot()]))
    }
}
