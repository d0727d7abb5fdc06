//! Detects changes of files.
//!
//! ```text
//!   FileStamp   device 8:1, inode 77, 1204 bytes, modified 10:00:00.100      (follows links)
//! ```
//!
//! A stamp is cheap to read and reflects nearly every change. The exception: a write within the
//! same tick of the file system's clock as the last read. So the contents of a
//! [recent](FileStamps::is_recent) file are read and compared.

use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::error::LoadError;

/// The longest file that is read: enough for some hundred thousand revoked certificates.
pub const FILE_BYTES_MAX: u64 = 16 << 20;
/// The age from which a stamp reflects every later change. Longer than the tick of any file system.
const RECENT: Duration = Duration::from_secs(2);

/// Reads a whole file.
pub(crate) fn read(file: &Path) -> Result<Vec<u8>, LoadError> {
    let failed = |source| LoadError::open(file, source);
    let opened = File::open(file).map_err(failed)?;
    let mut bytes = Vec::new();
    opened.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(LoadError::TooLong { file: file.to_owned() });
    }
    Ok(bytes)
}

/// The stamps of several files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileStamps(Vec<Option<FileStamp>>);

/// The stamp of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileStamp {
    device: u64,
    inode: u64,
    length: u64,
    written: Option<SystemTime>,
    changed: (i64, i64),
}

impl FileStamps {
    /// Reads the current stamps. A file that cannot be examined has none.
    pub(crate) fn of(files: &[PathBuf]) -> FileStamps {
        FileStamps(
            files.iter().map(|file| fs::metadata(file).ok().map(|found| stamp(&found))).collect(),
        )
    }

    /// Returns whether a file was modified so recently that it may change without a new stamp.
    pub(crate) fn is_recent(&self, now: SystemTime) -> bool {
        // A time in the future, from another clock, counts as recent.
        let age = |written| now.duration_since(written).unwrap_or_default();
        let young = |stamp: &FileStamp| stamp.written.is_none_or(|written| age(written) <= RECENT);
        self.0.iter().flatten().any(young)
    }
}

fn stamp(found: &Metadata) -> FileStamp {
    FileStamp {
        device: found.dev(),
        inode: found.ino(),
        length: found.len(),
        written: found.modified().ok(),
        changed: (found.ctime(), found.ctime_nsec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_reflect_changes_and_missing_files() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        let files = [file.clone()];
        let missing = FileStamps::of(&files);
        fs::write(&file, "one").unwrap();
        let first = FileStamps::of(&files);
        assert_ne!(missing, first);
        fs::write(dir.path().join("b"), "two").unwrap();
        fs::rename(dir.path().join("b"), &file).unwrap();
        assert_ne!(first, FileStamps::of(&files), "another file of the same length");
    }

    #[test]
    fn a_file_just_written_is_recent() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        fs::write(&file, "one").unwrap();
        let stamps = FileStamps::of(std::slice::from_ref(&file));
        let written = fs::metadata(&file).unwrap().modified().unwrap();
        assert!(stamps.is_recent(written));
        assert!(stamps.is_recent(written - 2 * RECENT), "the clock was set back");
        assert!(!stamps.is_recent(written + 2 * RECENT));
    }

    #[test]
    fn errors_name_the_missing_or_too_long_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        let name = file.display().to_string();
        let rejected = || read(&file).unwrap_err().to_string();
        assert_eq!(rejected(), format!("open {name}: no such file or directory"));
        File::create(&file).unwrap().set_len(FILE_BYTES_MAX + 1).unwrap();
        assert_eq!(rejected(), format!("open {name}: longer than 16777216 bytes"));
        File::create(&file).unwrap().set_len(FILE_BYTES_MAX).unwrap();
        assert_eq!(read(&file).unwrap().len() as u64, FILE_BYTES_MAX);
    }
}
