//! A flipped bit is found where checksums are kept.

use std::sync::Arc;

use bolt::{Db, Options};
use env::{Create, Disk, Fault, Open, OsClock, OsDisk, SimClock, SimDisk};

use crate::support::image::{BRANCH, ELEMENT, HEADER, Image, META_ROOT};
use crate::support::{FILE, assert_sound, open, options};

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

/// The pages that a file's newest state is made of.
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
fn a_sound_file_is_verified_and_learned_once() {
    let disk = saved();
    let pages = pages_in_use(&Image::new(disk.contents(FILE).unwrap())).len() as u64;
    let db = open(&disk, &checked()).unwrap();
    let report = db.scrub().unwrap().finish();
    assert_eq!((report.verified, report.learned, report.damaged), (pages, 0, vec![]));
    drop(db);
    // Without the sums, all are learned, and then known.
    env::Disk::remove_file(&disk, "db.sums".as_ref()).unwrap();
    let db = open(&disk, &checked()).unwrap();
    let report = db.scrub().unwrap().finish();
    assert_eq!((report.verified, report.learned), (0, pages));
    let report = db.scrub().unwrap().finish();
    assert_eq!((report.verified, report.learned), (pages, 0));
    assert!(
        open(&saved(), &options()).unwrap().scrub().is_none(),
        "none are kept unless asked for"
    );
}

#[test]
fn any_flipped_bit_in_a_page_in_use_is_found() {
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
            assert!(!report.damaged.is_empty(), "page {page}, bit {bit}");
            assert!(
                report.damaged.iter().any(|damaged| damaged.page() == page),
                "{:?}",
                report.damaged
            );
        }
    }
}

#[test]
fn sums_follow_every_commit() {
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
        assert_eq!((report.learned, report.damaged), (0, vec![]));
        assert_sound(&db.snapshot());
        db.close().unwrap();
    }
}

/// Sums that were saved hold for the state they name, and for no other.
#[test]
fn sums_of_another_state_are_dropped() {
    let disk = saved();
    let db = open(&disk, &options()).unwrap();
    let mut tx = db.write().unwrap();
    tx.create_bucket_if_missing(b"branchy").unwrap().put(b"without", b"sums").unwrap();
    tx.commit().unwrap();
    drop(db);
    let db = open(&disk, &checked()).unwrap();
    let report = db.scrub().unwrap().finish();
    assert!(report.learned > 0 && report.verified == 0 && report.damaged.is_empty(), "{report:?}");
}

#[test]
fn any_flipped_bit_in_the_sums_is_survived() {
    let disk = saved();
    let bits = disk.contents("db.sums").unwrap().len() as u64 * 8;
    for bit in 0..bits {
        let disk = disk.power_cut(0);
        disk.flip_bit("db.sums", bit);
        let db = open(&disk, &checked()).unwrap();
        let report = db.scrub().unwrap().finish();
        assert_eq!((report.verified, report.damaged), (0, vec![]), "bit {bit}");
    }
}

#[test]
fn a_scrub_goes_on_in_steps_while_commits_go_on() {
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
    assert_eq!(scrub.finish().damaged, []);
}

/// A round through a large file takes hours, in which pages must be reused.
#[test]
fn a_scrub_under_way_does_not_make_the_file_grow() {
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
fn a_file_that_is_rewritten_during_a_scrub_is_not_taken_for_damaged() {
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
    assert_eq!(scrub.finish().damaged, []);
    let report = db.scrub().unwrap().finish();
    assert_eq!((report.learned, report.damaged), (0, vec![]));
}

#[test]
fn a_page_that_cannot_be_read_is_reported() {
    let disk = saved();
    let db = open(&disk, &checked()).unwrap();
    disk.fail_call(2, Fault::Eio);
    let report = db.scrub().unwrap().finish();
    assert_eq!(report.damaged.len(), 1, "{report:?}");
    assert!(report.damaged[0].reason().contains("cannot be read"), "{report:?}");
}

/// The file of sums is not needed, so nothing in it may stop a start.
#[test]
fn sums_longer_than_they_can_be_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let (disk, clock): (Arc<dyn Disk>, _) = (Arc::new(OsDisk), OsClock::default());
    drop(Db::open(Arc::clone(&disk), &clock, &path, checked()).unwrap());
    let sums = disk.open(&folder.path().join("db.sums"), Open::create(Create::IfMissing)).unwrap();
    // More than there is memory; none of it takes space.
    sums.set_len(15 << 40).unwrap();
    let db = Db::open(disk, &clock, &path, checked()).unwrap();
    assert_eq!(db.scrub().unwrap().finish().damaged, []);
}
