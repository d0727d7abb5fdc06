//! The disk interface.
//!
//! The contract is the weakest that file systems give, and [`SimDisk`](crate::SimDisk) gives no
//! more. Written data can be read at once, but survives a power cut only after [`File::sync_data`].
//! A created, renamed or removed file keeps its new name after a power cut only after
//! [`Disk::sync_dir`] of its directory. Until then any part of the written data may have reached
//! the disk, in any order, sector by sector.

use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::Map;

/// A file system: files by name.
pub trait Disk: Send + Sync + Debug {
    /// Opens a file for reading and, unless `how` says otherwise, for writing.
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>>;

    /// Creates a directory, accessible to its owner only, and its missing parents.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// Lists the names in a directory, sorted.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<String>>;

    /// Returns the type of the file at a path, or `None` if there is none. A broken link has none.
    fn kind(&self, path: &Path) -> io::Result<Option<Kind>>;

    /// Renames a file or directory, replacing an existing file.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file. Open handles keep it until they are dropped.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes a directory with all its contents.
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
}

/// An open file. Offsets are explicit, so that a handle can be shared.
pub trait File: Send + Sync + Debug {
    /// Reads at an offset. Returns fewer bytes than requested only at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all bytes at an offset, extending the file if necessary. After an error any part may
    /// have been written.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;

    /// Length, in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Reports whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Truncates the file, or extends it with zeros that take no space yet.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Extends the file to a length and allocates its space, which reads as zeros. Never shortens
    /// it.
    fn allocate(&self, len: u64) -> io::Result<()>;

    /// Returns the next range, from `offset` on, that may have been written; `None` if there is
    /// none. All other bytes read as zeros. The default implementation returns everything.
    ///
    /// Query all ranges before reading any: reading may make a range count as written.
    fn next_written(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        let len = self.len()?;
        Ok((offset < len).then_some(offset..len))
    }

    /// Makes the contents durable, with as much of the length as is needed to read them.
    fn sync_data(&self) -> io::Result<()>;

    /// Tries to lock the file until the handle is dropped. Returns false if another handle holds
    /// the lock.
    fn try_lock(&self, locking: Locking, lock: Lock) -> io::Result<bool>;

    /// Reports whether this handle is the file currently at `path`, which may have been replaced
    /// since it was opened.
    fn is_at(&self, path: &Path) -> io::Result<bool>;

    /// Maps the first `len` bytes, which the file must have, for reading.
    ///
    /// The map shows everything written before this call. Whether it shows later writes is
    /// unspecified: request a new map for them, which is cheap with the `previous` map of the same
    /// file.
    ///
    /// # Safety
    /// While a slice of the map lives, the bytes it covers must not be written, and the file must
    /// not be truncated before its end, by this handle, another one, or another process. A
    /// `previous` map must be of this same file.
    #[expect(unsafe_code, reason = "the caller must exclude writers")]
    unsafe fn map(&self, len: u64, previous: Option<&Map>) -> io::Result<Map>;

    /// Reads exactly as many bytes as requested; the end of the file is an error.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        match self.read_at(buf, offset)? {
            n if n == buf.len() => Ok(()),
            n => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("the file ends after {n} of {} bytes at offset {offset}", buf.len()),
            )),
        }
    }
}

impl dyn Disk {
    /// Reads a whole file of at most `len_max` bytes.
    pub fn read(&self, path: &Path, len_max: u64) -> io::Result<Vec<u8>> {
        let file = self.open(path, Open::read())?;
        let len = file.len()?;
        if len > len_max {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("the file has {len} bytes, more than the limit of {len_max}"),
            ));
        }
        let len = usize::try_from(len).map_err(io::Error::other)?;
        let mut contents = vec![0; len];
        file.read_exact_at(&mut contents, 0)?;
        Ok(contents)
    }
}

impl dyn Disk {
    /// Creates a directory and its missing parents, and makes their names durable; also those of
    /// existing ones, because the process that created them may have been killed before it synced
    /// them.
    pub fn create_dir_all_durably(&self, path: &Path) -> io::Result<()> {
        let above = parent(path);
        if above != path {
            self.create_dir_all_durably(above)?;
        }
        let was_there = self.kind(path)? == Some(Kind::Dir);
        if !was_there {
            self.create_dir_all(path)?;
        }
        match self.sync_dir(above) {
            // An existing directory of another user, whose creator synced it.
            Err(error) if was_there && error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            done => done,
        }
    }
}

/// Returns the parent directory of a path. A root is its own parent.
pub fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if dir.as_os_str().is_empty() => Path::new("."),
        Some(dir) => dir,
        None => path,
    }
}

/// Options of [`Disk::open`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// Opens for writing too.
    pub write: bool,
    /// Behavior for missing and existing files.
    pub create: Create,
    /// Permissions of a created file, less the process's umask.
    pub mode: u32,
}

/// Behavior of [`Disk::open`] for missing and existing files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Create {
    /// The file must exist.
    Never,
    /// Creates the file if it is missing.
    IfMissing,
    /// Creates the file, or truncates it.
    Truncate,
    /// The file must not exist.
    New,
}

impl Open {
    /// Opens an existing file for reading.
    pub fn read() -> Open {
        Open { write: false, create: Create::Never, mode: 0o600 }
    }

    /// Opens an existing file for reading and writing.
    pub fn write() -> Open {
        Open { write: true, ..Open::read() }
    }

    /// Opens a file for reading and writing. A created file is accessible to its owner only.
    pub fn create(create: Create) -> Open {
        Open { create, ..Open::write() }
    }
}

/// Type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
}

/// Mode of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// Compatible with other shared locks.
    Shared,
    /// Excludes all other locks.
    Exclusive,
}

/// The kernel's kind of file lock. The kinds are independent of each other, so it must be the one
/// that etcd takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locking {
    /// `flock`, as on the database file.
    Flock,
    /// Open-file-description lock over the whole file, as on log segments. Compat: as in etcd,
    /// `flock` on systems without them.
    Ofd,
}
