//! Segment files and their names.
//!
//! ```text
//! 0000000000000003-00000000000012c1.wal      the 4th segment; its entries start at index 4801
//! ```
//!
//! Sequence numbers have no gaps. The index in the name lets a reader that starts at a snapshot
//! skip earlier segments without opening them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::{Disk, File, Lock, Locking, Open};

use crate::error::{DiskError, OpenError};

/// Suffix of segment files.
pub(crate) const SUFFIX: &str = ".wal";

/// Suffix of temporary files.
pub(crate) const TMP_SUFFIX: &str = ".tmp";

/// Suffix of broken files and their copies.
pub(crate) const BROKEN_SUFFIX: &str = ".broken";

/// The name of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SegmentName {
    /// Sequence number, from 0.
    pub(crate) seq: u64,
    /// No entry below this index is in this or a later segment, unless it overwrites.
    pub(crate) index: u64,
}

impl SegmentName {
    /// Parses a file name. Returns `None` for other kinds of files.
    pub(crate) fn parse(name: &str) -> Option<SegmentName> {
        let (seq, index) = name.strip_suffix(SUFFIX)?.split_once('-')?;
        Some(SegmentName { seq: hex16(seq)?, index: hex16(index)? })
    }
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{:016x}{SUFFIX}", self.seq, self.index)
    }
}

/// Appends a suffix to a path.
pub(crate) fn suffixed(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Parses sixteen hexadecimal digits.
pub(crate) fn hex16(digits: &str) -> Option<u64> {
    let all_digits = digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    all_digits.then(|| u64::from_str_radix(digits, 16).ok())?
}

/// An open segment.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) name: SegmentName,
    pub(crate) file: Arc<dyn File>,
}

/// Reports whether a directory contains a log: files that end in `.wal`. A missing directory
/// contains none.
pub fn exists(disk: &dyn Disk, dir: &Path) -> Result<bool, OpenError> {
    Ok(disk.kind(dir).map_err(|e| DiskError::new("stat", dir, e))?.is_some()
        && read_dir(disk, dir)?.iter().any(|name| name.ends_with(SUFFIX)))
}

/// Lists the segments in a directory, in order. Fails if there are none.
pub(crate) fn list(disk: &dyn Disk, dir: &Path) -> Result<Vec<SegmentName>, OpenError> {
    let mut segments = Vec::new();
    for name in read_dir(disk, dir)? {
        match SegmentName::parse(&name) {
            Some(segment) => segments.push(segment),
            None if name.ends_with(TMP_SUFFIX) => {}
            None => tracing::warn!(file = name, "ignored unknown file in the WAL directory"),
        }
    }
    segments.sort_unstable();
    if segments.is_empty() { Err(OpenError::FileNotFound) } else { Ok(segments) }
}

/// Selects the segments to read when starting at an index: the last one whose name is not beyond
/// it, and all later ones.
pub(crate) fn select(segments: &[SegmentName], index: u64) -> Result<&[SegmentName], OpenError> {
    let first = segments
        .iter()
        .rposition(|segment| segment.index <= index)
        .ok_or(OpenError::NoFileForSnapshot { index })?;
    let selected = &segments[first..];
    match selected.windows(2).find(|pair| pair[0].seq.checked_add(1) != Some(pair[1].seq)) {
        Some(gap) => Err(OpenError::SequenceGap { first, before: gap[0].seq, after: gap[1].seq }),
        None => Ok(selected),
    }
}

/// Opens segments for reading, without locks, so that a log in use can be inspected.
pub(crate) fn open_to_read(
    disk: &dyn Disk,
    dir: &Path,
    names: &[SegmentName],
) -> Result<Vec<Segment>, OpenError> {
    names.iter().map(|name| open(disk, dir, *name, Open::read())).collect()
}

/// Opens segments for writing, each under an exclusive lock.
pub(crate) fn open_locked(
    disk: &dyn Disk,
    dir: &Path,
    names: &[SegmentName],
) -> Result<Vec<Segment>, OpenError> {
    let open_one = |name: &SegmentName| {
        let segment = open(disk, dir, *name, Open::write())?;
        lock(&*segment.file, &dir.join(name.to_string()))?;
        Ok(segment)
    };
    names.iter().map(open_one).collect()
}

fn open(disk: &dyn Disk, dir: &Path, name: SegmentName, how: Open) -> Result<Segment, OpenError> {
    let path = dir.join(name.to_string());
    let file = disk.open(&path, how).map_err(|e| DiskError::new("open", &path, e))?;
    Ok(Segment { name, file })
}

/// Takes an exclusive lock, of the same kind as etcd's.
pub(crate) fn lock(file: &dyn File, path: &Path) -> Result<(), OpenError> {
    match file.try_lock(Locking::Ofd, Lock::Exclusive) {
        Ok(true) => Ok(()),
        Ok(false) => Err(OpenError::Locked { file: path.to_owned() }),
        Err(error) => Err(DiskError::new("lock", path, error).into()),
    }
}

pub(crate) fn read_dir(disk: &dyn Disk, dir: &Path) -> Result<Vec<String>, OpenError> {
    Ok(disk.read_dir(dir).map_err(|e| DiskError::new("list", dir, e))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(seq: u64, index: u64) -> SegmentName {
        SegmentName { seq, index }
    }

    #[test]
    fn segment_names_survive_formatting() {
        let segment = name(3, 4801);
        assert_eq!(segment.to_string(), "0000000000000003-00000000000012c1.wal");
        assert_eq!(SegmentName::parse(&segment.to_string()), Some(segment));
        for other in [
            "0.tmp",
            "db",
            "0000000000000003-00000000000012c1.wal.broken",
            "3-12c1.wal",
            "+000000000000003-00000000000012c1.wal",
            "0000000000000003.wal",
            "0000000000000003-00000000000012c1-0.wal",
        ] {
            assert_eq!(SegmentName::parse(other), None, "{other}");
        }
    }

    #[test]
    fn reading_starts_in_the_last_segment_at_or_before_the_snapshot() {
        let segments = [name(0, 0), name(1, 10), name(2, 20)];
        for (index, first) in [(0, 0), (9, 0), (10, 1), (19, 1), (20, 2), (1000, 2)] {
            assert_eq!(select(&segments, index).unwrap(), &segments[first..], "index {index}");
        }
        let text = select(&segments[1..], 9).unwrap_err().to_string();
        assert_eq!(text, "wal: file not found which matches the snapshot index '9'");
    }

    #[test]
    fn a_missing_segment_is_detected() {
        let segments = [name(0, 0), name(2, 20), name(3, 30)];
        let text = select(&segments, 5).unwrap_err().to_string();
        assert_eq!(
            text,
            "wal: file sequence numbers (starting from 0) do not increase continuously: 2 follows 0"
        );
        assert_eq!(
            select(&segments, 25).unwrap().len(),
            2,
            "segments that are not read may be missing"
        );
    }

    #[test]
    fn a_directory_without_segments_has_no_log() {
        let disk = env::SimDisk::new(1);
        let dir = Path::new("/wal");
        assert!(!exists(&disk, dir).unwrap());
        disk.create_dir_all(dir).unwrap();
        assert!(!exists(&disk, dir).unwrap());
        assert_eq!(list(&disk, dir).unwrap_err().to_string(), "wal: file not found");
        disk.open(&dir.join(name(0, 0).to_string()), Open::create(env::Create::New)).unwrap();
        assert!(exists(&disk, dir).unwrap());
    }
}
