//! The memory cost of a message, computed from its bytes before it is decoded.
//!
//! Two bytes can encode an empty entry, which takes about a hundred bytes in memory. So the length
//! of a message bounds its memory only after this check:
//!
//! ```text
//!   3a 00 3a 00 3a 00 ..    empty entries               2 bytes each, size_of::<Entry>() decoded
//!   4a .. 12 .. 0a ..       members in the metadata     1 byte each, size_of::<u64>() decoded
//!   72 00 72 00 72 00 ..    nested messages             refused: members never send them
//! ```

use bytes::Bytes;
use prost::Message as _;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use proto::raftpb;

use super::StreamError;

/// Field numbers of `raftpb.Message`.
const ENTRIES: u32 = 7;
const SNAPSHOT: u32 = 9;
const RESPONSES: u32 = 14;
/// A field number of `raftpb.Snapshot`.
const METADATA: u32 = 2;

/// The memory of an entry besides its data, as a protobuf message and as a `raft::Entry`.
const ENTRY_COST: u64 = (size_of::<raftpb::Entry>() + size_of::<raft::Entry>()) as u64;
/// The most memory per byte of metadata: a number of a list.
const METADATA_COST: u64 = size_of::<u64>() as u64;

/// Decodes a message that takes at most `bytes_max` bytes of memory.
pub(crate) fn decode(bytes: Bytes, bytes_max: u64) -> Result<raftpb::Message, StreamError> {
    if cost(&bytes)? > bytes_max {
        return Err(StreamError::TooLong);
    }
    Ok(raftpb::Message::decode(bytes)?)
}

fn cost(message: &[u8]) -> Result<u64, StreamError> {
    let mut cost = message.len() as u64;
    each_field(message, |field, content| {
        match field {
            ENTRIES => cost += ENTRY_COST,
            SNAPSHOT => each_field(content, |field, content| {
                cost += if field == METADATA { METADATA_COST * content.len() as u64 } else { 0 };
                Ok(())
            })?,
            RESPONSES => return Err(StreamError::Nested),
            _ => {}
        }
        Ok(())
    })?;
    Ok(cost)
}

/// Visits all length-delimited fields. Stops at malformed ones, which the decoder will reject.
fn each_field(
    mut bytes: &[u8],
    mut visit: impl FnMut(u32, &[u8]) -> Result<(), StreamError>,
) -> Result<(), StreamError> {
    while !bytes.is_empty() {
        let (field, wire) = decode_key(&mut bytes)?;
        if wire != WireType::LengthDelimited {
            skip_field(wire, field, &mut bytes, DecodeContext::default())?;
            continue;
        }
        let length = usize::try_from(decode_varint(&mut bytes)?).unwrap_or(usize::MAX);
        let Some((content, rest)) = bytes.split_at_checked(length) else { return Ok(()) };
        visit(field, content)?;
        bytes = rest;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = 1 << 20;

    fn repeated(bytes: &[u8], times: usize) -> Bytes {
        bytes.repeat(times).into()
    }

    #[test]
    fn entries_are_charged_their_decoded_size() {
        let fit = usize::try_from(MAX / (ENTRY_COST + 2)).unwrap();
        let entries = decode(repeated(&[0x3a, 0], fit), MAX).unwrap().entries;
        assert_eq!(entries.len(), fit);
        assert_eq!(decode(repeated(&[0x3a, 0], fit + 1), MAX), Err(StreamError::TooLong));
    }

    #[test]
    fn snapshot_members_are_charged_their_decoded_size() {
        let members = raftpb::ConfState { voters: vec![1; 200_000], ..Default::default() };
        let metadata = raftpb::SnapshotMetadata { conf_state: Some(members), ..Default::default() };
        let snapshot = raftpb::Snapshot { metadata: Some(metadata), ..Default::default() };
        let message = raftpb::Message { snapshot: Some(snapshot), ..Default::default() };
        let bytes = Bytes::from(message.encode_to_vec());
        assert!(bytes.len() as u64 <= MAX);
        assert_eq!(decode(bytes.clone(), MAX), Err(StreamError::TooLong));
        assert_eq!(decode(bytes, 10 * MAX), Ok(message));
    }

    #[test]
    fn nested_messages_are_refused() {
        assert_eq!(decode(repeated(&[0x72, 0], 1), MAX), Err(StreamError::Nested));
    }

    #[test]
    fn truncated_fields_are_refused_by_the_decoder() {
        for bytes in [&[0x3a, 5, 0][..], &[0x3a], &[0x08], &[0x0f, 0], &[0x3a, 0xff, 0xff]] {
            let bytes = Bytes::copy_from_slice(bytes);
            assert!(matches!(decode(bytes, MAX), Err(StreamError::Garbage(_))));
        }
    }
}
