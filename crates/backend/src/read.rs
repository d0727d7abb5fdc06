//! Reading from a view or within a transaction.

use std::fmt;
use std::ops::Deref;

use bolt::CorruptPage;
use bytes::Bytes;

use crate::range::Range;
use crate::reader::Reader;
use crate::schema::Bucket;

/// A source of reads. A bucket that does not exist reads as empty.
pub trait Read {
    /// Returns the value of a key.
    fn get(&self, bucket: Bucket, key: &[u8]) -> Result<Option<Value<'_>>, CorruptPage>;

    /// Returns a reader for looking up many keys of a bucket.
    fn reader(&self, bucket: Bucket) -> Result<Reader<'_>, CorruptPage>;

    /// Returns the pairs from a key on, in order, up to an exclusive end, or to the end of the
    /// bucket.
    fn range(
        &self,
        bucket: Bucket,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Result<Range<'_>, CorruptPage>;

    /// Returns all pairs of a bucket, in order.
    fn all(&self, bucket: Bucket) -> Result<Range<'_>, CorruptPage> {
        self.range(bucket, &[], None)
    }
}

/// The bytes of a key or value, in the mapped file or in a batch.
#[derive(Clone)]
pub enum Value<'a> {
    /// In the file; borrowed from the view.
    File(&'a [u8]),
    /// In a batch that is not in the file yet.
    Pending(Bytes),
}

impl Value<'_> {
    /// Returns owned bytes. Copies them if they are in the file.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        match self {
            Value::File(bytes) => Bytes::copy_from_slice(bytes),
            Value::Pending(bytes) => bytes,
        }
    }
}

impl Deref for Value<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Value::File(bytes) => bytes,
            Value::Pending(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Value<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Value<'_> {
    fn eq(&self, other: &Value<'_>) -> bool {
        **self == **other
    }
}

impl Eq for Value<'_> {}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

/// A key-value pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// The key.
    pub key: Value<'a>,
    /// The value.
    pub value: Value<'a>,
}
