//! Reads arbitrary bytes as a request of a client, or as the response of a member to a proxy. The
//! first byte selects the decoder:
//!
//! ```text
//!   0   the JSON of gateway requests
//!   1   protobuf that prost may refuse and etcd accepts, which is repaired
//!   2   the response to a transaction, nested deeper than prost decodes
//! ```
//!
//! Invariants: no panic. JSON values do not depend on how the text is cut, and a translated request
//! decodes as a message of its type. Repaired protobuf decodes, a second repair does not change its
//! meaning, and a message that needs no repair keeps its meaning. A nested response is decoded as
//! by prost at every depth, and to an equal one once encoded.

#![no_main]

#[allow(dead_code, reason = "the crate uses the rest of it")]
#[path = "../../crates/api/src/gateway/json/mod.rs"]
mod json;

use bytes::Bytes;
use json::read::read;
use json::split::Values;
use libfuzzer_sys::fuzz_target;
use prost::Message;
use proto::etcdserverpb::response_op::Response;
use proto::etcdserverpb::{
    AuthUserAddRequest, LeaseGrantRequest, PutRequest, RangeRequest, ResponseOp, TxnRequest,
    TxnResponse, WatchRequest,
};
use proto::nested::{NestedTxn, NestedTxnResponse, STACK_BYTES};

const WATCH: &str = "/etcdserverpb.Watch/Watch";
const TEXT_BYTES_MAX: usize = 1 << 16;
/// The transactions around another that prost refuses to decode: two levels each, of 100.
const DEEP: usize = 51;
/// Longer messages may be nested too deep for the stack of this thread.
const FLAT_BYTES_MAX: usize = 1 << 10;

fuzz_target!(|input: &[u8]| {
    match input.split_first() {
        Some((0, text)) => check_json(text),
        Some((1, message)) => with_stack(message, check_repair),
        Some((2, message)) => with_stack(message, check_response),
        _ => {}
    }
});

/// Checks a message with the stack of a thread that handles transactions.
fn with_stack(message: &[u8], check: fn(&[u8])) {
    if message.len() <= FLAT_BYTES_MAX {
        return check(message);
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let checked = thread.spawn_scoped(scope, || check(message)).expect("start a thread");
        checked.join().expect("a failed check ends the process");
    });
}

/// The first byte is the length of the pieces.
fn check_json(input: &[u8]) {
    let Some((&piece, text)) = input.split_first() else { return };
    let (values, is_valid) = split(text, text.len().max(1));
    assert_eq!(split(text, usize::from(piece) + 1), (values.clone(), is_valid));
    for value in values {
        translate::<PutRequest>(&value, "/etcdserverpb.KV/Put");
        translate::<RangeRequest>(&value, "/etcdserverpb.KV/Range");
        translate::<TxnRequest>(&value, "/etcdserverpb.KV/Txn");
        translate::<WatchRequest>(&value, WATCH);
        translate::<LeaseGrantRequest>(&value, "/etcdserverpb.Lease/LeaseGrant");
        translate::<AuthUserAddRequest>(&value, "/etcdserverpb.Auth/UserAdd");
    }
}

/// Returns the values of a body, and whether all of it is JSON.
fn split(text: &[u8], piece: usize) -> (Vec<Vec<u8>>, bool) {
    let mut values = Values::new(TEXT_BYTES_MAX);
    let mut found = Vec::new();
    for piece in text.chunks(piece) {
        values.add(piece);
        loop {
            match values.next() {
                Ok(Some(value)) => found.push(value.to_vec()),
                Ok(None) => break,
                Err(_) => return (found, false),
            }
        }
    }
    match values.last() {
        Ok(last) => {
            found.extend(last.map(|value| value.to_vec()));
            (found, true)
        }
        Err(_) => (found, false),
    }
}

fn translate<M: Message + Default>(value: &[u8], method: &str) {
    let shape = proto::shape::request(method).expect("a method of etcd");
    if let Ok(bytes) = read(value, shape) {
        M::decode(&bytes[..]).expect("a translated request decodes");
    }
}

fn check_repair(message: &[u8]) {
    repair::<PutRequest>(message, "/etcdserverpb.KV/Put");
    repair::<RangeRequest>(message, "/etcdserverpb.KV/Range");
    repair::<NestedTxn>(message, "/etcdserverpb.KV/Txn");
    repair::<WatchRequest>(message, WATCH);
    repair::<AuthUserAddRequest>(message, "/etcdserverpb.Auth/UserAdd");
}

fn repair<M: Message + Default + PartialEq + std::fmt::Debug>(message: &[u8], method: &str) {
    let message = Bytes::copy_from_slice(message);
    let Ok(repaired) = proto::repair::repair(method, message.clone()) else { return };
    let decoded = match M::decode(repaired.clone()) {
        Ok(decoded) => decoded,
        // A malformed list of filters is malformed for etcd, too.
        Err(_) if method == WATCH => return,
        Err(error) => panic!("a repaired message does not decode: {error}"),
    };
    // A shortened message keeps the width of its length prefix, so only the meaning is stable.
    let again = proto::repair::repair(method, repaired).expect("it was repaired");
    assert_eq!(
        M::decode(again).expect("it was decoded"),
        decoded,
        "a second repair changes nothing"
    );
    if let Ok(unrepaired) = M::decode(message) {
        assert_eq!(decoded, unrepaired, "a valid message keeps its meaning");
    }
}

fn check_response(message: &[u8]) {
    let by_prost = TxnResponse::decode(message);
    let decoded = NestedTxnResponse::decode(message);
    if let Ok(decoded) = &decoded {
        let encoded = decoded.encode_to_vec();
        assert_eq!(encoded.len(), decoded.encoded_len());
        assert_eq!(NestedTxnResponse::decode(&encoded[..]).as_ref(), Ok(decoded));
    }
    let below = NestedTxnResponse::decode(&nest(message, DEEP)[..]);
    let below = below.map(|NestedTxnResponse(outermost)| innermost(outermost, DEEP));
    if let Ok(by_prost) = by_prost {
        assert_eq!(by_prost.encode_to_vec(), NestedTxnResponse(by_prost.clone()).encode_to_vec());
        assert_eq!(decoded, Ok(NestedTxnResponse(by_prost.clone())));
        assert_eq!(below, Ok(by_prost), "the decoder of deep responses agrees with prost");
    }
}

/// Encodes responses around one.
fn nest(message: &[u8], depth: usize) -> Vec<u8> {
    let field = |number: u8, message: Vec<u8>| {
        let mut field = vec![number << 3 | 2];
        prost::encoding::encode_varint(message.len() as u64, &mut field);
        [field, message].concat()
    };
    // `responses` of a transaction, and `response_txn` of an operation.
    (0..depth).fold(message.to_vec(), |inner, _| field(3, field(4, inner)))
}

/// Returns the response below others.
fn innermost(outermost: TxnResponse, depth: usize) -> TxnResponse {
    (0..depth).fold(outermost, |mut outer, _| match outer.responses.pop() {
        Some(ResponseOp { response: Some(Response::ResponseTxn(inner)) }) => inner,
        other => panic!("{other:?} is not the nested response"),
    })
}
