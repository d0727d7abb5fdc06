//! Disk faults at any call: the member continues as if nothing had happened, or stops and fails all
//! waiters; and it can start again from the disk.

use env::{Fault, SeededRandom, SimDisk};
use server::StopReason;

use crate::scenario::{Run, RunEnd, Scenario};
use crate::seeds;

const SEEDS: u64 = 6;
const STEPS: usize = 300;
/// The share of changes that fail: one in this many.
const STRIDE: usize = 53;

simkit::counters! {
    /// The ends of runs with a fault.
    struct Ends {
        stopped: "members stopped or could not start",
        continued: "members continued",
    }
}

/// Checks and counts the end of a run with a fault.
fn assert_run_end(run: &Run) -> Ends {
    let stopped = Ends { stopped: 1, ..Ends::default() };
    match &run.end {
        RunEnd::Completed => Ends { continued: 1, ..Ends::default() },
        RunEnd::Stopped(StopReason::Fault(_)) => stopped,
        RunEnd::NotStarted(error) => {
            println!("not started: {error}");
            stopped
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
    let seeds = seeds(SEEDS);
    let ends = seeds.check(|seed| {
        let scenario = Scenario { seed: 200 + seed, steps: STEPS };
        let whole = SimDisk::new(seed);
        scenario.run_on(&whole);
        let mut random = SeededRandom::new(seed);
        let first = random.below(STRIDE as u64);
        let mut ends = Ends::default();
        for change in (first..whole.calls().changes()).step_by(STRIDE) {
            let fault = if random.chance(1, 2) { Fault::Eio } else { Fault::Enospc };
            println!("seed {seed}, {fault:?} at change {change}");
            let disk = SimDisk::new(seed);
            disk.fail_change(change, fault);
            let run = scenario.run_on(&disk);
            ends += assert_run_end(&run);
            run.fork().assert_serves(disk.power_cut(change));
            assert_starts_again(&run, &disk, change);
        }
        ends
    });
    // A few seeds may miss something; a whole run must not.
    if seeds.count >= SEEDS {
        assert!(ends.stopped > 3 * ends.continued && ends.continued > 0, "{ends}");
    }
}

/// All reads and writes fail from a certain call on.
#[test]
fn a_lost_disk_stops_the_member() {
    let ends = seeds(4 * SEEDS).check(|seed| {
        let scenario = Scenario { seed: 300 + seed, steps: STEPS };
        let disk = SimDisk::new(seed);
        disk.fail_from_call(SeededRandom::new(seed).below(250), Fault::Eio);
        let run = scenario.run_on(&disk);
        assert_starts_again(&run, &disk, seed);
        assert_run_end(&run)
    });
    assert_eq!(ends.continued, 0, "{ends}");
}

#[test]
fn a_full_disk_stops_the_member_until_there_is_space() {
    let seeds = seeds(4 * SEEDS);
    let ends = seeds.check(|seed| {
        let scenario = Scenario { seed: 400 + seed, steps: STEPS };
        let disk = SimDisk::new(seed);
        disk.set_capacity(Some((10 + SeededRandom::new(seed).below(60)) << 10));
        let run = scenario.run_on(&disk);
        disk.set_capacity(None);
        assert_starts_again(&run, &disk, seed);
        assert_run_end(&run)
    });
    if seeds.count >= 4 * SEEDS {
        assert!(ends.stopped > 5, "too few members had too little space:\n{ends}");
    }
}
