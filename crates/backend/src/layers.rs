//! The layers, and a view through them.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use bolt::{CorruptPage, Snapshot};
use bytes::Bytes;

use crate::batch::{Batch, Sequence};
use crate::range::{Chunks, Range, Source};
use crate::read::{Read, Value};
use crate::reader::Reader;
use crate::schema::Bucket;

/// What the database consists of at some time. Replaced as a whole when a batch is frozen, and when it is in the file.
#[derive(Clone, Debug)]
pub(crate) struct Layers {
    pub(crate) snapshot: Snapshot,
    /// Never changes any more. Still behind its lock, because views from before it was frozen have it as their active one.
    pub(crate) frozen: Option<Arc<RwLock<Batch>>>,
    pub(crate) active: Arc<RwLock<Batch>>,
}

impl Layers {
    pub(crate) fn new(snapshot: Snapshot) -> Layers {
        Layers { snapshot, frozen: None, active: Arc::new(RwLock::new(Batch::after(Sequence(0)))) }
    }

    pub(crate) fn active(&self) -> RwLockReadGuard<'_, Batch> {
        read(&self.active)
    }

    /// What a key was after a transaction.
    pub(crate) fn get(
        &self,
        bucket: Bucket,
        key: &[u8],
        at: Sequence,
    ) -> Result<Option<Value<'_>>, CorruptPage> {
        for batch in self.batches() {
            if let Some(found) = read(batch).get(bucket, key, at) {
                return Ok(found.map(Value::Pending));
            }
        }
        match self.snapshot.bucket(bucket.name().as_bytes())? {
            Some(bucket) => Ok(bucket.get(key)?.map(Value::File)),
            None => Ok(None),
        }
    }

    /// Adds the layers to a range, as they were after a transaction.
    pub(crate) fn add_to<'a>(
        &'a self,
        range: &mut Range<'a>,
        bucket: Bucket,
        from: &[u8],
        at: Sequence,
    ) -> Result<(), CorruptPage> {
        for batch in self.batches() {
            let next = Some(Bound::Included(Bytes::copy_from_slice(from)));
            range.add(Source::Batch(Chunks { batch, at, bucket, chunk: VecDeque::new(), next }))?;
        }
        if let Some(bucket) = self.snapshot.bucket(bucket.name().as_bytes())? {
            let mut cursor = bucket.cursor();
            let first = cursor.seek(from)?;
            range.add_file(cursor, first);
        }
        Ok(())
    }

    /// A reader of a bucket, as it was after a transaction.
    pub(crate) fn reader(&self, bucket: Bucket, at: Sequence) -> Result<Reader<'_>, CorruptPage> {
        let file = self.snapshot.bucket(bucket.name().as_bytes())?;
        let batches = [Some(&*self.active), self.frozen.as_deref()];
        Ok(Reader::new(bucket, at, batches, file.map(|file| file.finger())))
    }

    fn batches(&self) -> impl Iterator<Item = &RwLock<Batch>> {
        [Some(&*self.active), self.frozen.as_deref()].into_iter().flatten()
    }
}

/// A panic elsewhere leaves a batch between two transactions, or one short of some of the last.
pub(crate) fn read(batch: &RwLock<Batch>) -> RwLockReadGuard<'_, Batch> {
    batch.read().unwrap_or_else(PoisonError::into_inner)
}

/// The database at one moment, between two transactions. Cheap to take and to clone.
///
/// It keeps what it shows: up to two batches in memory, also when they are in the file long since, and pages of the file. So a walk that
/// takes long should take a new view every now and then, where it may.
#[derive(Clone, Debug)]
pub struct View {
    layers: Arc<Layers>,
    at: Sequence,
}

impl View {
    pub(crate) fn new(layers: Arc<Layers>) -> View {
        let at = layers.active().note_view();
        View { layers, at }
    }

    /// A view of a file alone, however it was opened.
    #[must_use]
    pub fn of_file(snapshot: Snapshot) -> View {
        View::new(Arc::new(Layers::new(snapshot)))
    }

    /// The last transaction that it shows.
    #[must_use]
    pub fn sequence(&self) -> Sequence {
        self.at
    }
}

impl Read for View {
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
