//! A walk through a bucket in key order, over all layers.

use std::collections::{VecDeque, btree_map};
use std::ops::Bound;
use std::sync::{PoisonError, RwLock};

use bolt::{CorruptPage, Cursor};
use bytes::Bytes;

use crate::batch::{Batch, Sequence};
use crate::read::{Item, Value};
use crate::schema::Bucket;

/// How many pairs are taken from a batch at a time. It is locked meanwhile, and a transaction may wait for it.
const CHUNK: usize = 128;

/// The pairs of a range, in order. Ends after an error.
#[derive(Debug)]
pub struct Range<'a> {
    /// Newest first: of the same key in several, the first counts.
    layers: Vec<Layer<'a>>,
    to: Option<Bytes>,
}

/// One layer, with the pair it is at.
#[derive(Debug)]
struct Layer<'a> {
    source: Source<'a>,
    head: Option<(Value<'a>, Option<Value<'a>>)>,
}

/// Where pairs come from.
#[derive(Debug)]
pub(crate) enum Source<'a> {
    /// The changes of the transaction that reads.
    Changes(btree_map::Range<'a, Bytes, Option<Bytes>>),
    /// A batch, a chunk at a time.
    Batch(Chunks<'a>),
    /// The file, if it has the bucket. The cursor stands before the next pair.
    File(Cursor<'a>),
}

/// A batch as it was after a transaction, a chunk at a time.
#[derive(Debug)]
pub(crate) struct Chunks<'a> {
    pub(crate) batch: &'a RwLock<Batch>,
    pub(crate) at: Sequence,
    pub(crate) bucket: Bucket,
    pub(crate) chunk: VecDeque<(Bytes, Option<Bytes>)>,
    /// Where the next chunk starts; none behind the last.
    pub(crate) next: Option<Bound<Bytes>>,
}

impl<'a> Range<'a> {
    pub(crate) fn new(to: Option<&[u8]>) -> Range<'a> {
        Range { layers: Vec::new(), to: to.map(Bytes::copy_from_slice) }
    }

    /// Adds a layer below the others.
    pub(crate) fn add(&mut self, mut source: Source<'a>) -> Result<(), CorruptPage> {
        let head = source.next()?;
        self.add_at(source, head);
        Ok(())
    }

    /// Adds the file, below the others, with the first pair of it.
    pub(crate) fn add_file(&mut self, cursor: Cursor<'a>, first: Option<bolt::Item<'a>>) {
        self.add_at(Source::File(cursor), first.map(from_file));
    }

    fn add_at(&mut self, source: Source<'a>, head: Option<(Value<'a>, Option<Value<'a>>)>) {
        self.layers.push(Layer { source, head });
    }

    /// The lowest key that any layer is at, and what the newest of these says.
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

impl<'a> Layer<'a> {
    /// Hands out the pair it is at, and goes on.
    fn advance(&mut self) -> Result<Option<(Value<'a>, Option<Value<'a>>)>, CorruptPage> {
        let next = self.source.next()?;
        Ok(std::mem::replace(&mut self.head, next))
    }
}

impl<'a> Source<'a> {
    fn next(&mut self) -> Result<Option<(Value<'a>, Option<Value<'a>>)>, CorruptPage> {
        Ok(match self {
            Source::Changes(pairs) => {
                pairs.next().map(|(key, value)| pending(key.clone(), value.clone()))
            }
            Source::Batch(chunks) => chunks.next().map(|(key, value)| pending(key, value)),
            Source::File(cursor) => cursor.next()?.map(from_file),
        })
    }
}

impl Chunks<'_> {
    fn next(&mut self) -> Option<(Bytes, Option<Bytes>)> {
        if self.chunk.is_empty() {
            let from = self.next.take()?;
            let batch = self.batch.read().unwrap_or_else(PoisonError::into_inner);
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

/// A bucket inside the bucket, of which there are none, would read like a deleted key.
fn from_file(item: bolt::Item<'_>) -> (Value<'_>, Option<Value<'_>>) {
    (Value::File(item.key), item.value.map(Value::File))
}
