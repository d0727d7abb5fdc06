//! The stored form of a key: an encoded `mvccpb.KeyValue`, written once and parsed in place.
//!
//! ```text
//!   0a 03 f o o   10 07           18 09        20 02     2a 03 b a r   30 0b
//!   1 key         2 create_rev.   3 mod_rev.   4 version 5 value       6 lease
//! ```
//!
//! Zero and empty fields are omitted.
//!
//! `HashKV` hashes these bytes and members compare the result, so they equal etcd's byte for byte:
//! fields are in the order of their numbers. Ranges and events copy them unparsed; [`KeyValueRef`]
//! borrows the fields.

use bytes::{BufMut as _, Bytes, BytesMut};
use prost::encoding::{decode_varint, encode_varint, encoded_len_varint};

/// The maximum length of a tag with a varint.
pub(crate) const FIELD_BYTES_MAX: usize = 11;

const KEY: u8 = 1;
const CREATE_REVISION: u8 = 2;
const MOD_REVISION: u8 = 3;
const VERSION: u8 = 4;
const VALUE: u8 = 5;
const LEASE: u8 = 6;

const WIRE_VARINT: u64 = 0;
const WIRE_FIXED64: u64 = 1;
const WIRE_BYTES: u64 = 2;
const WIRE_FIXED32: u64 = 5;

/// A `KeyValue`, borrowed from its encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyValueRef<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The revision of the put that created the key.
    pub create_revision: i64,
    /// The revision of the last put.
    pub mod_revision: i64,
    /// The number of puts since the creation, with it.
    pub version: i64,
    /// The value.
    pub value: &'a [u8],
    /// The lease that the key is attached to, or zero.
    pub lease: i64,
}

impl<'a> KeyValueRef<'a> {
    /// Parses a message. Returns `None` if the bytes are malformed. Unknown fields are skipped.
    #[must_use]
    pub fn parse(mut bytes: &'a [u8]) -> Option<KeyValueRef<'a>> {
        let mut kv = KeyValueRef::default();
        while !bytes.is_empty() {
            let tag = decode_varint(&mut bytes).ok()?;
            match tag & 7 {
                WIRE_VARINT => kv.set_number(tag >> 3, decode_varint(&mut bytes).ok()?),
                WIRE_BYTES => kv.set_bytes(tag >> 3, take_bytes(&mut bytes)?),
                WIRE_FIXED64 => bytes = bytes.get(8..)?,
                WIRE_FIXED32 => bytes = bytes.get(4..)?,
                _ => return None,
            }
        }
        Some(kv)
    }

    /// Encodes the message, with one allocation.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(self.encoded_len());
        self.encode_to(&mut out);
        out.freeze()
    }

    /// Appends the encoding.
    pub fn encode_to(&self, out: &mut BytesMut) {
        put_bytes(KEY, self.key, out);
        put_number(CREATE_REVISION, self.create_revision, out);
        put_number(MOD_REVISION, self.mod_revision, out);
        put_number(VERSION, self.version, out);
        put_bytes(VALUE, self.value, out);
        put_number(LEASE, self.lease, out);
    }

    /// Returns the length of the encoding.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        let numbers = [self.create_revision, self.mod_revision, self.version, self.lease];
        let numbers: usize = numbers.into_iter().map(number_len).sum();
        bytes_len(self.key) + bytes_len(self.value) + numbers
    }

    fn set_number(&mut self, field: u64, number: u64) {
        let number = number.cast_signed();
        match u8::try_from(field) {
            Ok(CREATE_REVISION) => self.create_revision = number,
            Ok(MOD_REVISION) => self.mod_revision = number,
            Ok(VERSION) => self.version = number,
            Ok(LEASE) => self.lease = number,
            _ => {}
        }
    }

    fn set_bytes(&mut self, field: u64, bytes: &'a [u8]) {
        match u8::try_from(field) {
            Ok(KEY) => self.key = bytes,
            Ok(VALUE) => self.value = bytes,
            _ => {}
        }
    }
}

/// Appends the stored form of a tombstone. Returns the position of the key in the buffer.
pub(crate) fn encode_tombstone(key: &[u8], out: &mut BytesMut) -> usize {
    put_bytes(KEY, key, out);
    out.len() - key.len()
}

/// Appends a varint.
pub(crate) fn put_varint(number: u64, out: &mut BytesMut) {
    encode_varint(number, out);
}

/// Appends a bytes field, unless it is empty.
pub(crate) fn put_bytes(field: u8, bytes: &[u8], out: &mut BytesMut) {
    if !bytes.is_empty() {
        put_message(field, bytes, out);
    }
}

/// Appends an encoded message as a field, even if it is empty.
pub(crate) fn put_message(field: u8, message: &[u8], out: &mut BytesMut) {
    put_head(field, message.len(), out);
    out.put_slice(message);
}

/// Appends the tag and length that precede a message.
pub(crate) fn put_head(field: u8, len: usize, out: &mut BytesMut) {
    put_tagged(field << 3 | 2, len as u64, out);
}

/// Appends a tag and a varint with one write.
fn put_tagged(tag: u8, number: u64, out: &mut BytesMut) {
    let mut piece = [tag; FIELD_BYTES_MAX];
    let (mut end, mut rest) = (1, number);
    while rest >= 0x80 {
        piece[end] = (rest & 0x7f) as u8 | 0x80;
        (end, rest) = (end + 1, rest >> 7);
    }
    piece[end] = (rest & 0x7f) as u8;
    out.put_slice(&piece[..=end]);
}

/// Appends a varint field, unless it is zero.
pub(crate) fn put_number(field: u8, number: i64, out: &mut BytesMut) {
    if number != 0 {
        put_tagged(field << 3, number.cast_unsigned(), out);
    }
}

/// Returns the length of a bytes field.
pub(crate) fn bytes_len(bytes: &[u8]) -> usize {
    if bytes.is_empty() { 0 } else { message_len(bytes.len()) }
}

/// Returns the length of a message field.
pub(crate) fn message_len(len: usize) -> usize {
    1 + encoded_len_varint(len as u64) + len
}

/// Returns the length of a varint field.
pub(crate) fn number_len(number: i64) -> usize {
    if number == 0 { 0 } else { 1 + encoded_len_varint(number.cast_unsigned()) }
}

fn take_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(decode_varint(bytes).ok()?).ok()?;
    let (taken, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message as _;
    use proto::mvccpb::KeyValue;

    use super::*;

    fn message(kv: &KeyValueRef<'_>) -> KeyValue {
        KeyValue {
            key: Bytes::copy_from_slice(kv.key),
            create_revision: kv.create_revision,
            mod_revision: kv.mod_revision,
            version: kv.version,
            value: Bytes::copy_from_slice(kv.value),
            lease: kv.lease,
        }
    }

    proptest! {
        #[test]
        fn encoding_equals_prost(
            key in proptest::collection::vec(any::<u8>(), 0..300),
            value in proptest::collection::vec(any::<u8>(), 0..300),
            numbers in any::<[i64; 4]>(),
            zeros in any::<[bool; 4]>(),
        ) {
            let n = |i: usize| if zeros[i] { 0 } else { numbers[i] };
            let kv = KeyValueRef {
                key: &key, value: &value, create_revision: n(0), mod_revision: n(1), version: n(2), lease: n(3),
            };
            let encoded = kv.encode();
            prop_assert_eq!(&encoded[..], &message(&kv).encode_to_vec()[..]);
            prop_assert_eq!(encoded.len(), kv.encoded_len());
            prop_assert_eq!(KeyValueRef::parse(&encoded), Some(kv));
        }

        #[test]
        fn parse_agrees_with_prost_on_arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(decoded) = KeyValue::decode(&bytes[..]) {
                // prost skips groups, which no writer produces; `parse` refuses them.
                if let Some(parsed) = KeyValueRef::parse(&bytes) {
                    prop_assert_eq!(message(&parsed), decoded);
                }
            }
        }
    }
}
