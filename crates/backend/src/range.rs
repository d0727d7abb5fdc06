//! An ordered scan of a bucket over all layers.

use std::collections::{VecDeque, btree_map};
use std::ops::Bound;

use bolt::{CorruptPage, Cursor};
use bytes::Bytes;
use parking_lot::RwLock;

use crate::batch::{Batch, Sequence};
use crate::read::{Item, Value};
use crate::schema::Bucket;

/// Pairs copied from a batch at a time, under its lock, which may delay a transaction.
const CHUNK: usize = 128;

/// An ordered iterator over the pairs of a range. Ends after an error.
#[derive(Debug)]
pub struct Range<'a> {
    /// Newest first: the first layer that has a key determines its value.
    layers: Vec<RangeLayer<'a>>,
    to: Option<Bytes>,
}

/// A layer with its current pair.
#[derive(Debug)]
struct RangeLayer<'a> {
    source: RangeSource<'a>,
    head: Option<(Value<'a>, Option<Value<'a>>)>,
}

/// A source of pairs.
#[derive(Debug)]
pub(crate) enum RangeSource<'a> {
    /// The changes of the reading transaction.
    Changes(btree_map::Range<'a, Bytes, Option<Bytes>>),
    /// A batch, read in chunks.
    Batch(BatchChunks<'a>),
    /// The bucket in the file. The cursor is before the next pair.
    File(Cursor<'a>),
}

/// A batch as of a transaction, read in chunks.
#[derive(Debug)]
pub(crate) struct BatchChunks<'a> {
    pub(crate) batch: &'a RwLock<Batch>,
    pub(crate) at: Sequence,
    pub(crate) bucket: Bucket,
    pub(crate) chunk: VecDeque<(Bytes, Option<Bytes>)>,
    /// Start of the next chunk; `None` after the last.
    pub(crate) next: Option<Bound<Bytes>>,
}

impl<'a> Range<'a> {
    pub(crate) fn new(to: Option<&[u8]>) -> Range<'a> {
        Range { layers: Vec::new(), to: to.map(Bytes::copy_from_slice) }
    }

    /// Adds a layer below the others.
    pub(crate) fn add(&mut self, mut source: RangeSource<'a>) -> Result<(), CorruptPage> {
        let head = source.next()?;
        self.add_at(source, head);
        Ok(())
    }

    /// Adds the file below the others, with its first pair.
    pub(crate) fn add_file(&mut self, cursor: Cursor<'a>, first: Option<bolt::Item<'a>>) {
        self.add_at(RangeSource::File(cursor), first.map(from_file));
    }

    fn add_at(&mut self, source: RangeSource<'a>, head: Option<(Value<'a>, Option<Value<'a>>)>) {
        self.layers.push(RangeLayer { source, head });
    }

    /// Returns the lowest current key of all layers, with its value in the newest of them.
    fn step(&mut self) -> Result<Option<(Value<'a>, Option<Value<'a>>)>, CorruptPage> {
        let heads = self.layers.iter().enumerate();
        let lowest =
            heads.filter_map(|(layer, at)| at.head.as_ref().map(|(key, _)| (&**key, layer))).min();
        let Some((_, layer)) = lowest else { return Ok(None) };
        let found = self.layers[layer].advance()?;
        for older in &mut self.layers[layer + 1..] {
            if older.head.as_ref().map(|(key, _)| key) == found.as_ref().map(|(key, _)| key) {
                older.advance()?;
            }
        }
        Ok(found)
    }

    fn next_item(&mut self) -> Result<Option<Item<'a>>, CorruptPage> {
        while let Some((key, value)) = self.step()? {
            if self.to.as_ref().is_some_and(|to| *key >= **to) {
                return Ok(None);
            }
            if let Some(value) = value {
                return Ok(Some(Item { key, value }));
            }
        }
        Ok(None)
    }
}

impl<'a> Iterator for Range<'a> {
    type Item = Result<Item<'a>, CorruptPage>;

    fn next(&mut self) -> Option<Result<Item<'a>, CorruptPage>> {
        let next = self.next_item().transpose();
        if !matches!(next, Some(Ok(_))) {
            self.layers.clear();
        }
        next
    }
}

impl<'a> RangeLayer<'a> {
    /// Returns the current pair and moves to the next.
    fn advance(&mut self) -> Result<Option<(Value<'a>, Option<Value<'a>>)>, CorruptPage> {
        let next = self.source.next()?;
        Ok(std::mem::replace(&mut self.head, next))
    }
}

impl<'a> RangeSource<'a> {
    fn next(&mut self) -> Result<Option<(Value<'a>, Option<Value<'a>>)>, CorruptPage> {
        Ok(match self {
            RangeSource::Changes(pairs) => {
                pairs.next().map(|(key, value)| pending(key.clone(), value.clone()))
            }
            RangeSource::Batch(chunks) => chunks.next().map(|(key, value)| pending(key, value)),
            RangeSource::File(cursor) => cursor.next()?.map(from_file),
        })
    }
}

impl BatchChunks<'_> {
    fn next(&mut self) -> Option<(Bytes, Option<Bytes>)> {
        if self.chunk.is_empty() {
            let from = self.next.take()?;
            let batch = self.batch.read();
            let from = from.as_ref().map(|key| &key[..]);
            let pairs = batch.range(self.bucket, from, self.at).take(CHUNK);
            self.chunk.extend(pairs.map(|(key, value)| (key.clone(), value.clone())));
            if self.chunk.len() == CHUNK {
                let last = self.chunk.back().map(|(key, _)| key.clone());
                self.next = last.map(Bound::Excluded);
            }
        }
        self.chunk.pop_front()
    }
}

fn pending<'a>(key: Bytes, value: Option<Bytes>) -> (Value<'a>, Option<Value<'a>>) {
    (Value::Pending(key), value.map(Value::Pending))
}

/// Converts an item of the file. A nested bucket, which the schema does not have, reads as a
/// deleted key.
fn from_file(item: bolt::Item<'_>) -> (Value<'_>, Option<Value<'_>>) {
    (Value::File(item.key), item.value.map(Value::File))
}
