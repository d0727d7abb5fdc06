//! Crash test: a power cut at any write or sync loses no acknowledged commit.
//!
//! A power cut may happen at every change that a run makes to its disk. The run is repeated for
//! each change, up to that change; several power cuts are drawn from there. Each result must open,
//! be consistent, and hold the state of the last acknowledged commit or of the one in flight.

use bolt::{CommitError, Db, OpenError, Options};
use env::{Fault, SeededRandom, SimDisk};

use crate::support::contents::Contents;
use crate::support::ops::{Op, Workload};
use crate::support::verify::verify;
use crate::support::{FILE, assert_consistent, open, options};

/// Power cuts drawn at each change.
const CUTS: u64 = 3;
/// Number of workloads; `BOWLINE_CRASH_SEEDS` overrides it.
const SEEDS: u64 = 30;
/// Minimum number of crash points that an ordinary run must cover.
const CRASH_POINTS_MIN: u64 = 5_000;

/// A durable file with some history, and the transactions that follow.
struct CrashScenario {
    options: Options,
    before: SimDisk,
    model: Contents,
    transactions: Vec<Vec<Op>>,
    /// Index of the transaction before which the file is reopened.
    reopen_at: usize,
}

/// Progress of a run before the disk failed.
struct Outcome {
    /// State after the last acknowledged commit.
    acknowledged: Contents,
    /// State that the commit in flight would produce.
    in_flight: Contents,
    failed: bool,
}

impl CrashScenario {
    fn new(seed: u64) -> CrashScenario {
        let mut random = SeededRandom::new(seed);
        let page_size = if random.chance(3, 4) { 1024 } else { 4096 };
        let options = Options { page_size, sync_freelist: random.chance(1, 3), ..options() };
        let mut workload = Workload::new(seed, 60 + random.below(200), 5_000);
        let disk = SimDisk::new(seed);
        let mut model = Contents::default();
        let db = open(&disk, &options).unwrap();
        for _ in 0..random.below(30) {
            let _ = commit(&db, &mut model, &workload.transaction(40)).unwrap();
        }
        drop(db);
        let transactions: Vec<Vec<Op>> = (0..20).map(|_| workload.transaction(25)).collect();
        let reopen_at = usize::try_from(random.below(30)).unwrap();
        // All of it is durable, so a power cut creates an identical copy.
        CrashScenario { options, before: disk.power_cut(seed), model, transactions, reopen_at }
    }

    /// Runs the scenario on a copy of the disk that fails at the given change.
    fn run(&self, fault: Option<(u64, Fault)>) -> (SimDisk, Outcome) {
        let disk = self.before.power_cut(0);
        if let Some((change, fault)) = fault {
            disk.fail_change(change, fault);
        }
        let mut outcome = Outcome {
            acknowledged: self.model.clone(),
            in_flight: self.model.clone(),
            failed: true,
        };
        let Ok(mut db) = open(&disk, &self.options) else { return (disk, outcome) };
        for (index, ops) in self.transactions.iter().enumerate() {
            if index == self.reopen_at {
                drop(db);
                match open(&disk, &self.options) {
                    Ok(opened) => db = opened,
                    Err(_) => return (disk, outcome),
                }
            }
            if commit(&db, &mut outcome.in_flight, ops).is_err() {
                return (disk, outcome);
            }
            outcome.acknowledged = outcome.in_flight.clone();
        }
        outcome.failed = false;
        (disk, outcome)
    }

    /// Number of disk changes, each of which is a crash point.
    fn crash_points(&self) -> u64 {
        let (disk, outcome) = self.run(None);
        assert!(!outcome.failed);
        disk.calls().changes()
    }
}

/// Applies the changes to database and model, and commits. The model has the changes even if the
/// commit fails.
fn commit(db: &Db, model: &mut Contents, ops: &[Op]) -> Result<u64, CommitError> {
    let mut tx = db.write()?;
    ops.iter().for_each(|op| op.apply(&mut tx, model));
    tx.commit()
}

/// Asserts that the file holds the acknowledged state or the one in flight after a restart.
fn assert_recovered(disk: &SimDisk, options: &Options, outcome: &Outcome) -> Result<Db, OpenError> {
    let db = open(disk, options)?;
    let snapshot = db.snapshot();
    assert_consistent(&snapshot);
    let found = Contents::read(&snapshot.root()).unwrap();
    assert!(
        found == outcome.acknowledged || found == outcome.in_flight,
        "neither the last acknowledged state nor the one in flight"
    );
    Ok(db)
}

fn seeds() -> u64 {
    std::env::var("BOWLINE_CRASH_SEEDS").map_or(SEEDS, |seeds| seeds.parse().unwrap())
}

#[test]
fn a_power_cut_at_any_change_loses_no_acknowledged_commit() {
    let mut crash_points = 0;
    for seed in 0..seeds() {
        let scenario = CrashScenario::new(seed);
        for change in 0..scenario.crash_points() {
            let (disk, outcome) = scenario.run(Some((change, Fault::Crash)));
            assert!(outcome.failed);
            crash_points += 1;
            for cut in 0..CUTS {
                let disk = disk.power_cut(cut);
                let recovered = assert_recovered(&disk, &scenario.options, &outcome);
                let db = recovered.unwrap_or_else(|error| {
                    panic!("seed {seed}, change {change}, cut {cut}: {error}")
                });
                // The recovered database accepts further commits.
                if cut == change % CUTS {
                    assert_usable(&db, &disk, &scenario);
                }
            }
        }
    }
    assert!(
        crash_points >= CRASH_POINTS_MIN.min(seeds() * 100),
        "only {crash_points} crash points"
    );
}

fn assert_usable(db: &Db, disk: &SimDisk, scenario: &CrashScenario) {
    let mut model = Contents::read(&db.snapshot().root()).unwrap();
    let mut workload = Workload::new(9, 100, 2_000);
    for _ in 0..3 {
        let _ = commit(db, &mut model, &workload.transaction(10)).unwrap();
    }
    assert_consistent(&db.snapshot());
    verify(&db.snapshot().root(), &model, &mut workload.random);
    // The new commits are durable.
    let later = open(&disk.power_cut(5), &scenario.options).unwrap();
    assert_eq!(Contents::read(&later.snapshot().root()).unwrap(), model);
}

#[test]
fn a_power_cut_during_creation_leaves_no_file_or_a_complete_one() {
    for page_size in [1024, 4096, 16_384] {
        let options = Options { page_size, ..options() };
        let disk = SimDisk::new(1);
        drop(open(&disk, &options).unwrap());
        for change in 0..disk.calls().changes() {
            let disk = SimDisk::new(1);
            disk.fail_change(change, Fault::Crash);
            assert!(open(&disk, &options).is_err());
            for cut in 0..40 {
                let disk = disk.power_cut(cut);
                let db = open(&disk, &options).unwrap();
                assert_consistent(&db.snapshot());
                let _ = commit(&db, &mut Contents::default(), &[Op::Create { bucket: 2 }]).unwrap();
            }
        }
    }
}

#[test]
fn an_opened_file_is_durable() {
    let disk = SimDisk::new(1);
    let _db = open(&disk, &options()).unwrap();
    for cut in 0..40 {
        assert!(disk.power_cut(cut).contents(FILE).is_some_and(|bytes| bytes.len() == 4 * 4096));
    }
}

/// A failed commit leaves its writes in the OS cache, which may never reach the disk. The next
/// process reads them and builds upon them, and then the power fails.
#[test]
fn a_power_cut_after_restarting_from_a_failed_commit_loses_no_acknowledged_commit() {
    let mut crash_points = 0;
    for seed in 0..6 {
        let mut scenario =
            CrashScenario { reopen_at: usize::MAX, ..CrashScenario::new(1_000 + seed) };
        scenario.transactions.truncate(3);
        for change in 0..scenario.crash_points() {
            for second_change in 0.. {
                let (disk, first) = scenario.run(Some((change, Fault::Eio)));
                assert!(first.failed);
                disk.fail_change(second_change, Fault::Crash);
                let Some(second) = run_after_restart(&disk, &scenario, &first) else { break };
                crash_points += 1;
                for cut in 0..CUTS {
                    let recovered =
                        assert_recovered(&disk.power_cut(cut), &scenario.options, &second);
                    assert!(recovered.is_ok(), "seed {seed}, changes {change} and {second_change}");
                }
            }
        }
    }
    assert!(crash_points >= 1_000, "only {crash_points} crash points");
}

/// Continues after a failed commit until the power fails. Returns `None` if it does not.
fn run_after_restart(disk: &SimDisk, scenario: &CrashScenario, first: &Outcome) -> Option<Outcome> {
    let mut outcome = Outcome {
        acknowledged: first.acknowledged.clone(),
        in_flight: first.in_flight.clone(),
        failed: true,
    };
    let Ok(db) = open(disk, &scenario.options) else { return Some(outcome) };
    let mut model = Contents::read(&db.snapshot().root()).unwrap();
    assert!(model == first.acknowledged || model == first.in_flight);
    // The state found now must survive, as soon as a commit builds upon it.
    let mut workload = Workload::new(3, 100, 3_000);
    for _ in 0..3 {
        outcome.acknowledged = model.clone();
        if commit(&db, &mut model, &workload.transaction(10)).is_err() {
            outcome.in_flight = model;
            return Some(outcome);
        }
    }
    None
}
