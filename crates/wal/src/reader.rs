//! Reads records, and tells a write that was cut short from damage.
//!
//! # What a power cut leaves behind
//!
//! A segment is full of zeros before it is written. A disk keeps or loses whole sectors of 512 bytes, so after a power
//! cut each sector that was not synced shows some earlier state of itself, and every state is *records up to some
//! point, then zeros*:
//!
//! ```text
//!             sector 7                 sector 8                 sector 9
//!  written    ...records|len|body..... |.....body.....|len|body |...body|
//!  found      ...records|len|body..... |0000000000000000000000000|...body|     torn: sector 8 was lost
//!  found      ...records|00000000000000|.....body.....|len|body |...body|     the end: sector 7 was lost
//! ```
//!
//! From this follow the rules, for the last segment. Closed segments were synced whole, and there nothing is torn.
//!
//! - A length field is never half there: it is zero, or what was written. One that no writer would write is damage, not
//!   a torn write.
//! - A length that is more than a record can be, 1 GiB, was never written, whether the file is that long or not: damage.
//! - Whatever shares a sector with a length field that is there, and belongs to the same record, is there too. If the
//!   start of the record, which tells its length once more, is there and contradicts the length field, that is damage.
//! - A record whose data does not match its checksum is torn only if a whole sector after the one with its length field
//!   is zero: that is how a lost sector looks. Otherwise it is damage.
//! - A length field that is zero ends the log, unless the record behind it, in the same sector, is whole and matches
//!   its checksum: then the length field was damaged.
//!
//! etcd asks less: to it a length beyond the file's end is always torn, and so is a bad checksum if any sector's share
//! of the record is zero, however small. With its rules, one flipped bit in a length field can make a member drop
//! acknowledged entries from its log. What remains for us, because the bytes allow no better: a bit that flips in the
//! last segment, in a record that really holds a whole sector of zeros, looks like a write that was cut short; and so
//! does a length field that becomes zero, if it stands in the last 8 bytes of its sector.

use std::path::Path;

use bytes::Bytes;
use crc32c::crc32c_append;
use env::Disk;

use crate::error::{OpenError, Place, ReadError};
use crate::frame::{
    self, HEADER_BYTES_MAX, Header, Kind, LENGTH_BYTES, NoHeader, RECORD_BYTES_MAX,
};
use crate::segment::{self, Segment};
use crate::window::Window;

/// What a disk writes whole or not at all.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// Why a record whose start is not all there is torn.
const CUT_SHORT: &str = "the file ends in the start of a record";

/// A record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What the data is.
    pub kind: Kind,
    /// The checksum over the data of this and all earlier records.
    pub crc: u32,
    /// The encoded message.
    pub data: Bytes,
    /// Where it is.
    pub place: Place,
}

/// Reads the records of segments one by one, through a bounded buffer, and checks what binds them together.
#[derive(Debug)]
pub struct Records {
    segments: Vec<Segment>,
    /// The segment being read.
    current: usize,
    window: Window,
    /// Where the next frame begins.
    offset: u64,
    /// How many records of this segment have been read.
    seen: u64,
    /// The checksum so far.
    crc: u32,
}

/// What is at the place of a frame.
enum Frame {
    Record(Header, u64),
    End,
}

impl Records {
    /// All records of all segments in a folder, without locks.
    pub fn open(disk: &dyn Disk, dir: &Path) -> Result<Records, ReadError> {
        let names = segment::list(disk, dir)?;
        Ok(Records::new(segment::open_to_read(disk, dir, &names)?)?)
    }

    /// The records of some segments in a row.
    pub(crate) fn new(segments: Vec<Segment>) -> Result<Records, OpenError> {
        let first = segments.first().ok_or(OpenError::FileNotFound)?;
        let window = Window::new(first)?;
        Ok(Records { segments, current: 0, window, offset: 0, seen: 0, crc: 0 })
    }

    /// The next record; nothing at the end of the log.
    #[expect(
        clippy::should_implement_trait,
        reason = "after an error there is nothing to go on to"
    )]
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

    /// Where the next record would begin.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The checksum up to here.
    pub(crate) fn crc(&self) -> u32 {
        self.crc
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    pub(crate) fn into_segments(self) -> Vec<Segment> {
        self.segments
    }

    /// Where the last byte is, of those from the current offset on, that is not zero.
    pub(crate) fn last_used(&mut self) -> Result<Option<u64>, ReadError> {
        Ok(self.window.last_nonzero(self.offset)?)
    }

    fn is_last(&self) -> bool {
        self.current + 1 == self.segments.len()
    }

    fn place(&self) -> Place {
        Place { file: self.segments[self.current].name.to_string(), offset: self.offset }
    }

    fn damaged(&self, why: &'static str) -> ReadError {
        ReadError::Damaged { place: self.place(), why }
    }

    /// A write that was cut short; where there can be none, damage.
    fn torn(&self, why: &'static str) -> ReadError {
        if self.is_last() && self.seen >= 2 {
            ReadError::Torn { place: self.place(), why }
        } else {
            self.damaged(why)
        }
    }

    /// Looks at the next frame up to the data.
    fn frame(&mut self) -> Result<Frame, ReadError> {
        let left = self.window.len() - self.offset;
        if left < LENGTH_BYTES {
            let rest = self.window.get(self.offset, left)?;
            let unused = rest.iter().all(|&byte| byte == 0);
            return if unused {
                Ok(Frame::End)
            } else {
                Err(self.torn("the file ends in a length field"))
            };
        }
        let field = self.window.u64_at(self.offset)?;
        if field == 0 {
            return self.zero_length();
        }
        let Some((len, pad)) = frame::decode_length(field) else {
            return Err(self.damaged("the length field is not one that is written"));
        };
        if len > RECORD_BYTES_MAX {
            return Err(self.damaged("the length field tells of more than a record can be"));
        }
        let frame_len = LENGTH_BYTES + len + pad;
        let fits = frame_len <= left;
        let header = self.header(len, fits)?;
        if fits {
            Ok(Frame::Record(header, frame_len))
        } else {
            Err(self.torn("the file ends in a record"))
        }
    }

    /// The start of a record whose length field says `len`, which `fits` into the file or does not.
    fn header(&mut self, len: u64, fits: bool) -> Result<Header, ReadError> {
        let start = self.offset + LENGTH_BYTES;
        let wanted = len.min(HEADER_BYTES_MAX).min(self.window.len() - start);
        match Header::decode(self.window.get(start, wanted)?) {
            Ok(header) if header.record_len() == Some(len) => Ok(header),
            Err(NoHeader::Short) if !fits => Err(self.torn(CUT_SHORT)),
            // It looks whole because the file ends right before the size of the data.
            Ok(header) if !fits && header.len == wanted => Err(self.torn(CUT_SHORT)),
            _ if self.lost_sector(start + wanted)? => Err(self.torn("a sector is zero")),
            _ => Err(self.damaged("the record and its length field disagree")),
        }
    }

    /// Whether any sector after the one with the length field, up to `end`, is zero.
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

    /// The end of the log, or a length field that became zero.
    fn zero_length(&mut self) -> Result<Frame, ReadError> {
        let start = self.offset + LENGTH_BYTES;
        // With the record in the next sector, the one with the length field may well have been lost.
        if !start.is_multiple_of(SECTOR_BYTES) && self.whole_record_at(start)? {
            return Err(self.damaged("the length field is zero, and a record follows"));
        }
        Ok(Frame::End)
    }

    /// Whether a record begins here that matches its checksum, whatever its length field says.
    fn whole_record_at(&mut self, start: u64) -> Result<bool, ReadError> {
        let left = self.window.len() - start;
        let Ok(header) = Header::decode(self.window.get(start, left.min(HEADER_BYTES_MAX))?) else {
            return Ok(false);
        };
        let fits = header.record_len().is_some_and(|len| len <= left.min(RECORD_BYTES_MAX));
        Ok(fits && self.window.crc(self.crc, start + header.len, header.data_len)? == header.crc)
    }

    /// Reads the data behind a header, and goes past the frame.
    fn record(&mut self, header: Header, frame_len: u64) -> Result<Record, ReadError> {
        let place = self.place();
        let data_at = self.offset + LENGTH_BYTES + header.len;
        let data = self.window.read(data_at, header.data_len)?;
        let kind = self.check_kind(&header)?;
        let crc = if kind == Kind::Crc {
            self.segment_crc(&header)
        } else {
            crc32c_append(self.crc, &data)
        };
        if crc != header.crc {
            return Err(match self.is_last() && self.lost_sector(data_at + header.data_len)? {
                true => self.torn("a sector is zero"),
                false => ReadError::Crc { place, expected: header.crc, computed: crc },
            });
        }
        self.crc = crc;
        self.offset += frame_len;
        self.seen += 1;
        Ok(Record { kind, crc, data, place })
    }

    /// What a segment must start from: where the one before ended. The first to be read starts from what it says.
    fn segment_crc(&self, header: &Header) -> u32 {
        if self.current == 0 { header.crc } else { self.crc }
    }

    /// Each segment starts with a checksum and metadata, and has them nowhere else. The kind of a record is under no
    /// checksum, so this is what notices when it changes.
    fn check_kind(&self, header: &Header) -> Result<Kind, ReadError> {
        let Some(kind) = Kind::from_number(header.kind) else {
            return Err(ReadError::UnknownKind { place: self.place(), kind: header.kind });
        };
        let expected = match self.seen {
            0 => kind == Kind::Crc && header.data_len == 0,
            1 => kind == Kind::Metadata,
            _ => !matches!(kind, Kind::Crc | Kind::Metadata),
        };
        if expected { Ok(kind) } else { Err(self.damaged("no record of this kind belongs here")) }
    }

    /// A segment has at least its start, and a closed one has nothing behind its end.
    fn check_end(&mut self) -> Result<(), ReadError> {
        if self.seen < 2 {
            return Err(self.damaged("the segment ends before it has begun"));
        }
        if !self.is_last() && self.last_used()?.is_some() {
            return Err(self.damaged("a closed segment goes on after its end"));
        }
        Ok(())
    }
}

impl Record {
    /// An error about the contents of this record.
    pub(crate) fn damaged(&self, why: &'static str) -> ReadError {
        ReadError::Damaged { place: self.place.clone(), why }
    }
}
