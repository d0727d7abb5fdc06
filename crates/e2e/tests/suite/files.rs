//! Reading and damaging the files of a stopped member.
//!
//! A WAL record is a little-endian length of eight bytes and that many bytes. The rest of a segment
//! is zeros, so the last record is followed by a length of zero. A non-zero top byte of the length
//! has the number of padding bytes.
//!
//! ```text
//!   1a 00 00 00 00 00 00 86   26 bytes of a record, then 6 of padding
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Size of the two meta pages of a database. Opening it for writing increments the transaction id
/// there without changing data.
const META_BYTES: usize = 2 * 4096;

const ZEROS: [u8; 4096] = [0; 4096];

/// Returns all files below a directory with their contents: databases without meta pages, segments
/// without trailing zeros.
pub(crate) fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.append(&mut contents(&path));
        } else {
            let held = held(&path, fs::read(&path).unwrap());
            files.insert(path, held);
        }
    }
    files
}

fn held(path: &Path, mut bytes: Vec<u8>) -> Vec<u8> {
    if path.ends_with("member/snap/db") && bytes.len() > META_BYTES {
        bytes.drain(..META_BYTES);
    } else if path.extension().is_some_and(|extension| extension == "wal") {
        bytes.truncate(trim_zeros(&bytes).len());
    }
    bytes
}

/// Removes trailing zeros, most of them in blocks, since there may be tens of millions.
fn trim_zeros(bytes: &[u8]) -> &[u8] {
    let blocks = bytes.chunks(ZEROS.len()).rev();
    let zeros = blocks.take_while(|block| **block == ZEROS[..block.len()]);
    let rest = &bytes[..bytes.len() - zeros.map(<[u8]>::len).sum::<usize>()];
    &rest[..rest.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1)]
}

/// Returns the names of files that differ between two states of a directory.
pub(crate) fn changes(
    before: &BTreeMap<PathBuf, Vec<u8>>,
    after: &BTreeMap<PathBuf, Vec<u8>>,
) -> Vec<PathBuf> {
    let all = before.keys().chain(after.keys().filter(|path| !before.contains_key(*path)));
    all.filter(|path| before.get(*path) != after.get(*path)).cloned().collect()
}

/// Returns the last file of a directory with this extension, by name.
pub(crate) fn last(dir: &Path, ending: &str) -> PathBuf {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> =
        paths.filter(|path| path.to_str().is_some_and(|path| path.ends_with(ending))).collect();
    paths.sort();
    paths.pop().unwrap_or_else(|| panic!("no {ending} in {dir:?}"))
}

/// Returns the allocated size of a file. A database grows in large steps ahead of its data, which
/// counts in its length but not in its blocks.
pub(crate) fn bytes_on_disk(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

/// Returns the byte ranges of the records of a segment, including their frames.
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

/// Modifies a file. Zeros at its end take no space on disk.
pub(crate) fn edit(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, trim_zeros(&bytes)).unwrap();
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(bytes.len().try_into().unwrap()).unwrap();
}
