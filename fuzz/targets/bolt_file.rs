//! Opens arbitrary bytes as a database file, walks it and writes to it; and as the file of page
//! checksums beside a sound database.
//!
//! Invariants: those of `exercise`. Whatever the checksum file contains, the database is opened and
//! keeps its contents; corruption is reported only if the file has valid checksums of this state.

#![no_main]

#[path = "../../crates/bolt/tests/suite/exercise.rs"]
mod exercise;

use std::path::Path;
use std::sync::{Arc, LazyLock};

use bolt::{Db, Options};
use env::{Create, Disk as _, Open, SimClock, SimDisk};
use libfuzzer_sys::fuzz_target;

const FILE: &str = "db";
const SUMS: &str = "db.sums";
/// The header of a checksum file, in which the checksum of the rest is at offset 40.
const HEADER_BYTES: usize = 44;
const CRC_AT: usize = 40;

fuzz_target!(|input: &[u8]| {
    exercise::exercise(input);
    check_sums(input);
    // With the header and the checksum of a valid file, to get past them.
    let (header, _) = SOUND.1.split_at(HEADER_BYTES);
    let mut sums = [header, input].concat();
    let pages = (input.len() / 4) as u64;
    sums[32..CRC_AT].copy_from_slice(&pages.to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&sums[..CRC_AT]), &sums[HEADER_BYTES..]);
    sums[CRC_AT..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    check_sums(&sums);
});

/// A database with one pair, and its checksum file.
static SOUND: LazyLock<(Vec<u8>, Vec<u8>)> = LazyLock::new(|| {
    let disk = SimDisk::new(0);
    let db = open(&disk);
    let mut tx = db.write().expect("a new file");
    tx.create_bucket_if_missing(b"b").and_then(|mut b| b.put(b"k", b"v")).expect("a new file");
    tx.commit().expect("a disk without faults");
    db.close().expect("a disk without faults");
    (disk.contents(FILE).expect("the database"), disk.contents(SUMS).expect("its checksums"))
});

fn open(disk: &SimDisk) -> Db {
    let options = Options { grow_bytes: 4096, checksums: true, ..Options::default() };
    Db::open(Arc::new(disk.clone()), &SimClock::default(), Path::new(FILE), options)
        .expect("checksums never keep a database from being opened")
}

fn check_sums(sums: &[u8]) {
    let disk = SimDisk::new(0);
    for (path, bytes) in [(FILE, &SOUND.0[..]), (SUMS, sums)] {
        let file = disk.open(Path::new(path), Open::create(Create::New)).expect("create a file");
        file.write_at(bytes, 0).expect("a disk without faults");
    }
    let db = open(&disk);
    let snapshot = db.snapshot();
    let bucket = snapshot.bucket(b"b").expect("a sound file").expect("it was created");
    assert_eq!(bucket.get(b"k").expect("a sound file"), Some(&b"v"[..]));
    assert_eq!(snapshot.check(), []);
    drop(snapshot);
    let report = db.scrub().expect("the database has checksums").finish();
    // The page size, the transaction and the checksum of the meta page.
    let is_same = |range: std::ops::Range<usize>| sums.get(range.clone()) == SOUND.1.get(range);
    let is_of_this_state = is_same(8..12) && is_same(16..32);
    assert!(report.corrupt.is_empty() || is_of_this_state, "{report:?}");
}
