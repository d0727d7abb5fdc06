//! The layers of a database, and a view of them.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use bolt::{CorruptPage, Snapshot};
use bytes::Bytes;
use parking_lot::{RwLock, RwLockReadGuard};

use crate::batch::{Batch, Sequence};
use crate::range::{BatchChunks, Range, RangeSource};
use crate::read::{Read, Value};
use crate::reader::Reader;
use crate::schema::Bucket;

/// The layers at some time. Replaced as a whole when a batch is frozen or committed.
#[derive(Clone, Debug)]
pub(crate) struct Layers {
    pub(crate) snapshot: Snapshot,
    /// Immutable. Still under its lock, because older views have it as their active batch.
    pub(crate) frozen: Option<Arc<RwLock<Batch>>>,
    pub(crate) active: Arc<RwLock<Batch>>,
}

impl Layers {
    pub(crate) fn new(snapshot: Snapshot) -> Layers {
        Layers { snapshot, frozen: None, active: Arc::new(RwLock::new(Batch::after(Sequence(0)))) }
    }

    pub(crate) fn active(&self) -> RwLockReadGuard<'_, Batch> {
        self.active.read()
    }

    /// Returns the value of a key after a transaction.
    pub(crate) fn get(
        &self,
        bucket: Bucket,
        key: &[u8],
        at: Sequence,
    ) -> Result<Option<Value<'_>>, CorruptPage> {
        for batch in self.batches() {
            if let Some(found) = batch.read().get(bucket, key, at) {
                return Ok(found.map(Value::Pending));
            }
        }
        match self.snapshot.bucket(bucket.name().as_bytes())? {
            Some(bucket) => Ok(bucket.get(key)?.map(Value::File)),
            None => Ok(None),
        }
    }

    /// Adds all layers to a range, as of a transaction.
    pub(crate) fn add_to<'a>(
        &'a self,
        range: &mut Range<'a>,
        bucket: Bucket,
        from: &[u8],
        at: Sequence,
    ) -> Result<(), CorruptPage> {
        for batch in self.batches() {
            let next = Some(Bound::Included(Bytes::copy_from_slice(from)));
            range.add(RangeSource::Batch(BatchChunks {
                batch,
                at,
                bucket,
                chunk: VecDeque::new(),
                next,
            }))?;
        }
        if let Some(bucket) = self.snapshot.bucket(bucket.name().as_bytes())? {
            let mut cursor = bucket.cursor();
            let first = cursor.seek(from)?;
            range.add_file(cursor, first);
        }
        Ok(())
    }

    /// Returns a reader of a bucket as of a transaction.
    pub(crate) fn reader(&self, bucket: Bucket, at: Sequence) -> Result<Reader<'_>, CorruptPage> {
        let file = self.snapshot.bucket(bucket.name().as_bytes())?;
        let batches = [Some(&*self.active), self.frozen.as_deref()];
        Ok(Reader::new(bucket, at, batches, file.map(|file| file.finger())))
    }

    fn batches(&self) -> impl Iterator<Item = &RwLock<Batch>> {
        [Some(&*self.active), self.frozen.as_deref()].into_iter().flatten()
    }
}

/// The state of the database between two transactions. Cheap to create and to clone.
///
/// A view pins up to two batches in memory, even after they are committed, and pages of the file. A
/// long scan should take a new view from time to time, where possible.
#[derive(Clone, Debug)]
pub struct BackendView {
    layers: Arc<Layers>,
    at: Sequence,
}

impl BackendView {
    pub(crate) fn new(layers: Arc<Layers>) -> BackendView {
        let at = layers.active().note_view();
        BackendView { layers, at }
    }

    /// Creates a view of a file alone.
    #[must_use]
    pub fn of_file(snapshot: Snapshot) -> BackendView {
        BackendView::new(Arc::new(Layers::new(snapshot)))
    }

    /// The last transaction that the view shows.
    #[must_use]
    pub fn sequence(&self) -> Sequence {
        self.at
    }
}

impl Read for BackendView {
    fn get(&self, bucket: Bucket, key: &[u8]) -> Result<Option<Value<'_>>, CorruptPage> {
        self.layers.get(bucket, key, self.at)
    }

    fn range(
        &self,
        bucket: Bucket,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Result<Range<'_>, CorruptPage> {
        let mut range = Range::new(to);
        self.layers.add_to(&mut range, bucket, from, self.at)?;
        Ok(range)
    }

    fn reader(&self, bucket: Bucket) -> Result<Reader<'_>, CorruptPage> {
        self.layers.reader(bucket, self.at)
    }
}
