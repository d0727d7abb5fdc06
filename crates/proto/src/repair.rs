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
//! [`repair`] drops such fields, guided by the tables in [`shape`]. The first other error is
//! reported to the client.

use std::ops::Range;

use prost::bytes::{Buf as _, BufMut as _, Bytes};
use prost::encoding::{WireType, encode_varint};

use crate::fields::{DEPTH_MAX, Malformed, delimited, skip, tag, varint};
use crate::shape::{self, Kind};

/// The reason that a request cannot be repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepairError {
    /// The bytes are not protobuf.
    Format,
    /// A string field is not UTF-8.
    Utf8,
}

impl From<Malformed> for RepairError {
    fn from(_: Malformed) -> RepairError {
        RepairError::Format
    }
}

/// Drops the fields of a request that have the wrong wire type, given the path of its method.
///
/// # Errors
/// The bytes are no message, or one of its strings is not UTF-8.
pub fn repair(path: &str, message: Bytes) -> Result<Bytes, RepairError> {
    let shape = shape::request(path).ok_or(RepairError::Format)?;
    let mut repaired = Vec::with_capacity(message.len());
    copy_message(message, shape, &mut repaired)?;
    Ok(repaired.into())
}

/// A message whose fields are being copied.
struct OpenMessage {
    rest: Bytes,
    shape: &'static shape::Message,
    /// The place of its length in the copy; empty for the outermost.
    length: Range<usize>,
}

/// Copies the fields of a message that have the right wire type. A list replaces recursion, because
/// the client decides the depth.
fn copy_message(
    message: Bytes,
    shape: &'static shape::Message,
    out: &mut Vec<u8>,
) -> Result<(), RepairError> {
    let mut open = vec![OpenMessage { rest: message, shape, length: 0..0 }];
    while let Some(OpenMessage { rest, shape, length }) = open.last_mut() {
        if !rest.has_remaining() {
            let content = out.len() - length.end;
            overwrite_length(&mut out[length.clone()], content);
            open.pop();
            continue;
        }
        let (number, wire) = tag(rest)?;
        match (wire, shape.field(number).map(|field| (field.kind, field.repeated))) {
            (WireType::Varint, Some((kind, _))) if is_number(kind) => {
                put_tag(out, number, wire);
                encode_varint(varint(rest)?, out);
            }
            (WireType::LengthDelimited, Some((kind, repeated))) if repeated || !is_number(kind) => {
                let value = delimited(rest)?;
                put_tag(out, number, wire);
                let start = out.len();
                encode_varint(value.len() as u64, out);
                match kind {
                    Kind::Message(_) if open.len() == DEPTH_MAX => return Err(RepairError::Format),
                    Kind::Message(shape) => {
                        open.push(OpenMessage { rest: value, shape, length: start..out.len() });
                    }
                    Kind::String if std::str::from_utf8(&value).is_err() => {
                        return Err(RepairError::Utf8);
                    }
                    _ => out.put_slice(&value),
                }
            }
            _ => skip(rest, number, wire)?,
        }
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

fn put_tag(out: &mut Vec<u8>, number: u32, wire: WireType) {
    encode_varint(u64::from(number) << 3 | wire as u64, out);
}

#[cfg(test)]
mod tests;
