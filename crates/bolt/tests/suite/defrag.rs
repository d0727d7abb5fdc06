//! What a defragmentation leaves behind: locks, checksums, both meta pages, and no unfinished files.

use bolt::{Db, OpenError, Options};
use env::{SimClock, SimDisk};

use crate::support::contents::Contents;
use crate::support::image::Image;
use crate::support::ops::Workload;
use crate::support::{FILE, assert_sound, open, options};

const UNFINISHED: &str = "db.tmp.defrag";

/// A database with a history, so that there is something to gain.
fn grown(seed: u64, options: &Options) -> (SimDisk, Db, Contents) {
    let disk = SimDisk::new(seed);
    let db = open(&disk, options).unwrap();
    let mut workload = Workload::new(seed, 150, 4_000);
    let mut model = Contents::default();
    for _ in 0..30 {
        let mut tx = db.write().unwrap();
        workload.transaction(30).iter().for_each(|op| op.apply(&mut tx, &mut model));
        tx.commit().unwrap();
    }
    (disk, db, model)
}

fn contents(db: &Db) -> Contents {
    Contents::read(&db.snapshot().root()).unwrap()
}

#[test]
fn transactions_go_on_counting_and_old_snapshots_stay_readable() {
    let options = Options { page_size: 1024, ..options() };
    let (_disk, db, model) = grown(1, &options);
    let before = db.snapshot();
    let report = db.defragment(&SimClock::default()).unwrap();
    assert_eq!((report.size_before, report.size_after), (before.size(), db.snapshot().size()));
    assert_eq!((report.caught_up, report.rounds), (0, 1));
    assert!(db.snapshot().txid() > before.txid());
    assert_eq!(contents(&db), model);
    assert_eq!(Contents::read(&before.root()).unwrap(), model);
}

#[test]
fn one_that_is_given_up_leaves_nothing() {
    let (disk, db, model) = grown(4, &options());
    let mut defrag = db.begin_defragment().unwrap();
    assert!(defrag.turn(&SimClock::default()).unwrap().is_none());
    assert!(disk.contents(UNFINISHED).is_some());
    drop(defrag);
    assert!(disk.contents(UNFINISHED).is_none());
    assert_eq!(contents(&db), model);
}

#[test]
fn what_a_crash_left_is_removed() {
    let (disk, db, _) = grown(5, &options());
    let mut defrag = db.begin_defragment().unwrap();
    assert!(defrag.turn(&SimClock::default()).unwrap().is_none());
    std::mem::forget(defrag);
    // Whichever of its unsynced names the power cut has left.
    let mut left = 0;
    for cut in 0..20 {
        let disk = disk.power_cut(cut);
        left += usize::from(disk.contents(UNFINISHED).is_some());
        drop(open(&disk, &options()).unwrap());
        assert!(disk.contents(UNFINISHED).is_none());
    }
    assert!(left > 0, "no power cut has left it");
}

#[test]
fn the_new_file_is_locked_as_the_old_one_was() {
    let (disk, db, _) = grown(6, &options());
    db.defragment(&SimClock::default()).unwrap();
    assert!(matches!(open(&disk, &options()), Err(OpenError::Locked { .. })));
    drop(db);
    open(&disk, &options()).unwrap();
}

#[test]
fn falling_back_right_after_it_finds_the_same() {
    let options = Options { page_size: 1024, ..options() };
    let (disk, db, model) = grown(7, &options);
    db.defragment(&SimClock::default()).unwrap();
    drop(db);
    let newest = Image::new(disk.contents(FILE).unwrap()).newest_meta() as u64;
    disk.flip_bit(FILE, (newest * 1024 + 20) * 8);
    let db = open(&disk, &options).unwrap();
    assert!(db.fell_back().is_some());
    assert_eq!(contents(&db), model);
    assert_sound(&db.snapshot());
}

#[test]
fn checksums_come_along() {
    let options = Options { page_size: 1024, checksums: true, ..options() };
    let (disk, db, _) = grown(8, &options);
    db.defragment(&SimClock::default()).unwrap();
    db.close().unwrap();
    let db = open(&disk, &options).unwrap();
    let report = db.scrub().unwrap().finish();
    assert_eq!((report.learned, report.damaged), (0, vec![]));
    assert!(report.verified > 10);
}
