//! Disk errors without a power cut: the error is reported, nothing more is written, and a restart
//! finds everything that was acknowledged.

use env::{Fault, SimDisk};
use wal::Wal;

use crate::common::*;
use crate::scenario::{Account, Scenario};

const SEGMENT: u64 = 2048;
const STEPS: usize = 20;
const SCENARIOS: u64 = 14;

/// Number of disk calls of a scenario.
fn calls(seed: u64) -> u64 {
    let disk = disk(seed);
    let before = disk.calls().all();
    assert!(Scenario::new(seed, SEGMENT).run(&disk, STEPS), "no fault is injected");
    disk.calls().all() - before
}

/// Injects a fault into one call and continues the scenario.
fn fail(seed: u64, call: u64, fault: Fault, for_good: bool) {
    let disk = disk(seed);
    let mut scenario = Scenario::new(seed, SEGMENT);
    if for_good {
        disk.fail_from_call(call, fault);
    } else {
        disk.fail_call(call, fault);
    }
    // If only the preparation of the next segment failed, the log continues.
    if !scenario.run(&disk, STEPS) {
        scenario.assert_poisoned(&disk);
    }
    scenario.kill();
    disk.heal();
    restart(&disk, &scenario.account, seed ^ call);
}

/// Restarts the process on the same machine. It relies on what it reads, so a power cut must not
/// lose that.
fn restart(disk: &SimDisk, account: &Account, seed: u64) {
    let mut account = account.clone();
    let mut log = account.recover(disk, SEGMENT);
    account.settle(log.found);
    for _ in 0..seed % 4 {
        account.append(&mut log);
    }
    drop(log);
    let later = account.recover(&disk.power_cut(seed), SEGMENT);
    assert_eq!(later.found, account.len());
}

#[test]
fn a_failed_disk_call_loses_no_acknowledged_record() {
    let mut faults = 0;
    for seed in 0..SCENARIOS {
        for call in 0..calls(seed) {
            fail(seed, call, Fault::Eio, false);
            fail(seed, call, Fault::Enospc, call % 2 == 0);
            faults += 2;
        }
    }
    assert!(faults > 2_000, "only {faults} faults");
}

/// Starts as a member does, as far as the disk permits.
fn try_to_start(disk: &SimDisk) -> Option<()> {
    let start = wal::valid_snapshots(disk, dir()).ok()?.pop()?;
    let open =
        || Wal::open(shared(disk), dir(), &start, segments_of(SEGMENT)).ok()?.read_all().ok();
    if open().is_none() {
        wal::repair(disk, dir()).ok()?;
        open()?;
    }
    Some(())
}

/// A power cut, a start on which a call fails, a successful start, and another power cut.
#[test]
fn a_failed_start_loses_no_acknowledged_record() {
    let mut faults = 0;
    for seed in 100..104 {
        for change in (10..80).step_by(3) {
            let disk = disk(seed);
            let mut scenario = Scenario::new(seed, SEGMENT);
            disk.fail_change(change, Fault::Crash);
            scenario.run(&disk, STEPS);
            scenario.kill();
            let found = disk.power_cut(change);
            // Everything left is durable, so this is a copy.
            let copy = || found.power_cut(0);
            let counted = copy();
            try_to_start(&counted);
            for call in (0..counted.calls().all()).step_by(2) {
                let disk = copy();
                disk.fail_call(call, Fault::Eio);
                try_to_start(&disk);
                disk.heal();
                restart(&disk, &scenario.account, call);
                faults += 1;
            }
        }
    }
    assert!(faults > 1_000, "only {faults} faults");
}
