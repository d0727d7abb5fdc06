//! The files of a stopped member, as tests look at them and damage them.
//!
//! A record of the log is a length of eight bytes, little-endian, and that many bytes; after the last comes a length of zero, as the rest of
//! a segment is zeros. The top byte of the length says, if it is not zero, how many bytes of padding are among them.
//!
//! ```text
//!   1a 00 00 00 00 00 00 86   26 bytes of a record, then 6 of padding
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// All files below a folder, with what is in them.
pub(crate) fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.append(&mut contents(&path));
        } else {
            files.insert(path.clone(), fs::read(path).unwrap());
        }
    }
    files
}

/// Which of two states of a folder's files differ, by name.
pub(crate) fn changes(
    before: &BTreeMap<PathBuf, Vec<u8>>,
    after: &BTreeMap<PathBuf, Vec<u8>>,
) -> Vec<PathBuf> {
    let all = before.keys().chain(after.keys().filter(|path| !before.contains_key(*path)));
    all.filter(|path| before.get(*path) != after.get(*path)).cloned().collect()
}

/// The last file of a folder with this ending, by name.
pub(crate) fn last(folder: &Path, ending: &str) -> PathBuf {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> =
        paths.filter(|path| path.to_str().is_some_and(|path| path.ends_with(ending))).collect();
    paths.sort();
    paths.pop().unwrap_or_else(|| panic!("no {ending} in {folder:?}"))
}

/// What a file takes on the disk. A database grows in large steps ahead of what is written, which its length shows and its blocks do not.
pub(crate) fn bytes_on_disk(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

/// Where the records of a segment are, frames included.
pub(crate) fn records(segment: &[u8]) -> Vec<Range<usize>> {
    let mut records = Vec::new();
    let mut at = 0;
    while let Some((&[a, b, c, d, e, f, g, top], _)) = segment[at..].split_first_chunk() {
        let length = u64::from_le_bytes([a, b, c, d, e, f, g, 0]);
        if length == 0 {
            break;
        }
        let padding = if top & 0x80 == 0 { 0 } else { usize::from(top & 7) };
        let end = at + 8 + usize::try_from(length).unwrap() + padding;
        records.push(at..end);
        at = end;
    }
    records
}

/// Changes a file in place.
pub(crate) fn edit(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}
