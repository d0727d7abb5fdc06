//! Files that may change while the server runs.
//!
//! ```text
//!   Stamp   device 8:1, file 77, 1204 bytes, written at 10:00:00.100        of the file, whatever links lead there
//! ```
//!
//! A stamp is cheap to look at and tells nearly every change. It misses one: bytes that are written over within the same tick of the clock of the
//! file system after they were read. So a stamp that is [young](Stamps::is_young) is not relied upon: the bytes are read and compared.

use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::error::LoadError;

/// The longest file that is read: a list of some hundred thousand revoked certificates.
pub const FILE_BYTES_MAX: u64 = 16 << 20;
/// How old a file must be for its stamp to tell every change that follows. Longer than the tick of any file system.
const YOUNG: Duration = Duration::from_secs(2);

/// Everything in a file.
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

/// The state of some files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamps(Vec<Option<Stamp>>);

/// The state of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    written: Option<SystemTime>,
    changed: (i64, i64),
}

impl Stamps {
    /// As they are now. One that cannot be looked at has none.
    pub(crate) fn of(files: &[PathBuf]) -> Stamps {
        Stamps(
            files.iter().map(|file| fs::metadata(file).ok().map(|found| stamp(&found))).collect(),
        )
    }

    /// Whether any was written so lately that its bytes may change without this telling.
    pub(crate) fn is_young(&self, now: SystemTime) -> bool {
        // What was written in the future, by another clock, is young until then.
        let age = |written| now.duration_since(written).unwrap_or_default();
        let young = |stamp: &Stamp| stamp.written.is_none_or(|written| age(written) <= YOUNG);
        self.0.iter().flatten().any(young)
    }
}

fn stamp(found: &Metadata) -> Stamp {
    Stamp {
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
    fn a_change_shows_in_the_stamps_and_a_missing_file_has_none() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        let files = [file.clone()];
        let missing = Stamps::of(&files);
        fs::write(&file, "one").unwrap();
        let first = Stamps::of(&files);
        assert_ne!(missing, first);
        fs::write(dir.path().join("b"), "two").unwrap();
        fs::rename(dir.path().join("b"), &file).unwrap();
        assert_ne!(first, Stamps::of(&files), "as long, perhaps as old, and another file");
    }

    #[test]
    fn what_was_just_written_is_young() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        fs::write(&file, "one").unwrap();
        let stamps = Stamps::of(std::slice::from_ref(&file));
        let written = fs::metadata(&file).unwrap().modified().unwrap();
        assert!(stamps.is_young(written));
        assert!(stamps.is_young(written - 2 * YOUNG), "a clock that was put back");
        assert!(!stamps.is_young(written + 2 * YOUNG));
    }

    #[test]
    fn a_file_that_is_missing_or_too_long_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        let name = file.display().to_string();
        let refused = || read(&file).unwrap_err().to_string();
        assert_eq!(refused(), format!("open {name}: no such file or directory"));
        File::create(&file).unwrap().set_len(FILE_BYTES_MAX + 1).unwrap();
        assert_eq!(refused(), format!("open {name}: longer than 16777216 bytes"));
        File::create(&file).unwrap().set_len(FILE_BYTES_MAX).unwrap();
        assert_eq!(read(&file).unwrap().len() as u64, FILE_BYTES_MAX);
    }
}
