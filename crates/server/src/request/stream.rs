//! A range in chunks.
//!
//! ```text
//!   chunk 1   10 keys     300 bytes     small: the next has twice as many keys
//!   chunk 2   20 keys     600 bytes
//!   …
//!   chunk 12  20480 keys  614 KB
//!   chunk 13  40960 keys  1.2 MB        near max-request-bytes: the next has as many
//!   last      3200 keys   97 KB         header revision 7, count 85120
//! ```
//!
//! All chunks are of the revision of the first. A compaction may discard that revision, and a slow
//! reader then gets an error. Only the last chunk has a header, `more` and the count of all keys of
//! the range.
//!
//! There is no read-ahead: a chunk is read when it is requested.

use bytes::{BufMut as _, Bytes, BytesMut};
use mvcc::kv::KeyValueRef;
use mvcc::{RangeResult, Response as _};
use proto::etcdserverpb as pb;

use super::reading::Reading;
use crate::error::Error;

/// The number of keys in the first chunk.
const FIRST_CHUNK_KEYS: i64 = 10;

/// An iterator over the chunks of a range. It ends after the last chunk or an error.
#[derive(Debug)]
pub struct RangeStream {
    reading: Reading,
    /// The next request; `None` after the last chunk.
    next: Option<pb::RangeRequest>,
    /// The number of keys below the limit.
    keys_left: i64,
    keys_sent: i64,
    /// The revision of the first chunk.
    revision: Option<i64>,
    target_bytes: usize,
}

/// A chunk of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The keys. All but the last chunk have no `more` and no count, and are encoded without a
    /// header ([`mvcc::Response::encode_body`]).
    pub range: RangeResult,
    /// Whether this is the last chunk.
    pub is_last: bool,
}

impl RangeStream {
    pub(super) fn new(reading: Reading, mut request: pb::RangeRequest) -> RangeStream {
        let keys_left = if request.limit <= 0 { i64::MAX } else { request.limit };
        request.limit = FIRST_CHUNK_KEYS.min(keys_left);
        let target_bytes = reading.server.config().max_request_bytes;
        RangeStream {
            reading,
            next: Some(request),
            keys_left,
            keys_sent: 0,
            revision: None,
            target_bytes,
        }
    }

    fn read(&mut self, request: pb::RangeRequest) -> Result<Chunk, Error> {
        let mut range = self.reading.measured_range(&request)?;
        // Before each chunk, not only at the end: a sent chunk cannot be taken back.
        self.reading.check_unchanged()?;
        let revision = *self.revision.get_or_insert(range.revision);
        range.revision = revision;
        if request.count_only {
            return Ok(Chunk { range, is_last: true });
        }
        let size = range.encoded_len(&pb::ResponseHeader { revision, ..Default::default() });
        let keys = i64::try_from(range.kvs.len()).unwrap_or(i64::MAX);
        self.keys_left -= keys;
        let is_last = !range.more || self.keys_left == 0;
        if is_last {
            range.count += self.keys_sent;
        } else {
            (range.more, range.count) = (false, 0);
            self.next = Some(self.following(request, &range, size)?);
        }
        self.keys_sent += keys;
        Ok(Chunk { range, is_last })
    }

    /// Returns the request for the next chunk.
    fn following(
        &self,
        mut request: pb::RangeRequest,
        range: &RangeResult,
        size: usize,
    ) -> Result<pb::RangeRequest, Error> {
        request.key = after_last_key(range)?;
        if request.revision <= 0 {
            request.revision = range.revision;
        }
        request.limit = next_limit(request.limit, size, self.target_bytes).min(self.keys_left);
        Ok(request)
    }
}

impl Iterator for RangeStream {
    type Item = Result<Chunk, Error>;

    fn next(&mut self) -> Option<Result<Chunk, Error>> {
        let request = self.next.take()?;
        Some(self.read(request))
    }
}

/// Returns the smallest key after those of a chunk.
fn after_last_key(range: &RangeResult) -> Result<Bytes, Error> {
    let last = range.kvs.iter().last().and_then(KeyValueRef::parse);
    let Some(KeyValueRef { key, .. }) = last else {
        return Err(Error::Fault("a range with more keys has no last key".to_owned()));
    };
    let mut next = BytesMut::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.put_u8(0);
    Ok(next.freeze())
}

/// Returns the number of keys of the next chunk, so that its size comes near the target. Within a
/// factor of two it stays, to avoid oscillation.
fn next_limit(limit: i64, size: usize, target: usize) -> i64 {
    if size < target / 2 {
        limit.saturating_mul(2)
    } else if size > target.saturating_mul(2) {
        (limit / 2).max(1)
    } else {
        limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_sizes_approach_the_target() {
        assert_eq!(next_limit(10, 49, 100), 20);
        assert_eq!(next_limit(10, 50, 100), 10);
        assert_eq!(next_limit(10, 200, 100), 10);
        assert_eq!(next_limit(10, 201, 100), 5);
        assert_eq!(next_limit(1, usize::MAX, 100), 1, "a limit of zero would mean all");
        assert_eq!(next_limit(i64::MAX, 0, 100), i64::MAX);
    }
}
