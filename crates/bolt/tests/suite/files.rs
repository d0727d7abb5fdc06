//! Files written by bbolt, read and written by this crate.

use std::path::PathBuf;

use bolt::{Db, Options};
use env::{SeededRandom, SimDisk};

use crate::dump::dump;
use crate::support::contents::Contents;
use crate::support::image::{Image, META_FREELIST, META_ROOT};
use crate::support::ops::Workload;
use crate::support::verify::{verify, verify_size};
use crate::support::{FILE, assert_consistent, disk_with, open, options};

const FILES: [&str; 4] = ["empty", "nested", "overflow", "branches"];

fn testdata(name: &str) -> Vec<u8> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "testdata/bbolt", name].iter().collect();
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn text(db: &Db) -> String {
    let mut text = Vec::new();
    dump(&db.snapshot(), &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// Runs a test on each file, opened with each combination of options.
fn each_file(test: impl Fn(&str, SimDisk, Options)) {
    for name in FILES {
        for sync_freelist in [false, true] {
            let disk = disk_with(&testdata(&format!("{name}.db")));
            test(name, disk, Options { sync_freelist, ..options() });
        }
    }
}

#[test]
fn files_written_by_bbolt_are_read() {
    each_file(|name, disk, options| {
        let expected = String::from_utf8(testdata(&format!("{name}.txt"))).unwrap();
        for read_only in [true, false] {
            let db = open(&disk, &Options { read_only, ..options.clone() }).unwrap();
            assert!(text(&db) == expected, "{name}");
            assert_consistent(&db.snapshot());
            assert_eq!(db.fell_back(), None);
            let model = Contents::read(&db.snapshot().root()).unwrap();
            verify(&db.snapshot().root(), &model, &mut SeededRandom::new(1));
            if !read_only {
                verify_size(&db.snapshot(), &model, &disk.contents(FILE).unwrap());
            }
        }
    });
}

#[test]
fn opening_a_bbolt_file_changes_only_the_older_meta_page() {
    each_file(|name, disk, options| {
        let before = Image::new(testdata(&format!("{name}.db")));
        drop(open(&disk, &options).unwrap());
        let after = Image::new(disk.contents(FILE).unwrap());
        let data = 2 * before.page_size;
        assert!(before.bytes[data..] == after.bytes[data..], "{name}");
        assert_eq!(before.newest_meta(), after.newest_meta(), "{name}");
        assert_eq!(before.meta(META_ROOT), after.meta(META_ROOT), "{name}");
        // Without the newer meta page, the other one yields the same state.
        let newest = after.newest_meta() as u64 * before.page_size as u64;
        disk.flip_bit(FILE, (newest + 20) * 8);
        let db = open(&disk, &options).unwrap();
        assert!(db.fell_back().is_some());
        assert!(
            text(&db) == String::from_utf8(testdata(&format!("{name}.txt"))).unwrap(),
            "{name}"
        );
    });
}

#[test]
fn files_written_by_bbolt_can_be_written() {
    each_file(|name, disk, options| {
        let db = open(&disk, &options).unwrap();
        let mut model = Contents::read(&db.snapshot().root()).unwrap();
        let mut workload = Workload::new(1, 150, 5_000);
        for _ in 0..30 {
            let mut tx = db.write().unwrap();
            workload.transaction(30).iter().for_each(|op| op.apply(&mut tx, &mut model));
            tx.commit().unwrap();
            assert_consistent(&db.snapshot());
        }
        verify(&db.snapshot().root(), &model, &mut workload.random);
        drop(db);
        let saved = Image::new(disk.contents(FILE).unwrap()).meta(META_FREELIST) != u64::MAX;
        assert_eq!(
            saved, options.sync_freelist,
            "{name}: saved according to the option, whatever it was before"
        );
        let db = open(&disk, &options).unwrap();
        verify(&db.snapshot().root(), &model, &mut workload.random);
    });
}

#[test]
fn a_snapshot_copy_is_a_complete_file() {
    each_file(|name, disk, options| {
        let db = open(&disk, &options).unwrap();
        let mut copy = Vec::new();
        let len = db.snapshot().write_to(&mut copy).unwrap();
        assert_eq!(len, copy.len() as u64);
        assert_eq!(len, db.snapshot().size());
        let expected = String::from_utf8(testdata(&format!("{name}.txt"))).unwrap();
        // Either meta page opens the copy.
        for slot in [None, Some(0), Some(1)] {
            let disk = disk_with(&copy);
            if let Some(slot) = slot {
                disk.flip_bit(FILE, slot * db.snapshot().page_size() as u64 * 8 + 20 * 8);
            }
            let copy = open(&disk, &options).unwrap();
            assert_eq!(copy.fell_back().is_some(), slot.is_some());
            assert!(text(&copy) == expected, "{name}");
            assert_consistent(&copy.snapshot());
        }
    });
}
