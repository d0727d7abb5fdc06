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

/// Bytes of the two meta pages of a database. Opening one for writing counts a transaction there, although it changes nothing.
const META_BYTES: usize = 2 * 4096;

const ZEROS: [u8; 4096] = [0; 4096];

/// All files below a folder, with what they hold: databases without their meta pages, segments without the zeros behind the last record.
pub(crate) fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
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
        bytes.truncate(without_zeros(&bytes).len());
    }
    bytes
}

/// Without the zeros at the end. There may be tens of millions, so most are taken by the block.
fn without_zeros(bytes: &[u8]) -> &[u8] {
    let blocks = bytes.chunks(ZEROS.len()).rev();
    let zeros = blocks.take_while(|block| **block == ZEROS[..block.len()]);
    let rest = &bytes[..bytes.len() - zeros.map(<[u8]>::len).sum::<usize>()];
    &rest[..rest.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1)]
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

/// Changes a file. Zeros at its end take no space on the disk.
pub(crate) fn edit(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, without_zeros(&bytes)).unwrap();
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(bytes.len().try_into().unwrap()).unwrap();
}
