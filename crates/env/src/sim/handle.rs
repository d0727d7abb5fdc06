//! The calls on an open file.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::contents::{FileContents, sectors};
use super::directory::{Entry, FileNode};
use super::faults::{DiskCall, Fault};
use super::{SECTOR, SimDisk, tree};
use crate::{File, Lock, Locking, Map, SeededRandom};

/// Maximum length of a file, which is held in memory.
const LEN_MAX: u64 = 4 << 30;

/// Resolution of the probability that a sector of a failed write was written; drawn once per write.
const PARTS: u64 = 8;

/// An open file.
pub(super) struct SimFile {
    disk: SimDisk,
    file: FileNode,
    /// Identifies the handle as an owner of locks.
    number: u64,
    writable: bool,
}

impl SimFile {
    pub(super) fn new(disk: SimDisk, file: FileNode, number: u64, writable: bool) -> SimFile {
        SimFile { disk, file, number, writable }
    }

    fn writable_or(&self, error: i32) -> io::Result<()> {
        if self.writable { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
    }
}

impl File for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.disk.lock();
        state.enter(DiskCall::Read)?;
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        Ok(self.file.lock().contents.read(buf, offset))
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.disk.lock();
        let fault = state.admit(DiskCall::Write { bytes: buf.len() as u64 })?;
        self.writable_or(libc::EBADF)?;
        let end = bounded(offset.saturating_add(buf.len() as u64))?;
        let offset = end - buf.len();
        let (stamp, free) = (state.next_stamp(), state.free_sectors());
        let contents = &mut self.file.lock().contents;
        match fault {
            Some(fault @ (Fault::Eio | Fault::Enospc)) => {
                write_some(contents, buf, offset, stamp, &mut state.random);
                Err(fault.error())
            }
            Some(Fault::Crash) | None => {
                let fits = fits(contents, offset, end, free);
                contents.write(&buf[..fits], offset, stamp);
                match fault {
                    Some(fault) => Err(fault.error()),
                    None if fits < buf.len() => Err(Fault::Enospc.error()),
                    None => Ok(()),
                }
            }
        }
    }

    fn len(&self) -> io::Result<u64> {
        let mut state = self.disk.lock();
        state.enter(DiskCall::Stat)?;
        Ok(self.file.lock().contents.len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.lock().change(DiskCall::Resize, |state| {
            self.writable_or(libc::EINVAL)?;
            self.file.lock().contents.set_len(bounded(len)?, state.next_stamp());
            Ok(())
        })
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.disk.lock().change(DiskCall::Resize, |state| {
            if len == 0 {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            self.writable_or(libc::EBADF)?;
            let (len, free) = (bounded(len)?, state.free_sectors());
            let contents = &mut self.file.lock().contents;
            if free.is_some_and(|free| contents.sectors_missing(0, len) > free) {
                return Err(Fault::Enospc.error());
            }
            contents.allocate(len, state.next_stamp());
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.disk.lock_unless_hung();
        let fault = state.admit(DiskCall::Sync)?;
        let contents = &mut self.file.lock().contents;
        match fault {
            None => contents.sync(),
            // The power cut decides how much of the sync took effect.
            Some(Fault::Crash) => {}
            Some(Fault::Eio | Fault::Enospc) => contents.sync_failed(),
        }
        fault.map_or(Ok(()), |fault| Err(fault.error()))
    }

    fn try_lock(&self, locking: Locking, wanted: Lock) -> io::Result<bool> {
        let mut state = self.disk.lock();
        state.enter(DiskCall::Lock)?;
        if (locking, wanted) == (Locking::Ofd, Lock::Exclusive) {
            self.writable_or(libc::EBADF)?;
        }
        Ok(self.file.lock().locks.try_lock(self.number, locking, wanted))
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        let mut state = self.disk.lock();
        state.enter(DiskCall::Stat)?;
        let found = tree::entry(&state.root, path)?;
        Ok(matches!(found, Some(Entry::File(file)) if Arc::ptr_eq(&file, &self.file)))
    }

    #[expect(unsafe_code, reason = "the contract is the trait's")]
    unsafe fn map(&self, len: u64, _previous: Option<&Map>) -> io::Result<Map> {
        let mut state = self.disk.lock();
        state.enter(DiskCall::Map)?;
        let bytes = Arc::clone(&self.file.lock().contents.bytes);
        let len = usize::try_from(len).ok().filter(|len| *len <= bytes.len()).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("cannot map {len} bytes of a file of {}", bytes.len()),
            )
        })?;
        // SAFETY: the map keeps the vector alive, and a shared vector is never written: writers
        // copy it first.
        Ok(unsafe { Map::new(bytes.as_ptr(), len, bytes.len(), bytes) })
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.file.lock().locks.release(self.number);
    }
}

impl fmt::Debug for SimFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimFile").field("number", &self.number).finish_non_exhaustive()
    }
}

fn bounded(len: u64) -> io::Result<usize> {
    let len = if len <= LEN_MAX { usize::try_from(len).ok() } else { None };
    len.ok_or_else(|| io::ErrorKind::FileTooLarge.into())
}

/// Number of leading bytes of a write for which there is space.
fn fits(contents: &FileContents, offset: usize, end: usize, free: Option<usize>) -> usize {
    let Some(mut free) = free else { return end - offset };
    for sector in sectors(offset, end) {
        if contents.has_space(sector) {
            continue;
        }
        if free == 0 {
            return (sector * SECTOR).saturating_sub(offset);
        }
        free -= 1;
    }
    end - offset
}

/// Writes a random subset of the sectors.
fn write_some(
    contents: &mut FileContents,
    buf: &[u8],
    offset: usize,
    stamp: u64,
    random: &mut SeededRandom,
) {
    let parts = random.below(PARTS + 1);
    let end = offset + buf.len();
    for sector in sectors(offset, end) {
        let (from, to) = ((sector * SECTOR).max(offset), ((sector + 1) * SECTOR).min(end));
        if random.chance(parts, PARTS) {
            contents.write(&buf[from - offset..to - offset], from, stamp);
        }
    }
}
