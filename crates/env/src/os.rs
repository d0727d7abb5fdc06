//! The file system of the machine.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
#[cfg(target_os = "linux")]
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use memmap2::{MmapOptions, MmapRaw};
#[cfg(target_os = "linux")]
use rustix::fs::SeekFrom;
use rustix::fs::{FallocateFlags, FlockOperation};

use crate::{Create, Disk, File, Kind, Lock, Locking, Map, Open};

/// Mode of created directories, as in etcd: accessible to the owner only.
const DIR_MODE: u32 = 0o700;

/// Address space reserved for a mapped file, so that it can grow in place. Costs nothing until
/// used. etcd reserves the same for its database.
const RESERVED_MIN: usize = 10 << 30;

/// The file system of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsDisk;

impl Disk for OsDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let mut options = OpenOptions::new();
        options.read(true).write(how.write).mode(how.mode);
        match how.create {
            Create::Never => &mut options,
            Create::IfMissing => options.create(true),
            Create::Truncate => options.create(true).truncate(true),
            Create::New => options.create_new(true),
        };
        Ok(Arc::new(OsFile(options.open(path)?)))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(DIR_MODE).create(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut names = fs::read_dir(path)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        match fs::metadata(path) {
            Ok(found) => Ok(Some(if found.is_dir() { Kind::Dir } else { Kind::File })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        fs::File::open(path)?.sync_all()
    }
}

/// The step of an allocation that was interrupted: well below 10 ms of CPU time.
const ALLOCATION_STEP_BYTES: u64 = 4 << 20;

/// Allocates step by step. On tmpfs, a signal ends the call and undoes it. A CPU profile sends one
/// after each 10 ms of CPU time, which may be less than the whole allocation takes.
fn allocate_in_steps(
    len: u64,
    allocate: impl Fn(u64, u64) -> rustix::io::Result<()>,
) -> rustix::io::Result<()> {
    let mut at = 0;
    while at < len {
        let step = ALLOCATION_STEP_BYTES.min(len - at);
        rustix::io::retry_on_intr(|| allocate(at, step))?;
        at += step;
    }
    Ok(())
}

#[derive(Debug)]
struct OsFile(fs::File);

impl File for OsFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.0.read_at(&mut buf[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let allocate = |at, len| rustix::fs::fallocate(&self.0, FallocateFlags::empty(), at, len);
        let done = match allocate(0, len) {
            Err(rustix::io::Errno::INTR) => allocate_in_steps(len, allocate),
            done => done,
        };
        match done {
            // Not supported by every file system; a sparse file reads the same.
            Err(rustix::io::Errno::OPNOTSUPP) if self.len()? < len => self.set_len(len),
            Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
            done => Ok(done?),
        }
    }

    #[cfg(target_os = "linux")]
    fn next_written(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        // Moves the file offset of the handle, which is unused: all reads and writes specify
        // theirs.
        let seek = |to| rustix::fs::seek(&self.0, to);
        let found =
            seek(SeekFrom::Data(offset)).and_then(|start| Ok(start..seek(SeekFrom::Hole(start))?));
        match found {
            Ok(range) => Ok(Some(range)),
            Err(rustix::io::Errno::NXIO) => Ok(None),
            // Not supported by every file system.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => {
                let len = self.len()?;
                Ok((offset < len).then_some(offset..len))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn try_lock(&self, locking: Locking, lock: Lock) -> io::Result<bool> {
        match locking {
            Locking::Flock => flock(&self.0, lock),
            Locking::Ofd => match ofd_lock(&self.0, lock) {
                // A kernel without OFD locks: etcd falls back in the same way.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => flock(&self.0, lock),
                done => done,
            },
        }
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        let ours = self.0.metadata()?;
        match fs::metadata(path) {
            Ok(found) => Ok(found.dev() == ours.dev() && found.ino() == ours.ino()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    #[expect(unsafe_code, reason = "the contract is the trait's")]
    unsafe fn map(&self, len: u64, previous: Option<&Map>) -> io::Result<Map> {
        let len = usize::try_from(len).map_err(io::Error::other)?;
        if self.len()? < len as u64 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("cannot map {len} bytes of a file of {}", self.len()?),
            ));
        }
        // SAFETY: a map of this same file, which has `len` bytes, as just checked. The kernel keeps
        // a shared map coherent with the file, so it shows later writes.
        if let Some(map) = previous.and_then(|map| unsafe { map.resized(len) }) {
            return Ok(map);
        }
        let reserved = len.saturating_mul(2).max(RESERVED_MIN);
        let region: MmapRaw = MmapOptions::new().len(reserved).map_raw_read_only(&self.0)?;
        // Lets the kernel use huge pages for data read from now on, which reduces TLB misses.
        // Optional.
        #[cfg(target_os = "linux")]
        let _ = region.advise(memmap2::Advice::HugePage);
        // SAFETY: the region owns `reserved` bytes of address space, and the file backs the first
        // `len`.
        Ok(unsafe { Map::new(region.as_ptr(), len, reserved, Arc::new(region)) })
    }
}

fn flock(file: &fs::File, lock: Lock) -> io::Result<bool> {
    let operation = match lock {
        Lock::Shared => FlockOperation::NonBlockingLockShared,
        Lock::Exclusive => FlockOperation::NonBlockingLockExclusive,
    };
    match rustix::fs::flock(file, operation) {
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        done => Ok(done.map(|()| true)?),
    }
}

#[cfg(target_os = "linux")]
fn ofd_lock(file: &fs::File, lock: Lock) -> io::Result<bool> {
    let kind = match lock {
        Lock::Shared => libc::F_RDLCK,
        Lock::Exclusive => libc::F_WRLCK,
    };
    // The whole file, however long it becomes.
    let range = libc::flock {
        l_type: kind.try_into().map_err(io::Error::other)?,
        l_whence: libc::SEEK_SET.try_into().map_err(io::Error::other)?,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open while `file` is borrowed, and `range` is a valid `flock` that
    // the call only reads.
    #[expect(unsafe_code, reason = "rustix does not offer this call")]
    let answer = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const range) };
    if answer == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        error => Err(error),
    }
}

#[cfg(not(target_os = "linux"))]
fn ofd_lock(file: &fs::File, lock: Lock) -> io::Result<bool> {
    flock(file, lock)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn created_files_are_accessible_to_their_owner_only() {
        let root = tempfile::tempdir().unwrap();
        let (dir, file) = (root.path().join("a/b"), root.path().join("a/b/file"));
        OsDisk.create_dir_all(&dir).unwrap();
        OsDisk.open(&file, Open::create(Create::New)).unwrap();
        assert_eq!(mode(&root.path().join("a")), 0o700);
        assert_eq!(mode(&dir), 0o700);
        assert_eq!(mode(&file), 0o600);
    }

    #[test]
    fn an_interrupted_allocation_is_continued_in_steps() {
        use std::cell::{Cell, RefCell};

        let (done, interrupted) = (RefCell::new(Vec::new()), Cell::new(false));
        let allocate = |at, len| {
            // Every other call is interrupted.
            if !interrupted.replace(!interrupted.get()) {
                return Err(rustix::io::Errno::INTR);
            }
            done.borrow_mut().push((at, len));
            Ok(())
        };
        let step = ALLOCATION_STEP_BYTES;
        allocate_in_steps(2 * step + 5, allocate).unwrap();
        assert_eq!(*done.borrow(), [(0, step), (step, step), (2 * step, 5)]);
    }

    #[test]
    fn next_written_skips_only_unwritten_ranges() {
        let root = tempfile::tempdir().unwrap();
        let file = OsDisk.open(&root.path().join("file"), Open::create(Create::New)).unwrap();
        let (len, written) = (4 << 20, [70_000, 2 << 20, (3 << 20) + 5]);
        file.allocate(len).unwrap();
        for at in written {
            file.write_at(b"x", at).unwrap();
            let found = file.next_written(at).unwrap().unwrap();
            assert!(
                found.start == at && found.end > at,
                "unsynced data counts as written: {found:?}"
            );
        }
        file.sync_data().unwrap();
        let (mut ranges, mut offset) = (Vec::new(), 0);
        while let Some(range) = file.next_written(offset).unwrap() {
            offset = range.end;
            ranges.push(range);
        }
        assert!(written.iter().all(|at| ranges.iter().any(|range| range.contains(at))));
        assert!(ranges.is_sorted_by(|a, b| a.end < b.start) && offset <= len, "{ranges:?}");
        assert_eq!(file.next_written(len).unwrap(), None);
    }

    #[test]
    fn a_map_grows_in_place() {
        let root = tempfile::tempdir().unwrap();
        let file = OsDisk.open(&root.path().join("file"), Open::create(Create::New)).unwrap();
        file.write_at(&[1; 5000], 0).unwrap();
        // SAFETY: no slice is held over a write.
        #[expect(unsafe_code, reason = "the test is about maps")]
        let before = unsafe { file.map(5000, None).unwrap() };
        file.write_at(&[2; 5_000_000], 5000).unwrap();
        // SAFETY: as above.
        #[expect(unsafe_code, reason = "the test is about maps")]
        let after = unsafe { file.map(5_005_000, Some(&before)).unwrap() };
        assert!(after.same_memory(&before), "the address space was reserved");
        assert_eq!(after.get(4999, 2), Some(&[1, 2][..]));
        assert_eq!(after.get(5_004_999, 1), Some(&[2][..]));
        assert_eq!(before.get(5000, 1), None);
    }

    /// Returns the bytes of this process that are locked in memory.
    #[cfg(target_os = "linux")]
    fn locked_bytes() -> u64 {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
    }

    /// One page, which every process may lock.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_map_is_locked_until_it_is_unlocked() {
        let root = tempfile::tempdir().unwrap();
        let file = OsDisk.open(&root.path().join("file"), Open::create(Create::New)).unwrap();
        file.write_at(&[1; 8192], 0).unwrap();
        // SAFETY: the file is not written any more.
        #[expect(unsafe_code, reason = "the test is about maps")]
        let map = unsafe { file.map(8192, None).unwrap() };
        assert_eq!(locked_bytes(), 0);
        map.lock(4096).unwrap();
        assert_eq!(locked_bytes(), 4096);
        map.lock(0).unwrap();
        assert_eq!(locked_bytes(), 8192, "locks do not nest");
        map.lock(usize::MAX).unwrap();
        map.unlock();
        assert_eq!(locked_bytes(), 0);
        map.lock(0).unwrap();
        drop(map);
        assert_eq!(locked_bytes(), 0, "unmapped memory is not locked");
    }
}
