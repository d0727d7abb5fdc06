//! A power cut at any change loses nothing that was acknowledged.
//!
//! Every change that a run makes to its disk is a moment at which the power may fail. A run is repeated for each of them, up
//! to there; several power cuts are drawn from that moment; and what each leaves must open, be sound, and hold what the last acknowledged
//! commit left, or the one that was under way.

use bolt::{CommitError, Db, OpenError, Options};
use env::{Fault, SeededRandom, SimDisk};

use crate::support::contents::Contents;
use crate::support::ops::{Op, Workload};
use crate::support::verify::verify;
use crate::support::{FILE, assert_sound, open, options};

/// Power cuts drawn from each moment.
const CUTS: u64 = 3;
/// Workloads, unless the environment asks for another number.
const SEEDS: u64 = 30;
/// Moments that an ordinary run must have tried.
const MOMENTS_MIN: u64 = 5_000;

/// A file with a history, and what will happen to it.
struct Story {
    options: Options,
    before: SimDisk,
    model: Contents,
    transactions: Vec<Vec<Op>>,
    /// Reopen before the transaction of this index.
    reopen_at: usize,
}

/// How far a run came before the disk failed.
struct Outcome {
    /// What the last acknowledged commit left.
    acknowledged: Contents,
    /// What the commit under way would have left.
    under_way: Contents,
    failed: bool,
}

impl Story {
    fn new(seed: u64) -> Story {
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
        // All of it is durable, so a power cut makes a copy.
        Story { options, before: disk.power_cut(seed), model, transactions, reopen_at }
    }

    /// Tells the story on a copy of the disk that fails at a change.
    fn tell(&self, fault: Option<(u64, Fault)>) -> (SimDisk, Outcome) {
        let disk = self.before.power_cut(0);
        if let Some((change, fault)) = fault {
            disk.fail_change(change, fault);
        }
        let mut outcome = Outcome {
            acknowledged: self.model.clone(),
            under_way: self.model.clone(),
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
            if commit(&db, &mut outcome.under_way, ops).is_err() {
                return (disk, outcome);
            }
            outcome.acknowledged = outcome.under_way.clone();
        }
        outcome.failed = false;
        (disk, outcome)
    }

    /// How many moments it has.
    fn moments(&self) -> u64 {
        let (disk, outcome) = self.tell(None);
        assert!(!outcome.failed);
        disk.calls().changes()
    }
}

/// Changes both, and commits. The model has the changes even if the commit fails.
fn commit(db: &Db, model: &mut Contents, ops: &[Op]) -> Result<u64, CommitError> {
    let mut tx = db.write()?;
    ops.iter().for_each(|op| op.apply(&mut tx, model));
    tx.commit()
}

/// What a machine finds that starts again.
fn assert_recovered(disk: &SimDisk, options: &Options, outcome: &Outcome) -> Result<Db, OpenError> {
    let db = open(disk, options)?;
    let snapshot = db.snapshot();
    assert_sound(&snapshot);
    let found = Contents::read(&snapshot.root()).unwrap();
    assert!(
        found == outcome.acknowledged || found == outcome.under_way,
        "neither the last acknowledged state nor the one under way"
    );
    Ok(db)
}

fn seeds() -> u64 {
    std::env::var("BOWLINE_CRASH_SEEDS").map_or(SEEDS, |seeds| seeds.parse().unwrap())
}

#[test]
fn a_power_cut_at_any_change_loses_nothing_acknowledged() {
    let mut moments = 0;
    for seed in 0..seeds() {
        let story = Story::new(seed);
        for change in 0..story.moments() {
            let (disk, outcome) = story.tell(Some((change, Fault::Crash)));
            assert!(outcome.failed);
            moments += 1;
            for cut in 0..CUTS {
                let disk = disk.power_cut(cut);
                let recovered = assert_recovered(&disk, &story.options, &outcome);
                let db = recovered.unwrap_or_else(|error| {
                    panic!("seed {seed}, change {change}, cut {cut}: {error}")
                });
                // It goes on from there as if nothing had happened.
                if cut == change % CUTS {
                    go_on(&db, &disk, &story);
                }
            }
        }
    }
    assert!(moments >= MOMENTS_MIN.min(seeds() * 100), "only {moments} moments");
}

fn go_on(db: &Db, disk: &SimDisk, story: &Story) {
    let mut model = Contents::read(&db.snapshot().root()).unwrap();
    let mut workload = Workload::new(9, 100, 2_000);
    for _ in 0..3 {
        let _ = commit(db, &mut model, &workload.transaction(10)).unwrap();
    }
    assert_sound(&db.snapshot());
    verify(&db.snapshot().root(), &model, &mut workload.random);
    // What was acknowledged now is durable.
    let later = open(&disk.power_cut(5), &story.options).unwrap();
    assert_eq!(Contents::read(&later.snapshot().root()).unwrap(), model);
}

#[test]
fn a_power_cut_while_the_file_is_made_leaves_none_or_a_whole_one() {
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
                assert_sound(&db.snapshot());
                let _ = commit(&db, &mut Contents::default(), &[Op::Create { bucket: 2 }]).unwrap();
            }
        }
    }
}

#[test]
fn a_file_is_durable_once_it_is_open() {
    let disk = SimDisk::new(1);
    let _db = open(&disk, &options()).unwrap();
    for cut in 0..40 {
        assert!(disk.power_cut(cut).contents(FILE).is_some_and(|bytes| bytes.len() == 4 * 4096));
    }
}

/// A process whose commit fails leaves its writes with the operating system, which may never get them to the disk; the next process reads
/// them, builds upon them, and then the power fails.
#[test]
fn a_power_cut_after_a_restart_after_a_failed_commit_loses_nothing_acknowledged() {
    let mut moments = 0;
    for seed in 0..6 {
        let mut story = Story { reopen_at: usize::MAX, ..Story::new(1_000 + seed) };
        story.transactions.truncate(3);
        for change in 0..story.moments() {
            for second_change in 0.. {
                let (disk, first) = story.tell(Some((change, Fault::Eio)));
                assert!(first.failed);
                disk.fail_change(second_change, Fault::Crash);
                let Some(second) = second_life(&disk, &story, &first) else { break };
                moments += 1;
                for cut in 0..CUTS {
                    let recovered = assert_recovered(&disk.power_cut(cut), &story.options, &second);
                    assert!(recovered.is_ok(), "seed {seed}, changes {change} and {second_change}");
                }
            }
        }
    }
    assert!(moments >= 1_000, "only {moments} moments");
}

/// Goes on after a failed commit until the power fails; none if it does not.
fn second_life(disk: &SimDisk, story: &Story, first: &Outcome) -> Option<Outcome> {
    let mut outcome = Outcome {
        acknowledged: first.acknowledged.clone(),
        under_way: first.under_way.clone(),
        failed: true,
    };
    let Ok(db) = open(disk, &story.options) else { return Some(outcome) };
    let mut model = Contents::read(&db.snapshot().root()).unwrap();
    assert!(model == first.acknowledged || model == first.under_way);
    // What is seen now stays, as soon as anything is built upon it.
    let mut workload = Workload::new(3, 100, 3_000);
    for _ in 0..3 {
        outcome.acknowledged = model.clone();
        if commit(&db, &mut model, &workload.transaction(10)).is_err() {
            outcome.under_way = model;
            return Some(outcome);
        }
    }
    None
}
