//! Scrubbing detects flipped bits where checksums are kept.

use std::sync::Arc;

use bolt::{Db, Options};
use env::{Create, Disk, Fault, Open, OsClock, OsDisk, SimClock, SimDisk};

use crate::support::image::{BRANCH, ELEMENT, HEADER, Image, META_ROOT};
use crate::support::{FILE, assert_consistent, open, options};

fn checked() -> Options {
    Options { page_size: 1024, checksums: true, ..options() }
}

/// A small file with all kinds of pages, closed with its checksums saved.
fn saved() -> SimDisk {
    let disk = SimDisk::new(0);
    let db = open(&disk, &checked()).unwrap();
    for round in 0..3_u8 {
        let mut tx = db.write().unwrap();
        let mut bucket = tx.create_bucket_if_missing(b"branchy").unwrap();
        for key in 0..24 {
            bucket.put(format!("key-{key:02}").as_bytes(), &[round; 60]).unwrap();
        }
        bucket.create_bucket_if_missing(b"inner").unwrap().put(b"large", &[round; 1500]).unwrap();
        tx.commit().unwrap();
    }
    db.close().unwrap();
    disk.power_cut(0)
}

/// The pages that the newest state of a file uses.
fn pages_in_use(image: &Image) -> Vec<u64> {
    let mut pages = Vec::new();
    let mut todo = vec![image.meta(META_ROOT)];
    while let Some(id) = todo.pop() {
        pages.extend(id..=id + u64::from(image.overflow(id)));
        let number =
            |at: usize| u64::from(u32::from_le_bytes(*image.bytes[at..].first_chunk().unwrap()));
        let long = |at: usize| u64::from_le_bytes(*image.bytes[at..].first_chunk().unwrap());
        for index in 0..image.count(id) {
            let at = image.page(id) + HEADER + index * ELEMENT;
            if image.flags(id) == BRANCH {
                todo.push(long(at + 8));
            } else if number(at) == 1 {
                let value = at + usize::try_from(number(at + 4) + number(at + 8)).unwrap();
                todo.extend(Some(long(value)).filter(|root| *root != 0));
            }
        }
    }
    pages
}

#[test]
fn a_scrub_verifies_known_pages_and_learns_unknown_ones() {
    let disk = saved();
    let pages = pages_in_use(&Image::new(disk.contents(FILE).unwrap())).len() as u64;
    let db = open(&disk, &checked()).unwrap();
    let report = db.scrub().unwrap().finish();
    assert_eq!((report.verified, report.learned, report.corrupt), (pages, 0, vec![]));
    drop(db);
    // Without saved checksums, the first scrub learns all pages and the second verifies them.
    env::Disk::remove_file(&disk, "db.sums".as_ref()).unwrap();
    let db = open(&disk, &checked()).unwrap();
    let report = db.scrub().unwrap().finish();
    assert_eq!((report.verified, report.learned), (0, pages));
    let report = db.scrub().unwrap().finish();
    assert_eq!((report.verified, report.learned), (pages, 0));
    assert!(
        open(&saved(), &options()).unwrap().scrub().is_none(),
        "no checksums are kept by default"
    );
}

#[test]
fn any_flipped_bit_in_a_used_page_is_detected() {
    let disk = saved();
    let image = Image::new(disk.contents(FILE).unwrap());
    let pages = pages_in_use(&image);
    assert!(pages.len() > 6, "{pages:?}");
    for page in pages {
        for bit in (0..1024 * 8).step_by(3) {
            let disk = disk.power_cut(0);
            disk.flip_bit(FILE, page * 1024 * 8 + bit);
            let Ok(db) = open(&disk, &checked()) else { continue };
            let report = db.scrub().unwrap().finish();
            assert!(!report.corrupt.is_empty(), "page {page}, bit {bit}");
            assert!(
                report.corrupt.iter().any(|corrupt| corrupt.page() == page),
                "{:?}",
                report.corrupt
            );
        }
    }
}

#[test]
fn every_commit_updates_the_checksums() {
    let disk = saved();
    for round in 0..20_u8 {
        let db = open(&disk, &checked()).unwrap();
        let mut tx = db.write().unwrap();
        tx.create_bucket_if_missing(&[round % 3 + 1])
            .unwrap()
            .put(&[round], &[round; 700])
            .unwrap();
        tx.commit().unwrap();
        let report = db.scrub().unwrap().finish();
        assert_eq!((report.learned, report.corrupt), (0, vec![]));
        assert_consistent(&db.snapshot());
        db.close().unwrap();
    }
}

/// Saved checksums are valid only for the state that they name.
#[test]
fn checksums_of_another_state_are_discarded() {
    let disk = saved();
    let db = open(&disk, &options()).unwrap();
    let mut tx = db.write().unwrap();
    tx.create_bucket_if_missing(b"branchy").unwrap().put(b"without", b"sums").unwrap();
    tx.commit().unwrap();
    drop(db);
    let db = open(&disk, &checked()).unwrap();
    let report = db.scrub().unwrap().finish();
    assert!(report.learned > 0 && report.verified == 0 && report.corrupt.is_empty(), "{report:?}");
}

#[test]
fn any_flipped_bit_in_the_checksum_file_discards_it() {
    let disk = saved();
    let bits = disk.contents("db.sums").unwrap().len() as u64 * 8;
    for bit in 0..bits {
        let disk = disk.power_cut(0);
        disk.flip_bit("db.sums", bit);
        let db = open(&disk, &checked()).unwrap();
        let report = db.scrub().unwrap().finish();
        assert_eq!((report.verified, report.corrupt), (0, vec![]), "bit {bit}");
    }
}

#[test]
fn a_scrub_runs_in_steps_between_commits() {
    let disk = saved();
    let db = open(&disk, &checked()).unwrap();
    let mut scrub = db.scrub().unwrap();
    let mut steps = 0_u8;
    while scrub.step(1) {
        steps += 1;
        let mut tx = db.write().unwrap();
        tx.create_bucket_if_missing(b"branchy").unwrap().put(&[steps], &[steps; 300]).unwrap();
        tx.commit().unwrap();
    }
    assert!(steps > 3);
    assert_eq!(scrub.finish().corrupt, []);
}

/// A pass over a large file takes hours, during which pages must be reused.
#[test]
fn a_running_scrub_does_not_make_the_file_grow() {
    let sizes = [false, true].map(|scrubbing| {
        let disk = SimDisk::new(0);
        let db = open(&disk, &checked()).unwrap();
        let overwrite = |round: u8| {
            let mut tx = db.write().unwrap();
            let mut bucket = tx.create_bucket_if_missing(b"key").unwrap();
            (0..100_u8).for_each(|key| bucket.put(&[key], &[round; 100]).unwrap());
            tx.commit().unwrap();
        };
        overwrite(0);
        let mut scrub = db.scrub().unwrap();
        if scrubbing {
            assert!(scrub.step(2));
        }
        (1..100).for_each(overwrite);
        db.snapshot().size()
    });
    assert_eq!(sizes[0], sizes[1]);
}

#[test]
fn defragmentation_during_a_scrub_reports_no_corruption() {
    let disk = SimDisk::new(0);
    let db = open(&disk, &checked()).unwrap();
    for round in 0..20_u8 {
        let mut tx = db.write().unwrap();
        let mut bucket = tx.create_bucket_if_missing(b"key").unwrap();
        (0..50_u8).for_each(|key| bucket.put(&[round, key], &[round; 100]).unwrap());
        tx.commit().unwrap();
    }
    let mut scrub = db.scrub().unwrap();
    assert!(scrub.step(3));
    db.defragment(&SimClock::default()).unwrap();
    assert_eq!(scrub.finish().corrupt, []);
    let report = db.scrub().unwrap().finish();
    assert_eq!((report.learned, report.corrupt), (0, vec![]));
}

#[test]
fn a_page_that_cannot_be_read_is_reported() {
    let disk = saved();
    let db = open(&disk, &checked()).unwrap();
    disk.fail_call(2, Fault::Eio);
    let report = db.scrub().unwrap().finish();
    assert_eq!(report.corrupt.len(), 1, "{report:?}");
    assert!(report.corrupt[0].reason().contains("cannot be read"), "{report:?}");
}

/// The checksum file is optional, so it must never prevent a start.
#[test]
fn an_oversized_checksum_file_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let (disk, clock): (Arc<dyn Disk>, _) = (Arc::new(OsDisk), OsClock::default());
    drop(Db::open(Arc::clone(&disk), &clock, &path, checked()).unwrap());
    let sums = disk.open(&dir.path().join("db.sums"), Open::create(Create::IfMissing)).unwrap();
    // Larger than the memory, but sparse.
    sums.set_len(15 << 40).unwrap();
    let db = Db::open(disk, &clock, &path, checked()).unwrap();
    assert_eq!(db.scrub().unwrap().finish().corrupt, []);
}
