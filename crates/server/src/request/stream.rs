//! A range in pieces.
//!
//! ```text
//!   chunk 1   10 keys     300 bytes                                        small: twice as many next time
//!   chunk 2   20 keys     600 bytes
//!   …
//!   chunk 12  20480 keys  614 KB
//!   chunk 13  40960 keys  1.2 MB                                           about max-request-bytes: as many again
//!   last      3200 keys   97 KB      header revision 7, count 85120        and nothing more
//! ```
//!
//! All pieces are of one revision, that of the first. It is not kept from being compacted: a reader that slow hears of it. Only the last has a header, says
//! whether there is more beyond the limit, and counts: all keys of the range, sent or not.
//!
//! Nothing is read ahead: the next piece is read when it is asked for.

use bytes::{BufMut as _, Bytes, BytesMut};
use mvcc::kv::KeyValueRef;
use mvcc::{RangeResult, Response as _};
use proto::etcdserverpb as pb;

use super::reading::Reading;
use crate::error::Error;

/// Keys of the first piece.
const FIRST_CHUNK_KEYS: i64 = 10;

/// A range in pieces: an iterator that ends after the last, or after an error.
#[derive(Debug)]
pub struct RangeStream {
    reading: Reading,
    /// What to read next; none when all is told.
    next: Option<pb::RangeRequest>,
    /// Keys that may still be sent.
    keys_left: i64,
    keys_sent: i64,
    /// The revision of the store as the first piece was read.
    revision: Option<i64>,
    target_bytes: usize,
}

/// A piece of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Its keys. But for the last piece there is no more and no count, and it is to be framed without a header
    /// ([`mvcc::Response::encode_body`]).
    pub range: RangeResult,
    /// Whether it is the last.
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
        // Before it is given out, not only in the end: what is left unsent needs no excuse.
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

    /// What to read after a piece.
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

/// The smallest key that comes after those of a piece.
fn after_last_key(range: &RangeResult) -> Result<Bytes, Error> {
    let last = range.kvs.iter().last().and_then(KeyValueRef::parse);
    let Some(KeyValueRef { key, .. }) = last else {
        return Err(Error::Fault("a range that has more has no last key".to_owned()));
    };
    let mut next = BytesMut::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.put_u8(0);
    Ok(next.freeze())
}

/// How many keys the next piece has, for its size to be near the target. Within a factor of two nothing changes, or it would go back and forth.
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
    fn pieces_come_near_their_target() {
        assert_eq!(next_limit(10, 49, 100), 20);
        assert_eq!(next_limit(10, 50, 100), 10);
        assert_eq!(next_limit(10, 200, 100), 10);
        assert_eq!(next_limit(10, 201, 100), 5);
        assert_eq!(next_limit(1, usize::MAX, 100), 1, "none would be all");
        assert_eq!(next_limit(i64::MAX, 0, 100), i64::MAX);
    }
}
