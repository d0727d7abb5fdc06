//! Encoded messages, field by field, without the generated types.
//!
//! ```text
//!   0a 03 66 6f 6f   10 07        two fields
//!   number 1         number 2
//!   "foo"            a number
//! ```
//!
//! Go's decoder is the model: it skips unknown fields of any wire type, and groups up to 10,000
//! deep.

use prost::bytes::{Buf, Bytes};
use prost::encoding::{WireType, decode_varint};

/// The greatest depth of nested messages, and of nested groups: the bound of Go.
pub(crate) const DEPTH_MAX: usize = 10_000;
/// The greatest number of a field.
const NUMBER_MAX: u64 = (1 << 29) - 1;

/// Bytes that are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

impl From<prost::DecodeError> for Malformed {
    fn from(_: prost::DecodeError) -> Malformed {
        Malformed
    }
}

/// Counts the occurrences of a field in a message. Of a malformed message, the readable part is
/// counted.
#[must_use]
pub fn count(message: Bytes, wanted: u32) -> usize {
    let mut fields = Fields(message);
    let mut found = 0;
    while let Ok(Some(field)) = fields.next() {
        found += usize::from(field.number == wanted);
    }
    found
}

/// Returns the first field of a message, if it is a message or bytes.
#[must_use]
pub fn first(message: Bytes) -> Option<Bytes> {
    Fields(message).next().ok()??.payload
}

/// An encoded field of a message.
pub(crate) struct Field {
    pub(crate) number: u32,
    /// The tag and the value.
    pub(crate) whole: Bytes,
    /// The value of a length-delimited field.
    pub(crate) payload: Option<Bytes>,
}

/// The fields of a message that are still to be read.
pub(crate) struct Fields(pub(crate) Bytes);

impl Fields {
    /// Splits off the next field, if there is one.
    pub(crate) fn next(&mut self) -> Result<Option<Field>, Malformed> {
        let rest = &mut self.0;
        if !rest.has_remaining() {
            return Ok(None);
        }
        let before = rest.clone();
        let (number, wire) = tag(rest)?;
        let payload = match wire {
            WireType::LengthDelimited => Some(delimited(rest)?),
            _ => skip(rest, number, wire).map(|()| None)?,
        };
        let whole = before.slice(..before.len() - rest.len());
        Ok(Some(Field { number, whole, payload }))
    }
}

/// Skips an unknown field.
pub(crate) fn skip(message: &mut Bytes, number: u32, wire: WireType) -> Result<(), Malformed> {
    let length = match wire {
        WireType::Varint => return varint(message).map(|_| ()),
        WireType::LengthDelimited => return delimited(message).map(|_| ()),
        WireType::StartGroup => return skip_group(message, number),
        WireType::EndGroup => return Err(Malformed),
        WireType::SixtyFourBit => 8,
        WireType::ThirtyTwoBit => 4,
    };
    take(message, length).map(|_| ())
}

/// Skips a group, given the number in its start tag.
fn skip_group(message: &mut Bytes, number: u32) -> Result<(), Malformed> {
    let mut open = vec![number];
    while let Some(innermost) = open.last() {
        match tag(message)? {
            (inner, WireType::EndGroup) if inner == *innermost => drop(open.pop()),
            (_, WireType::StartGroup) if open.len() == DEPTH_MAX => {
                return Err(Malformed);
            }
            (inner, WireType::StartGroup) => open.push(inner),
            (inner, wire) => skip(message, inner, wire)?,
        }
    }
    Ok(())
}

/// Reads the number and the wire type of a field.
pub(crate) fn tag(message: &mut Bytes) -> Result<(u32, WireType), Malformed> {
    let tag = varint(message)?;
    let wire = WireType::try_from(tag & 7).map_err(|_| Malformed)?;
    match tag >> 3 {
        number @ 1..=NUMBER_MAX => Ok((u32::try_from(number).map_err(|_| Malformed)?, wire)),
        _ => Err(Malformed),
    }
}

pub(crate) fn varint(message: &mut Bytes) -> Result<u64, Malformed> {
    decode_varint(message).map_err(|_| Malformed)
}

/// Reads a length, and as many bytes.
pub(crate) fn delimited(message: &mut Bytes) -> Result<Bytes, Malformed> {
    let length = usize::try_from(varint(message)?).map_err(|_| Malformed)?;
    take(message, length)
}

fn take(message: &mut Bytes, length: usize) -> Result<Bytes, Malformed> {
    let whole = message.remaining() >= length;
    whole.then(|| message.split_to(length)).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occurrences_of_a_field_are_counted() {
        let message = Bytes::from_static(b"\x0a\x00\x12\x01k\x12\x00\x18\x01\x12\x05k");
        assert_eq!([1, 2, 3, 4].map(|number| count(message.clone(), number)), [1, 2, 1, 0]);
        assert_eq!(first(message.slice(2..)).unwrap(), "k");
        assert_eq!(first(Bytes::from_static(b"\x08\x01")), None);
    }

    #[test]
    fn fields_of_every_wire_type_are_split() {
        let parts: [&[u8]; 5] =
            [b"\x08\x96\x01", b"\x11abcdefgh", b"\x1a\x02hi", b"\x23\x08\x01\x24", b"\x2dabcd"];
        let mut fields = Fields(parts.concat().into());
        for (number, part) in (1..).zip(parts) {
            let field = fields.next().unwrap().unwrap();
            assert_eq!((field.number, &field.whole[..]), (number, part));
            assert_eq!(field.payload, (number == 3).then(|| Bytes::from_static(b"hi")));
        }
        assert!(fields.next().unwrap().is_none());
    }
}
