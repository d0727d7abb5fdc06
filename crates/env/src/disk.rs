//! What a disk is asked to do.
//!
//! The contract is the weakest that file systems give, and [`SimDisk`](crate::SimDisk) gives no more: what was written is
//! read back at once, and survives a power cut only after [`File::sync_data`]; a file that was created, renamed or removed
//! keeps its new name over a power cut only after [`Disk::sync_dir`] of its folder. Until then any part of what was written may
//! have reached the disk, in any order, sector by sector.

use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::Map;

/// Files by name.
pub trait Disk: Send + Sync + Debug {
    /// Opens a file, to read and, unless asked otherwise, to write.
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>>;

    /// Makes a folder, open to its owner alone, and those above it that are missing.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// The names in a folder, sorted.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<String>>;

    /// Whether something has this name, and what. A broken link has no kind.
    fn kind(&self, path: &Path) -> io::Result<Option<Kind>>;

    /// Gives a file or folder another name, in place of whatever file had it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file. Whoever has it open keeps it until the handle is dropped.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes a folder with everything in it.
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a folder durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
}

/// One open file. Offsets are explicit, so that a handle can be shared.
pub trait File: Send + Sync + Debug {
    /// Reads at an offset; fewer bytes than asked for only at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all bytes at an offset, past the end if need be. After an error any part may have been written.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;

    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file, or extends it with zeros that take no space yet.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Extends the file to a length with space set aside for it, reading as zeros. Never shortens.
    fn allocate(&self, len: u64) -> io::Result<()>;

    /// The next bytes, from an offset on, that may ever have been written; none if there are none. All others read as zeros. Whoever does not know says all bytes that there are.
    ///
    /// Ask for all of them before reading any: what was read may count as written.
    fn next_written(&self, offset: u64) -> io::Result<Option<Range<u64>>> {
        let len = self.len()?;
        Ok((offset < len).then_some(offset..len))
    }

    /// Makes the contents durable, with as much of the length as it takes to read them back.
    fn sync_data(&self) -> io::Result<()>;

    /// Takes a lock on the file, held until the handle is dropped. False: another handle has it.
    fn try_lock(&self, locking: Locking, lock: Lock) -> io::Result<bool>;

    /// Whether this handle is the file that has this name now. A file may have been replaced since it was opened.
    fn is_at(&self, path: &Path) -> io::Result<bool>;

    /// Maps the first `len` bytes, which the file must have, for reading.
    ///
    /// The map shows everything written before this call. Whether it shows what is written later is left open: ask for a new
    /// one. Handing over the `previous` map of the same file makes that cheap.
    ///
    /// # Safety
    /// While a slice taken from the map lives, nobody may write to the bytes it covers or cut the file before
    /// its end; not by this handle, another one, or another process. A `previous` map must be one of this same file.
    #[expect(unsafe_code, reason = "the caller must keep writers away from what it reads")]
    unsafe fn map(&self, len: u64, previous: Option<&Map>) -> io::Result<Map>;

    /// Reads exactly as many bytes as asked for; the end of the file is an error.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        match self.read_at(buf, offset)? {
            n if n == buf.len() => Ok(()),
            n => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("{n} of {} bytes at offset {offset}, then the file ends", buf.len()),
            )),
        }
    }
}

impl dyn Disk {
    /// The whole contents of a file, which must not be longer than it can be expected to be.
    pub fn read(&self, path: &Path, len_max: u64) -> io::Result<Vec<u8>> {
        let file = self.open(path, Open::read())?;
        let len = file.len()?;
        if len > len_max {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("{len} bytes, where at most {len_max} can be"),
            ));
        }
        let len = usize::try_from(len).map_err(io::Error::other)?;
        let mut contents = vec![0; len];
        file.read_exact_at(&mut contents, 0)?;
        Ok(contents)
    }
}

impl dyn Disk {
    /// Makes a folder and those above it that are missing, and makes their names durable; also of those that are there, since whoever
    /// made them may have been stopped before that.
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
            // Somebody else's, who has seen to it.
            Err(error) if was_there && error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            done => done,
        }
    }
}

/// The folder that a file or folder is in. A root is in itself.
pub fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => path,
    }
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// Also to write.
    pub write: bool,
    /// What to do where no file has the name, or one has.
    pub create: Create,
    /// The permissions of a file that is created, less the process's mask.
    pub mode: u32,
}

/// What opening does with a name that nothing has, or something has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Create {
    /// The file must exist.
    Never,
    /// Make it if missing.
    IfMissing,
    /// Make it, or empty it if it exists.
    Truncate,
    /// It must not exist.
    New,
}

impl Open {
    /// An existing file, to read.
    pub fn read() -> Open {
        Open { write: false, create: Create::Never, mode: 0o600 }
    }

    /// An existing file, to read and write.
    pub fn write() -> Open {
        Open { write: true, ..Open::read() }
    }

    /// A file to read and write, for its owner alone if it has to be made.
    pub fn create(create: Create) -> Open {
        Open { create, ..Open::write() }
    }
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A folder.
    Dir,
}

/// Who may hold a lock along with us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// Others who share.
    Shared,
    /// Nobody.
    Exclusive,
}

/// Which of the kernel's two kinds of file lock to take. They do not see each other, so it must be the one that etcd takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locking {
    /// `flock`, as on the database file.
    Flock,
    /// Open-file-description lock over the whole file, as on log segments. Where the system has none, etcd and we take `flock`.
    Ofd,
}
