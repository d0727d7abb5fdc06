//! Encoding and decoding of a single record.
//!
//! ```text
//!  offset  0                       8                                        8+len     8+len+pad
//!          ┌──────────────────────┬────────────────────────────────────────┬─────────┐
//!          │ length field, 8 bytes│ walpb.Record, len bytes                │ zeros   │
//!          └──────────────────────┴────────────────────────────────────────┴─────────┘
//!  length field, little endian     08 kind  10 crc  1a size data            pads to 8 bytes
//!    bits 0..56   len              1 byte   varint  varint
//!    bits 56..59  pad, 1 to 7
//!    bit  63      set if pad > 0
//! ```
//!
//! The state {term 11, vote 0, commit 83} is a record of 15 bytes, followed by one byte of padding:
//!
//! ```text
//!  0f 00 00 00 00 00 00 81 │ 08 03  10 d0 92 97 61  1a 06  08 0b 10 00 18 53 │ 00
//! ```
//!
//! The file holds the length three times: in the length field, in the padding it implies, and in
//! the record's own `size`. This distinguishes a corrupt length from a torn write: see
//! [`reader`](crate::reader).

use crc32c::crc32c_append;
use prost::Message;
use prost::encoding::{encode_varint, encoded_len_varint};

use crate::SAVE_BYTES_MAX;

/// Size of the length field, in bytes.
pub(crate) const LENGTH_BYTES: u64 = LENGTH_SIZE as u64;

/// [`LENGTH_BYTES`] as a `usize`.
const LENGTH_SIZE: usize = size_of::<u64>();

/// Alignment of frames, so that a length field lies within one sector and is written entirely or
/// not at all.
const FRAME_ALIGN: usize = 8;

/// Maximum length of a record before its data: three tags, and varints of 10, 5 and 10 bytes.
pub(crate) const HEADER_BYTES_MAX: u64 = 28;

/// Maximum length of a record: a whole save of one entry. A longer length was never written, and no
/// memory is allocated for it. etcd's only bound is the length of the file, but it writes no entry
/// near this size: it refuses requests over `--max-request-bytes`, 1.5 MiB by default.
pub(crate) const RECORD_BYTES_MAX: u64 = SAVE_BYTES_MAX as u64 + HEADER_BYTES_MAX;

/// Length of the largest checksum as a varint.
const CRC_VARINT_MAX: usize = 5;

/// Mask of the length in the length field.
const LENGTH_MASK: u64 = (1 << 56) - 1;

const KIND_TAG: u8 = 0x08;
const CRC_TAG: u8 = 0x10;
const DATA_TAG: u8 = 0x1a;

/// Type of a record, which determines its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// Identity of the member: an `etcdserverpb.Metadata`. The second record of each segment.
    Metadata = 1,
    /// A `raftpb.Entry`.
    Entry = 2,
    /// A `raftpb.HardState`.
    State = 3,
    /// The running checksum, without data. The first record of each segment.
    Crc = 4,
    /// A snapshot from which the log can be replayed: a `walpb.Snapshot`.
    Snapshot = 5,
}

impl RecordKind {
    pub(crate) fn from_number(number: u64) -> Option<RecordKind> {
        [
            RecordKind::Metadata,
            RecordKind::Entry,
            RecordKind::State,
            RecordKind::Crc,
            RecordKind::Snapshot,
        ]
        .into_iter()
        .find(|&kind| kind as u64 == number)
    }
}

/// Decodes a length field into length and padding. Returns `None` for a value that no writer
/// produces.
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
    /// Length of the header, in bytes.
    pub(crate) len: u64,
    pub(crate) data_len: u64,
}

/// Reason why bytes are not a record header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderError {
    /// The bytes end within the header.
    Short,
    /// The bytes are not a header.
    Malformed,
}

impl Header {
    /// Decodes a header. `bytes` must not extend beyond the record.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Header, HeaderError> {
        let mut rest = bytes;
        let kind = field(&mut rest, KIND_TAG)?;
        let crc = field(&mut rest, CRC_TAG)?.try_into().map_err(|_| HeaderError::Malformed)?;
        let data_len =
            if rest.first() == Some(&DATA_TAG) { field(&mut rest, DATA_TAG)? } else { 0 };
        Ok(Header { kind, crc, len: (bytes.len() - rest.len()) as u64, data_len })
    }

    /// Length of the whole record according to the header.
    pub(crate) fn record_len(&self) -> Option<u64> {
        self.len.checked_add(self.data_len)
    }
}

/// Decodes a tag and its varint.
fn field(rest: &mut &[u8], tag: u8) -> Result<u64, HeaderError> {
    if take(rest)? != tag {
        return Err(HeaderError::Malformed);
    }
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = take(rest)?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            // The tenth byte holds a single bit.
            return if shift == 63 && byte > 1 { Err(HeaderError::Malformed) } else { Ok(number) };
        }
    }
    Err(HeaderError::Malformed)
}

fn take(rest: &mut &[u8]) -> Result<u8, HeaderError> {
    let (&byte, after) = rest.split_first().ok_or(HeaderError::Short)?;
    *rest = after;
    Ok(byte)
}

/// Encodes frames into a reused buffer.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    buffer: Vec<u8>,
    /// Running checksum over the data of all records.
    crc: u32,
}

impl Encoder {
    /// Creates an encoder that continues from a checksum.
    pub(crate) fn new(crc: u32) -> Encoder {
        Encoder { buffer: Vec::new(), crc }
    }

    /// The running checksum over all records so far.
    pub(crate) fn crc(&self) -> u32 {
        self.crc
    }

    /// The encoded frames.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// Discards the frames. Keeps up to `capacity_max` bytes of memory.
    pub(crate) fn clear(&mut self, capacity_max: usize) {
        self.buffer.clear();
        self.buffer.shrink_to(capacity_max);
    }

    /// Appends the checksum record that starts a segment.
    pub(crate) fn push_crc(&mut self) {
        let start = self.begin();
        self.buffer.extend_from_slice(&[KIND_TAG, RecordKind::Crc as u8, CRC_TAG]);
        encode_varint(u64::from(self.crc), &mut self.buffer);
        self.end(start);
    }

    /// Appends a record with the given data.
    pub(crate) fn push_bytes(&mut self, kind: RecordKind, data: &[u8]) {
        self.push(kind, data.len(), |buffer| buffer.extend_from_slice(data));
    }

    /// Appends a record with the given message.
    pub(crate) fn push_message(&mut self, kind: RecordKind, message: &impl Message) {
        self.push(kind, message.encoded_len(), |buffer| message.encode_raw(buffer));
    }

    /// Appends a record whose data, of `data_len` bytes, is written by `write`.
    ///
    /// The checksum precedes the data and depends on it, and its varint length varies. The encoder
    /// reserves the maximum; in one of sixteen cases it is shorter, and the data is moved up.
    fn push(&mut self, kind: RecordKind, data_len: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.begin();
        self.buffer.extend_from_slice(&[KIND_TAG, kind as u8, CRC_TAG]);
        let crc_at = self.buffer.len();
        self.buffer.extend_from_slice(&[0; CRC_VARINT_MAX]);
        // Compat: as in etcd, empty data is omitted.
        if data_len > 0 {
            self.buffer.push(DATA_TAG);
            encode_varint(data_len as u64, &mut self.buffer);
        }
        let data_at = self.buffer.len();
        write(&mut self.buffer);
        let data = &self.buffer[data_at..];
        assert_eq!(data.len(), data_len, "write appends exactly data_len bytes");
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
        assert!(len as u64 <= RECORD_BYTES_MAX, "record of {len} bytes exceeds the maximum");
        self.buffer.resize(self.buffer.len().next_multiple_of(FRAME_ALIGN), 0);
        let pad = self.buffer.len() - record - len;
        let field = encode_length(len as u64, pad as u64);
        self.buffer[start..record].copy_from_slice(&field.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(crc: u32, kind: RecordKind, data: &[u8]) -> Vec<u8> {
        let mut encoder = Encoder::new(crc);
        encoder.push_bytes(kind, data);
        encoder.bytes().to_vec()
    }

    #[test]
    fn length_fields_match_etcd() {
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
    fn a_flipped_bit_in_a_length_field_yields_another_length_or_an_error() {
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
    fn frames_match_etcd() {
        // The start of a new log: checksum 0 and metadata, as written by etcd 3.7.
        let mut encoder = Encoder::new(0);
        encoder.push_crc();
        assert_eq!(encoder.bytes(), [4, 0, 0, 0, 0, 0, 0, 0x84, 8, 4, 0x10, 0, 0, 0, 0, 0]);
        let metadata = [
            0x08, 0xe2, 0xe5, 0xe8, 0xd3, 0xd8, 0xc3, 0xe8, 0xe8, 0x0a, 0x10, 0x9e, 0x92, 0x8d,
            0x89, 0xf4, 0x94, 0x99, 0xe3, 0xb1, 0x01,
        ];
        let framed = frame(0, RecordKind::Metadata, &metadata);
        assert_eq!(framed[..8], [31, 0, 0, 0, 0, 0, 0, 0x81]);
        assert_eq!(framed[8..17], [0x08, 0x01, 0x10, 0xe3, 0xeb, 0xa8, 0xef, 0x05, 0x1a]);
        assert_eq!(framed[17], 21);
        assert_eq!(framed[18..39], metadata);
        assert_eq!(framed.len(), 40, "{framed:?}");
    }

    #[test]
    fn a_short_checksum_moves_the_data_up() {
        // Finds data whose checksum has a short varint.
        let data =
            (0_u32..).map(u32::to_le_bytes).find(|data| crc32c::crc32c(data) < 1 << 14).unwrap();
        let framed = frame(0, RecordKind::Entry, &data);
        let header = Header::decode(&framed[8..]).unwrap();
        assert_eq!((header.kind, header.crc), (2, crc32c::crc32c(&data)));
        assert_eq!((header.len, header.data_len), (7, 4));
        let start = 8 + 7;
        assert_eq!(framed[start..start + 4], data);
    }

    #[test]
    fn invalid_headers_are_rejected() {
        for bytes in [&[][..], &[0x08], &[0x08, 2, 0x10, 1, 0x1a], &[0x08, 2, 0x10, 1, 0x1a, 0xff]]
        {
            assert_eq!(Header::decode(bytes), Err(HeaderError::Short), "{bytes:x?}");
        }
        for bytes in [
            &[0][..],
            &[0x10, 1, 0x08, 1],
            &[0x08, 2, 0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
        ] {
            assert_eq!(Header::decode(bytes), Err(HeaderError::Malformed), "{bytes:x?}");
        }
        let huge = Header::decode(&[
            0x08, 2, 0x10, 1, 0x1a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1,
        ])
        .unwrap();
        assert_eq!(huge.record_len(), None, "the length overflows");
    }
}
