//! The request in an entry of the log.
//!
//! Whatever any member may have written has to be read, or this one could never get past it:
//!
//! - Up to 3.4 members published what they are as requests to the v2 store, and as such they are still in logs.
//! - Transactions may be nested deeper than the decoder of messages goes, which is a hundred levels of messages, two to a transaction. etcd
//!   bounds them by the number of operations alone: 128, unless told otherwise. So a transaction that does not decode is taken apart by hand, level by level.

use bytes::Bytes;
use membership::v2;
use prost::Message as _;
use prost::bytes::Buf as _;
use prost::encoding::{WireType, decode_key, decode_varint};
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{self as pb, Compare, InternalRaftRequest, RequestOp, TxnRequest};
use raft::Entry;

use super::Fault;

/// How deep transactions may be nested. A member of etcd has to be told to take more, and nobody has a reason to.
pub(super) const TXN_DEPTH_MAX: usize = 256;

/// Fields that lead down a nested transaction.
const REQUEST_TXN: u32 = 6;
const TXN_COMPARE: u32 = 1;
const TXN_SUCCESS: u32 = 2;
const TXN_FAILURE: u32 = 3;
const OP_TXN: u32 = 4;

pub(super) fn decode(entry: &Entry) -> Result<InternalRaftRequest, Fault> {
    match InternalRaftRequest::decode(entry.data.clone()) {
        Ok(InternalRaftRequest { v2: Some(v2), .. }) => from_v2(&v2),
        Ok(request) => Ok(request),
        Err(source) => {
            if let Some(request) = decode_deep(&entry.data) {
                return Ok(request);
            }
            match pb::Request::decode(entry.data.clone()) {
                Ok(v2) => from_v2(&v2),
                Err(_) => Err(Fault::Decode { index: entry.index, source }),
            }
        }
    }
}

fn from_v2(request: &pb::Request) -> Result<InternalRaftRequest, Fault> {
    Ok(v2::to_v3(request).map_err(membership::StopError::from)?)
}

/// A request with a transaction in it, decoded level by level. None if it is none.
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
    Some(InternalRaftRequest { txn: Some(txn?), ..request })
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

/// A field of a message.
struct Field {
    number: u32,
    /// With its tag.
    whole: Bytes,
    /// What is in it, if it has a length.
    payload: Option<Bytes>,
}

/// The fields of a message, in order. None if these bytes are no message.
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

    /// A transaction in a transaction, and so on, around a put; with a put beside each.
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

    fn entry(txn: TxnRequest) -> (InternalRaftRequest, Entry) {
        let header = Some(RequestHeader { id: 7, ..RequestHeader::default() });
        let request = InternalRaftRequest { header, txn: Some(txn), ..Default::default() };
        let data = Bytes::from(request.encode_to_vec());
        (request, Entry { index: Index(5), data, ..Entry::default() })
    }

    #[test]
    fn a_transaction_is_read_however_deep_etcd_lets_it_be() {
        for depth in [1, 2, 49, 50, 51, 52, 100, 128, TXN_DEPTH_MAX] {
            let (request, entry) = entry(nested(depth));
            assert_eq!(decode(&entry).unwrap(), request, "depth {depth}");
            assert_eq!(decode_deep(&entry.data).unwrap(), request, "depth {depth}, by hand");
        }
        let (_, entry) = entry(nested(TXN_DEPTH_MAX + 1));
        assert!(matches!(decode(&entry), Err(Fault::Decode { index: Index(5), .. })));
    }

    #[test]
    fn what_is_cut_short_is_no_request() {
        let (_, entry) = entry(nested(60));
        for len in 1..entry.data.len() {
            let data = entry.data.slice(..len);
            if let Some(request) = decode_deep(&data) {
                assert_eq!(request.encoded_len(), len, "cut between two fields");
            }
        }
    }
}
