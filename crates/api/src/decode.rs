//! Requests that prost cannot decode but etcd can.
//!
//! etcd's decoder takes a field of the wrong wire type for an unknown one, where prost fails:
//!
//! ```text
//!   08 01      PutRequest: field 1 as a number   key is bytes: unknown field, a put without a key
//!   0a 01 ff   UserGet: field 1, not UTF-8       string field contains invalid UTF-8
//!   0a 05 72   a length beyond the end           proto: cannot parse invalid wire-format data
//! ```
//!
//! [`repair`] drops such fields, guided by the tables in [`proto::shape`]. The first other error is
//! reported to the client.

use bytes::{Buf, BufMut as _, Bytes};
use grpc::DecodeError;
use prost::encoding::{WireType, decode_varint, encode_varint};
use proto::shape::{self, Kind};

/// The greatest depth of nested messages and groups: the bound of prost.
const DEPTH_MAX: u32 = 100;
/// The greatest number of a field.
const NUMBER_MAX: u64 = (1 << 29) - 1;

/// Drops the fields of a request that have the wrong wire type, given the path of its method.
pub(crate) fn repair(path: &str, mut message: Bytes) -> Result<Bytes, DecodeError> {
    let shape = shape::request(path).ok_or(DecodeError::Format)?;
    let mut repaired = Vec::with_capacity(message.len());
    copy_message(&mut message, shape, DEPTH_MAX, &mut repaired)?;
    Ok(repaired.into())
}

/// Counts the occurrences of a field in a message.
pub(crate) fn count_field(mut message: Bytes, wanted: u32) -> usize {
    let mut found = 0;
    // Our own responses are well-formed; of any other message, the readable part is counted.
    while message.has_remaining()
        && let Ok((number, wire)) = tag(&mut message)
        && skip(&mut message, number, wire, DEPTH_MAX).is_ok()
    {
        found += usize::from(number == wanted);
    }
    found
}

/// Returns the first field of a message, if it is a message or bytes.
pub(crate) fn first_field(mut message: Bytes) -> Option<Bytes> {
    let (_, wire) = tag(&mut message).ok()?;
    (wire == WireType::LengthDelimited).then(|| delimited(&mut message).ok())?
}

/// Copies the fields of a message that have the right wire type.
fn copy_message(
    message: &mut Bytes,
    shape: &shape::Message,
    depth: u32,
    out: &mut Vec<u8>,
) -> Result<(), DecodeError> {
    let depth = depth.checked_sub(1).ok_or(DecodeError::Format)?;
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
                copy_value(value, kind, depth, out)?;
            }
            _ => skip(message, number, wire, depth)?,
        }
    }
    Ok(())
}

/// Copies a length-delimited value with its length.
fn copy_value(
    mut value: Bytes,
    kind: Kind,
    depth: u32,
    out: &mut Vec<u8>,
) -> Result<(), DecodeError> {
    let length_start = out.len();
    encode_varint(value.len() as u64, out);
    let start = out.len();
    match kind {
        Kind::Message(shape) => {
            copy_message(&mut value, shape, depth, out)?;
            let length = out.len() - start;
            overwrite_length(&mut out[length_start..start], length);
        }
        Kind::String if std::str::from_utf8(&value).is_err() => return Err(DecodeError::Utf8),
        _ => out.put_slice(&value),
    }
    Ok(())
}

/// Overwrites a varint with a smaller number, padded to the same number of bytes.
fn overwrite_length(varint: &mut [u8], mut length: usize) {
    let Some((last, leading)) = varint.split_last_mut() else { return };
    for byte in leading {
        *byte = length.to_le_bytes()[0] | 0x80;
        length >>= 7;
    }
    *last = length.to_le_bytes()[0];
}

fn is_number(kind: Kind) -> bool {
    !matches!(kind, Kind::String | Kind::Bytes | Kind::Message(_))
}

/// Skips an unknown field.
fn skip(message: &mut Bytes, number: u32, wire: WireType, depth: u32) -> Result<(), DecodeError> {
    let length = match wire {
        WireType::Varint => return varint(message).map(|_| ()),
        WireType::LengthDelimited => return delimited(message).map(|_| ()),
        WireType::StartGroup => return skip_group(message, number, depth),
        WireType::EndGroup => return Err(DecodeError::Format),
        WireType::SixtyFourBit => 8,
        WireType::ThirtyTwoBit => 4,
    };
    take(message, length).map(|_| ())
}

fn skip_group(message: &mut Bytes, number: u32, depth: u32) -> Result<(), DecodeError> {
    let depth = depth.checked_sub(1).ok_or(DecodeError::Format)?;
    loop {
        match tag(message)? {
            (inner, WireType::EndGroup) if inner == number => return Ok(()),
            (inner, wire) => skip(message, inner, wire, depth)?,
        }
    }
}

fn tag(message: &mut Bytes) -> Result<(u32, WireType), DecodeError> {
    let tag = varint(message)?;
    let wire = WireType::try_from(tag & 7).map_err(|_| DecodeError::Format)?;
    match tag >> 3 {
        number @ 1..=NUMBER_MAX => {
            Ok((u32::try_from(number).map_err(|_| DecodeError::Format)?, wire))
        }
        _ => Err(DecodeError::Format),
    }
}

fn varint(message: &mut Bytes) -> Result<u64, DecodeError> {
    decode_varint(message).map_err(|_| DecodeError::Format)
}

fn delimited(message: &mut Bytes) -> Result<Bytes, DecodeError> {
    let length = usize::try_from(varint(message)?).map_err(|_| DecodeError::Format)?;
    take(message, length)
}

fn take(message: &mut Bytes, length: usize) -> Result<Bytes, DecodeError> {
    let whole = message.remaining() >= length;
    whole.then(|| message.split_to(length)).ok_or(DecodeError::Format)
}

fn put_tag(out: &mut Vec<u8>, number: u32, wire: WireType) {
    encode_varint(u64::from(number) << 3 | wire as u64, out);
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use proto::etcdserverpb::request_op::Request;
    use proto::etcdserverpb::{
        AuthUserGetRequest, PutRequest, RequestOp, TxnRequest, WatchCreateRequest, WatchRequest,
    };

    use super::*;

    const PUT: &str = "/etcdserverpb.KV/Put";
    const TXN: &str = "/etcdserverpb.KV/Txn";
    const USER_GET: &str = "/etcdserverpb.Auth/UserGet";

    /// Decodes a request as the `grpc` crate does.
    fn decode<Q: Message + Default>(path: &str, message: Bytes) -> Result<Q, DecodeError> {
        Q::decode(message.clone())
            .or_else(|_| Q::decode(repair(path, message)?).map_err(|_| DecodeError::Format))
    }

    fn put(bytes: &[u8]) -> Result<PutRequest, DecodeError> {
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
            assert_eq!(put(wrong), Err(DecodeError::Format), "{wrong:x?}");
        }
        let deep = [0x0b; 200];
        assert_eq!(put(&deep), Err(DecodeError::Format));
    }

    #[test]
    fn strings_must_be_utf8() {
        let get = |bytes: &'static [u8]| {
            decode::<AuthUserGetRequest>(USER_GET, Bytes::from_static(bytes))
        };
        assert_eq!(get(b"\x0a\x01\xff"), Err(DecodeError::Utf8));
        assert_eq!(get(b"\x0a\x01\xff\x0a"), Err(DecodeError::Utf8), "the first error is reported");
        assert_eq!(get(b"\x0a\x05\xff"), Err(DecodeError::Format));
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
            request_union: Some(proto::etcdserverpb::watch_request::RequestUnion::CreateRequest(
                filters,
            )),
        };
        for filters in [&b"\x2a\x02\x00\x01"[..], b"\x28\x00\x28\x01"] {
            assert_eq!(decoded(filters), expected);
            // With the key as a number in addition.
            assert_eq!(decoded(&[filters, b"\x08\x01"].concat()), expected);
        }
    }

    #[test]
    fn occurrences_of_a_field_are_counted() {
        let message = Bytes::from_static(b"\x0a\x00\x12\x01k\x12\x00\x18\x01\x12\x05k");
        assert_eq!([1, 2, 3, 4].map(|number| count_field(message.clone(), number)), [1, 2, 1, 0]);
        assert_eq!(first_field(message.slice(2..)).unwrap(), "k");
        assert_eq!(first_field(Bytes::from_static(b"\x08\x01")), None);
    }

    #[test]
    fn every_method_has_a_shape() {
        for method in crate::methods::METHODS {
            assert!(shape::request(method.path).is_some(), "{}", method.path);
        }
    }
}
