//! Looking up many keys of one bucket.
//!
//! What would be the same for each of them is done once: the bucket is found in the file, and each batch is asked where it may have something to
//! say ([`Extent`]). A key that no batch can have, which is most of them, then costs neither a lock nor a way down from the
//! root of the file: see [`Finger`].
//!
//! ```text
//!   batches      put from 9000      put from 8800
//!   file         … 7311 7312 …      finger at 7311
//!
//!   get 7312     below both: the next in the file
//!   get 8900     not in the first; in the second, or else in the file
//! ```
//!
//! A reader is of one moment, as the view or transaction is that it was made from.

use std::sync::RwLock;

use bolt::{Damaged, Finger};

use crate::batch::{Batch, Extent, Pairs, Sequence};
use crate::layers::read;
use crate::read::Value;
use crate::schema::Bucket;

/// Looks up keys of a bucket, each from where the last one was.
#[derive(Debug)]
pub struct Reader<'a> {
    bucket: Bucket,
    at: Sequence,
    /// The changes of the transaction that reads.
    changes: Option<&'a Pairs>,
    /// Newest first.
    batches: [Option<(&'a RwLock<Batch>, Extent)>; 2],
    /// None if the file does not have the bucket.
    file: Option<Finger<'a>>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(
        bucket: Bucket,
        at: Sequence,
        batches: [Option<&'a RwLock<Batch>>; 2],
        file: Option<Finger<'a>>,
    ) -> Reader<'a> {
        let extent = |batch: &'a RwLock<Batch>| (batch, read(batch).extent(bucket));
        let batches = batches.map(|batch| batch.map(extent));
        Reader { bucket, at, changes: None, batches, file }
    }

    /// The same with the changes of a transaction over it.
    pub(crate) fn over(self, changes: &'a Pairs) -> Reader<'a> {
        Reader { changes: Some(changes), ..self }
    }

    /// The value of a key.
    #[inline]
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Value<'a>>, Damaged> {
        if let Some(changed) = self.changes.and_then(|changes| changes.get(key)) {
            return Ok(changed.clone().map(Value::Pending));
        }
        for (batch, extent) in self.batches.iter().flatten() {
            if extent.may_have(key)
                && let Some(found) = read(batch).get(self.bucket, key, self.at)
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
