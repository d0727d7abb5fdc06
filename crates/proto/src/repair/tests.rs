use crate::etcdserverpb::request_op::Request;
use crate::etcdserverpb::{
    AuthUserGetRequest, PutRequest, RequestOp, TxnRequest, WatchCreateRequest, WatchRequest,
};
use prost::Message;

use super::*;

const PUT: &str = "/etcdserverpb.KV/Put";
const TXN: &str = "/etcdserverpb.KV/Txn";
const USER_GET: &str = "/etcdserverpb.Auth/UserGet";

/// Decodes a request as the `grpc` crate does.
fn decode<Q: Message + Default>(path: &str, message: Bytes) -> Result<Q, RepairError> {
    Q::decode(message.clone())
        .or_else(|_| Q::decode(repair(path, message)?).map_err(|_| RepairError::Format))
}

fn put(bytes: &[u8]) -> Result<PutRequest, RepairError> {
    decode(PUT, Bytes::copy_from_slice(bytes))
}

#[test]
fn a_field_of_the_wrong_type_is_skipped() {
    let key = PutRequest { key: "k".into(), lease: 7, ..PutRequest::default() };
    let good = key.encode_to_vec();
    for other in [
        &b"\x08\x01"[..],                        // key as a number
        b"\x0d\x01\x02\x03\x04",                 // key as four bytes
        b"\x09\x01\x02\x03\x04\x05\x06\x07\x08", // key as eight
        b"\x0b\x08\x01\x13\x14\x0c",             // key as a group with a group in it
        b"\x1a\x01\x07",                         // lease as bytes
        b"\x98\x06\x01",                         // unknown field
    ] {
        assert_eq!(put(&[other, &good].concat()), Ok(key.clone()), "{other:x?}");
        assert_eq!(put(&[&good, other].concat()), Ok(key.clone()), "{other:x?}");
    }
}

#[test]
fn a_nested_field_of_the_wrong_type_is_skipped() {
    let inner = PutRequest { key: "k".into(), ..PutRequest::default() };
    let txn = |put: PutRequest| {
        let op = RequestOp { request: Some(Request::RequestPut(put)) };
        TxnRequest { success: vec![op], ..TxnRequest::default() }
    };
    // Field 2 of the put, its value, encoded as a number.
    let put = [inner.encode_to_vec(), vec![0x10, 5]].concat();
    let op = [&[0x12, u8::try_from(put.len()).unwrap()][..], &put].concat();
    let bytes = [&[0x12, u8::try_from(op.len()).unwrap()][..], &op].concat();
    assert_eq!(decode(TXN, bytes.into()), Ok(txn(inner)));
}

#[test]
fn lengths_shrink_with_the_skipped_fields() {
    // 300 bytes of mistyped fields, in a message whose length takes two bytes.
    let put = [&b"\x0a\x01k"[..], &b"\x10\x05".repeat(150)].concat();
    let length = |bytes: &[u8]| {
        let mut out = Vec::new();
        encode_varint(bytes.len() as u64, &mut out);
        out
    };
    let op = [b"\x12".to_vec(), length(&put), put].concat();
    let txn = [b"\x12".to_vec(), length(&op), op].concat();
    let decoded: TxnRequest = decode(TXN, txn.into()).unwrap();
    let Some(Request::RequestPut(put)) = &decoded.success[0].request else { panic!() };
    assert_eq!((&put.key[..], put.encoded_len()), (&b"k"[..], 3));
}

#[test]
fn malformed_messages_are_refused() {
    for wrong in [
        &b"\x08\x01\x0a"[..],
        b"\x08\x01\x0a\x05k",
        b"\x08\x01\x00\x00",
        b"\x08\x01\x0c",
        b"\x08\x01\x0b\x08\x01",
        b"\x08\x01\x0f\x01",
        b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x09\x01",
    ] {
        assert_eq!(put(wrong), Err(RepairError::Format), "{wrong:x?}");
    }
}

#[test]
fn the_depth_is_bounded() {
    let good = PutRequest { key: "k".into(), ..PutRequest::default() };
    for (depth, taken) in [(DEPTH_MAX, true), (DEPTH_MAX + 1, false)] {
        let groups = [vec![0x0b; depth], vec![0x0c; depth], good.encode_to_vec()].concat();
        let expected = if taken { Ok(good.clone()) } else { Err(RepairError::Format) };
        assert_eq!(put(&groups), expected, "{depth} groups");
        // Transactions and operations in turns, the innermost with the key as a number.
        let mut message = vec![0x08, 0x01];
        for level in 1..depth {
            let tag = if (depth - level) % 2 == 1 { 0x12 } else { 0x22 };
            let mut outer = vec![tag];
            encode_varint(message.len() as u64, &mut outer);
            message = [outer, message].concat();
        }
        let repaired = repair(TXN, message.into());
        assert_eq!(repaired.is_ok(), taken, "{depth} messages");
    }
    assert_eq!(put(&[0x0b; 1 << 20]), Err(RepairError::Format));
}

#[test]
fn strings_must_be_utf8() {
    let get =
        |bytes: &'static [u8]| decode::<AuthUserGetRequest>(USER_GET, Bytes::from_static(bytes));
    assert_eq!(get(b"\x0a\x01\xff"), Err(RepairError::Utf8));
    assert_eq!(get(b"\x0a\x01\xff\x0a"), Err(RepairError::Utf8), "the first error is reported");
    assert_eq!(get(b"\x0a\x05\xff"), Err(RepairError::Format));
    assert_eq!(get(b"\x08\x01\x0a\x01n").unwrap().name, "n");
}

#[test]
fn repeated_numbers_may_be_packed_or_not() {
    let decoded = |create: &[u8]| {
        let length = u8::try_from(create.len()).unwrap();
        let bytes = [&[0x0a, length][..], create].concat();
        decode::<WatchRequest>("/etcdserverpb.Watch/Watch", bytes.into()).unwrap()
    };
    let filters = WatchCreateRequest { filters: vec![0, 1], ..WatchCreateRequest::default() };
    let expected = WatchRequest {
        request_union: Some(crate::etcdserverpb::watch_request::RequestUnion::CreateRequest(
            filters,
        )),
    };
    for filters in [&b"\x2a\x02\x00\x01"[..], b"\x28\x00\x28\x01"] {
        assert_eq!(decoded(filters), expected);
        // With the key as a number in addition.
        assert_eq!(decoded(&[filters, b"\x08\x01"].concat()), expected);
    }
}
