//! Crash test: power cuts at every change of a log's life.

use env::{Fault, SeededRandom, SimDisk};

use crate::common::*;
use crate::scenario::{Account, Scenario};

/// Small, so that a few saves cut segments.
const SEGMENT: u64 = 2048;

/// Steps of each scenario.
const STEPS: usize = 24;

/// Number of scenarios; `BOWLINE_CRASH_SEEDS` overrides it.
const SCENARIOS: u64 = 40;

fn scenarios() -> u64 {
    std::env::var("BOWLINE_CRASH_SEEDS").map_or(SCENARIOS, |seeds| seeds.parse().unwrap())
}

/// Power cuts drawn at each change.
const CUTS: u64 = 3;

#[test]
fn no_durable_record_is_lost_at_any_power_cut() {
    let mut crashes = 0;
    for seed in 0..scenarios() {
        for change in 0..changes(seed) {
            let disk = disk(seed);
            let mut scenario = Scenario::new(seed, SEGMENT);
            disk.fail_change(change, Fault::Crash);
            scenario.run(&disk, STEPS);
            scenario.kill();
            for cut in 0..CUTS {
                let found = disk.power_cut(cut * 1_000_003 + change);
                check(&found, &scenario.account, cut);
                crashes += 1;
            }
        }
    }
    assert!(crashes > scenarios() * 125, "only {crashes} power cuts");
}

/// Number of disk changes of a scenario.
fn changes(seed: u64) -> u64 {
    let disk = disk(seed);
    let before = disk.calls().changes();
    let mut scenario = Scenario::new(seed, SEGMENT);
    assert!(scenario.run(&disk, STEPS), "no fault is injected");
    disk.calls().changes() - before
}

/// Recovers a log, appends to it, and cuts the power once more.
fn check(disk: &SimDisk, account: &Account, seed: u64) {
    let mut account = account.clone();
    let mut log = account.recover(disk, SEGMENT);
    account.settle(log.found);
    let mut random = SeededRandom::new(seed);
    for _ in 0..random.below(9) {
        account.append(&mut log);
    }
    // Not closed: acknowledged records are durable already.
    let later = account.recover(&disk.power_cut(seed), SEGMENT);
    assert_eq!(later.found, account.len());
    later.wal.close().unwrap();
}
