//! Power cuts at every moment of a log's life.

use env::{Fault, SeededRandom, SimDisk};

use crate::common::*;
use crate::story::{Account, Story};

/// Small, so that a few saves cut segments.
const SEGMENT: u64 = 2048;

/// How many things happen to each log.
const STEPS: usize = 24;

/// How many logs are followed, unless the environment asks for another number.
const STORIES: u64 = 40;

fn stories() -> u64 {
    std::env::var("BOWLINE_CRASH_SEEDS").map_or(STORIES, |seeds| seeds.parse().unwrap())
}

/// What a machine may find after each power cut: this many guesses.
const CUTS: u64 = 3;

#[test]
fn nothing_durable_is_lost_at_any_power_cut() {
    let mut crashes = 0;
    for seed in 0..stories() {
        for change in 0..changes(seed) {
            let disk = disk(seed);
            let mut story = Story::new(seed, SEGMENT);
            disk.fail_change(change, Fault::Crash);
            story.run(&disk, STEPS);
            story.kill();
            for cut in 0..CUTS {
                let found = disk.power_cut(cut * 1_000_003 + change);
                check(&found, &story.account, cut);
                crashes += 1;
            }
        }
    }
    assert!(crashes > stories() * 125, "{crashes} power cuts");
}

/// How often a story changes something on its disk.
fn changes(seed: u64) -> u64 {
    let disk = disk(seed);
    let before = disk.calls().changes();
    let mut story = Story::new(seed, SEGMENT);
    assert!(story.run(&disk, STEPS), "nothing fails");
    disk.calls().changes() - before
}

/// Recovers a log, goes on with it, and cuts the power once more.
fn check(disk: &SimDisk, account: &Account, seed: u64) {
    let mut account = account.clone();
    let mut log = account.recover(disk, SEGMENT);
    account.settle(log.found);
    let mut random = SeededRandom::new(seed);
    for _ in 0..random.below(9) {
        account.append(&mut log);
    }
    // Without closing it: what was acknowledged is durable already.
    let later = account.recover(&disk.power_cut(seed), SEGMENT);
    assert_eq!(later.found, account.len());
    later.wal.close().unwrap();
}
