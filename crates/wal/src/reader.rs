//! Reads records, and distinguishes torn writes from corruption.
//!
//! # State after a power cut
//!
//! A segment is full of zeros before it is written. A disk keeps or loses whole sectors of 512
//! bytes, so after a power cut each unsynced sector shows some earlier state, and every state is
//! *records up to some point, then zeros*:
//!
//! ```text
//!             sector 7                 sector 8                 sector 9
//!  written    ...records|len|body..... |.....body.....|len|body |...body|
//!  found      ...records|len|body..... |0000000000000000000000000|...body| torn: sector 8 was lost
//!  found      ...records|00000000000000|.....body.....|len|body |...body|  end: sector 7 was lost
//! ```
//!
//! These rules follow for the last segment. Closed segments were synced entirely, and nothing in
//! them is torn.
//!
//! - A length field is never partial: it is zero, or as written. A value that no writer produces is
//!   corruption, not a torn write.
//! - A length above the maximum of a record, 1 GiB, was never written, whether or not the file is
//!   that long: corruption.
//! - Bytes of a record that share a sector with its intact length field are intact too. If the
//!   start of the record, which repeats its length, is there and contradicts the length field, that
//!   is corruption.
//! - A record whose data does not match its checksum is torn only if a whole sector after the one
//!   with its length field is zero, as a lost sector is. Otherwise it is corrupt.
//! - A zero length field ends the log, unless the record after it, in the same sector, is complete
//!   and matches its checksum: then the length field is corrupt.
//!
//! etcd is less strict: it takes a length beyond the end of the file for a torn write, and also a
//! bad checksum if any sector's share of the record is zero, however small. By its rules, one
//! flipped bit in a length field can make a member drop acknowledged entries. Two cases remain
//! undetected here, because the bytes allow no better: a bit that flips in the last segment, in a
//! record that really holds a whole sector of zeros, looks like a torn write; and so does a length
//! field that becomes zero, if it occupies the last 8 bytes of its sector.

use std::path::Path;

use bytes::Bytes;
use crc32c::crc32c_append;
use env::Disk;

use crate::error::{OpenError, ReadError, RecordLocation};
use crate::frame::{
    self, HEADER_BYTES_MAX, Header, HeaderError, LENGTH_BYTES, RECORD_BYTES_MAX, RecordKind,
};
use crate::segment::{self, Segment};
use crate::window::Window;

/// Size of a sector, in bytes: the unit that a disk writes atomically.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// Error of a record whose header is incomplete at the end of the file.
const CUT_SHORT: &str = "the file ends within a record header";

/// A record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Type of the record.
    pub kind: RecordKind,
    /// The checksum over the data of this and all earlier records.
    pub crc: u32,
    /// The encoded message.
    pub data: Bytes,
    /// Location of the record.
    pub location: RecordLocation,
}

/// Reads the records of segments one by one, through a bounded buffer, and verifies checksums and
/// order.
#[derive(Debug)]
pub struct Records {
    segments: Vec<Segment>,
    /// Index of the segment being read.
    current: usize,
    window: Window,
    /// Offset of the next frame.
    offset: u64,
    /// Number of records read from this segment.
    seen: u64,
    /// The running checksum.
    crc: u32,
}

/// Result of decoding a frame.
enum Frame {
    Record(Header, u64),
    End,
}

impl Records {
    /// Opens all segments in a directory, without locks.
    pub fn open(disk: &dyn Disk, dir: &Path) -> Result<Records, ReadError> {
        let names = segment::list(disk, dir)?;
        Ok(Records::new(segment::open_to_read(disk, dir, &names)?)?)
    }

    /// Reads the given consecutive segments.
    pub(crate) fn new(segments: Vec<Segment>) -> Result<Records, OpenError> {
        let first = segments.first().ok_or(OpenError::FileNotFound)?;
        let window = Window::new(first)?;
        Ok(Records { segments, current: 0, window, offset: 0, seen: 0, crc: 0 })
    }

    /// Returns the next record, or `None` at the end of the log.
    #[expect(clippy::should_implement_trait, reason = "reading cannot continue after an error")]
    pub fn next(&mut self) -> Result<Option<Record>, ReadError> {
        loop {
            if let Frame::Record(header, frame_len) = self.frame()? {
                return self.record(header, frame_len).map(Some);
            }
            self.check_end()?;
            if self.is_last() {
                return Ok(None);
            }
            self.current += 1;
            self.window = Window::new(&self.segments[self.current])?;
            self.offset = 0;
            self.seen = 0;
        }
    }

    /// Offset at which the next record would begin.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The running checksum up to here.
    pub(crate) fn crc(&self) -> u32 {
        self.crc
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    pub(crate) fn into_segments(self) -> Vec<Segment> {
        self.segments
    }

    /// Offset of the last nonzero byte from the current offset on.
    pub(crate) fn last_used(&mut self) -> Result<Option<u64>, ReadError> {
        Ok(self.window.last_nonzero(self.offset)?)
    }

    fn is_last(&self) -> bool {
        self.current + 1 == self.segments.len()
    }

    fn location(&self) -> RecordLocation {
        RecordLocation { file: self.segments[self.current].name.to_string(), offset: self.offset }
    }

    fn corrupt(&self, reason: &'static str) -> ReadError {
        ReadError::Corrupt { location: self.location(), reason }
    }

    /// Returns the error of a torn write, or of corruption where no torn write is possible.
    fn torn(&self, reason: &'static str) -> ReadError {
        if self.is_last() && self.seen >= 2 {
            ReadError::Torn { location: self.location(), reason }
        } else {
            self.corrupt(reason)
        }
    }

    /// Decodes the next frame up to its data.
    fn frame(&mut self) -> Result<Frame, ReadError> {
        let left = self.window.len() - self.offset;
        if left < LENGTH_BYTES {
            let rest = self.window.get(self.offset, left)?;
            let unused = rest.iter().all(|&byte| byte == 0);
            return if unused {
                Ok(Frame::End)
            } else {
                Err(self.torn("the file ends within a length field"))
            };
        }
        let field = self.window.u64_at(self.offset)?;
        if field == 0 {
            return self.zero_length();
        }
        let Some((len, pad)) = frame::decode_length(field) else {
            return Err(self.corrupt("invalid length field"));
        };
        if len > RECORD_BYTES_MAX {
            return Err(self.corrupt("length field exceeds the maximum record size"));
        }
        let frame_len = LENGTH_BYTES + len + pad;
        let fits = frame_len <= left;
        let header = self.header(len, fits)?;
        if fits {
            Ok(Frame::Record(header, frame_len))
        } else {
            Err(self.torn("the file ends within a record"))
        }
    }

    /// Decodes the header of a record with the length `len`, which `fits` into the file or not.
    fn header(&mut self, len: u64, fits: bool) -> Result<Header, ReadError> {
        let start = self.offset + LENGTH_BYTES;
        let wanted = len.min(HEADER_BYTES_MAX).min(self.window.len() - start);
        match Header::decode(self.window.get(start, wanted)?) {
            Ok(header) if header.record_len() == Some(len) => Ok(header),
            Err(HeaderError::Short) if !fits => Err(self.torn(CUT_SHORT)),
            // The header looks complete because the file ends right before the size of the data.
            Ok(header) if !fits && header.len == wanted => Err(self.torn(CUT_SHORT)),
            _ if self.lost_sector(start + wanted)? => Err(self.torn("a sector is zero")),
            _ => Err(self.corrupt("record length differs from its length field")),
        }
    }

    /// Reports whether any sector after the one with the length field, up to `end`, is zero.
    fn lost_sector(&mut self, end: u64) -> Result<bool, ReadError> {
        let mut sector = (self.offset / SECTOR_BYTES + 1) * SECTOR_BYTES;
        while sector < end {
            let len = SECTOR_BYTES.min(self.window.len() - sector);
            if self.window.get(sector, len)?.iter().all(|&byte| byte == 0) {
                return Ok(true);
            }
            sector += SECTOR_BYTES;
        }
        Ok(false)
    }

    /// Handles a zero length field: the end of the log, or a corrupt length field.
    fn zero_length(&mut self) -> Result<Frame, ReadError> {
        let start = self.offset + LENGTH_BYTES;
        // If the record starts in the next sector, the sector with the length field may have been
        // lost.
        if !start.is_multiple_of(SECTOR_BYTES) && self.valid_record_at(start)? {
            return Err(self.corrupt("zero length field before a valid record"));
        }
        Ok(Frame::End)
    }

    /// Reports whether a record that matches its checksum begins at `start`, whatever its length
    /// field says.
    fn valid_record_at(&mut self, start: u64) -> Result<bool, ReadError> {
        let left = self.window.len() - start;
        let Ok(header) = Header::decode(self.window.get(start, left.min(HEADER_BYTES_MAX))?) else {
            return Ok(false);
        };
        let fits = header.record_len().is_some_and(|len| len <= left.min(RECORD_BYTES_MAX));
        Ok(fits && self.window.crc(self.crc, start + header.len, header.data_len)? == header.crc)
    }

    /// Reads the data after a header and moves past the frame.
    fn record(&mut self, header: Header, frame_len: u64) -> Result<Record, ReadError> {
        let location = self.location();
        let data_at = self.offset + LENGTH_BYTES + header.len;
        let data = self.window.read(data_at, header.data_len)?;
        let kind = self.check_kind(&header)?;
        let crc = if kind == RecordKind::Crc {
            self.segment_crc(&header)
        } else {
            crc32c_append(self.crc, &data)
        };
        if crc != header.crc {
            return Err(match self.is_last() && self.lost_sector(data_at + header.data_len)? {
                true => self.torn("a sector is zero"),
                false => ReadError::Crc { location, expected: header.crc, computed: crc },
            });
        }
        self.crc = crc;
        self.offset += frame_len;
        self.seen += 1;
        Ok(Record { kind, crc, data, location })
    }

    /// Checksum that a segment must start with: that at the end of the previous one. The first
    /// segment read determines its own.
    fn segment_crc(&self, header: &Header) -> u32 {
        if self.current == 0 { header.crc } else { self.crc }
    }

    /// Verifies the kind of a record: each segment starts with a checksum and metadata, and has
    /// them nowhere else. No checksum covers the kind, so this detects a flipped bit in it.
    fn check_kind(&self, header: &Header) -> Result<RecordKind, ReadError> {
        let Some(kind) = RecordKind::from_number(header.kind) else {
            return Err(ReadError::UnknownKind { location: self.location(), kind: header.kind });
        };
        let expected = match self.seen {
            0 => kind == RecordKind::Crc && header.data_len == 0,
            1 => kind == RecordKind::Metadata,
            _ => !matches!(kind, RecordKind::Crc | RecordKind::Metadata),
        };
        if expected {
            Ok(kind)
        } else {
            Err(self.corrupt("unexpected record kind at this position"))
        }
    }

    /// Verifies that the segment has its first two records, and that a closed one has nothing after
    /// its end.
    fn check_end(&mut self) -> Result<(), ReadError> {
        if self.seen < 2 {
            return Err(self.corrupt("segment ends before its first two records"));
        }
        if !self.is_last() && self.last_used()?.is_some() {
            return Err(self.corrupt("data after the end of a closed segment"));
        }
        Ok(())
    }
}

impl Record {
    /// Creates an error about the contents of this record.
    pub(crate) fn corrupt(&self, reason: &'static str) -> ReadError {
        ReadError::Corrupt { location: self.location.clone(), reason }
    }
}
