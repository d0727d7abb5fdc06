//! An error of the disk stops writing, and nothing else.

use bolt::{CommitError, Db, Options};
use env::{Fault, SimDisk};

use crate::support::contents::Contents;
use crate::support::image::{Image, META_TXID};
use crate::support::ops::Workload;
use crate::support::{FILE, assert_sound, disk_with, open, options};

/// A file with a history, all of it durable.
fn before(options: &Options) -> (SimDisk, Contents) {
    let disk = SimDisk::new(3);
    let db = open(&disk, options).unwrap();
    let mut workload = Workload::new(3, 200, 4_000);
    let mut model = Contents::default();
    for _ in 0..20 {
        commit(&db, &mut model, &mut workload).unwrap();
    }
    drop(db);
    (disk.power_cut(0), model)
}

/// Changes both and commits; the model is not changed by a commit that fails.
fn commit(db: &Db, model: &mut Contents, workload: &mut Workload) -> Result<u64, Failed> {
    let mut tx = db.write().map_err(|error| Failed { error, under_way: model.clone() })?;
    let mut under_way = model.clone();
    workload.transaction(20).iter().for_each(|op| op.apply(&mut tx, &mut under_way));
    match tx.commit() {
        Ok(txid) => {
            *model = under_way;
            Ok(txid)
        }
        Err(error) => Err(Failed { error, under_way }),
    }
}

/// A commit that failed, and what it would have left.
#[derive(Debug)]
struct Failed {
    error: CommitError,
    under_way: Contents,
}

/// Commits until one fails. Readers have what the last good commit left, and nobody writes any more.
fn commit_until_it_fails(disk: &SimDisk, db: &Db, model: &mut Contents) -> Option<Failed> {
    let mut workload = Workload::new(4, 200, 4_000);
    for _ in 0..12 {
        let held = db.snapshot();
        let Err(failed) = commit(db, model, &mut workload) else { continue };
        for snapshot in [held, db.snapshot()] {
            assert_eq!(&Contents::read(&snapshot.root()).unwrap(), model, "readers go on");
            assert_sound(&snapshot);
        }
        let refused = db.write().unwrap_err();
        assert!(matches!(refused, CommitError::Poisoned { .. }), "{refused}");
        assert!(refused.to_string().contains(FILE), "{refused}");
        disk.heal();
        assert!(db.write().is_err(), "until it is opened again");
        return Some(failed);
    }
    None
}

/// After an error, the disk has what was acknowledged, or what the failed commit would have left; and it goes on from there.
fn assert_nothing_lost(disk: &SimDisk, options: &Options, model: &Contents, failed: &Failed) {
    for disk in [disk.power_cut(1), disk.power_cut(2), disk.clone()] {
        let db = open(&disk, options).unwrap();
        assert_sound(&db.snapshot());
        let mut found = Contents::read(&db.snapshot().root()).unwrap();
        assert!(found == *model || found == failed.under_way);
        commit(&db, &mut found, &mut Workload::new(8, 50, 100)).unwrap();
        assert_sound(&db.snapshot());
        assert_eq!(Contents::read(&db.snapshot().root()).unwrap(), found);
    }
}

#[test]
fn an_error_at_any_call_is_told_and_loses_nothing() {
    for sync_freelist in [false, true] {
        let options = Options { page_size: 1024, sync_freelist, ..options() };
        let (before, model) = before(&options);
        for fault in [Fault::Eio, Fault::Enospc] {
            for call in 0.. {
                let disk = before.power_cut(0);
                let Ok(db) = open(&disk, &options) else { unreachable!("no fault is planned yet") };
                disk.fail_call(call, fault);
                let mut acknowledged = model.clone();
                let Some(failed) = commit_until_it_fails(&disk, &db, &mut acknowledged) else {
                    assert!(call > 50, "only {call} calls");
                    break;
                };
                let error = &failed.error;
                let CommitError::Io { path, .. } = error else { panic!("{error:?}") };
                assert_eq!(path.to_str(), Some(FILE));
                drop(db);
                assert_nothing_lost(&disk, &options, &acknowledged, &failed);
            }
        }
    }
}

#[test]
fn a_disk_that_stays_broken_loses_nothing() {
    let options = Options { page_size: 1024, ..options() };
    let (before, model) = before(&options);
    for change in 0..60 {
        let disk = before.power_cut(0);
        let db = open(&disk, &options).unwrap();
        disk.fail_from_change(change, Fault::Eio);
        let mut acknowledged = model.clone();
        if let Some(failed) = commit_until_it_fails(&disk, &db, &mut acknowledged) {
            drop(db);
            assert_nothing_lost(&disk, &options, &acknowledged, &failed);
        }
    }
}

#[test]
fn an_error_while_the_file_is_opened_is_told_and_loses_nothing() {
    for checksums in [false, true] {
        let options = Options { page_size: 1024, checksums, ..options() };
        let (before, model) = before(&options);
        for call in 0.. {
            let disk = before.power_cut(0);
            disk.fail_call(call, Fault::Eio);
            let opened = open(&disk, &options);
            disk.heal();
            if disk.calls().all() <= call {
                assert!(call > 4, "only {call} calls");
                break;
            }
            // That checksums cannot be read is no reason not to open.
            if let Err(error) = opened.map(drop) {
                assert!(error.to_string().contains(FILE), "{error}");
            }
            let db = open(&disk, &options).unwrap();
            assert_eq!(Contents::read(&db.snapshot().root()).unwrap(), model);
        }
    }
}

#[test]
fn an_error_while_the_file_is_made_leaves_it_to_be_made_again() {
    for fault in [Fault::Eio, Fault::Enospc] {
        for call in 0.. {
            let disk = SimDisk::new(call);
            disk.fail_call(call, fault);
            let opened = open(&disk, &options());
            disk.heal();
            if disk.calls().all() <= call {
                assert!(call > 8, "only {call} calls");
                break;
            }
            assert!(opened.is_err(), "call {call}");
            let db = open(&disk, &options()).unwrap();
            assert_sound(&db.snapshot());
            // What is committed then is durable, the file's name too.
            let mut model = Contents::default();
            commit(&db, &mut model, &mut Workload::new(call, 20, 100)).unwrap();
            for cut in 0..4 {
                let db = open(&disk.power_cut(cut), &options()).unwrap();
                assert_eq!(Contents::read(&db.snapshot().root()).unwrap(), model, "call {call}");
            }
        }
    }
}

#[test]
fn a_full_disk_is_told_and_loses_nothing() {
    let options = Options { page_size: 1024, ..options() };
    let (disk, model) = before(&options);
    let len = disk.contents(FILE).unwrap().len() as u64;
    let db = open(&disk, &options).unwrap();
    disk.set_capacity(Some(len + 20_000));
    let mut acknowledged = model;
    let mut workload = Workload::new(5, 5_000, 4_000);
    let failed =
        (0..200).find_map(|_| commit(&db, &mut acknowledged, &mut workload).err()).unwrap();
    assert!(matches!(failed.error, CommitError::Io { .. }), "{failed:?}");
    assert_eq!(Contents::read(&db.snapshot().root()).unwrap(), acknowledged);
    drop(db);
    disk.set_capacity(None);
    let db = open(&disk, &options).unwrap();
    assert_sound(&db.snapshot());
    assert_eq!(Contents::read(&db.snapshot().root()).unwrap(), acknowledged);
}

/// The commit before stays whole until another follows.
#[test]
fn without_the_newest_meta_page_the_commit_before_is_found() {
    for sync_freelist in [false, true] {
        let options = Options { page_size: 1024, sync_freelist, ..options() };
        let disk = SimDisk::new(6);
        let db = open(&disk, &options).unwrap();
        let mut workload = Workload::new(6, 300, 4_000);
        let mut model = Contents::default();
        for round in 0..80 {
            let (before, txid) = (model.clone(), db.snapshot().txid());
            let committed = commit(&db, &mut model, &mut workload).unwrap();
            if committed == txid {
                continue;
            }
            let damaged = disk.power_cut(round);
            let image = Image::new(damaged.contents(FILE).unwrap());
            let page_bits = image.page_size as u64 * 8;
            let bit = workload.random.below(64 * 8);
            damaged.flip_bit(FILE, image.newest_meta() as u64 * page_bits + 16 * 8 + bit);
            let older = open(&damaged, &options).unwrap();
            assert!(older.fell_back().is_some());
            assert_eq!(older.snapshot().txid(), txid);
            assert_eq!(Contents::read(&older.snapshot().root()).unwrap(), before);
            assert_sound(&older.snapshot());
            // And it goes on from there.
            let mut model = before;
            commit(&older, &mut model, &mut Workload::new(round, 100, 1_000)).unwrap();
            assert_sound(&older.snapshot());
        }
    }
}

/// Not even a commit under way touches what the older meta page leads to. (The first commit after opening may: what the older one
/// led to before is not known.)
#[test]
fn without_the_newest_meta_page_the_commit_before_is_found_in_the_middle_of_the_next() {
    let mut found = 0;
    for seed in 0..30 {
        let options = Options { page_size: 1024, sync_freelist: seed % 2 == 1, ..options() };
        for change in 0.. {
            let disk = SimDisk::new(seed);
            let db = open(&disk, &options).unwrap();
            let mut workload = Workload::new(seed, 100, 2_000);
            let mut model = Contents::default();
            for _ in 0..12 {
                commit(&db, &mut model, &mut workload).unwrap();
            }
            let (before, before_txid) = (model.clone(), db.snapshot().txid());
            commit(&db, &mut model, &mut workload).unwrap();
            let txid = db.snapshot().txid();
            disk.fail_change(change, Fault::Crash);
            if commit(&db, &mut model, &mut workload).is_ok() || txid == before_txid {
                break;
            }
            let disk = disk.power_cut(change);
            let mut image = Image::new(disk.contents(FILE).unwrap());
            if image.meta(META_TXID) != txid || !image.is_meta_sound(0) || !image.is_meta_sound(1) {
                continue;
            }
            let at = image.newest_meta() * image.page_size + 30;
            image.bytes[at] ^= 1;
            let db = open(&disk_with(&image.bytes), &options).unwrap();
            assert_eq!(db.snapshot().txid(), before_txid);
            assert_sound(&db.snapshot());
            assert_eq!(Contents::read(&db.snapshot().root()).unwrap(), before);
            found += 1;
        }
    }
    assert!(found > 60, "only {found}");
}

#[test]
fn commits_wait_for_the_disk_unless_told_not_to() {
    let syncs = |sync| {
        let disk = SimDisk::new(3);
        let db = open(&disk, &Options { sync, ..options() }).unwrap();
        let (mut workload, mut model) = (Workload::new(3, 200, 4_000), Contents::default());
        let before = disk.calls().syncs;
        commit(&db, &mut model, &mut workload).unwrap();
        disk.calls().syncs - before
    };
    assert_eq!(syncs(true), 2, "the pages, then the meta page");
    assert_eq!(syncs(false), 0);
}
