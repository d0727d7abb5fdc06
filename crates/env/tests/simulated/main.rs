//! Guarantees of the simulated disk under faults.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod contents;
mod counters;
mod faults;
mod names;
mod properties;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use env::{Create, Disk, File, Open, SimDisk};

/// Size of a sector, in bytes.
const SECTOR: usize = 512;

/// Number of power cuts: enough to see all outcomes that are not very unlikely.
const SEEDS: u64 = 400;

fn path(name: &str) -> &Path {
    Path::new(name)
}

/// Opens a file, creating it if it is missing.
fn open(disk: &SimDisk, name: &str) -> Arc<dyn File> {
    disk.open(path(name), Open::create(Create::IfMissing)).unwrap()
}

/// Creates a durable file with a durable name.
fn durable(disk: &SimDisk, name: &str, contents: &[u8]) -> Arc<dyn File> {
    let file = open(disk, name);
    file.write_at(contents, 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(path(name).parent().unwrap()).unwrap();
    file
}

/// All results of `look` after power cuts at this point.
fn cuts<T: Ord>(disk: &SimDisk, look: impl Fn(&SimDisk) -> T) -> BTreeSet<T> {
    (0..SEEDS).map(|seed| look(&disk.power_cut(seed))).collect()
}

/// All contents of a file after power cuts at this point.
fn cuts_of(disk: &SimDisk, name: &str) -> BTreeSet<Option<Vec<u8>>> {
    cuts(disk, |disk| disk.contents(name))
}

/// Sectors, each filled with one letter.
fn sectors(letters: &str) -> Vec<u8> {
    letters.bytes().flat_map(|letter| [letter; SECTOR]).collect()
}

/// The letters of a file of complete sectors, with a dot for zeros; "-" if there is no file.
fn letters(contents: Option<Vec<u8>>) -> String {
    let Some(contents) = contents else { return "-".to_owned() };
    let letter = |sector: &[u8]| {
        assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector is atomic");
        if sector[0] == 0 { '.' } else { char::from(sector[0]) }
    };
    contents.chunks(SECTOR).map(letter).collect()
}

/// The letters of a file after power cuts at this point.
fn letters_after_cuts(disk: &SimDisk, name: &str) -> BTreeSet<String> {
    cuts(disk, |disk| letters(disk.contents(name)))
}

fn set<const N: usize>(expected: [&str; N]) -> BTreeSet<String> {
    expected.into_iter().map(str::to_owned).collect()
}
