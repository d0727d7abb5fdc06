//! Decodes the request in a log entry.
//!
//! A member that cannot decode a committed entry cannot start. So the decoder accepts all that any
//! member may have written:
//!
//! - Members up to 3.4 published their attributes as requests to the v2 store; logs still hold
//!   them.
//! - Transactions may be nested deeper than prost decodes. prost allows 100 levels of messages, and
//!   a nested transaction takes two. etcd bounds only the number of operations, 128 by default. An
//!   entry that prost rejects is therefore decoded level by level.

use bytes::Bytes;
use membership::v2;
use prost::Message as _;
use prost::bytes::Buf as _;
use prost::encoding::{WireType, decode_key, decode_varint};
use proto::command::{NotACommand, RaftRequest};
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{self as pb, Compare, InternalRaftRequest, RequestOp, TxnRequest};
use raft::Entry;

use super::Fault;

/// The deepest nesting of transactions that decodes. An etcd member proposes deeper ones only with
/// `--max-txn-ops` above this number.
pub(super) const TXN_DEPTH_MAX: usize = 256;

/// Field numbers on the way down a nested transaction.
const REQUEST_TXN: u32 = 6;
const TXN_COMPARE: u32 = 1;
const TXN_SUCCESS: u32 = 2;
const TXN_FAILURE: u32 = 3;
const OP_TXN: u32 = 4;

pub(super) fn decode(entry: &Entry) -> Result<RaftRequest, Fault> {
    let source = match InternalRaftRequest::decode(entry.data.clone()) {
        Ok(wire) => return from_wire(wire, entry),
        Err(source) => source,
    };
    if let Some(wire) = decode_deep(&entry.data) {
        return from_wire(wire, entry);
    }
    match pb::Request::decode(entry.data.clone()) {
        Ok(v2) => from_v2(&v2),
        Err(_) => Err(Fault::Decode { index: entry.index, source }),
    }
}

fn from_wire(wire: InternalRaftRequest, entry: &Entry) -> Result<RaftRequest, Fault> {
    RaftRequest::try_from(wire).or_else(|not_a_command| match not_a_command {
        NotACommand::V2(v2) => from_v2(&v2),
        NotACommand::Empty => Err(Fault::Unknown(entry.index)),
    })
}

fn from_v2(request: &pb::Request) -> Result<RaftRequest, Fault> {
    Ok(v2::to_raft_request(request).map_err(membership::StopError::from)?)
}

/// Decodes a request that holds a transaction, level by level. Returns `None` if it holds none.
fn decode_deep(data: &Bytes) -> Option<InternalRaftRequest> {
    let mut rest = Vec::with_capacity(data.len());
    let mut txn = None;
    for field in fields(data)? {
        match field.payload {
            Some(payload) if field.number == REQUEST_TXN => {
                txn = Some(decode_txn(&payload, TXN_DEPTH_MAX)?);
            }
            _ => rest.extend_from_slice(&field.whole),
        }
    }
    let request = InternalRaftRequest::decode(&rest[..]).ok()?;
    Some(InternalRaftRequest { v2: None, txn: Some(txn?), ..request })
}

fn decode_txn(data: &Bytes, depth_max: usize) -> Option<TxnRequest> {
    let depth_max = depth_max.checked_sub(1)?;
    let mut txn = TxnRequest::default();
    for Field { number, payload, .. } in fields(data)? {
        let Some(payload) = payload else { continue };
        match number {
            TXN_COMPARE => txn.compare.push(Compare::decode(payload).ok()?),
            TXN_SUCCESS => txn.success.push(decode_op(payload, depth_max)?),
            TXN_FAILURE => txn.failure.push(decode_op(payload, depth_max)?),
            _ => {}
        }
    }
    Some(txn)
}

fn decode_op(data: Bytes, depth_max: usize) -> Option<RequestOp> {
    let last = fields(&data)?.into_iter().rfind(|field| (1..=OP_TXN).contains(&field.number));
    match last {
        Some(Field { number: OP_TXN, payload: Some(payload), .. }) => {
            let txn = decode_txn(&payload, depth_max)?;
            Some(RequestOp { request: Some(Request::RequestTxn(txn)) })
        }
        _ => RequestOp::decode(data).ok(),
    }
}

/// An encoded field of a message.
struct Field {
    number: u32,
    /// The tag and the value.
    whole: Bytes,
    /// The value of a length-delimited field.
    payload: Option<Bytes>,
}

/// Splits a message into its fields, in order. Returns `None` if the bytes are not a message.
fn fields(data: &Bytes) -> Option<Vec<Field>> {
    let (mut rest, mut fields) = (data.clone(), Vec::new());
    while rest.has_remaining() {
        let before = rest.clone();
        let (number, wire) = decode_key(&mut rest).ok()?;
        let payload = match wire {
            WireType::LengthDelimited => {
                let len = usize::try_from(decode_varint(&mut rest).ok()?).ok()?;
                (len <= rest.len()).then(|| rest.split_to(len)).map(Some)?
            }
            WireType::Varint => decode_varint(&mut rest).ok().map(|_| None)?,
            WireType::SixtyFourBit => skip(&mut rest, 8)?,
            WireType::ThirtyTwoBit => skip(&mut rest, 4)?,
            WireType::StartGroup | WireType::EndGroup => return None,
        };
        let whole = before.slice(..before.len() - rest.len());
        fields.push(Field { number, whole, payload });
    }
    Some(fields)
}

fn skip(rest: &mut Bytes, len: usize) -> Option<Option<Bytes>> {
    (len <= rest.len()).then(|| rest.advance(len))?;
    Some(None)
}

#[cfg(test)]
mod tests {
    use proto::etcdserverpb::{PutRequest, RequestHeader};
    use types::Index;

    use super::*;

    /// Builds transactions nested to a depth, with a put beside each and one innermost.
    fn nested(depth: usize) -> TxnRequest {
        let put = |key: String| {
            let put = PutRequest { key: key.into(), ..PutRequest::default() };
            RequestOp { request: Some(Request::RequestPut(put)) }
        };
        let mut txn = TxnRequest { success: vec![put("innermost".into())], ..Default::default() };
        for level in 1..depth {
            let inner = RequestOp { request: Some(Request::RequestTxn(txn)) };
            let compare = vec![Compare { key: "c".into(), ..Compare::default() }];
            txn =
                TxnRequest { compare, success: vec![put(level.to_string())], failure: vec![inner] };
        }
        txn
    }

    fn entry(txn: TxnRequest) -> (RaftRequest, Entry) {
        let header = RequestHeader { id: 7, ..RequestHeader::default() };
        let request = RaftRequest::new(header, txn);
        let data = Bytes::from(InternalRaftRequest::from(request.clone()).encode_to_vec());
        (request, Entry { index: Index(5), data, ..Entry::default() })
    }

    #[test]
    fn transactions_decode_at_every_depth_up_to_the_maximum() {
        for depth in [1, 2, 49, 50, 51, 52, 100, 128, TXN_DEPTH_MAX] {
            let (request, entry) = entry(nested(depth));
            assert_eq!(decode(&entry).unwrap(), request, "depth {depth}");
            let by_hand = decode_deep(&entry.data).unwrap();
            assert_eq!(by_hand, request.into(), "depth {depth}, level by level");
        }
        let (_, entry) = entry(nested(TXN_DEPTH_MAX + 1));
        assert!(matches!(decode(&entry), Err(Fault::Decode { index: Index(5), .. })));
    }

    #[test]
    fn a_truncated_transaction_decodes_only_if_cut_between_fields() {
        let (_, entry) = entry(nested(60));
        for len in 1..entry.data.len() {
            let data = entry.data.slice(..len);
            if let Some(request) = decode_deep(&data) {
                assert_eq!(request.encoded_len(), len, "cut between two fields");
            }
        }
    }
}
