//! State that survives a defragmentation: locks, checksums, both meta pages; and no temporary
//! files.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use bolt::{Db, DefragError, OpenError, Options, SWAP_BYTES_MAX, SWAP_CHANGES_MAX};
use env::{Create, Disk as _, Fault, Lock, Locking, Open, OsClock, OsDisk, SimClock, SimDisk};
use testkit::waiting::step_until;

use crate::support::contents::Contents;
use crate::support::image::Image;
use crate::support::ops::Workload;
use crate::support::{FILE, assert_consistent, open, options};

const UNFINISHED: &str = "db.tmp.defrag";

/// A database with some history, so that it has free pages.
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
fn txids_continue_and_old_snapshots_stay_readable() {
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
fn a_canceled_defragmentation_leaves_no_file() {
    let (disk, db, model) = grown(4, &options());
    let mut defrag = db.begin_defragment().unwrap();
    assert!(defrag.turn(&SimClock::default()).unwrap().is_none());
    assert!(disk.contents(UNFINISHED).is_some());
    drop(defrag);
    assert!(disk.contents(UNFINISHED).is_none());
    assert_eq!(contents(&db), model);
}

#[test]
fn opening_removes_the_file_left_by_a_crash() {
    let (disk, db, _) = grown(5, &options());
    let mut defrag = db.begin_defragment().unwrap();
    assert!(defrag.turn(&SimClock::default()).unwrap().is_none());
    std::mem::forget(defrag);
    // Keeps whichever unsynced names the power cut left.
    let mut left = 0;
    for cut in 0..20 {
        let disk = disk.power_cut(cut);
        left += usize::from(disk.contents(UNFINISHED).is_some());
        drop(open(&disk, &options()).unwrap());
        assert!(disk.contents(UNFINISHED).is_none());
    }
    assert!(left > 0, "no power cut left the temporary file");
}

#[test]
fn the_new_file_is_locked_like_the_old_one() {
    let (disk, db, _) = grown(6, &options());
    db.defragment(&SimClock::default()).unwrap();
    assert!(matches!(open(&disk, &options()), Err(OpenError::Locked { .. })));
    drop(db);
    open(&disk, &options()).unwrap();
}

#[test]
fn either_meta_page_of_the_new_file_opens_the_same_state() {
    let options = Options { page_size: 1024, ..options() };
    let (disk, db, model) = grown(7, &options);
    db.defragment(&SimClock::default()).unwrap();
    drop(db);
    let newest = Image::new(disk.contents(FILE).unwrap()).newest_meta() as u64;
    disk.flip_bit(FILE, (newest * 1024 + 20) * 8);
    let db = open(&disk, &options).unwrap();
    assert!(db.fell_back().is_some());
    assert_eq!(contents(&db), model);
    assert_consistent(&db.snapshot());
}

#[test]
fn checksums_cover_the_new_file() {
    let options = Options { page_size: 1024, checksums: true, ..options() };
    let (disk, db, _) = grown(8, &options);
    db.defragment(&SimClock::default()).unwrap();
    db.close().unwrap();
    let db = open(&disk, &options).unwrap();
    let report = db.scrub().unwrap().finish();
    assert_eq!((report.learned, report.corrupt), (0, vec![]));
    assert!(report.verified > 10);
}

#[test]
fn the_swap_is_postponed_while_many_changes_remain() {
    let put = |db: &Db, from: u64, count: u64, value: &[u8]| {
        let mut tx = db.write().unwrap();
        let mut bucket = tx.create_bucket_if_missing(b"many").unwrap();
        (from..from + count).for_each(|key| bucket.put(&key.to_be_bytes(), value).unwrap());
        tx.commit().unwrap();
    };
    let clock = SimClock::default();
    let (_disk, db, _) = grown(9, &options());
    let mut defrag = db.begin_defragment().unwrap();
    assert!(defrag.try_swap(&clock).unwrap().is_none(), "nothing was copied yet");
    defrag.catch_up().unwrap();
    put(&db, 0, SWAP_CHANGES_MAX + 1, b"v");
    assert!(defrag.try_swap(&clock).unwrap().is_none(), "too many changes");
    defrag.catch_up().unwrap();
    put(&db, 0, 10, &vec![7; SWAP_BYTES_MAX / 10]);
    assert!(defrag.try_swap(&clock).unwrap().is_none(), "too many bytes");
    defrag.catch_up().unwrap();
    put(&db, 0, SWAP_CHANGES_MAX, b"w");
    let report = defrag.try_swap(&clock).unwrap().expect("within the limit");
    assert_eq!((report.swap_changes, report.rounds), (SWAP_CHANGES_MAX, 2));
    assert!(matches!(defrag.turn(&clock), Err(DefragError::Ended)));
    drop(defrag);
    assert_consistent(&db.snapshot());
}

/// A sync that failed once succeeds when repeated, without making the data durable.
#[test]
fn a_failed_defragmentation_does_not_continue() {
    let (disk, db, _) = grown(10, &options());
    let clock = SimClock::default();
    let mut defrag = db.begin_defragment().unwrap();
    disk.fail_from_change(0, Fault::Eio);
    assert!(matches!(defrag.turn(&clock), Err(DefragError::Io { .. } | DefragError::Refused(_))));
    disk.heal();
    assert!(matches!(defrag.turn(&clock), Err(DefragError::Ended)));
    assert!(matches!(defrag.try_swap(&clock), Err(DefragError::Ended)));
    drop(defrag);
    db.defragment(&clock).unwrap();
}

/// A database received from another member has replaced the file, and must stay.
#[test]
fn a_replaced_database_does_not_rename_over_its_replacement() {
    let (disk, db, _) = grown(12, &options());
    let clock = SimClock::default();
    let mut defrag = db.begin_defragment().unwrap();
    assert!(defrag.turn(&clock).unwrap().is_none());
    db.mark_replaced();
    assert!(matches!(defrag.turn(&clock), Err(DefragError::Ended)));
    drop(defrag);
    assert!(disk.contents(UNFINISHED).is_none());
    assert!(matches!(db.defragment(&clock), Err(DefragError::Ended)));
    db.write().unwrap().commit().unwrap();
}

/// The replacement is defragmented too, before the old database notices.
#[test]
fn defragmentations_of_a_database_and_its_replacement_do_not_interfere() {
    let (disk, old, _) = grown(13, &options());
    let clock = SimClock::default();
    let mut given_up = old.begin_defragment().unwrap();
    assert!(given_up.turn(&clock).unwrap().is_none());
    old.mark_replaced();
    disk.rename(Path::new(FILE), Path::new("old")).unwrap();
    let new = open(&disk, &options()).unwrap();
    let mut defrag = new.begin_defragment().unwrap();
    drop(given_up);
    assert!(disk.contents(UNFINISHED).is_some());
    step_until("the defragmentation is done", || defrag.turn(&clock).unwrap().is_some());
}

/// A replaced database may still be filling the temporary file.
#[test]
fn a_locked_temporary_file_is_left_alone() {
    let (disk, db, _) = grown(14, &options());
    let file = disk.open(Path::new(UNFINISHED), Open::create(Create::New)).unwrap();
    file.write_at(b"half a database", 0).unwrap();
    assert!(file.try_lock(Locking::Flock, Lock::Exclusive).unwrap());
    assert!(matches!(db.begin_defragment(), Err(DefragError::Io { action: "lock", .. })));
    assert_eq!(disk.contents(UNFINISHED).unwrap(), b"half a database");
    drop(file);
    db.defragment(&SimClock::default()).unwrap();
}

#[test]
fn a_defragmentation_that_cannot_catch_up_fails() {
    let (disk, db, _) = grown(11, &options());
    let mut defrag = db.begin_defragment().unwrap();
    let outrun = (0..200).find_map(|_| defrag.catch_up().err());
    assert!(matches!(outrun, Some(DefragError::TooManyRounds(100))));
    drop(defrag);
    assert!(disk.contents(UNFINISHED).is_none());
}

#[test]
fn the_space_of_the_old_file_is_reclaimed() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, clock) = (Arc::new(OsDisk), OsClock::default());
    let db = Db::open(disk, &clock, &dir.path().join("db"), options()).unwrap();
    let mut tx = db.write().unwrap();
    let mut bucket = tx.create_bucket_if_missing(b"key").unwrap();
    (0..1000_u64).for_each(|key| bucket.put(&key.to_be_bytes(), &[7; 1000]).unwrap());
    tx.commit().unwrap();
    let held = db.snapshot();
    db.defragment(&clock).unwrap();
    let inode = |file: std::fs::Metadata| (file.len(), file.nlink());
    let nameless = || {
        let open = std::fs::read_dir("/proc/self/fd").unwrap();
        let dir = dir.path().to_str().unwrap().to_owned();
        let ours = move |path: &std::path::Path| {
            std::fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with(&dir))
        };
        open.map(|fd| fd.unwrap().path())
            .filter(|path| ours(path))
            .map(|path| inode(std::fs::metadata(path).unwrap()))
            .filter(|(_, links)| *links == 0)
            .map(|(len, _)| len)
            .collect::<Vec<_>>()
    };
    assert!(nameless()[0] > 1_000_000, "a snapshot still reads it: {:?}", nameless());
    drop(held);
    db.reclaim_space();
    assert_eq!(nameless(), [0], "truncated, and its lock still held");
}
