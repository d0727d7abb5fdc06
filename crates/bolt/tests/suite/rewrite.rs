//! Defragmentation of a file in use loses nothing.

use bolt::{Db, DefragError, Options, SWAP_CHANGES_MAX, Snapshot};
use env::{Disk, Fault, SeededRandom, SimClock, SimDisk};
use testkit::waiting::{STEPS_MAX, step_until, wait_until};

use crate::support::contents::Contents;
use crate::support::ops::Workload;
use crate::support::verify::{verify, verify_size};
use crate::support::{FILE, assert_consistent, open, options};

/// Power cuts drawn at each change.
const CUTS: u64 = 3;

fn commit(db: &Db, model: &mut Contents, workload: &mut Workload) -> bool {
    let Ok(mut tx) = db.write() else { return false };
    workload.transaction(20).iter().for_each(|op| op.apply(&mut tx, model));
    tx.commit().is_ok()
}

/// A durable file with some history, so that power cuts are copies.
fn before(options: &Options, seed: u64) -> (SimDisk, Contents) {
    let disk = SimDisk::new(seed);
    let db = open(&disk, options).unwrap();
    let (mut model, mut workload) = (Contents::default(), Workload::new(seed, 150, 3_000));
    for _ in 0..25 {
        assert!(commit(&db, &mut model, &mut workload));
    }
    drop(db);
    (disk.power_cut(0), model)
}

fn small_pages(sync_freelist: bool) -> Options {
    Options { page_size: 1024, sync_freelist, ..options() }
}

#[test]
fn concurrent_commits_are_in_the_new_file() {
    for seed in 0..30 {
        let options = Options { checksums: seed % 3 == 0, ..small_pages(seed % 2 == 1) };
        let (disk, mut model) = before(&options, seed);
        let db = open(&disk, &options).unwrap();
        let mut workload = Workload::new(seed + 100, 150, 3_000);
        let mut held: Vec<(Snapshot, Contents)> = Vec::new();
        for _ in 0..3 {
            let mut defrag = db.begin_defragment().unwrap();
            for _ in 0..workload.random.below(3) {
                assert!(commit(&db, &mut model, &mut workload));
            }
            held.push((db.snapshot(), model.clone()));
            step_until("the defragmentation is done", || {
                let is_done = defrag.turn(&SimClock::default()).unwrap().is_some();
                if !is_done {
                    held.push((db.snapshot(), model.clone()));
                    assert!(commit(&db, &mut model, &mut workload));
                }
                is_done
            });
            drop(defrag);
            verify_size(&db.snapshot(), &model, &disk.contents(FILE).unwrap());
            assert!(commit(&db, &mut model, &mut workload));
            verify(&db.snapshot().root(), &model, &mut workload.random);
            assert_consistent(&db.snapshot());
        }
        if let Some(scrub) = db.scrub() {
            let report = scrub.finish();
            assert_eq!((report.learned, report.corrupt), (0, vec![]));
        }
        // States of files without a name are unchanged.
        for (snapshot, model) in held {
            verify(&snapshot.root(), &model, &mut workload.random);
            assert_consistent(&snapshot);
        }
        for _ in 0..4 {
            assert!(commit(&db, &mut model, &mut workload));
        }
        drop(db);
        assert_eq!(disk.read_dir("/".as_ref()).unwrap(), [FILE], "no temporary file is left");
        let db = open(&disk.power_cut(seed), &options).unwrap();
        verify(&db.snapshot().root(), &model, &mut workload.random);
        assert_consistent(&db.snapshot());
    }
}

#[test]
fn defragmentation_removes_free_pages() {
    let (disk, mut model) = before(&small_pages(false), 1);
    let db = open(&disk, &small_pages(false)).unwrap();
    for bucket in [b"a", b"b"] {
        if model.delete_bucket(bucket).is_ok() {
            let mut tx = db.write().unwrap();
            tx.root().delete_bucket(bucket).unwrap();
            tx.commit().unwrap();
        }
    }
    let (size, txid) = (db.snapshot().size(), db.snapshot().txid());
    let report = db.defragment(&SimClock::default()).unwrap();
    assert_eq!(report.size_before, size);
    assert_eq!(report.size_after, db.snapshot().size());
    assert!(report.size_after < size, "{report:?}");
    assert!(db.snapshot().txid() > txid);
    assert!((disk.contents(FILE).unwrap().len() as u64) < size + options().grow_bytes);
    verify(&db.snapshot().root(), &model, &mut SeededRandom::new(0));
}

#[test]
fn the_swap_is_postponed_while_much_is_written() {
    let (disk, _) = before(&small_pages(false), 2);
    let db = open(&disk, &small_pages(false)).unwrap();
    let mut defrag = db.begin_defragment().unwrap();
    assert!(defrag.turn(&SimClock::default()).unwrap().is_none(), "the first turn copies");
    let mut tx = db.write().unwrap();
    let mut bucket = tx.create_bucket_if_missing(b"many").unwrap();
    for key in 0..4 * SWAP_CHANGES_MAX {
        bucket.put(format!("{key:06}").as_bytes(), b"v").unwrap();
    }
    tx.commit().unwrap();
    let report = defrag.turn(&SimClock::default()).unwrap();
    let report = report.expect("the changes are copied before the writer is blocked");
    assert!(report.swap_changes <= SWAP_CHANGES_MAX, "{report:?}");
    assert!(report.caught_up >= 4 * SWAP_CHANGES_MAX, "{report:?}");
}

/// State at the time the disk failed.
struct Outcome {
    acknowledged: Contents,
    in_flight: Contents,
}

/// Defragments, with commits before, during and after, until the disk fails.
fn defragment_until_failure(
    disk: &SimDisk,
    options: &Options,
    model: &Contents,
) -> Result<(), Outcome> {
    let mut acknowledged = model.clone();
    let mut workload = Workload::new(77, 150, 3_000);
    let mut commit = |db: &Db| {
        let mut in_flight = acknowledged.clone();
        let done = commit(db, &mut in_flight, &mut workload);
        match done {
            true => acknowledged = in_flight,
            false => return Err(Outcome { acknowledged: acknowledged.clone(), in_flight }),
        }
        Ok(acknowledged.clone())
    };
    let failed =
        |model: &Contents| Outcome { acknowledged: model.clone(), in_flight: model.clone() };
    let db = open(disk, options).map_err(|_| failed(model))?;
    let mut now = commit(&db)?;
    for _ in 0..2 {
        let mut defrag = db.begin_defragment().map_err(|_| failed(&now))?;
        let mut turns = 0;
        while defrag.turn(&SimClock::default()).map_err(|_| failed(&now))?.is_none() {
            now = commit(&db)?;
            turns += 1;
            assert!(turns < STEPS_MAX, "the defragmentation is not done after {turns} turns");
        }
        drop(defrag);
        now = commit(&db)?;
    }
    Ok(())
}

#[test]
fn a_power_cut_during_defragmentation_loses_no_acknowledged_commit() {
    let mut crash_points = 0;
    for seed in 0..6 {
        let options = Options { checksums: seed % 3 == 2, ..small_pages(seed % 2 == 1) };
        let (before, model) = before(&options, seed);
        for change in 0.. {
            let disk = before.power_cut(0);
            disk.fail_change(change, Fault::Crash);
            let Err(outcome) = defragment_until_failure(&disk, &options, &model) else { break };
            crash_points += 1;
            for cut in 0..CUTS {
                let disk = disk.power_cut(cut);
                let db = open(&disk, &options).unwrap();
                assert_consistent(&db.snapshot());
                let mut found = Contents::read(&db.snapshot().root()).unwrap();
                assert!(
                    found == outcome.acknowledged || found == outcome.in_flight,
                    "seed {seed}, change {change}, cut {cut}"
                );
                assert!(commit(&db, &mut found, &mut Workload::new(1, 50, 500)));
                db.defragment(&SimClock::default()).unwrap();
                assert_eq!(Contents::read(&db.snapshot().root()).unwrap(), found);
            }
        }
    }
    assert!(crash_points > 300, "only {crash_points} crash points");
}

#[test]
fn an_error_of_any_disk_call_ends_only_the_defragmentation() {
    for sync_freelist in [false, true] {
        let options = small_pages(sync_freelist);
        let (before, model) = before(&options, 9);
        for call in 0.. {
            let disk = before.power_cut(0);
            let db = open(&disk, &options).unwrap();
            let start = disk.calls().all();
            disk.fail_call(call, if call % 2 == 0 { Fault::Eio } else { Fault::Enospc });
            let held = db.snapshot();
            let mut model = model.clone();
            let mut workload = Workload::new(5, 100, 1_000);
            let outcome = db.defragment(&SimClock::default());
            if disk.calls().all() - start <= call {
                assert!(call > 10, "only {call} calls");
                break;
            }
            match outcome {
                Err(DefragError::RenameNotDurable { .. }) => {
                    assert!(db.write().is_err(), "call {call}");
                }
                Ok(_) | Err(_) => {
                    assert!(
                        commit(&db, &mut model, &mut workload),
                        "call {call}: commits continue"
                    );
                    assert!(
                        db.defragment(&SimClock::default()).is_ok(),
                        "call {call}: a second commit succeeds"
                    );
                }
            }
            assert_consistent(&held);
            assert_eq!(Contents::read(&db.snapshot().root()).unwrap(), model);
            drop((held, db));
            let db = open(&disk.power_cut(1), &options).unwrap();
            assert_eq!(Contents::read(&db.snapshot().root()).unwrap(), model, "call {call}");
            // Another process continues from this state, and its commits and the file name are
            // durable.
            let db = open(&disk, &options).unwrap();
            assert_consistent(&db.snapshot());
            assert_eq!(Contents::read(&db.snapshot().root()).unwrap(), model, "call {call}");
            assert!(commit(&db, &mut model, &mut workload));
            for cut in 0..CUTS {
                let db = open(&disk.power_cut(cut), &options).unwrap();
                assert_eq!(Contents::read(&db.snapshot().root()).unwrap(), model, "call {call}");
            }
        }
    }
}

#[test]
fn threads_read_and_write_during_defragmentation() {
    let options = small_pages(false);
    let (disk, mut model) = before(&options, 4);
    let db = open(&disk, &options).unwrap();
    let mut workload = Workload::new(6, 150, 1_000);
    std::thread::scope(|scope| {
        let rewriting = scope.spawn(|| {
            (0..20).map(|_| db.defragment(&SimClock::default()).unwrap().size_after).max().unwrap()
        });
        let reading = scope.spawn(|| {
            (0..200).for_each(|_| assert_consistent(&db.snapshot()));
        });
        wait_until("both threads are finished", || {
            assert!(commit(&db, &mut model, &mut workload));
            rewriting.is_finished() && reading.is_finished()
        });
        assert!(rewriting.join().unwrap() > 0);
    });
    verify(&db.snapshot().root(), &model, &mut workload.random);
    assert_consistent(&db.snapshot());
}
