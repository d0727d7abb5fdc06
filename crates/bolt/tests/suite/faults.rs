//! Disk errors stop writes and nothing else.

use bolt::{CommitError, Db, Options};
use env::{Fault, SimDisk};

use crate::support::contents::Contents;
use crate::support::image::{Image, META_TXID};
use crate::support::ops::Workload;
use crate::support::{FILE, assert_consistent, disk_with, open, options};

/// A durable file with some history.
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

/// Applies changes to database and model, and commits. A failed commit leaves the model unchanged.
fn commit(db: &Db, model: &mut Contents, workload: &mut Workload) -> Result<u64, FailedCommit> {
    let mut tx = db.write().map_err(|error| FailedCommit { error, in_flight: model.clone() })?;
    let mut in_flight = model.clone();
    workload.transaction(20).iter().for_each(|op| op.apply(&mut tx, &mut in_flight));
    match tx.commit() {
        Ok(txid) => {
            *model = in_flight;
            Ok(txid)
        }
        Err(error) => Err(FailedCommit { error, in_flight }),
    }
}

/// A failed commit, and the state that it would have produced.
#[derive(Debug)]
struct FailedCommit {
    error: CommitError,
    in_flight: Contents,
}

/// Commits until one fails. Readers keep the state of the last good commit, and further writes are
/// refused.
fn commit_until_it_fails(disk: &SimDisk, db: &Db, model: &mut Contents) -> Option<FailedCommit> {
    let mut workload = Workload::new(4, 200, 4_000);
    for _ in 0..12 {
        let held = db.snapshot();
        let Err(failed) = commit(db, model, &mut workload) else { continue };
        for snapshot in [held, db.snapshot()] {
            assert_eq!(
                &Contents::read(&snapshot.root()).unwrap(),
                model,
                "readers keep the last committed state"
            );
            assert_consistent(&snapshot);
        }
        let refused = db.write().unwrap_err();
        assert!(matches!(refused, CommitError::Poisoned { .. }), "{refused}");
        assert!(refused.to_string().contains(FILE), "{refused}");
        disk.heal();
        assert!(db.write().is_err(), "writes are refused until the file is reopened");
        return Some(failed);
    }
    None
}

/// Asserts that the disk holds the acknowledged state or that of the failed commit, and accepts
/// further commits.
fn assert_nothing_lost(disk: &SimDisk, options: &Options, model: &Contents, failed: &FailedCommit) {
    for disk in [disk.power_cut(1), disk.power_cut(2), disk.clone()] {
        let db = open(&disk, options).unwrap();
        assert_consistent(&db.snapshot());
        let mut found = Contents::read(&db.snapshot().root()).unwrap();
        assert!(found == *model || found == failed.in_flight);
        commit(&db, &mut found, &mut Workload::new(8, 50, 100)).unwrap();
        assert_consistent(&db.snapshot());
        assert_eq!(Contents::read(&db.snapshot().root()).unwrap(), found);
    }
}

#[test]
fn an_error_of_any_disk_call_is_reported_and_loses_no_commit() {
    for sync_freelist in [false, true] {
        let options = Options { page_size: 1024, sync_freelist, ..options() };
        let (before, model) = before(&options);
        for fault in [Fault::Eio, Fault::Enospc] {
            for call in 0.. {
                let disk = before.power_cut(0);
                let Ok(db) = open(&disk, &options) else {
                    unreachable!("no fault is injected yet")
                };
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
fn a_permanently_failing_disk_loses_no_commit() {
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
fn an_error_during_open_is_reported_and_loses_no_commit() {
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
            // Unreadable checksums must not prevent opening.
            if let Err(error) = opened.map(drop) {
                assert!(error.to_string().contains(FILE), "{error}");
            }
            let db = open(&disk, &options).unwrap();
            assert_eq!(Contents::read(&db.snapshot().root()).unwrap(), model);
        }
    }
}

#[test]
fn creation_can_be_repeated_after_an_error() {
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
            assert_consistent(&db.snapshot());
            // Later commits are durable, and so is the file name.
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
fn a_full_disk_is_reported_and_loses_no_commit() {
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
    assert_consistent(&db.snapshot());
    assert_eq!(Contents::read(&db.snapshot().root()).unwrap(), acknowledged);
}

/// The previous commit stays intact until another one follows.
#[test]
fn without_the_newest_meta_page_the_previous_commit_is_recovered() {
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
            let corrupt = disk.power_cut(round);
            let image = Image::new(corrupt.contents(FILE).unwrap());
            let page_bits = image.page_size as u64 * 8;
            let bit = workload.random.below(64 * 8);
            corrupt.flip_bit(FILE, image.newest_meta() as u64 * page_bits + 16 * 8 + bit);
            let older = open(&corrupt, &options).unwrap();
            assert!(older.fell_back().is_some());
            assert_eq!(older.snapshot().txid(), txid);
            assert_eq!(Contents::read(&older.snapshot().root()).unwrap(), before);
            assert_consistent(&older.snapshot());
            // The recovered database accepts further commits.
            let mut model = before;
            commit(&older, &mut model, &mut Workload::new(round, 100, 1_000)).unwrap();
            assert_consistent(&older.snapshot());
        }
    }
}

/// Not even a commit in flight overwrites pages of the older meta page's state. (The first commit
/// after opening may: the pages of the state before are not known.)
#[test]
fn without_the_newest_meta_page_the_previous_commit_is_recovered_during_the_next() {
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
            if image.meta(META_TXID) != txid || !image.is_meta_valid(0) || !image.is_meta_valid(1) {
                continue;
            }
            let at = image.newest_meta() * image.page_size + 30;
            image.bytes[at] ^= 1;
            let db = open(&disk_with(&image.bytes), &options).unwrap();
            assert_eq!(db.snapshot().txid(), before_txid);
            assert_consistent(&db.snapshot());
            assert_eq!(Contents::read(&db.snapshot().root()).unwrap(), before);
            found += 1;
        }
    }
    assert!(found > 60, "only {found} states recovered");
}

#[test]
fn commits_sync_unless_disabled() {
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
