//! Disks that fail without losing power: an error upward, nothing more written, and after a restart all that was
//! acknowledged.

use env::{Fault, SimDisk};
use wal::Wal;

use crate::common::*;
use crate::story::{Account, Story};

const SEGMENT: u64 = 2048;
const STEPS: usize = 20;
const STORIES: u64 = 14;

/// How many calls a story makes, of any kind.
fn calls(seed: u64) -> u64 {
    let disk = disk(seed);
    let before = disk.calls().all();
    assert!(Story::new(seed, SEGMENT).run(&disk, STEPS), "nothing fails");
    disk.calls().all() - before
}

/// Has one call fail, and takes the story from there.
fn fail(seed: u64, call: u64, fault: Fault, for_good: bool) {
    let disk = disk(seed);
    let mut story = Story::new(seed, SEGMENT);
    if for_good {
        disk.fail_from_call(call, fault);
    } else {
        disk.fail_call(call, fault);
    }
    // Where only the next segment was to be made ahead, the log goes on without.
    if !story.run(&disk, STEPS) {
        story.assert_poisoned(&disk);
    }
    story.kill();
    disk.heal();
    restart(&disk, &story.account, seed ^ call);
}

/// The process starts anew on the same machine. What it reads it acts upon, so a power cut must not take it back.
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
fn nothing_acknowledged_is_lost_when_a_call_fails() {
    let mut faults = 0;
    for seed in 0..STORIES {
        for call in 0..calls(seed) {
            fail(seed, call, Fault::Eio, false);
            fail(seed, call, Fault::Enospc, call % 2 == 0);
            faults += 2;
        }
    }
    assert!(faults > 2_000, "{faults} faults");
}

/// Starts as a member does, as far as the disk lets it.
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

/// A power cut, a start on which a call fails, a start that succeeds, and another power cut.
#[test]
fn nothing_acknowledged_is_lost_when_a_start_fails() {
    let mut faults = 0;
    for seed in 100..104 {
        for change in (10..80).step_by(3) {
            let disk = disk(seed);
            let mut story = Story::new(seed, SEGMENT);
            disk.fail_change(change, Fault::Crash);
            story.run(&disk, STEPS);
            story.kill();
            let found = disk.power_cut(change);
            // All that is left is durable, so that this is a copy.
            let copy = || found.power_cut(0);
            let counted = copy();
            try_to_start(&counted);
            for call in (0..counted.calls().all()).step_by(2) {
                let disk = copy();
                disk.fail_call(call, Fault::Eio);
                try_to_start(&disk);
                disk.heal();
                restart(&disk, &story.account, call);
                faults += 1;
            }
        }
    }
    assert!(faults > 1_000, "{faults} faults");
}
