//! Requests, decoded as etcd decodes them.
//!
//! Nearly every message is one to the decoder, and that is that. What is none to it may still be one to etcd, whose own takes a field of another type than
//! it should have for one that it does not know:
//!
//! ```text
//!   08 01          PutRequest: field 1, a number     key is bytes, so this is unknown       ─► a put without a key
//!   0a 01 ff       UserGet: field 1, not UTF-8       string field contains invalid UTF-8
//!   0a 05 72       a length, and less than that      proto: cannot parse invalid wire-format data
//! ```
//!
//! So what fails is looked at again, by what such a message looks like ([`proto::shape`]): fields that do not fit are left out, and the first thing that is
//! wrong beyond that is what the client is told.

use bytes::{Buf, BufMut as _, Bytes};
use prost::Message;
use prost::encoding::{WireType, decode_varint, encode_varint};
use proto::shape::{self, Kind};

/// How deep messages and groups may be in each other: the decoder's own bound.
const DEPTH_MAX: u32 = 100;
/// The greatest number of a field.
const NUMBER_MAX: u64 = (1 << 29) - 1;

/// Why something is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("proto: cannot parse invalid wire-format data")]
    Format,
    #[error("string field contains invalid UTF-8")]
    Text,
}

/// Decodes a request to the method of a path.
pub(crate) fn decode<Q: Message + Default>(path: &str, message: Bytes) -> Result<Q, Unreadable> {
    match Q::decode(message.clone()) {
        Ok(request) => Ok(request),
        Err(_) => again(path, message),
    }
}

/// Decodes what is left of it without what does not fit.
#[cold]
fn again<Q: Message + Default>(path: &str, mut message: Bytes) -> Result<Q, Unreadable> {
    let shape = shape::request(path).ok_or(Unreadable::Format)?;
    let mut fitting = Vec::with_capacity(message.len());
    fit(&mut message, shape, DEPTH_MAX, &mut fitting)?;
    Q::decode(&fitting[..]).map_err(|_| Unreadable::Format)
}

/// How often a message has a field.
pub(super) fn count(mut message: Bytes, wanted: u32) -> usize {
    let mut found = 0;
    // What we have answered can be read; of anything else, what comes first is counted.
    while message.has_remaining()
        && let Ok((number, wire)) = tag(&mut message)
        && skip(&mut message, number, wire, DEPTH_MAX).is_ok()
    {
        found += usize::from(number == wanted);
    }
    found
}

/// What the first field of a message holds, if that is a message or bytes.
pub(super) fn first(mut message: Bytes) -> Option<Bytes> {
    let (_, wire) = tag(&mut message).ok()?;
    (wire == WireType::LengthDelimited).then(|| delimited(&mut message).ok())?
}

/// Copies the fields of a message that fit.
fn fit(
    message: &mut Bytes,
    shape: &shape::Message,
    depth: u32,
    out: &mut Vec<u8>,
) -> Result<(), Unreadable> {
    let depth = depth.checked_sub(1).ok_or(Unreadable::Format)?;
    while message.has_remaining() {
        let (number, wire) = tag(message)?;
        let field = shape.field(number);
        match (wire, field.map(|field| (field.kind, field.repeated))) {
            (WireType::Varint, Some((kind, _))) if is_number(kind) => {
                put_tag(out, number, wire);
                encode_varint(varint(message)?, out);
            }
            (WireType::LengthDelimited, Some((kind, repeated))) if repeated || !is_number(kind) => {
                let value = delimited(message)?;
                put_tag(out, number, wire);
                fit_value(value, kind, depth, out)?;
            }
            _ => skip(message, number, wire, depth)?,
        }
    }
    Ok(())
}

/// Copies what follows a length, as far as it fits, with a length before it.
fn fit_value(
    mut value: Bytes,
    kind: Kind,
    depth: u32,
    out: &mut Vec<u8>,
) -> Result<(), Unreadable> {
    let at = out.len();
    encode_varint(value.len() as u64, out);
    let begun = out.len();
    match kind {
        Kind::Message(shape) => {
            fit(&mut value, shape, depth, out)?;
            let length = out.len() - begun;
            put_length(&mut out[at..begun], length);
        }
        Kind::String if std::str::from_utf8(&value).is_err() => return Err(Unreadable::Text),
        _ => out.put_slice(&value),
    }
    Ok(())
}

/// Writes a length over one that was no shorter, in as many bytes. Numbers may have zeros before them, so to speak.
fn put_length(over: &mut [u8], mut length: usize) {
    let Some((last, before)) = over.split_last_mut() else { return };
    for byte in before {
        *byte = length.to_le_bytes()[0] | 0x80;
        length >>= 7;
    }
    *last = length.to_le_bytes()[0];
}

fn is_number(kind: Kind) -> bool {
    !matches!(kind, Kind::String | Kind::Bytes | Kind::Message(_))
}

/// Passes over a field that nobody knows.
fn skip(message: &mut Bytes, number: u32, wire: WireType, depth: u32) -> Result<(), Unreadable> {
    let length = match wire {
        WireType::Varint => return varint(message).map(|_| ()),
        WireType::LengthDelimited => return delimited(message).map(|_| ()),
        WireType::StartGroup => return skip_group(message, number, depth),
        WireType::EndGroup => return Err(Unreadable::Format),
        WireType::SixtyFourBit => 8,
        WireType::ThirtyTwoBit => 4,
    };
    take(message, length).map(|_| ())
}

fn skip_group(message: &mut Bytes, number: u32, depth: u32) -> Result<(), Unreadable> {
    let depth = depth.checked_sub(1).ok_or(Unreadable::Format)?;
    loop {
        match tag(message)? {
            (inner, WireType::EndGroup) if inner == number => return Ok(()),
            (inner, wire) => skip(message, inner, wire, depth)?,
        }
    }
}

fn tag(message: &mut Bytes) -> Result<(u32, WireType), Unreadable> {
    let tag = varint(message)?;
    let wire = WireType::try_from(tag & 7).map_err(|_| Unreadable::Format)?;
    match tag >> 3 {
        number @ 1..=NUMBER_MAX => {
            Ok((u32::try_from(number).map_err(|_| Unreadable::Format)?, wire))
        }
        _ => Err(Unreadable::Format),
    }
}

fn varint(message: &mut Bytes) -> Result<u64, Unreadable> {
    decode_varint(message).map_err(|_| Unreadable::Format)
}

fn delimited(message: &mut Bytes) -> Result<Bytes, Unreadable> {
    let length = usize::try_from(varint(message)?).map_err(|_| Unreadable::Format)?;
    take(message, length)
}

fn take(message: &mut Bytes, length: usize) -> Result<Bytes, Unreadable> {
    let whole = message.remaining() >= length;
    whole.then(|| message.split_to(length)).ok_or(Unreadable::Format)
}

fn put_tag(out: &mut Vec<u8>, number: u32, wire: WireType) {
    encode_varint(u64::from(number) << 3 | wire as u64, out);
}

#[cfg(test)]
mod tests {
    use proto::etcdserverpb::request_op::Request;
    use proto::etcdserverpb::{
        AuthUserGetRequest, PutRequest, RequestOp, TxnRequest, WatchCreateRequest, WatchRequest,
    };

    use super::*;

    const PUT: &str = "/etcdserverpb.KV/Put";
    const TXN: &str = "/etcdserverpb.KV/Txn";
    const USER_GET: &str = "/etcdserverpb.Auth/UserGet";

    fn put(bytes: &[u8]) -> Result<PutRequest, Unreadable> {
        decode(PUT, Bytes::copy_from_slice(bytes))
    }

    #[test]
    fn a_field_of_another_type_is_not_known() {
        let key = PutRequest { key: "k".into(), lease: 7, ..PutRequest::default() };
        let good = key.encode_to_vec();
        for other in [
            &b"\x08\x01"[..],                        // key as a number
            b"\x0d\x01\x02\x03\x04",                 // key as four bytes
            b"\x09\x01\x02\x03\x04\x05\x06\x07\x08", // key as eight
            b"\x0b\x08\x01\x13\x14\x0c",             // key as a group with a group in it
            b"\x1a\x01\x07",                         // lease as bytes
            b"\x98\x06\x01",                         // nothing of ours
        ] {
            assert_eq!(put(&[other, &good].concat()), Ok(key.clone()), "{other:x?}");
            assert_eq!(put(&[&good, other].concat()), Ok(key.clone()), "{other:x?}");
        }
    }

    #[test]
    fn so_it_is_in_messages_within() {
        let inner = PutRequest { key: "k".into(), ..PutRequest::default() };
        let txn = |put: PutRequest| {
            let op = RequestOp { request: Some(Request::RequestPut(put)) };
            TxnRequest { success: vec![op], ..TxnRequest::default() }
        };
        // Field 2 of the put, its value, as a number.
        let put = [inner.encode_to_vec(), vec![0x10, 5]].concat();
        let op = [&[0x12, u8::try_from(put.len()).unwrap()][..], &put].concat();
        let bytes = [&[0x12, u8::try_from(op.len()).unwrap()][..], &op].concat();
        assert_eq!(decode(TXN, bytes.into()), Ok(txn(inner)));
    }

    #[test]
    fn what_is_left_out_makes_messages_shorter() {
        // 300 bytes that do not fit, in a message that takes two bytes to say how long it is.
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
    fn what_is_wrong_beyond_that_is_told() {
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
            assert_eq!(put(wrong), Err(Unreadable::Format), "{wrong:x?}");
        }
        let deep = [0x0b; 200];
        assert_eq!(put(&deep), Err(Unreadable::Format));
    }

    #[test]
    fn text_has_to_be_text() {
        let get = |bytes: &'static [u8]| {
            decode::<AuthUserGetRequest>(USER_GET, Bytes::from_static(bytes))
        };
        assert_eq!(get(b"\x0a\x01\xff"), Err(Unreadable::Text));
        assert_eq!(get(b"\x0a\x01\xff\x0a"), Err(Unreadable::Text), "what is first is told");
        assert_eq!(get(b"\x0a\x05\xff"), Err(Unreadable::Format));
        assert_eq!(get(b"\x08\x01\x0a\x01n").unwrap().name, "n");
    }

    #[test]
    fn lists_of_numbers_come_in_two_ways() {
        let decoded = |create: &[u8]| {
            let length = u8::try_from(create.len()).unwrap();
            let bytes = [&[0x0a, length][..], create].concat();
            decode::<WatchRequest>("/etcdserverpb.Watch/Watch", bytes.into()).unwrap()
        };
        let filters = WatchCreateRequest { filters: vec![0, 1], ..WatchCreateRequest::default() };
        let expected = WatchRequest {
            request_union: Some(proto::etcdserverpb::watch_request::RequestUnion::CreateRequest(
                filters,
            )),
        };
        for filters in [&b"\x2a\x02\x00\x01"[..], b"\x28\x00\x28\x01"] {
            assert_eq!(decoded(filters), expected);
            // The key as a number besides.
            assert_eq!(decoded(&[filters, b"\x08\x01"].concat()), expected);
        }
    }

    #[test]
    fn fields_are_counted() {
        let message = Bytes::from_static(b"\x0a\x00\x12\x01k\x12\x00\x18\x01\x12\x05k");
        assert_eq!([1, 2, 3, 4].map(|number| count(message.clone(), number)), [1, 2, 1, 0]);
        assert_eq!(first(message.slice(2..)).unwrap(), "k");
        assert_eq!(first(Bytes::from_static(b"\x08\x01")), None);
    }

    #[test]
    fn every_method_has_a_shape() {
        for method in crate::grpc::rpc::METHODS {
            assert!(shape::request(method.path).is_some(), "{}", method.path);
        }
    }
}
