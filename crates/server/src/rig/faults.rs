//! Disk faults at any call: the member continues as if nothing had happened, or stops and fails all
//! waiters; and it can start again from the disk.

use env::{Fault, SeededRandom, SimDisk};

use super::scenario::{Run, RunEnd, Scenario};
use super::seeds;
use crate::lifecycle::StopReason;

const SEEDS: u64 = 6;
const STEPS: usize = 300;
/// The share of changes that fail: one in this many.
const STRIDE: usize = 53;

/// Checks the end of a run with a fault. Returns whether the member stopped.
fn assert_run_end(run: &Run) -> bool {
    match &run.end {
        RunEnd::Completed => false,
        RunEnd::Stopped(StopReason::Fault(_)) => true,
        RunEnd::NotStarted(error) => {
            println!("not started: {error}");
            true
        }
        RunEnd::Stopped(other) => panic!("stopped without a fault: {other}"),
    }
}

/// Restarts the member on the same disk, and cuts the power some time later. Data that is readable
/// after a failed write may not be on the disk, though every later sync succeeds.
fn assert_starts_again(run: &Run, disk: &SimDisk, seed: u64) {
    disk.heal();
    let mut again = run.fork();
    again.assert_serves(disk.clone());
    again.kill();
    again.lose_power(&mut SeededRandom::new(seed));
    again.assert_serves_now();
}

#[test]
fn a_failed_call_stops_the_member_or_has_no_effect() {
    let (mut stopped, mut continued) = (0, 0);
    for seed in 0..seeds(SEEDS) {
        let scenario = Scenario { seed: 200 + seed, steps: STEPS };
        let whole = SimDisk::new(seed);
        scenario.run_on(&whole);
        let mut random = SeededRandom::new(seed);
        let first = random.below(STRIDE as u64);
        for change in (first..whole.calls().changes()).step_by(STRIDE) {
            let fault = if random.chance(1, 2) { Fault::Eio } else { Fault::Enospc };
            println!("seed {seed}, {fault:?} at change {change}");
            let disk = SimDisk::new(seed);
            disk.fail_change(change, fault);
            let run = scenario.run_on(&disk);
            if assert_run_end(&run) {
                stopped += 1;
            } else {
                continued += 1;
            }
            run.fork().assert_serves(disk.power_cut(change));
            assert_starts_again(&run, &disk, change);
        }
    }
    assert!(stopped > 3 * continued && continued > 0, "{stopped} stopped, {continued} continued");
}

/// All reads and writes fail from a certain call on.
#[test]
fn a_lost_disk_stops_the_member() {
    for seed in 0..4 * seeds(SEEDS) {
        println!("seed {seed}");
        let scenario = Scenario { seed: 300 + seed, steps: STEPS };
        let disk = SimDisk::new(seed);
        disk.fail_from_call(SeededRandom::new(seed).below(250), Fault::Eio);
        let run = scenario.run_on(&disk);
        assert!(assert_run_end(&run), "{:?}", run.end);
        assert_starts_again(&run, &disk, seed);
    }
}

#[test]
fn a_full_disk_stops_the_member_until_there_is_space() {
    let mut stopped = 0;
    for seed in 0..4 * seeds(SEEDS) {
        println!("seed {seed}");
        let scenario = Scenario { seed: 400 + seed, steps: STEPS };
        let disk = SimDisk::new(seed);
        disk.set_capacity(Some((10 + SeededRandom::new(seed).below(60)) << 10));
        let run = scenario.run_on(&disk);
        stopped += usize::from(assert_run_end(&run));
        disk.set_capacity(None);
        assert_starts_again(&run, &disk, seed);
    }
    assert!(stopped > 5, "only {stopped} had too little space");
}
