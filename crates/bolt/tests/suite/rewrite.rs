//! A file is rewritten while it is in use, and nothing is lost on the way.

use bolt::{Db, DefragError, Options, SWAP_CHANGES_MAX, Snapshot};
use env::{Disk, Fault, SeededRandom, SimClock, SimDisk};

use crate::support::contents::Contents;
use crate::support::ops::Workload;
use crate::support::verify::{verify, verify_size};
use crate::support::{FILE, assert_sound, open, options};

/// Power cuts drawn from each moment.
const CUTS: u64 = 3;

fn commit(db: &Db, model: &mut Contents, workload: &mut Workload) -> bool {
    let Ok(mut tx) = db.write() else { return false };
    workload.transaction(20).iter().for_each(|op| op.apply(&mut tx, model));
    tx.commit().is_ok()
}

/// A file with a history, durable, so that power cuts are copies.
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
fn whatever_is_committed_meanwhile_is_in_the_new_file() {
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
            while defrag.turn(&SimClock::default()).unwrap().is_none() {
                held.push((db.snapshot(), model.clone()));
                assert!(commit(&db, &mut model, &mut workload));
            }
            drop(defrag);
            verify_size(&db.snapshot(), &model, &disk.contents(FILE).unwrap());
            assert!(commit(&db, &mut model, &mut workload));
            verify(&db.snapshot().root(), &model, &mut workload.random);
            assert_sound(&db.snapshot());
        }
        if let Some(scrub) = db.scrub() {
            let report = scrub.finish();
            assert_eq!((report.learned, report.damaged), (0, vec![]));
        }
        // States of files that have no name any more are what they were.
        for (snapshot, model) in held {
            verify(&snapshot.root(), &model, &mut workload.random);
            assert_sound(&snapshot);
        }
        for _ in 0..4 {
            assert!(commit(&db, &mut model, &mut workload));
        }
        drop(db);
        assert_eq!(disk.read_dir("/".as_ref()).unwrap(), [FILE], "nothing is left behind");
        let db = open(&disk.power_cut(seed), &options).unwrap();
        verify(&db.snapshot().root(), &model, &mut workload.random);
        assert_sound(&db.snapshot());
    }
}

#[test]
fn free_pages_are_given_back() {
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
fn the_swap_is_put_off_while_much_is_written() {
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
    let report = report.expect("they are caught up with before the writer is held up");
    assert!(report.swap_changes <= SWAP_CHANGES_MAX, "{report:?}");
    assert!(report.caught_up >= 4 * SWAP_CHANGES_MAX, "{report:?}");
}

/// What happened before the disk failed.
struct Outcome {
    acknowledged: Contents,
    under_way: Contents,
}

/// Defragments, with commits before, between and after, until the disk fails.
fn story(disk: &SimDisk, options: &Options, model: &Contents) -> Result<(), Outcome> {
    let mut acknowledged = model.clone();
    let mut workload = Workload::new(77, 150, 3_000);
    let mut commit = |db: &Db| {
        let mut under_way = acknowledged.clone();
        let done = commit(db, &mut under_way, &mut workload);
        match done {
            true => acknowledged = under_way,
            false => return Err(Outcome { acknowledged: acknowledged.clone(), under_way }),
        }
        Ok(acknowledged.clone())
    };
    let failed =
        |model: &Contents| Outcome { acknowledged: model.clone(), under_way: model.clone() };
    let db = open(disk, options).map_err(|_| failed(model))?;
    let mut now = commit(&db)?;
    for _ in 0..2 {
        let mut defrag = db.begin_defragment().map_err(|_| failed(&now))?;
        while defrag.turn(&SimClock::default()).map_err(|_| failed(&now))?.is_none() {
            now = commit(&db)?;
        }
        drop(defrag);
        now = commit(&db)?;
    }
    Ok(())
}

#[test]
fn a_power_cut_at_any_change_loses_nothing_acknowledged() {
    let mut moments = 0;
    for seed in 0..6 {
        let options = Options { checksums: seed % 3 == 2, ..small_pages(seed % 2 == 1) };
        let (before, model) = before(&options, seed);
        for change in 0.. {
            let disk = before.power_cut(0);
            disk.fail_change(change, Fault::Crash);
            let Err(outcome) = story(&disk, &options, &model) else { break };
            moments += 1;
            for cut in 0..CUTS {
                let disk = disk.power_cut(cut);
                let db = open(&disk, &options).unwrap();
                assert_sound(&db.snapshot());
                let mut found = Contents::read(&db.snapshot().root()).unwrap();
                assert!(
                    found == outcome.acknowledged || found == outcome.under_way,
                    "seed {seed}, change {change}, cut {cut}"
                );
                assert!(commit(&db, &mut found, &mut Workload::new(1, 50, 500)));
                db.defragment(&SimClock::default()).unwrap();
                assert_eq!(Contents::read(&db.snapshot().root()).unwrap(), found);
            }
        }
    }
    assert!(moments > 300, "only {moments} moments");
}

#[test]
fn an_error_at_any_call_gives_it_up_and_nothing_else() {
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
                Err(DefragError::Unsure { .. }) => assert!(db.write().is_err(), "call {call}"),
                Ok(_) | Err(_) => {
                    assert!(commit(&db, &mut model, &mut workload), "call {call}: it goes on");
                    assert!(
                        db.defragment(&SimClock::default()).is_ok(),
                        "call {call}: and once more"
                    );
                }
            }
            assert_sound(&held);
            assert_eq!(Contents::read(&db.snapshot().root()).unwrap(), model);
            drop((held, db));
            let db = open(&disk.power_cut(1), &options).unwrap();
            assert_eq!(Contents::read(&db.snapshot().root()).unwrap(), model, "call {call}");
            // Another process goes on with what it finds, and that is durable, its name too.
            let db = open(&disk, &options).unwrap();
            assert_sound(&db.snapshot());
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
fn threads_write_and_read_meanwhile() {
    let options = small_pages(false);
    let (disk, mut model) = before(&options, 4);
    let db = open(&disk, &options).unwrap();
    let mut workload = Workload::new(6, 150, 1_000);
    std::thread::scope(|scope| {
        let rewriting = scope.spawn(|| {
            (0..20).map(|_| db.defragment(&SimClock::default()).unwrap().size_after).max().unwrap()
        });
        let reading = scope.spawn(|| {
            (0..200).for_each(|_| assert_sound(&db.snapshot()));
        });
        while !(rewriting.is_finished() && reading.is_finished()) {
            assert!(commit(&db, &mut model, &mut workload));
        }
        assert!(rewriting.join().unwrap() > 0);
    });
    verify(&db.snapshot().root(), &model, &mut workload.random);
    assert_sound(&db.snapshot());
}
