//! Results of requests, ready to be framed. A result holds encoded `KeyValue`s, so a response is
//! built by copying bytes. `encode` writes the corresponding message of etcd's API:
//!
//! ```text
//!   RangeResponse   0a len header   12 len kv  12 len kv ...   18 01 (more)   20 count
//! ```
//!
//! The responses within a transaction are nested; their headers carry the revision alone.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use prost::Message as _;
use proto::etcdserverpb::ResponseHeader;

use crate::kv::{
    FIELD_BYTES_MAX, KeyValueRef, message_len, number_len, put_head, put_message, put_number,
};

const HEADER: u8 = 1;
/// The field of a nested transaction's response.
const OP_TXN: u8 = 4;

/// Bytes reserved before the keys: for a header with four varints, and for the caller's frame.
const FRONT_ROOM: usize = 64;
/// Bytes reserved after the keys, for the remaining fields of a response.
const BACK_ROOM: usize = 2 * FIELD_BYTES_MAX;

/// Encoded `KeyValue`s, each framed as an item of a repeated field.
///
/// ```text
///   [64 bytes reserved]  12 len kv  12 len kv  [reserved]
/// ```
///
/// The header and the remaining fields are written into the reserved bytes, without a copy of the
/// keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kvs {
    field: u8,
    /// Empty, or [`FRONT_ROOM`] zeros followed by the keys.
    framed: BytesMut,
    count: usize,
}

impl Kvs {
    pub(crate) fn new(field: u8) -> Kvs {
        Kvs { field, ..Kvs::default() }
    }

    /// Appends an encoded `KeyValue`.
    pub(crate) fn push(&mut self, kv: &[u8]) {
        self.make_room(message_len(kv.len()));
        put_message(self.field, kv, &mut self.framed);
        self.count += 1;
    }

    /// Appends several encoded `KeyValue`s, after one reservation for all.
    pub(crate) fn extend(&mut self, kvs: &[impl AsRef<[u8]>]) {
        self.make_room(kvs.iter().map(|kv| message_len(kv.as_ref().len())).sum());
        kvs.iter().for_each(|kv| put_message(self.field, kv.as_ref(), &mut self.framed));
        self.count += kvs.len();
    }

    /// Encodes and appends a `KeyValue`.
    pub(crate) fn push_fields(&mut self, kv: &KeyValueRef<'_>) {
        let len = kv.encoded_len();
        self.make_room(message_len(len));
        put_head(self.field, len, &mut self.framed);
        kv.encode_to(&mut self.framed);
        self.count += 1;
    }

    /// Reserves space for keys of this size; the first time, also for the fields around them.
    pub(crate) fn make_room(&mut self, bytes: usize) {
        if self.framed.is_empty() && bytes > 0 {
            self.framed.reserve(FRONT_ROOM + bytes + BACK_ROOM);
            self.framed.put_bytes(0, FRONT_ROOM);
        } else {
            self.framed.reserve(bytes);
        }
    }

    /// Returns the keys after `front`, in place if `front` fits into the reserved bytes.
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

    /// Returns the framed keys.
    fn framed(&self) -> &[u8] {
        self.framed.get(FRONT_ROOM..).unwrap_or_default()
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the size of the framed keys in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.framed().len()
    }

    /// Iterates over the encoded `mvccpb.KeyValue`s.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.framed();
        std::iter::from_fn(move || {
            rest = rest.get(1..)?;
            let len = prost::encoding::decode_varint(&mut rest).ok()?;
            let (kv, after) = rest.split_at(usize::try_from(len).ok()?);
            rest = after;
            Some(kv)
        })
    }
}

/// The result of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeResult {
    /// The revision of the store.
    pub revision: i64,
    /// The keys.
    pub kvs: Kvs,
    /// Whether the limit cut off further keys.
    pub more: bool,
    /// The number of keys in the range.
    pub count: i64,
}

/// The result of a put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutResult {
    /// The revision of the put.
    pub revision: i64,
    /// The previous `KeyValue`, if it was requested and existed.
    pub prev_kv: Option<Bytes>,
}

/// The result of a delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteRangeResult {
    /// The revision of the delete, or the current one if it deleted nothing.
    pub revision: i64,
    /// The number of deleted keys.
    pub deleted: i64,
    /// The previous `KeyValue`s, if they were requested.
    pub prev_kvs: Kvs,
}

/// The result of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxnResult {
    /// The revision of the transaction, or the current one if it changed nothing. Zero in a nested
    /// one.
    pub revision: i64,
    /// Whether all comparisons held.
    pub succeeded: bool,
    /// The results of its operations.
    pub responses: Vec<OpResult>,
}

/// The result of an operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpResult {
    /// A range.
    Range(RangeResult),
    /// A put.
    Put(PutResult),
    /// A delete.
    DeleteRange(DeleteRangeResult),
    /// A nested transaction.
    Txn(TxnResult),
    /// An empty operation.
    Nothing,
}

/// A result that can be framed as a message of etcd's API.
pub trait Response {
    /// Returns the revision for the header.
    fn revision(&self) -> i64;

    /// Returns the length without the header.
    fn body_len(&self) -> usize;

    /// Appends all fields but the header.
    fn encode_body(&self, out: &mut BytesMut);

    /// Returns the length of the message.
    fn encoded_len(&self, header: &ResponseHeader) -> usize {
        message_len(header.encoded_len()) + self.body_len()
    }

    /// Appends the message. The caller sets the revision of the header.
    fn encode(&self, header: &ResponseHeader, out: &mut BytesMut) {
        out.reserve(self.encoded_len(header));
        put_header(header, out);
        self.encode_body(out);
    }

    /// Returns the message after `zeros` zero bytes, which the caller overwrites with its frame.
    /// Avoids a copy of the keys where possible.
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
    header.encode(out).expect("BytesMut grows as needed");
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
    /// Appends the fields that follow the keys.
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
        let mut nested_lens = Vec::new();
        self.measure(&mut nested_lens);
        self.encode_measured(&mut nested_lens.into_iter(), out);
    }
}

impl TxnResult {
    /// Returns the length without the header, and appends the whole lengths of nested transactions,
    /// in the order in which they are written. Without this list, each level would measure all
    /// levels below it again.
    fn measure(&self, nested_lens: &mut Vec<usize>) -> usize {
        let mut len = number_len(self.succeeded.into());
        for response in &self.responses {
            let OpResult::Txn(nested) = response else {
                len += message_len(response.len());
                continue;
            };
            let at = nested_lens.len();
            nested_lens.push(0);
            let whole = message_len(header_of(nested).encoded_len()) + nested.measure(nested_lens);
            nested_lens[at] = whole;
            len += message_len(message_len(whole));
        }
        len
    }

    /// Appends all fields but the header, given the lengths of nested transactions.
    fn encode_measured(&self, nested_lens: &mut std::vec::IntoIter<usize>, out: &mut BytesMut) {
        put_number(2, self.succeeded.into(), out);
        for response in &self.responses {
            let OpResult::Txn(nested) = response else {
                put_head(3, response.len(), out);
                response.encode(out);
                continue;
            };
            let whole = nested_lens.next().expect("each nested transaction was measured");
            put_head(3, message_len(whole), out);
            put_head(OP_TXN, whole, out);
            put_header(&header_of(nested), out);
            nested.encode_measured(nested_lens, out);
        }
    }
}

impl OpResult {
    fn inner(&self) -> Option<(u8, &dyn Response)> {
        Some(match self {
            OpResult::Range(range) => (1, range),
            OpResult::Put(put) => (2, put),
            OpResult::DeleteRange(delete) => (3, delete),
            OpResult::Txn(txn) => (OP_TXN, txn),
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

/// Returns the header of a nested response, which has a revision and no ids.
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
    fn into_message_equals_encode() {
        let none: &[&[u8]] = &[];
        for keys in [none, &[b"one"], &[b"one", &[7; 5000], b""]] {
            for header in [0, 1, u64::MAX].map(header) {
                // 200 zeros are more than the reserved bytes.
                for zeros in [0, 5, 17, 200] {
                    let mut expected = BytesMut::from(&vec![0; zeros][..]);
                    result(keys).encode(&header, &mut expected);
                    assert_eq!(result(keys).into_message(&header, zeros), expected);
                }
            }
        }
    }

    #[test]
    fn into_message_does_not_copy_keys_even_with_the_longest_header() {
        let result = result(&[&[7; 5000]]);
        let keys = result.kvs.framed().as_ptr();
        let message = result.into_message(&header(u64::MAX), 5);
        let start = message.len() - 2 - 1 - 3 - 5000;
        assert_eq!(message[start..].as_ptr(), keys, "not copied");
    }

    #[test]
    fn nested_transactions_encode_as_their_messages() {
        use proto::etcdserverpb::TxnResponse;
        use proto::mvccpb::KeyValue;
        let kv = KeyValue { key: "k".into(), value: vec![7; 200].into(), ..KeyValue::default() };
        let kv = kv.encode_to_vec();
        let prev_kv = Some(Bytes::from(kv.clone()));
        let put = || OpResult::Put(PutResult { revision: 300, prev_kv: prev_kv.clone() });
        let txn = |responses| TxnResult { revision: 0, succeeded: true, responses };
        let mut nested = txn(vec![put(), OpResult::Range(result(&[&kv]))]);
        for _ in 0..20 {
            let other = OpResult::Txn(txn(vec![OpResult::Nothing, put()]));
            nested = txn(vec![put(), OpResult::Txn(nested), other, put()]);
        }
        let mut bytes = BytesMut::new();
        nested.encode(&header(1), &mut bytes);
        assert_eq!(bytes.len(), nested.encoded_len(&header(1)));
        let decoded = TxnResponse::decode(&bytes[..]).unwrap();
        assert_eq!(decoded.encode_to_vec(), bytes, "all lengths are right");
        assert_eq!(decoded.responses.len(), 4);
    }

    #[test]
    fn extend_equals_repeated_push() {
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
