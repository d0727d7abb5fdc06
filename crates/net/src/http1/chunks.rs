//! A chunked body: its sizes are parsed as by Go, and written again for hyper.

use bytes::BytesMut;

use super::fields::{is_field_value, split_field, trim_end};

/// The longest line of a chunk size with its extensions, and the longest trailer.
const LINE_BYTES_MAX: usize = 4096;
/// The bytes around the data that are tolerated beyond a proportion of the data.
const EXCESS_BYTES_MAX: u64 = 16 << 10;

/// The position in a chunked body.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    position: ChunkPosition,
    /// Bytes around the data, less what is normal for the data.
    excess: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ChunkPosition {
    /// Before a size.
    #[default]
    Size,
    /// In the data of a chunk.
    Data(u64),
    /// After the data.
    DataEnd,
    /// After the last size.
    Trailer,
    /// After the body.
    End,
}

/// The next step of the reader.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Pass on this many bytes of data.
    Data(u64),
    /// Read more bytes.
    Read,
    /// The body is complete.
    End,
}

impl Chunks {
    /// Consumes sizes and line ends up to the next data, and writes those for hyper.
    ///
    /// # Errors
    /// The body is malformed. The texts are Go's.
    pub(super) fn next(
        &mut self,
        input: &mut BytesMut,
        out: &mut BytesMut,
    ) -> Result<Next, &'static str> {
        loop {
            match self.position {
                ChunkPosition::Data(left) => return Ok(Next::Data(left)),
                ChunkPosition::End => return Ok(Next::End),
                ChunkPosition::Size => match take_line(input)? {
                    Some(line) => self.take_size(&line, out)?,
                    None => return Ok(Next::Read),
                },
                ChunkPosition::DataEnd | ChunkPosition::Trailer if input.len() < 2 => {
                    return Ok(Next::Read);
                }
                ChunkPosition::DataEnd => {
                    if *input.split_to(2) != b"\r\n"[..] {
                        return Err("malformed chunked encoding");
                    }
                    out.extend_from_slice(b"\r\n");
                    self.position = ChunkPosition::Size;
                }
                ChunkPosition::Trailer => match trailer_length(input)? {
                    Some(length) => {
                        let _ = input.split_to(length);
                        out.extend_from_slice(b"\r\n");
                        self.position = ChunkPosition::End;
                    }
                    None => return Ok(Next::Read),
                },
            }
        }
    }

    /// Counts data that was passed on.
    pub(super) fn pass(&mut self, size: u64) {
        if let ChunkPosition::Data(left) = self.position {
            let left = left.saturating_sub(size);
            self.position =
                if left == 0 { ChunkPosition::DataEnd } else { ChunkPosition::Data(left) };
        }
    }

    fn take_size(&mut self, line: &[u8], out: &mut BytesMut) -> Result<(), &'static str> {
        let size = size_of(line)?;
        // Compat: as in Go, 16 bytes per chunk and twice the data are normal.
        self.excess += line.len() as u64 + 2;
        self.excess = self.excess.saturating_sub(size.saturating_mul(2).saturating_add(16));
        if self.excess > EXCESS_BYTES_MAX {
            return Err("chunked encoding contains too much non-data");
        }
        out.extend_from_slice(format!("{size:x}\r\n").as_bytes());
        self.position = if size == 0 { ChunkPosition::Trailer } else { ChunkPosition::Data(size) };
        Ok(())
    }
}

/// Takes a line without its end, if there is one.
fn take_line(input: &mut BytesMut) -> Result<Option<BytesMut>, &'static str> {
    let window = &input[..input.len().min(LINE_BYTES_MAX)];
    let Some(end) = window.iter().position(|&byte| byte == b'\n') else {
        return if input.len() < LINE_BYTES_MAX { Ok(None) } else { Err("header line too long") };
    };
    match window[..end].iter().position(|&byte| byte == b'\r') {
        None => Err("chunked line ends with bare LF"),
        Some(at) if at + 1 != end => Err("invalid CR in chunked line"),
        Some(at) => {
            let mut line = input.split_to(end + 1);
            line.truncate(at);
            Ok(Some(line))
        }
    }
}

/// Parses a chunk size. Extensions are ignored.
fn size_of(line: &[u8]) -> Result<u64, &'static str> {
    let digits = trim_end(line).split(|&byte| byte == b';').next();
    let digits = digits.unwrap_or_default();
    if digits.is_empty() {
        return Err("empty hex number for chunk length");
    }
    let mut size = 0_u64;
    for (at, &byte) in digits.iter().enumerate() {
        let digit = char::from(byte).to_digit(16).ok_or("invalid byte in chunk length")?;
        if at == 16 {
            return Err("http chunk length too large");
        }
        size = size << 4 | u64::from(digit);
    }
    Ok(size)
}

/// Returns the length of the trailer with its end, if it is complete.
fn trailer_length(input: &[u8]) -> Result<Option<usize>, &'static str> {
    if input.starts_with(b"\r\n") {
        return Ok(Some(2));
    }
    let window = &input[..input.len().min(LINE_BYTES_MAX)];
    let Some(end) = window.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
        let is_full = window.len() == LINE_BYTES_MAX;
        let error = Err("http: suspiciously long trailer after chunked body");
        return if is_full { error } else { Ok(None) };
    };
    trailer_end(&window[..end + 4]).map(Some)
}

/// Returns the position after the blank line that ends a trailer. Its values are dropped.
///
/// Compat: as in Go, the fields are those of a head: a line may continue the one before it.
fn trailer_end(text: &[u8]) -> Result<usize, &'static str> {
    let mut end = 0;
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        let is_first = end == 0;
        end += line.len();
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let is_valid = match line {
            [] => return Ok(end),
            [b' ' | b'\t', rest @ ..] => !is_first && is_field_value(rest),
            line if !line.contains(&b':') => return Err("malformed MIME header: missing colon"),
            line => split_field(line).is_some(),
        };
        if !is_valid {
            return Err("malformed MIME header line");
        }
    }
    Ok(end)
}

#[cfg(test)]
mod tests;
