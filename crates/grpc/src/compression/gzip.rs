//! The gzip format of compressed messages.
//!
//! ```text
//!   1f 8b 08  08     00 00 00 00  00 ff  6e 61 6d 65 00  4b cb cf 07 00  21 65 73 8c  03 00 00 00
//!   deflate   flags  time         level  "name"          "foo" deflated  CRC-32       length
//!             └ a name follows
//! ```
//!
//! A message may consist of several such members; their contents are concatenated. The decompressed
//! length is not known beforehand: the caller gives a bound, and no more bytes than that are
//! produced.
//!
//! The error texts are those of Go's packages, because clients see them. Only the offset in
//! "corrupt input" may differ, as the decoders notice corruption at different positions.

use std::cell::RefCell;

use flate2::{Compress, Compression, Crc, Decompress, FlushCompress, FlushDecompress, Status};

const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];
/// The length of the fixed part of a header.
const HEADER_BYTES: usize = 10;
/// The header that Go writes: no name, no time, unknown system.
const HEADER: [u8; HEADER_BYTES] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
/// Flags of the optional parts of a header.
const HAS_CHECKSUM: u8 = 1 << 1;
const HAS_EXTRA: u8 = 1 << 2;
const HAS_NAME: u8 = 1 << 3;
const HAS_COMMENT: u8 = 1 << 4;
/// The length of the longest name or comment, as in Go.
const TEXT_BYTES_MAX: usize = 511;
/// The first allocation of an output, which then doubles.
const STEP_BYTES: usize = 1 << 10;

/// The reason why decompression failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    /// The input is empty.
    #[error("EOF")]
    Empty,
    /// The input ends within a member.
    #[error("unexpected EOF")]
    UnexpectedEof,
    /// The header is malformed.
    #[error("gzip: invalid header")]
    Header,
    /// The checksum or length does not match the contents.
    #[error("gzip: invalid checksum")]
    Checksum,
    /// The deflate stream is malformed.
    #[error("flate: corrupt input before offset {0}")]
    Corrupt(u64),
}

/// The result of decompressing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decompressed {
    /// The whole contents.
    Complete(Vec<u8>),
    /// The contents exceed the bound.
    TooLarge,
    /// The first header is invalid.
    InvalidHeader(Error),
    /// A later part is corrupt.
    Corrupt(Error),
}

/// Decompresses to at most `bytes_max` bytes.
pub(crate) fn decompress(compressed: &[u8], bytes_max: usize) -> Decompressed {
    let mut rest = compressed;
    if let Err(error) = skip_header(&mut rest) {
        return Decompressed::InvalidHeader(error);
    }
    let mut out = Vec::new();
    loop {
        match member(&mut rest, &mut out, bytes_max) {
            Ok(true) => {}
            Ok(false) => return Decompressed::TooLarge,
            Err(error) => return Decompressed::Corrupt(error),
        }
        match skip_header(&mut rest) {
            Ok(()) => {}
            Err(Error::Empty) => return Decompressed::Complete(out),
            Err(error) => return Decompressed::Corrupt(error),
        }
    }
}

/// Skips the header of a member.
fn skip_header(rest: &mut &[u8]) -> Result<(), Error> {
    let all = *rest;
    if all.is_empty() {
        return Err(Error::Empty);
    }
    let header: [u8; HEADER_BYTES] = take(rest)?;
    if header[..MAGIC.len()] != MAGIC {
        return Err(Error::Header);
    }
    let flags = header[MAGIC.len()];
    if flags & HAS_EXTRA != 0 {
        let length = u16::from_le_bytes(take(rest)?);
        *rest = rest.get(usize::from(length)..).ok_or(Error::UnexpectedEof)?;
    }
    for text in [HAS_NAME, HAS_COMMENT] {
        if flags & text != 0 {
            skip_text(rest)?;
        }
    }
    if flags & HAS_CHECKSUM != 0 {
        let sum = crc(&all[..all.len() - rest.len()]).to_le_bytes();
        let stored: [u8; 2] = take(rest)?;
        if stored != sum[..stored.len()] {
            return Err(Error::Header);
        }
    }
    Ok(())
}

/// Skips a zero-terminated text.
fn skip_text(rest: &mut &[u8]) -> Result<(), Error> {
    let within = &rest[..rest.len().min(TEXT_BYTES_MAX + 1)];
    match within.iter().position(|byte| *byte == 0) {
        Some(end) => *rest = &rest[end + 1..],
        None if within.len() > TEXT_BYTES_MAX => return Err(Error::Header),
        None => return Err(Error::UnexpectedEof),
    }
    Ok(())
}

/// Appends the contents of one member. Returns false if they exceed the bound.
fn member(rest: &mut &[u8], out: &mut Vec<u8>, bytes_max: usize) -> Result<bool, Error> {
    let start = out.len();
    if !inflate(rest, out, bytes_max)? {
        return Ok(false);
    }
    let contents = &out[start..];
    let (sum, length): ([u8; 4], [u8; 4]) = (take(rest)?, take(rest)?);
    let length = u32::from_le_bytes(length) as usize;
    let matches = crc(contents).to_le_bytes() == sum && contents.len() == length;
    if matches { Ok(true) } else { Err(Error::Checksum) }
}

/// Appends the contents of a deflate stream. Returns false if they exceed the bound.
fn inflate(rest: &mut &[u8], out: &mut Vec<u8>, bytes_max: usize) -> Result<bool, Error> {
    let mut decompress = Decompress::new(false);
    let mut read = 0;
    loop {
        // One byte beyond the bound, to notice that there is more.
        let room = bytes_max.saturating_add(1) - out.len();
        out.reserve_exact(room.min(out.len().max(STEP_BYTES)));
        let before = out.len();
        let status = decompress.decompress_vec(rest, out, FlushDecompress::None);
        let status = status.map_err(|_| Error::Corrupt(decompress.total_in()))?;
        let consumed = usize::try_from(decompress.total_in() - read).unwrap_or(rest.len());
        read = decompress.total_in();
        *rest = &rest[consumed..];
        let is_stuck = consumed == 0 && out.len() == before;
        match status {
            _ if out.len() > bytes_max => return Ok(false),
            Status::StreamEnd => return Ok(true),
            _ if is_stuck => return Err(Error::UnexpectedEof),
            Status::Ok | Status::BufError => {}
        }
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Error> {
    let (first, remaining) = rest.split_first_chunk().ok_or(Error::UnexpectedEof)?;
    *rest = remaining;
    Ok(*first)
}

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

thread_local! {
    /// The state of the compressor takes hundreds of kilobytes, so each thread reuses its own.
    static COMPRESS: RefCell<Compress> = RefCell::new(Compress::new(Compression::default(), false));
}

/// Appends the compressed bytes as one member.
pub(crate) fn compress(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&HEADER);
    COMPRESS.with_borrow_mut(|compress| {
        compress.reset();
        deflate(compress, bytes, out);
    });
    out.extend_from_slice(&crc(bytes).to_le_bytes());
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the format stores the length modulo 2^32"
    )]
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
        // Compression cannot fail, and there is always room: any other status is the end.
        if !matches!(status, Ok(Status::Ok | Status::BufError)) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compressed(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        compress(bytes, &mut out);
        out
    }

    /// The member drawn in the module documentation: "foo" with a name.
    const EXAMPLE: &[u8] =
        b"\x1f\x8b\x08\x08\0\0\0\0\0\xffname\0\x4b\xcb\xcf\x07\0\x21\x65\x73\x8c\x03\0\0\0";

    #[test]
    fn compressed_bytes_decompress_to_the_original() {
        let noise: Vec<u8> = (0u32..100_000).map(|n| n.wrapping_mul(n).to_le_bytes()[1]).collect();
        for bytes in [&b""[..], b"foo", &[0; 1 << 20], &noise] {
            assert_eq!(
                decompress(&compressed(bytes), bytes.len()),
                Decompressed::Complete(bytes.to_vec())
            );
        }
        assert_eq!(decompress(EXAMPLE, 3), Decompressed::Complete(b"foo".to_vec()));
    }

    #[test]
    fn several_members_are_concatenated() {
        let both = [compressed(b"foo"), EXAMPLE.to_vec()].concat();
        assert_eq!(decompress(&both, 6), Decompressed::Complete(b"foofoo".to_vec()));
        assert_eq!(decompress(&both, 5), Decompressed::TooLarge);
    }

    #[test]
    fn output_stops_at_the_bound() {
        let bomb = compressed(&[0; 16 << 20]);
        assert!(bomb.len() < 64 << 10, "{}", bomb.len());
        assert_eq!(decompress(&bomb, 1 << 20), Decompressed::TooLarge);
        let mut out = Vec::new();
        assert_eq!(inflate(&mut &bomb[HEADER_BYTES..], &mut out, 1 << 20), Ok(false));
        assert_eq!(out.len(), (1 << 20) + 1);
        assert!(out.capacity() <= 2 << 20, "{}", out.capacity());
    }

    #[test]
    fn malformed_input_is_refused_with_the_texts_of_go() {
        let text = |decompressed| match decompressed {
            Decompressed::InvalidHeader(error) => format!("header: {error}"),
            Decompressed::Corrupt(error) => format!("corrupt: {error}"),
            other => format!("{other:?}"),
        };
        let good = compressed(b"foo");
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            bytes
        };
        let end = good.len();
        for (bytes, expected) in [
            (vec![], "header: EOF"),
            (good[..9].to_vec(), "header: unexpected EOF"),
            (b"no gzip at all".to_vec(), "header: gzip: invalid header"),
            (with(2, 7), "header: gzip: invalid header"),
            (with(3, HAS_CHECKSUM), "header: gzip: invalid header"),
            (good[..12].to_vec(), "corrupt: unexpected EOF"),
            (good[..end - 1].to_vec(), "corrupt: unexpected EOF"),
            (with(10, 0xff), "corrupt: flate: corrupt input before offset 1"),
            (with(end - 8, 0), "corrupt: gzip: invalid checksum"),
            (with(end - 4, 4), "corrupt: gzip: invalid checksum"),
            ([&good[..], b"more and more"].concat(), "corrupt: gzip: invalid header"),
            ([&good[..], b"more"].concat(), "corrupt: unexpected EOF"),
        ] {
            assert_eq!(text(decompress(&bytes, 100)), expected, "{bytes:x?}");
        }
    }

    #[test]
    fn truncated_and_altered_input_never_panics() {
        for at in 0..EXAMPLE.len() {
            assert!(
                !matches!(decompress(&EXAMPLE[..at], 100), Decompressed::Complete(_)),
                "cut at {at}"
            );
            for byte in 0..=u8::MAX {
                let mut bytes = EXAMPLE.to_vec();
                bytes[at] = byte;
                let decompressed = decompress(&bytes, 1000);
                assert_ne!(decompressed, Decompressed::TooLarge, "{byte} at {at}");
            }
        }
    }
}
