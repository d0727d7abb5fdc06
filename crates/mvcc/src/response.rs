//! What requests about keys are answered with, ready to be framed.
//!
//! A result holds keys as they are stored, so that an answer is put together by copying bytes. `encode` writes the message of etcd's API that
//! a result stands for:
//!
//! ```text
//!   RangeResponse   0a len header   12 len kv  12 len kv ...   18 01 (more)   20 count
//! ```
//!
//! Within a transaction the answers are nested, and their headers carry the revision alone.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use prost::Message as _;
use proto::etcdserverpb::ResponseHeader;

use crate::kv::{
    FIELD_BYTES_MAX, KeyValueRef, message_len, number_len, put_head, put_message, put_number,
};

const HEADER: u8 = 1;

/// Room that is left before the keys: for a header, which has four numbers, and what a caller puts before the message.
const FRONT_ROOM: usize = 64;
/// Room behind them, for the numbers of an answer.
const BACK_ROOM: usize = 2 * FIELD_BYTES_MAX;

/// Keys as they are stored, each framed as an item of a list.
///
/// ```text
///   [64 bytes of room]  12 len kv  12 len kv  [room]        the answer is finished where it is, without a copy of the keys
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kvs {
    field: u8,
    /// Empty, or [`FRONT_ROOM`] zeros and the keys.
    framed: BytesMut,
    count: usize,
}

impl Kvs {
    pub(crate) fn new(field: u8) -> Kvs {
        Kvs { field, ..Kvs::default() }
    }

    /// Adds a key as it is stored.
    pub(crate) fn push(&mut self, kv: &[u8]) {
        self.make_room(message_len(kv.len()));
        put_message(self.field, kv, &mut self.framed);
        self.count += 1;
    }

    /// Adds several. Room is made for all of them at once.
    pub(crate) fn extend(&mut self, kvs: &[impl AsRef<[u8]>]) {
        self.make_room(kvs.iter().map(|kv| message_len(kv.as_ref().len())).sum());
        kvs.iter().for_each(|kv| put_message(self.field, kv.as_ref(), &mut self.framed));
        self.count += kvs.len();
    }

    /// Adds a key that is not stored like this.
    pub(crate) fn push_fields(&mut self, kv: &KeyValueRef<'_>) {
        let len = kv.encoded_len();
        self.make_room(message_len(len));
        put_head(self.field, len, &mut self.framed);
        kv.encode_to(&mut self.framed);
        self.count += 1;
    }

    /// Makes room for keys that take so many bytes, and at first for what comes around them.
    pub(crate) fn make_room(&mut self, bytes: usize) {
        if self.framed.is_empty() && bytes > 0 {
            self.framed.reserve(FRONT_ROOM + bytes + BACK_ROOM);
            self.framed.put_bytes(0, FRONT_ROOM);
        } else {
            self.framed.reserve(bytes);
        }
    }

    /// The keys behind what comes before them, where they lie if there is room.
    fn finished_behind(mut self, mut front: BytesMut) -> BytesMut {
        match FRONT_ROOM.checked_sub(front.len()) {
            Some(unused) if !self.is_empty() => {
                self.framed[unused..FRONT_ROOM].copy_from_slice(&front);
                self.framed.advance(unused);
                self.framed
            }
            _ => {
                front.extend_from_slice(self.framed());
                front
            }
        }
    }

    /// The keys, framed.
    fn framed(&self) -> &[u8] {
        self.framed.get(FRONT_ROOM..).unwrap_or_default()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes they take in the answer.
    #[must_use]
    pub fn size(&self) -> usize {
        self.framed().len()
    }

    /// Each as an encoded `mvccpb.KeyValue`.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.framed();
        std::iter::from_fn(move || {
            rest = rest.get(1..)?;
            let len = prost::encoding::decode_varint(&mut rest).ok()?;
            let (kv, behind) = rest.split_at(usize::try_from(len).ok()?);
            rest = behind;
            Some(kv)
        })
    }
}

/// The answer to a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeResult {
    /// The revision of the store.
    pub revision: i64,
    /// The keys.
    pub kvs: Kvs,
    /// Whether there would be more without the limit.
    pub more: bool,
    /// How many keys are in the range.
    pub count: i64,
}

/// The answer to a put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutResult {
    /// The revision that it made.
    pub revision: i64,
    /// The key as it was, if that was asked for.
    pub prev_kv: Option<Bytes>,
}

/// The answer to the deletion of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteRangeResult {
    /// The revision that it made, or the one before if there was nothing to delete.
    pub revision: i64,
    /// How many keys were deleted.
    pub deleted: i64,
    /// These keys as they were, if that was asked for.
    pub prev_kvs: Kvs,
}

/// The answer to a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxnResult {
    /// The revision that it made, or the one before if it changed nothing. None of a nested one.
    pub revision: i64,
    /// Whether all comparisons held.
    pub succeeded: bool,
    /// The answers to its operations.
    pub responses: Vec<OpResult>,
}

/// The answer to an operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpResult {
    /// To a range.
    Range(RangeResult),
    /// To a put.
    Put(PutResult),
    /// To a deletion.
    DeleteRange(DeleteRangeResult),
    /// To a nested transaction.
    Txn(TxnResult),
    /// To an operation that says nothing.
    Nothing,
}

/// An answer that can be framed.
pub trait Response {
    /// The revision that belongs in its header.
    fn revision(&self) -> i64;

    /// How long it is without its header.
    fn body_len(&self) -> usize;

    /// Appends all but its header.
    fn encode_body(&self, out: &mut BytesMut);

    /// How long it is.
    fn encoded_len(&self, header: &ResponseHeader) -> usize {
        message_len(header.encoded_len()) + self.body_len()
    }

    /// Appends it. The header is to have this answer's revision.
    fn encode(&self, header: &ResponseHeader, out: &mut BytesMut) {
        out.reserve(self.encoded_len(header));
        put_header(header, out);
        self.encode_body(out);
    }

    /// The message, behind as many zeros as the caller has a use for. May be finished where it lies, without a copy.
    fn into_message(self, header: &ResponseHeader, zeros: usize) -> BytesMut
    where
        Self: Sized,
    {
        let mut out = BytesMut::with_capacity(zeros + self.encoded_len(header));
        out.put_bytes(0, zeros);
        self.encode(header, &mut out);
        out
    }
}

fn put_header(header: &ResponseHeader, out: &mut BytesMut) {
    put_head(HEADER, header.encoded_len(), out);
    header.encode(out).expect("the buffer grows as needed");
}

impl Response for RangeResult {
    fn revision(&self) -> i64 {
        self.revision
    }

    fn body_len(&self) -> usize {
        self.kvs.size() + number_len(self.more.into()) + number_len(self.count)
    }

    fn encode_body(&self, out: &mut BytesMut) {
        out.put_slice(self.kvs.framed());
        self.encode_numbers(out);
    }

    fn into_message(mut self, header: &ResponseHeader, zeros: usize) -> BytesMut {
        let mut front = BytesMut::with_capacity(FRONT_ROOM);
        front.put_bytes(0, zeros);
        put_header(header, &mut front);
        let mut out = std::mem::take(&mut self.kvs).finished_behind(front);
        self.encode_numbers(&mut out);
        out
    }
}

impl RangeResult {
    /// What comes behind the keys.
    fn encode_numbers(&self, out: &mut BytesMut) {
        put_number(3, self.more.into(), out);
        put_number(4, self.count, out);
    }
}

impl Response for PutResult {
    fn revision(&self) -> i64 {
        self.revision
    }

    fn body_len(&self) -> usize {
        self.prev_kv.as_ref().map_or(0, |kv| message_len(kv.len()))
    }

    fn encode_body(&self, out: &mut BytesMut) {
        if let Some(kv) = &self.prev_kv {
            put_message(2, kv, out);
        }
    }
}

impl Response for DeleteRangeResult {
    fn revision(&self) -> i64 {
        self.revision
    }

    fn body_len(&self) -> usize {
        number_len(self.deleted) + self.prev_kvs.size()
    }

    fn encode_body(&self, out: &mut BytesMut) {
        put_number(2, self.deleted, out);
        out.put_slice(self.prev_kvs.framed());
    }
}

impl Response for TxnResult {
    fn revision(&self) -> i64 {
        self.revision
    }

    fn body_len(&self) -> usize {
        let responses = self.responses.iter().map(|response| message_len(response.len()));
        number_len(self.succeeded.into()) + responses.sum::<usize>()
    }

    fn encode_body(&self, out: &mut BytesMut) {
        put_number(2, self.succeeded.into(), out);
        for response in &self.responses {
            put_head(3, response.len(), out);
            response.encode(out);
        }
    }
}

impl OpResult {
    fn inner(&self) -> Option<(u8, &dyn Response)> {
        Some(match self {
            OpResult::Range(range) => (1, range),
            OpResult::Put(put) => (2, put),
            OpResult::DeleteRange(delete) => (3, delete),
            OpResult::Txn(txn) => (4, txn),
            OpResult::Nothing => return None,
        })
    }

    fn len(&self) -> usize {
        self.inner().map_or(0, |(_, inner)| message_len(inner.encoded_len(&header_of(inner))))
    }

    fn encode(&self, out: &mut BytesMut) {
        if let Some((field, inner)) = self.inner() {
            let header = header_of(inner);
            put_head(field, inner.encoded_len(&header), out);
            inner.encode(&header, out);
        }
    }
}

/// The header of a nested answer: its revision, and nothing of the member.
fn header_of(response: &dyn Response) -> ResponseHeader {
    ResponseHeader { revision: response.revision(), ..ResponseHeader::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(keys: &[&[u8]]) -> RangeResult {
        let mut kvs = Kvs::new(2);
        keys.iter().for_each(|key| kvs.push(key));
        RangeResult { revision: 7, kvs, more: keys.len() > 1, count: 300 }
    }

    fn header(number: u64) -> ResponseHeader {
        let signed = number.cast_signed();
        ResponseHeader {
            cluster_id: number,
            member_id: number,
            revision: signed,
            raft_term: number,
        }
    }

    #[test]
    fn a_message_is_the_same_wherever_it_is_finished() {
        let none: &[&[u8]] = &[];
        for keys in [none, &[b"one"], &[b"one", &[7; 5000], b""]] {
            for header in [0, 1, u64::MAX].map(header) {
                // With more zeros than there is room for, too.
                for zeros in [0, 5, 17, 200] {
                    let mut expected = BytesMut::from(&vec![0; zeros][..]);
                    result(keys).encode(&header, &mut expected);
                    assert_eq!(result(keys).into_message(&header, zeros), expected);
                }
            }
        }
    }

    #[test]
    fn a_range_with_the_longest_header_is_finished_where_it_lies() {
        let result = result(&[&[7; 5000]]);
        let keys = result.kvs.framed().as_ptr();
        let message = result.into_message(&header(u64::MAX), 5);
        let start = message.len() - 2 - 1 - 3 - 5000;
        assert_eq!(message[start..].as_ptr(), keys, "not copied");
    }

    #[test]
    fn keys_added_together_are_as_if_added_one_by_one() {
        let all = [&b"one"[..], &[7; 200], b"", &[1; 20_000]];
        let (mut together, mut one_by_one) = (Kvs::new(3), Kvs::new(3));
        together.extend(&all[..1]);
        together.extend(&all[1..]);
        all.iter().for_each(|kv| one_by_one.push(kv));
        assert_eq!(together, one_by_one);
        assert!(together.iter().eq(all));
        assert_eq!((together.len(), together.size()), (4, 2 + 3 + 3 + 200 + 2 + 4 + 20_000));
    }
}
