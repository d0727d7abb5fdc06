//! A power cut at any change of the disk: whatever clients were told or have seen is found, and the member serves again.

use std::sync::Arc;

use env::{Disk as _, Fault, SeededRandom, SimDisk};
use proto::raftpb::HardState;
use wal::Wal;

use super::story::{End, Run, Story};
use super::{log, seeds};

const SEEDS: u64 = 8;
const STEPS: usize = 400;
/// The power goes at one change in so many.
const STRIDE: usize = 41;
/// Power cuts drawn from each moment.
const CUTS: u64 = 2;

#[test]
fn a_power_cut_at_any_change_takes_nothing_that_somebody_knew_of() {
    for seed in 0..seeds(SEEDS) {
        let story = Story { seed, steps: STEPS };
        let whole = SimDisk::new(seed);
        story.tell(&whole);
        let first = SeededRandom::new(seed).below(STRIDE as u64);
        for change in (first..whole.calls().changes()).step_by(STRIDE) {
            let disk = SimDisk::new(seed);
            disk.fail_change(change, Fault::Crash);
            let run = story.tell(&disk);
            for cut in 0..CUTS {
                println!("seed {seed}, change {change}, cut {cut}");
                run.fork().assert_serves(disk.power_cut(cut ^ change));
            }
        }
    }
}

/// At each change, since there is so much that was not there before.
#[test]
fn a_first_start_that_is_cut_short_is_told_from_a_member_that_was_there() {
    const CUTS: u64 = 6;
    for seed in 0..2 {
        let story = Story { seed, steps: 0 };
        let whole = SimDisk::new(0);
        assert!(matches!(story.tell(&whole).end, End::Well));
        for change in 0..whole.calls().changes() {
            let disk = SimDisk::new(0);
            disk.fail_change(change, Fault::Crash);
            let run = story.tell(&disk);
            for cut in 0..CUTS {
                println!("seed {seed}, change {change}, cut {cut}");
                run.fork().assert_serves(disk.power_cut(cut ^ change));
            }
        }
    }
}

/// The first write of a log may be torn between the entry that names the member and the state that says it is committed.
#[test]
fn a_first_write_that_is_torn_is_told_from_a_member_that_was_there() {
    let story = Story { seed: 1, steps: 0 };
    let (whole, folder) = (SimDisk::new(0), story.config().wal_path());
    story.tell(&whole);
    let wal::LogContents { metadata, entries, .. } = log::contents(whole);
    let torn = SimDisk::new(0);
    let mut log = Wal::create(Arc::new(torn.clone()), &folder, metadata, log::CONFIG).unwrap();
    log.save(&HardState::default(), &entries[..1], true).unwrap();
    drop(log);
    Run::new(story, &torn).assert_serves_now();
}

/// Each time from what the last cut has left; also while it starts.
#[test]
fn power_that_goes_again_and_again_takes_nothing_that_somebody_knew_of() {
    const CUTS: u64 = 60;
    let mut acknowledged = 0;
    for seed in 0..seeds(SEEDS) {
        let story = Story { seed: 100 + seed, steps: STEPS };
        let mut random = SeededRandom::new(seed);
        let mut run = Run::new(story, &SimDisk::new(seed));
        for cut in 0..CUTS {
            println!("seed {seed}, cut {cut}");
            run.lose_power(&mut random);
        }
        run.assert_serves_now();
        acknowledged += run.clients.told.acknowledged as u64;
    }
    assert!(acknowledged > 100 * seeds(SEEDS), "only {acknowledged} were told");
}

/// A rig in which nothing happens would find nothing.
#[test]
fn stories_go_through_all_that_a_member_does() {
    let (mut applied_max, mut changed_members, mut timed_out) = (0, 0, 0);
    for seed in 0..SEEDS {
        let story = Story { seed, steps: STEPS };
        let disk = SimDisk::new(seed);
        let run = story.tell(&disk);
        assert!(matches!(run.end, End::Well), "{:?}", run.end);
        let told = run.clients.told;
        assert!(told.acknowledged > 100 && told.read > 5, "seed {seed}: {told:?}");
        let config = story.config();
        let segments = disk.read_dir(&config.wal_path()).unwrap();
        assert!(segments[0].as_str() > "0000000000000001", "seed {seed}: {segments:?}");
        let files = disk.read_dir(&config.snap_path()).unwrap();
        assert!(files.iter().any(|name| name.ends_with(".snap")), "seed {seed}: {files:?}");
        applied_max = applied_max.max(run.applied_max);
        changed_members += told.changed_members;
        timed_out += told.timed_out;
    }
    assert!(applied_max > 150, "{applied_max} at once, too few for the log in memory to be cut");
    assert!(changed_members > 20 && timed_out > 20, "{changed_members} and {timed_out}");
}

#[test]
fn a_seed_repeats_to_the_byte() {
    for seed in 0..SEEDS {
        let [first, second] = [(); 2].map(|()| {
            let disk = SimDisk::new(seed);
            let run = Story { seed, steps: STEPS }.tell(&disk);
            (disk.calls(), disk.contents("/data/member/snap/db"), run.clients.told.acknowledged)
        });
        assert!(first == second, "seed {seed} went two ways: {:?}, {:?}", first.0, second.0);
    }
}
