//! Buffered random access to a file.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use crc32c::crc32c_append;
use env::File;

use crate::error::DiskError;
use crate::segment::Segment;

/// Buffer size, in bytes.
const WINDOW_BYTES: usize = 64 << 10;

/// A file read through a buffer of [`WINDOW_BYTES`]. The length of the file is fixed at creation,
/// even if another process appends to it.
#[derive(Debug)]
pub(crate) struct Window {
    file: Arc<dyn File>,
    name: PathBuf,
    len: u64,
    /// Offset of the buffer in the file.
    start: u64,
    buffer: Vec<u8>,
}

impl Window {
    pub(crate) fn new(segment: &Segment) -> Result<Window, DiskError> {
        let name = PathBuf::from(segment.name.to_string());
        let file = Arc::clone(&segment.file);
        let len = file.len().map_err(|e| DiskError::new("stat", &name, e))?;
        Ok(Window { file, name, len, start: 0, buffer: Vec::new() })
    }

    /// Length of the file.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Returns bytes of the file. The range must lie within the file and be at most
    /// [`WINDOW_BYTES`] long.
    pub(crate) fn get(&mut self, offset: u64, len: u64) -> Result<&[u8], DiskError> {
        let wanted = usize::try_from(len).expect("a window is small");
        assert!(
            wanted <= WINDOW_BYTES && offset + len <= self.len,
            "the range lies within the file"
        );
        if offset < self.start || offset + len > self.start + self.buffer.len() as u64 {
            self.fill(offset)?;
        }
        let at = usize::try_from(offset - self.start).expect("a window is small");
        Ok(&self.buffer[at..at + wanted])
    }

    pub(crate) fn u64_at(&mut self, offset: u64) -> Result<u64, DiskError> {
        let bytes = self.get(offset, 8)?;
        Ok(u64::from_le_bytes(bytes.try_into().expect("the slice has 8 bytes")))
    }

    /// Returns a copy of bytes of the file. The range must lie within the file.
    pub(crate) fn read(&mut self, offset: u64, len: u64) -> Result<Bytes, DiskError> {
        if len <= WINDOW_BYTES as u64 {
            return Ok(Bytes::copy_from_slice(self.get(offset, len)?));
        }
        assert!(offset + len <= self.len, "the range lies within the file");
        let len = usize::try_from(len).map_err(|e| self.failure(std::io::Error::other(e)))?;
        let mut bytes = vec![0; len];
        self.file.read_exact_at(&mut bytes, offset).map_err(|e| self.failure(e))?;
        Ok(bytes.into())
    }

    /// Continues a checksum over bytes of the file. The range must lie within the file.
    pub(crate) fn crc(
        &mut self,
        mut crc: u32,
        mut offset: u64,
        len: u64,
    ) -> Result<u32, DiskError> {
        let end = offset + len;
        while offset < end {
            let part = self.get(offset, (end - offset).min(WINDOW_BYTES as u64))?;
            offset += part.len() as u64;
            crc = crc32c_append(crc, part);
        }
        Ok(crc)
    }

    /// Offset of the last nonzero byte from `offset` on.
    pub(crate) fn last_nonzero(&mut self, offset: u64) -> Result<Option<u64>, DiskError> {
        let mut last = None;
        for Range { start, end } in self.written(offset)? {
            last = self.last_nonzero_in(start, end)?.or(last);
        }
        Ok(last)
    }

    fn last_nonzero_in(&mut self, mut offset: u64, end: u64) -> Result<Option<u64>, DiskError> {
        let mut last = None;
        while offset < end {
            let part = self.get(offset, (end - offset).min(WINDOW_BYTES as u64))?;
            let next = offset + part.len() as u64;
            // Most of a segment is zeros, and every start reads all of them: the compiler
            // vectorizes this fold.
            if part.iter().fold(0, |any, byte| any | byte) != 0 {
                last = part.iter().rposition(|&byte| byte != 0).map(|at| offset + at as u64);
            }
            offset = next;
        }
        Ok(last)
    }

    /// Ranges from `offset` on that may hold something other than never-written zeros.
    fn written(&self, mut offset: u64) -> Result<Vec<Range<u64>>, DiskError> {
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

    fn fill(&mut self, offset: u64) -> Result<(), DiskError> {
        let len = usize::try_from((self.len - offset).min(WINDOW_BYTES as u64))
            .expect("a window is small");
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

    fn failure(&self, error: std::io::Error) -> DiskError {
        DiskError::new("read", &self.name, error)
    }
}
