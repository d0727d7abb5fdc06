//! Transactions nested deeper than prost decodes.
//!
//! prost allows 100 levels of messages, Go and so etcd 10,000; each nested transaction takes two:
//!
//! ```text
//!   InternalRaftRequest ► TxnRequest ► RequestOp ► TxnRequest ► RequestOp ► PutRequest
//!   level 1               2            3           4            5           6
//! ```
//!
//! A message that prost rejects is decoded once more, here, with a list of the open transactions in
//! place of the stack. The bound is Go's, in the log: there a request has one level more than its
//! client sent, and an entry must not be written that no member can read.
//!
//! prost computes the length of a nested message again at each level above it: its time to encode
//! grows with the square of the depth. Nested transactions are therefore written from the end to
//! the start, so that each length is known when it is written.
//!
//! The types are trees, so dropping, comparing and encoding them takes stack with every level. A
//! thread that handles transactions needs [`STACK_BYTES`].

mod response;

use prost::bytes::{Buf, BufMut, Bytes};
use prost::encoding::{DecodeContext, WireType, encode_key, encode_varint};
use prost::{DecodeError, Message};

use crate::etcdserverpb::request_op::Request;
use crate::etcdserverpb::{Compare, InternalRaftRequest, RequestOp, TxnRequest};
use crate::fields::{Field, Fields, Malformed};

pub use response::NestedTxnResponse;

/// The most levels of messages in a request of the log, the request itself included.
pub const LEVELS_MAX: usize = 10_000;
/// The stack of a thread that decodes, executes, encodes or drops transactions.
///
/// The costliest of these takes about 1 KiB for every nested transaction, and 3 KiB unoptimized;
/// there are at most 5,000. Only what is used takes memory.
pub const STACK_BYTES: usize = 32 << 20;

/// Field numbers on the way down a nested transaction.
const REQUEST_TXN: u32 = 6;
const TXN_COMPARE: u32 = 1;
const TXN_SUCCESS: u32 = 2;
const TXN_FAILURE: u32 = 3;
const OP_TXN: u32 = 4;

/// A transaction as a client sends it, nested as deep as the log permits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NestedTxn(pub TxnRequest);

impl Message for NestedTxn {
    fn encode_raw(&self, out: &mut impl BufMut) {
        match has_nested(&self.0) {
            true => put_reversed(out, |reversed| txn_reversed(&self.0, reversed)),
            false => self.0.encode_raw(out),
        }
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire: WireType,
        buf: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        self.0.merge_field(tag, wire, buf, context)
    }

    fn encoded_len(&self) -> usize {
        self.0.encoded_len()
    }

    fn clear(&mut self) {
        self.0.clear();
    }

    fn decode(mut buf: impl Buf) -> Result<NestedTxn, DecodeError> {
        let data = buf.copy_to_bytes(buf.remaining());
        TxnRequest::decode(data.clone())
            // The first level is that of the log.
            .or_else(|error| decode_txn(data, LEVELS_MAX - 1).map_err(|_| error))
            .map(NestedTxn)
    }
}

/// Decodes a request of the log, nested as deep as etcd members may have written it.
///
/// # Errors
/// The bytes are no such request, or nested deeper.
pub fn decode_request(data: Bytes) -> Result<InternalRaftRequest, DecodeError> {
    InternalRaftRequest::decode(data.clone())
        .or_else(|error| decode_deep_request(data).map_err(|_| error))
}

/// Decodes a request of the log, without its transaction if it is deeply nested. So no stack is
/// needed for it.
///
/// # Errors
/// The bytes are no such request.
pub fn decode_request_around_txn(data: Bytes) -> Result<InternalRaftRequest, DecodeError> {
    InternalRaftRequest::decode(data.clone()).or_else(|error| {
        let (around, txn) = split_request(data).map_err(|_| error.clone())?;
        txn.ok_or(error).and_then(|_| InternalRaftRequest::decode(&around[..]))
    })
}

/// Encodes a request of the log.
#[must_use]
pub fn encode_request(request: &mut InternalRaftRequest) -> Vec<u8> {
    let Some(txn) = request.txn.take_if(|txn| has_nested(txn)) else {
        return request.encode_to_vec();
    };
    // The fields before the transaction are not set in a request with a transaction.
    let mut reversed: Vec<u8> = request.encode_to_vec().into_iter().rev().collect();
    message_reversed(REQUEST_TXN, &mut reversed, |out| txn_reversed(&txn, out));
    request.txn = Some(txn);
    reversed.reverse();
    reversed
}

fn has_nested(txn: &TxnRequest) -> bool {
    let is_nested = |op: &RequestOp| matches!(op.request, Some(Request::RequestTxn(_)));
    txn.success.iter().chain(&txn.failure).any(is_nested)
}

/// Writes a transaction from its end to its start.
fn txn_reversed(txn: &TxnRequest, out: &mut Vec<u8>) {
    for (branch, ops) in [(TXN_FAILURE, &txn.failure), (TXN_SUCCESS, &txn.success)] {
        for op in ops.iter().rev() {
            message_reversed(branch, out, |out| match &op.request {
                Some(Request::RequestTxn(nested)) => {
                    message_reversed(OP_TXN, out, |out| txn_reversed(nested, out));
                }
                _ => out.extend(op.encode_to_vec().iter().rev()),
            });
        }
    }
    for compare in txn.compare.iter().rev() {
        let write = |out: &mut Vec<u8>| out.extend(compare.encode_to_vec().iter().rev());
        message_reversed(TXN_COMPARE, out, write);
    }
}

/// Appends what `write` writes from the end to the start.
fn put_reversed(out: &mut impl BufMut, write: impl FnOnce(&mut Vec<u8>)) {
    let mut reversed = Vec::new();
    write(&mut reversed);
    reversed.reverse();
    out.put_slice(&reversed);
}

/// Writes a field that is a message, from its end to its start.
fn message_reversed(number: u32, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let end = out.len();
    write(out);
    let mut head = Vec::new();
    encode_key(number, WireType::LengthDelimited, &mut head);
    encode_varint((out.len() - end) as u64, &mut head);
    out.extend(head.iter().rev());
}

/// Decodes a request that holds a transaction.
fn decode_deep_request(data: Bytes) -> Result<InternalRaftRequest, Malformed> {
    let (around, txn) = split_request(data)?;
    let txn = decode_txn(txn.ok_or(Malformed)?, LEVELS_MAX - 1)?;
    let request = InternalRaftRequest::decode(&around[..])?;
    Ok(InternalRaftRequest { v2: None, txn: Some(txn), ..request })
}

/// Splits a request into its other fields and its transaction, both encoded.
fn split_request(data: Bytes) -> Result<(Vec<u8>, Option<Bytes>), Malformed> {
    let (mut around, mut txn) = (Vec::with_capacity(data.len()), None);
    let mut fields = Fields(data);
    while let Some(Field { number, whole, payload }) = fields.next()? {
        match payload {
            Some(payload) if number == REQUEST_TXN => txn = Some(payload),
            _ => around.extend_from_slice(&whole),
        }
    }
    Ok((around, txn))
}

/// A transaction whose fields are being read.
struct OpenTxn {
    txn: TxnRequest,
    rest: Fields,
    /// The field of the parent's operations to which this one belongs.
    branch: u32,
}

impl OpenTxn {
    fn new(data: Bytes, branch: u32) -> OpenTxn {
        OpenTxn { txn: TxnRequest::default(), rest: Fields(data), branch }
    }

    fn push(&mut self, branch: u32, op: RequestOp) {
        let TxnRequest { success, failure, .. } = &mut self.txn;
        if branch == TXN_SUCCESS { success } else { failure }.push(op);
    }
}

/// Decodes a transaction of at most `levels_max` levels of messages.
fn decode_txn(data: Bytes, levels_max: usize) -> Result<TxnRequest, Malformed> {
    let mut innermost = OpenTxn::new(data, 0);
    let mut outer: Vec<OpenTxn> = Vec::new();
    loop {
        // Its own level; operations and comparisons are one deeper, and their content two.
        let level = 2 * outer.len() + 1;
        match innermost.rest.next()? {
            Some(Field { number: TXN_COMPARE, payload, .. }) => {
                let compare = payload.filter(|_| level < levels_max).ok_or(Malformed)?;
                innermost.txn.compare.push(Compare::decode(compare)?);
            }
            Some(Field { number: branch @ (TXN_SUCCESS | TXN_FAILURE), payload, .. }) => {
                let op = payload.filter(|_| level + 1 < levels_max).ok_or(Malformed)?;
                match only_field(&op, OP_TXN) {
                    Some(data) => {
                        let nested = OpenTxn::new(data, branch);
                        outer.push(std::mem::replace(&mut innermost, nested));
                    }
                    None => innermost.push(branch, RequestOp::decode(op)?),
                }
            }
            Some(_) => {}
            None => {
                let Some(parent) = outer.pop() else { return Ok(innermost.txn) };
                let OpenTxn { txn, branch, .. } = std::mem::replace(&mut innermost, parent);
                innermost.push(branch, RequestOp { request: Some(Request::RequestTxn(txn)) });
            }
        }
    }
}

/// Returns the value of a field that is the only one of its message.
fn only_field(message: &Bytes, wanted: u32) -> Option<Bytes> {
    let mut fields = Fields(message.clone());
    let Field { number, payload, .. } = fields.next().ok()??;
    payload.filter(|_| number == wanted && fields.0.is_empty())
}

#[cfg(test)]
mod tests;
