//! A file seen through a small buffer.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use crc32c::crc32c_append;
use env::File;

use crate::error::Failure;
use crate::segment::Segment;

/// How much of a file is read at a time.
const WINDOW_BYTES: usize = 64 << 10;

/// A file seen through a buffer of [`WINDOW_BYTES`]. The file has the length that it had at first, should somebody
/// else write to it.
#[derive(Debug)]
pub(crate) struct Window {
    file: Arc<dyn File>,
    name: PathBuf,
    len: u64,
    /// The offset of the buffer in the file.
    start: u64,
    buffer: Vec<u8>,
}

impl Window {
    pub(crate) fn new(segment: &Segment) -> Result<Window, Failure> {
        let name = PathBuf::from(segment.name.to_string());
        let file = Arc::clone(&segment.file);
        let len = file.len().map_err(|e| Failure::new("measure", &name, e))?;
        Ok(Window { file, name, len, start: 0, buffer: Vec::new() })
    }

    /// The length of the file.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Some bytes of the file, which must have them; no more than a window holds.
    pub(crate) fn get(&mut self, offset: u64, len: u64) -> Result<&[u8], Failure> {
        let wanted = usize::try_from(len).expect("a window is small");
        assert!(wanted <= WINDOW_BYTES && offset + len <= self.len, "bytes that are in the file");
        if offset < self.start || offset + len > self.start + self.buffer.len() as u64 {
            self.fill(offset)?;
        }
        let at = usize::try_from(offset - self.start).expect("a window is small");
        Ok(&self.buffer[at..at + wanted])
    }

    pub(crate) fn u64_at(&mut self, offset: u64) -> Result<u64, Failure> {
        let bytes = self.get(offset, 8)?;
        Ok(u64::from_le_bytes(bytes.try_into().expect("8 bytes were asked for")))
    }

    /// A copy of some bytes of the file, which must have them.
    pub(crate) fn read(&mut self, offset: u64, len: u64) -> Result<Bytes, Failure> {
        if len <= WINDOW_BYTES as u64 {
            return Ok(Bytes::copy_from_slice(self.get(offset, len)?));
        }
        assert!(offset + len <= self.len, "bytes that are in the file");
        let len = usize::try_from(len).map_err(|e| self.failure(std::io::Error::other(e)))?;
        let mut bytes = vec![0; len];
        self.file.read_exact_at(&mut bytes, offset).map_err(|e| self.failure(e))?;
        Ok(bytes.into())
    }

    /// The checksum of some bytes of the file, which must have them, going on from another.
    pub(crate) fn crc(&mut self, mut crc: u32, mut offset: u64, len: u64) -> Result<u32, Failure> {
        let end = offset + len;
        while offset < end {
            let part = self.get(offset, (end - offset).min(WINDOW_BYTES as u64))?;
            offset += part.len() as u64;
            crc = crc32c_append(crc, part);
        }
        Ok(crc)
    }

    /// Where the last byte is, from an offset on, that is not zero.
    pub(crate) fn last_nonzero(&mut self, offset: u64) -> Result<Option<u64>, Failure> {
        let mut last = None;
        for Range { start, end } in self.written(offset)? {
            last = self.last_nonzero_in(start, end)?.or(last);
        }
        Ok(last)
    }

    fn last_nonzero_in(&mut self, mut offset: u64, end: u64) -> Result<Option<u64>, Failure> {
        let mut last = None;
        while offset < end {
            let part = self.get(offset, (end - offset).min(WINDOW_BYTES as u64))?;
            let next = offset + part.len() as u64;
            // Most of a segment is zeros, and all of them are looked at at every start: this the compiler does many at a time.
            if part.iter().fold(0, |any, byte| any | byte) != 0 {
                last = part.iter().rposition(|&byte| byte != 0).map(|at| offset + at as u64);
            }
            offset = next;
        }
        Ok(last)
    }

    /// Where something may be, from an offset on, other than zeros that were never written.
    fn written(&self, mut offset: u64) -> Result<Vec<Range<u64>>, Failure> {
        let mut written = Vec::new();
        while let Some(Range { start, end }) =
            self.file.next_written(offset).map_err(|e| self.failure(e))?
            && start < self.len
        {
            written.push(start..end.min(self.len));
            offset = end;
        }
        Ok(written)
    }

    fn fill(&mut self, offset: u64) -> Result<(), Failure> {
        let len =
            usize::try_from((self.len - offset).min(WINDOW_BYTES as u64)).expect("it is small");
        self.buffer.resize(len, 0);
        self.start = offset;
        match self.file.read_exact_at(&mut self.buffer, offset) {
            Ok(()) => Ok(()),
            Err(error) => {
                self.buffer.clear();
                Err(self.failure(error))
            }
        }
    }

    fn failure(&self, error: std::io::Error) -> Failure {
        Failure::new("read", &self.name, error)
    }
}
