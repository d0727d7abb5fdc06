//! A disk that fails at any call: the member goes on as if nothing had happened, or ends and tells everybody; and what it leaves can be started from.

use env::{Fault, SeededRandom, SimDisk};

use super::seeds;
use super::story::{End, Run, Story};
use crate::lifecycle::StopReason;

const SEEDS: u64 = 6;
const STEPS: usize = 300;
/// One change in so many fails.
const STRIDE: usize = 53;

/// A story that a fault befell: it went on, or everybody was told.
fn assert_ended(run: &Run) -> bool {
    match &run.end {
        End::Well => false,
        End::Stopped(StopReason::Fault(_)) => true,
        End::NotStarted(error) => {
            println!("not started: {error}");
            true
        }
        End::Stopped(other) => panic!("stopped without a fault: {other}"),
    }
}

/// Whoever watches over it starts it again, on the same disk; and some time later the power goes. What the system shows after a write that failed may not be
/// on the disk, though every later sync succeeds.
fn assert_starts_again(run: &Run, disk: &SimDisk, seed: u64) {
    disk.heal();
    let mut again = run.fork();
    again.assert_serves(disk.clone());
    again.kill();
    again.lose_power(&mut SeededRandom::new(seed));
    again.assert_serves_now();
}

#[test]
fn a_call_that_fails_ends_the_member_or_nothing() {
    let (mut ended, mut went_on) = (0, 0);
    for seed in 0..seeds(SEEDS) {
        let story = Story { seed: 200 + seed, steps: STEPS };
        let whole = SimDisk::new(seed);
        story.tell(&whole);
        let mut random = SeededRandom::new(seed);
        let first = random.below(STRIDE as u64);
        for change in (first..whole.calls().changes()).step_by(STRIDE) {
            let fault = if random.chance(1, 2) { Fault::Eio } else { Fault::Enospc };
            println!("seed {seed}, {fault:?} at change {change}");
            let disk = SimDisk::new(seed);
            disk.fail_change(change, fault);
            let run = story.tell(&disk);
            if assert_ended(&run) {
                ended += 1;
            } else {
                went_on += 1;
            }
            run.fork().assert_serves(disk.power_cut(change));
            assert_starts_again(&run, &disk, change);
        }
    }
    assert!(ended > 3 * went_on && went_on > 0, "{ended} ended, {went_on} went on");
}

/// Reads fail as well as writes, and from then on all do.
#[test]
fn a_disk_that_is_gone_ends_the_member() {
    for seed in 0..4 * seeds(SEEDS) {
        println!("seed {seed}");
        let story = Story { seed: 300 + seed, steps: STEPS };
        let disk = SimDisk::new(seed);
        disk.fail_from_call(SeededRandom::new(seed).below(250), Fault::Eio);
        let run = story.tell(&disk);
        assert!(assert_ended(&run), "{:?}", run.end);
        assert_starts_again(&run, &disk, seed);
    }
}

#[test]
fn a_full_disk_ends_the_member_until_there_is_space() {
    let mut ended = 0;
    for seed in 0..4 * seeds(SEEDS) {
        println!("seed {seed}");
        let story = Story { seed: 400 + seed, steps: STEPS };
        let disk = SimDisk::new(seed);
        disk.set_capacity(Some((10 + SeededRandom::new(seed).below(60)) << 10));
        let run = story.tell(&disk);
        ended += usize::from(assert_ended(&run));
        disk.set_capacity(None);
        assert_starts_again(&run, &disk, seed);
    }
    assert!(ended > 5, "only {ended} had too little space");
}
