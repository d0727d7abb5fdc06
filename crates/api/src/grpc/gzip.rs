//! Messages that are compressed with gzip.
//!
//! ```text
//!   1f 8b 08   08      00 00 00 00   00 ff   6e 61 6d 65 00   4b cb cf 07 00   21 65 73 8c   03 00 00 00
//!   deflate    flags   time          level   "name"           deflate: "foo"   CRC-32        length
//!              └ a name follows
//! ```
//!
//! There may be several of these one after the other, which stand for what is in them together. How much comes out is not known before it has: it is
//! bounded by whoever asks, and no more than that is ever made.
//!
//! The words are those of Go's packages, since clients hear them. Only how far deflate has read when it notices damage may be told otherwise.

use std::cell::RefCell;

use flate2::{Compress, Compression, Crc, Decompress, FlushCompress, FlushDecompress, Status};

const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];
/// What every header has.
const HEADER_BYTES: usize = 10;
/// As Go writes it: no name, no time, made on some system.
const HEADER: [u8; HEADER_BYTES] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
/// What a header may have besides.
const HAS_CHECKSUM: u8 = 1 << 1;
const HAS_EXTRA: u8 = 1 << 2;
const HAS_NAME: u8 = 1 << 3;
const HAS_COMMENT: u8 = 1 << 4;
/// The longest name and comment, as in Go.
const TEXT_BYTES_MAX: usize = 511;
/// By how much an output grows at first. Then it doubles.
const STEP_BYTES: usize = 1 << 10;

/// Why something cannot be decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    /// There is nothing.
    #[error("EOF")]
    Nothing,
    /// It ends too early.
    #[error("unexpected EOF")]
    CutOff,
    /// It does not begin as it should.
    #[error("gzip: invalid header")]
    Header,
    /// It is not what was compressed.
    #[error("gzip: invalid checksum")]
    Checksum,
    /// It makes no sense.
    #[error("flate: corrupt input before offset {0}")]
    Corrupt(u64),
}

/// What came of decompressing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unpacked {
    /// All of it.
    Whole(Vec<u8>),
    /// There is more than was asked for.
    TooLarge,
    /// It is nothing that was compressed.
    NotBegun(Error),
    /// It went wrong on the way.
    Broken(Error),
}

/// Decompresses something, of which at most so many bytes are wanted.
pub(crate) fn unpack(packed: &[u8], bytes_max: usize) -> Unpacked {
    let mut rest = packed;
    if let Err(error) = skip_header(&mut rest) {
        return Unpacked::NotBegun(error);
    }
    let mut out = Vec::new();
    loop {
        match member(&mut rest, &mut out, bytes_max) {
            Ok(true) => {}
            Ok(false) => return Unpacked::TooLarge,
            Err(error) => return Unpacked::Broken(error),
        }
        match skip_header(&mut rest) {
            Ok(()) => {}
            Err(Error::Nothing) => return Unpacked::Whole(out),
            Err(error) => return Unpacked::Broken(error),
        }
    }
}

/// Reads up to what was compressed.
fn skip_header(rest: &mut &[u8]) -> Result<(), Error> {
    let all = *rest;
    if all.is_empty() {
        return Err(Error::Nothing);
    }
    let header: [u8; HEADER_BYTES] = take(rest)?;
    if header[..MAGIC.len()] != MAGIC {
        return Err(Error::Header);
    }
    let flags = header[MAGIC.len()];
    if flags & HAS_EXTRA != 0 {
        let length = u16::from_le_bytes(take(rest)?);
        *rest = rest.get(usize::from(length)..).ok_or(Error::CutOff)?;
    }
    for text in [HAS_NAME, HAS_COMMENT] {
        if flags & text != 0 {
            skip_text(rest)?;
        }
    }
    if flags & HAS_CHECKSUM != 0 {
        let sum = crc(&all[..all.len() - rest.len()]).to_le_bytes();
        let told: [u8; 2] = take(rest)?;
        if told != sum[..told.len()] {
            return Err(Error::Header);
        }
    }
    Ok(())
}

/// Reads up to the zero that ends a text.
fn skip_text(rest: &mut &[u8]) -> Result<(), Error> {
    let within = &rest[..rest.len().min(TEXT_BYTES_MAX + 1)];
    match within.iter().position(|byte| *byte == 0) {
        Some(end) => *rest = &rest[end + 1..],
        None if within.len() > TEXT_BYTES_MAX => return Err(Error::Header),
        None => return Err(Error::CutOff),
    }
    Ok(())
}

/// Appends what is in one member. False if that is more than there may be.
fn member(rest: &mut &[u8], out: &mut Vec<u8>, bytes_max: usize) -> Result<bool, Error> {
    let begun = out.len();
    if !inflate(rest, out, bytes_max)? {
        return Ok(false);
    }
    let unpacked = &out[begun..];
    let (sum, length): ([u8; 4], [u8; 4]) = (take(rest)?, take(rest)?);
    let length_told = u32::from_le_bytes(length) as usize;
    let is_same = crc(unpacked).to_le_bytes() == sum && unpacked.len() == length_told;
    if is_same { Ok(true) } else { Err(Error::Checksum) }
}

/// Appends what deflate has made shorter. False if that is more than there may be.
fn inflate(rest: &mut &[u8], out: &mut Vec<u8>, bytes_max: usize) -> Result<bool, Error> {
    let mut decompress = Decompress::new(false);
    let mut read = 0;
    loop {
        // A byte more, to see that there is one.
        let room = bytes_max.saturating_add(1) - out.len();
        out.reserve_exact(room.min(out.len().max(STEP_BYTES)));
        let before = out.len();
        let status = decompress.decompress_vec(rest, out, FlushDecompress::None);
        let status = status.map_err(|_| Error::Corrupt(decompress.total_in()))?;
        let consumed = usize::try_from(decompress.total_in() - read).unwrap_or(rest.len());
        read = decompress.total_in();
        *rest = &rest[consumed..];
        let stands_still = consumed == 0 && out.len() == before;
        match status {
            _ if out.len() > bytes_max => return Ok(false),
            Status::StreamEnd => return Ok(true),
            _ if stands_still => return Err(Error::CutOff),
            Status::Ok | Status::BufError => {}
        }
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Error> {
    let (first, behind) = rest.split_first_chunk().ok_or(Error::CutOff)?;
    *rest = behind;
    Ok(*first)
}

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

thread_local! {
    /// Takes hundreds of kilobytes, so it is used again.
    static COMPRESS: RefCell<Compress> = RefCell::new(Compress::new(Compression::default(), false));
}

/// Appends bytes, compressed.
pub(crate) fn pack(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&HEADER);
    COMPRESS.with_borrow_mut(|compress| {
        compress.reset();
        deflate(compress, bytes, out);
    });
    out.extend_from_slice(&crc(bytes).to_le_bytes());
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is what is told")]
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
}

fn deflate(compress: &mut Compress, bytes: &[u8], out: &mut Vec<u8>) {
    let mut rest = bytes;
    loop {
        out.reserve((rest.len() / 4).max(STEP_BYTES));
        let before = compress.total_in();
        let status = compress.compress_vec(rest, out, FlushCompress::Finish);
        let consumed = usize::try_from(compress.total_in() - before).unwrap_or(rest.len());
        rest = &rest[consumed..];
        // There is nothing that cannot be compressed, and there is always room.
        if !matches!(status, Ok(Status::Ok | Status::BufError)) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        pack(bytes, &mut out);
        out
    }

    /// "foo", with a name, as the module draws it.
    const DRAWN: &[u8] =
        b"\x1f\x8b\x08\x08\0\0\0\0\0\xffname\0\x4b\xcb\xcf\x07\0\x21\x65\x73\x8c\x03\0\0\0";

    #[test]
    fn what_was_packed_comes_out() {
        let noise: Vec<u8> = (0u32..100_000).map(|n| n.wrapping_mul(n).to_le_bytes()[1]).collect();
        for bytes in [&b""[..], b"foo", &[0; 1 << 20], &noise] {
            assert_eq!(unpack(&packed(bytes), bytes.len()), Unpacked::Whole(bytes.to_vec()));
        }
        assert_eq!(unpack(DRAWN, 3), Unpacked::Whole(b"foo".to_vec()));
    }

    #[test]
    fn several_stand_for_all_together() {
        let both = [packed(b"foo"), DRAWN.to_vec()].concat();
        assert_eq!(unpack(&both, 6), Unpacked::Whole(b"foofoo".to_vec()));
        assert_eq!(unpack(&both, 5), Unpacked::TooLarge);
    }

    #[test]
    fn no_more_comes_out_than_was_asked_for() {
        let bomb = packed(&[0; 16 << 20]);
        assert!(bomb.len() < 64 << 10, "{}", bomb.len());
        assert_eq!(unpack(&bomb, 1 << 20), Unpacked::TooLarge);
        let mut out = Vec::new();
        assert_eq!(inflate(&mut &bomb[HEADER_BYTES..], &mut out, 1 << 20), Ok(false));
        assert_eq!(out.len(), (1 << 20) + 1);
        assert!(out.capacity() <= 2 << 20, "{}", out.capacity());
    }

    #[test]
    fn what_cannot_be_read_is_told_as_go_tells_it() {
        let text = |unpacked| match unpacked {
            Unpacked::NotBegun(error) => format!("not begun: {error}"),
            Unpacked::Broken(error) => format!("broken: {error}"),
            other => format!("{other:?}"),
        };
        let good = packed(b"foo");
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            bytes
        };
        let end = good.len();
        for (bytes, told) in [
            (vec![], "not begun: EOF"),
            (good[..9].to_vec(), "not begun: unexpected EOF"),
            (b"no gzip at all".to_vec(), "not begun: gzip: invalid header"),
            (with(2, 7), "not begun: gzip: invalid header"),
            (with(3, HAS_CHECKSUM), "not begun: gzip: invalid header"),
            (good[..12].to_vec(), "broken: unexpected EOF"),
            (good[..end - 1].to_vec(), "broken: unexpected EOF"),
            (with(10, 0xff), "broken: flate: corrupt input before offset 1"),
            (with(end - 8, 0), "broken: gzip: invalid checksum"),
            (with(end - 4, 4), "broken: gzip: invalid checksum"),
            ([&good[..], b"more and more"].concat(), "broken: gzip: invalid header"),
            ([&good[..], b"more"].concat(), "broken: unexpected EOF"),
        ] {
            assert_eq!(text(unpack(&bytes, 100)), told, "{bytes:x?}");
        }
    }

    #[test]
    fn whatever_comes_is_read_or_refused() {
        for at in 0..DRAWN.len() {
            assert!(!matches!(unpack(&DRAWN[..at], 100), Unpacked::Whole(_)), "cut at {at}");
            for byte in 0..=u8::MAX {
                let mut bytes = DRAWN.to_vec();
                bytes[at] = byte;
                let unpacked = unpack(&bytes, 1000);
                assert_ne!(unpacked, Unpacked::TooLarge, "{byte} at {at}");
            }
        }
    }
}
