//! One record as bytes, both ways.
//!
//! ```text
//!  offset  0                       8                                        8+len     8+len+pad
//!          ┌──────────────────────┬────────────────────────────────────────┬─────────┐
//!          │ length field, 8 bytes│ walpb.Record, len bytes                │ zeros   │
//!          └──────────────────────┴────────────────────────────────────────┴─────────┘
//!  length field, little endian     08 kind  10 crc  1a size data            so that the frame is a multiple of 8
//!    bits 0..56   len              1 byte   varint  varint
//!    bits 56..59  pad, 1 to 7
//!    bit  63      set if pad > 0
//! ```
//!
//! The state {term 11, vote 0, commit 83} is a record of 15 bytes, so that one byte of padding follows:
//!
//! ```text
//!  0f 00 00 00 00 00 00 81 │ 08 03  10 d0 92 97 61  1a 06  08 0b 10 00 18 53 │ 00
//! ```
//!
//! The length stands in the file three times over: in the length field, in the padding that it needs, and in the
//! record's own `size`. So a length that was damaged is told from a write that was cut short: see
//! [`reader`](crate::reader).

use crc32c::crc32c_append;
use prost::Message;
use prost::encoding::{encode_varint, encoded_len_varint};

use crate::SAVE_BYTES_MAX;

/// Bytes of the length field.
pub(crate) const LENGTH_BYTES: u64 = LENGTH_SIZE as u64;

/// The same, as a size in memory.
const LENGTH_SIZE: usize = size_of::<u64>();

/// Frames start at multiples of this, so that a length field is in one sector and is there wholly or not at all.
const FRAME_ALIGN: usize = 8;

/// The longest that a record can be before its data: three tags, and varints of 10, 5 and 10 bytes.
pub(crate) const HEADER_BYTES_MAX: u64 = 28;

/// The longest that a record can be: a whole save of one entry. Whatever says that it is longer was never written, and gets
/// no memory. etcd has no bound but the file's length, and writes no entry near this one: it refuses requests over its
/// `--max-request-bytes`, 1.5 MiB unless set.
pub(crate) const RECORD_BYTES_MAX: u64 = SAVE_BYTES_MAX as u64 + HEADER_BYTES_MAX;

/// The length of the largest checksum as a varint.
const CRC_VARINT_MAX: usize = 5;

/// The low bits of the length field, which hold the length itself.
const LENGTH_MASK: u64 = (1 << 56) - 1;

const KIND_TAG: u8 = 0x08;
const CRC_TAG: u8 = 0x10;
const DATA_TAG: u8 = 0x1a;

/// What the data of a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Who wrote the log: an `etcdserverpb.Metadata`. The second record of each segment.
    Metadata = 1,
    /// A `raftpb.Entry`.
    Entry = 2,
    /// A `raftpb.HardState`.
    State = 3,
    /// No data, but the checksum of all before. The first record of each segment.
    Crc = 4,
    /// A place from which to replay: a `walpb.Snapshot`.
    Snapshot = 5,
}

impl Kind {
    pub(crate) fn from_number(number: u64) -> Option<Kind> {
        [Kind::Metadata, Kind::Entry, Kind::State, Kind::Crc, Kind::Snapshot]
            .into_iter()
            .find(|&kind| kind as u64 == number)
    }
}

/// The length and the padding that a length field tells, unless no writer would have written it.
pub(crate) fn decode_length(field: u64) -> Option<(u64, u64)> {
    let len = field & LENGTH_MASK;
    let pad = len.wrapping_neg() % FRAME_ALIGN as u64;
    (len > 0 && field == encode_length(len, pad)).then_some((len, pad))
}

fn encode_length(len: u64, pad: u64) -> u64 {
    let top = if pad == 0 { 0 } else { 0x80 | pad };
    len | top << 56
}

/// A record up to its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: u64,
    pub(crate) crc: u32,
    /// Bytes before the data.
    pub(crate) len: u64,
    pub(crate) data_len: u64,
}

/// Why some bytes are not the start of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoHeader {
    /// They may be, but end too early.
    Short,
    /// They are something else.
    Malformed,
}

impl Header {
    /// Reads the header at the start of some bytes, which end no later than the record does.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Header, NoHeader> {
        let mut rest = bytes;
        let kind = field(&mut rest, KIND_TAG)?;
        let crc = field(&mut rest, CRC_TAG)?.try_into().map_err(|_| NoHeader::Malformed)?;
        let data_len =
            if rest.first() == Some(&DATA_TAG) { field(&mut rest, DATA_TAG)? } else { 0 };
        Ok(Header { kind, crc, len: (bytes.len() - rest.len()) as u64, data_len })
    }

    /// The length of the whole record, as the record itself tells.
    pub(crate) fn record_len(&self) -> Option<u64> {
        self.len.checked_add(self.data_len)
    }
}

/// Takes a tag and the number after it.
fn field(rest: &mut &[u8], tag: u8) -> Result<u64, NoHeader> {
    if take(rest)? != tag {
        return Err(NoHeader::Malformed);
    }
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = take(rest)?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            // The tenth byte has one bit to give.
            return if shift == 63 && byte > 1 { Err(NoHeader::Malformed) } else { Ok(number) };
        }
    }
    Err(NoHeader::Malformed)
}

fn take(rest: &mut &[u8]) -> Result<u8, NoHeader> {
    let (&byte, after) = rest.split_first().ok_or(NoHeader::Short)?;
    *rest = after;
    Ok(byte)
}

/// Assembles frames, one after the other, in a buffer that is used again and again.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    buffer: Vec<u8>,
    /// Over the data of all records so far.
    crc: u32,
}

impl Encoder {
    /// An encoder that goes on from a checksum.
    pub(crate) fn new(crc: u32) -> Encoder {
        Encoder { buffer: Vec::new(), crc }
    }

    /// The checksum over all records so far.
    pub(crate) fn crc(&self) -> u32 {
        self.crc
    }

    /// The frames assembled.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// Drops the frames and keeps the memory, up to a bound.
    pub(crate) fn clear(&mut self, capacity_max: usize) {
        self.buffer.clear();
        self.buffer.shrink_to(capacity_max);
    }

    /// The record that starts a segment.
    pub(crate) fn push_crc(&mut self) {
        let start = self.begin();
        self.buffer.extend_from_slice(&[KIND_TAG, Kind::Crc as u8, CRC_TAG]);
        encode_varint(u64::from(self.crc), &mut self.buffer);
        self.end(start);
    }

    /// A record with these bytes for data.
    pub(crate) fn push_bytes(&mut self, kind: Kind, data: &[u8]) {
        self.push(kind, data.len(), |buffer| buffer.extend_from_slice(data));
    }

    /// A record with this message for data.
    pub(crate) fn push_message(&mut self, kind: Kind, message: &impl Message) {
        self.push(kind, message.encoded_len(), |buffer| message.encode_raw(buffer));
    }

    /// A record whose data `write` appends, `data_len` bytes of it.
    ///
    /// The checksum stands before the data and depends on it, and so does its length. Room is left for the longest; one
    /// time in sixteen it is shorter, and the data moves up.
    fn push(&mut self, kind: Kind, data_len: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.begin();
        self.buffer.extend_from_slice(&[KIND_TAG, kind as u8, CRC_TAG]);
        let crc_at = self.buffer.len();
        self.buffer.extend_from_slice(&[0; CRC_VARINT_MAX]);
        // Empty data is not written, as in etcd.
        if data_len > 0 {
            self.buffer.push(DATA_TAG);
            encode_varint(data_len as u64, &mut self.buffer);
        }
        let data_at = self.buffer.len();
        write(&mut self.buffer);
        let data = &self.buffer[data_at..];
        assert_eq!(data.len(), data_len, "the length of the data is known before it is written");
        self.crc = crc32c_append(self.crc, data);
        self.put_crc(crc_at);
        self.end(start);
    }

    fn put_crc(&mut self, at: usize) {
        let crc = u64::from(self.crc);
        let len = encoded_len_varint(crc);
        let mut room = &mut self.buffer[at..at + len];
        encode_varint(crc, &mut room);
        if len < CRC_VARINT_MAX {
            self.buffer.copy_within(at + CRC_VARINT_MAX.., at + len);
            self.buffer.truncate(self.buffer.len() - (CRC_VARINT_MAX - len));
        }
    }

    fn begin(&mut self) -> usize {
        let start = self.buffer.len();
        debug_assert_eq!(start % FRAME_ALIGN, 0);
        self.buffer.extend_from_slice(&[0; LENGTH_SIZE]);
        start
    }

    fn end(&mut self, start: usize) {
        let record = start + LENGTH_SIZE;
        let len = self.buffer.len() - record;
        assert!(len as u64 <= RECORD_BYTES_MAX, "a record of {len} bytes would not be read back");
        self.buffer.resize(self.buffer.len().next_multiple_of(FRAME_ALIGN), 0);
        let pad = self.buffer.len() - record - len;
        let field = encode_length(len as u64, pad as u64);
        self.buffer[start..record].copy_from_slice(&field.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(crc: u32, kind: Kind, data: &[u8]) -> Vec<u8> {
        let mut encoder = Encoder::new(crc);
        encoder.push_bytes(kind, data);
        encoder.bytes().to_vec()
    }

    #[test]
    fn length_fields_are_those_of_etcd() {
        for (len, pad, field) in [
            (8, 0, 8),
            (1, 7, 0x8700_0000_0000_0001),
            (14, 2, 0x8200_0000_0000_000e),
            (RECORD_BYTES_MAX, 4, 0x8400_0000_4000_001c),
            (0x00ff_ffff_ffff_fff8, 0, 0x00ff_ffff_ffff_fff8),
        ] {
            assert_eq!(encode_length(len, pad), field);
            assert_eq!(decode_length(field), Some((len, pad)));
        }
    }

    #[test]
    fn a_length_field_with_one_bit_flipped_is_another_length_or_none() {
        for len in 1..2000_u64 {
            let field = encode_length(len, len.wrapping_neg() % 8);
            for bit in 0..64 {
                match decode_length(field ^ 1 << bit) {
                    Some((other, _)) => assert_eq!((other ^ len).count_ones(), 1, "{len} {bit}"),
                    None => assert!(!(3..56).contains(&bit) || len == 1 << bit, "{len} {bit}"),
                }
            }
        }
    }

    #[test]
    fn frames_are_those_of_etcd() {
        // The start of a new log: crc 0, metadata. Bytes of 3.7.1.
        let mut encoder = Encoder::new(0);
        encoder.push_crc();
        assert_eq!(encoder.bytes(), [4, 0, 0, 0, 0, 0, 0, 0x84, 8, 4, 0x10, 0, 0, 0, 0, 0]);
        let metadata = [
            0x08, 0xe2, 0xe5, 0xe8, 0xd3, 0xd8, 0xc3, 0xe8, 0xe8, 0x0a, 0x10, 0x9e, 0x92, 0x8d,
            0x89, 0xf4, 0x94, 0x99, 0xe3, 0xb1, 0x01,
        ];
        let framed = frame(0, Kind::Metadata, &metadata);
        assert_eq!(framed[..8], [31, 0, 0, 0, 0, 0, 0, 0x81]);
        assert_eq!(framed[8..17], [0x08, 0x01, 0x10, 0xe3, 0xeb, 0xa8, 0xef, 0x05, 0x1a]);
        assert_eq!(framed[17], 21);
        assert_eq!(framed[18..39], metadata);
        assert_eq!(framed.len(), 40, "{framed:?}");
    }

    #[test]
    fn a_short_checksum_moves_the_data_up() {
        // Searched: data whose checksum takes few bytes.
        let data =
            (0_u32..).map(u32::to_le_bytes).find(|data| crc32c::crc32c(data) < 1 << 14).unwrap();
        let framed = frame(0, Kind::Entry, &data);
        let header = Header::decode(&framed[8..]).unwrap();
        assert_eq!((header.kind, header.crc), (2, crc32c::crc32c(&data)));
        assert_eq!((header.len, header.data_len), (7, 4));
        let start = 8 + 7;
        assert_eq!(framed[start..start + 4], data);
    }

    #[test]
    fn nothing_is_taken_for_a_header_that_is_none() {
        for bytes in [&[][..], &[0x08], &[0x08, 2, 0x10, 1, 0x1a], &[0x08, 2, 0x10, 1, 0x1a, 0xff]]
        {
            assert_eq!(Header::decode(bytes), Err(NoHeader::Short), "{bytes:x?}");
        }
        for bytes in [
            &[0][..],
            &[0x10, 1, 0x08, 1],
            &[0x08, 2, 0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
        ] {
            assert_eq!(Header::decode(bytes), Err(NoHeader::Malformed), "{bytes:x?}");
        }
        let huge = Header::decode(&[
            0x08, 2, 0x10, 1, 0x1a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1,
        ])
        .unwrap();
        assert_eq!(huge.record_len(), None, "more than there can be");
    }
}
