//! Reads the encoded `KeyValue`s of revisions that the index returned.

use backend::schema::{Bucket, revision};
use backend::{Read, ReadError, Reader, Value};
use types::Revision;

use crate::error::Fault;
use crate::kv::KeyValueRef;

/// Reads one revision after the other. The first read is a plain lookup, because most requests need
/// one; further reads share a [`Reader`].
#[derive(Debug)]
pub(crate) struct ValueReader<'a, R> {
    from: &'a R,
    has_read: bool,
    reader: Option<Reader<'a>>,
}

impl<'a, R: Read> ValueReader<'a, R> {
    pub(crate) fn new(from: &'a R) -> ValueReader<'a, R> {
        ValueReader { from, has_read: false, reader: None }
    }

    /// Returns the encoded `KeyValue` of a revision.
    pub(crate) fn stored(&mut self, revision: Revision) -> Result<Value<'a>, Fault> {
        if !std::mem::replace(&mut self.has_read, true) {
            return read_stored(revision, self.from);
        }
        let found = self.reader()?.get(&revision::encode(revision))?;
        found.ok_or(Fault::Missing(revision))
    }

    fn reader(&mut self) -> Result<&mut Reader<'a>, Fault> {
        match &mut self.reader {
            Some(reader) => Ok(reader),
            none => Ok(none.insert(self.from.reader(Bucket::Key)?)),
        }
    }
}

/// Returns the encoded `KeyValue` of a revision.
pub(crate) fn read_stored<R: Read>(revision: Revision, values: &R) -> Result<Value<'_>, Fault> {
    let found = values.get(Bucket::Key, &revision::encode(revision))?;
    found.ok_or(Fault::Missing(revision))
}

/// Parses the encoded `KeyValue` of a revision. A malformed value is a fault: treating it as empty
/// would let this member diverge from the others.
pub(crate) fn parse_stored(revision: Revision, stored: &[u8]) -> Result<KeyValueRef<'_>, Fault> {
    let key = revision::encode(revision);
    let wrong = || ReadError::malformed(Bucket::Key, &key, "not a KeyValue");
    Ok(KeyValueRef::parse(stored).ok_or_else(wrong)?)
}
