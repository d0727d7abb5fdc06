//! Power cuts at any change of the disk: every result and read of a client survives, and the member
//! serves again.

use std::sync::Arc;

use env::{Disk as _, Fault, SeededRandom, SimDisk};
use proto::raftpb::HardState;
use wal::Wal;

use crate::clients::ClientStats;
use crate::scenario::{Run, RunEnd, Scenario};
use crate::{disk_log, seeds};

const SEEDS: u64 = 8;
const STEPS: usize = 400;
/// The power is cut at one change in this many.
const STRIDE: usize = 41;
/// Random outcomes of each power cut.
const CUTS: u64 = 2;

#[test]
fn a_power_cut_at_any_change_loses_no_acknowledged_or_read_state() {
    let cuts = seeds(SEEDS).check(|seed| {
        let scenario = Scenario { seed, steps: STEPS };
        let whole = SimDisk::new(seed);
        scenario.run_on(&whole);
        let first = SeededRandom::new(seed).below(STRIDE as u64);
        let mut cuts = 0;
        for change in (first..whole.calls().changes()).step_by(STRIDE) {
            let disk = SimDisk::new(seed);
            disk.fail_change(change, Fault::Crash);
            let run = scenario.run_on(&disk);
            for cut in 0..CUTS {
                println!("seed {seed}, change {change}, cut {cut}");
                run.fork().assert_serves(disk.power_cut(cut ^ change));
                cuts += 1;
            }
        }
        cuts
    });
    assert!(cuts > 0, "no power cuts");
}

/// At each change, since a first start writes many different files.
#[test]
fn an_interrupted_first_start_is_repeated() {
    const CUTS: u64 = 6;
    for seed in 0..2 {
        let scenario = Scenario { seed, steps: 0 };
        let whole = SimDisk::new(0);
        assert!(matches!(scenario.run_on(&whole).end, RunEnd::Completed));
        for change in 0..whole.calls().changes() {
            let disk = SimDisk::new(0);
            disk.fail_change(change, Fault::Crash);
            let run = scenario.run_on(&disk);
            for cut in 0..CUTS {
                println!("seed {seed}, change {change}, cut {cut}");
                run.fork().assert_serves(disk.power_cut(cut ^ change));
            }
        }
    }
}

/// The first write of a log may be torn between the entry that adds the member and the state that
/// commits it.
#[test]
fn a_torn_first_write_is_treated_as_an_interrupted_first_start() {
    let scenario = Scenario { seed: 1, steps: 0 };
    let (whole, dir) = (SimDisk::new(0), scenario.config().wal_path());
    scenario.run_on(&whole);
    let wal::LogContents { metadata, entries, .. } = disk_log::contents(whole);
    let torn = SimDisk::new(0);
    let mut log = Wal::create(Arc::new(torn.clone()), &dir, metadata, disk_log::CONFIG).unwrap();
    log.save(&HardState::default(), &entries[..1], true).unwrap();
    drop(log);
    Run::new(scenario, &torn).assert_serves_now();
}

/// Each run starts from the disk that the previous power cut left, and the power may be cut during
/// the start.
#[test]
fn repeated_losses_of_power_lose_no_acknowledged_or_read_state() {
    const CUTS: u64 = 60;
    let seeds = seeds(SEEDS);
    let stats = seeds.check(|seed| {
        let scenario = Scenario { seed: 100 + seed, steps: STEPS };
        let mut random = SeededRandom::new(seed);
        let mut run = Run::new(scenario, &SimDisk::new(seed));
        for cut in 0..CUTS {
            println!("seed {seed}, cut {cut}");
            run.lose_power(&mut random);
        }
        run.assert_serves_now();
        run.clients.stats
    });
    assert!(stats.acknowledged > 100 * seeds.count, "too few acknowledged requests:\n{stats}");
}

/// A scenario in which nothing happens would find nothing.
#[test]
fn scenarios_cover_snapshots_segments_conf_changes_and_timeouts() {
    let (mut applied_max, mut all) = (0, ClientStats::default());
    for seed in 0..SEEDS {
        let scenario = Scenario { seed, steps: STEPS };
        let disk = SimDisk::new(seed);
        let run = scenario.run_on(&disk);
        assert!(matches!(run.end, RunEnd::Completed), "{:?}", run.end);
        let stats = run.clients.stats;
        assert!(stats.acknowledged > 100 && stats.read > 5, "seed {seed}: {stats:?}");
        let config = scenario.config();
        let segments = disk.read_dir(&config.wal_path()).unwrap();
        assert!(segments[0].as_str() > "0000000000000001", "seed {seed}: {segments:?}");
        let files = disk.read_dir(&config.snap_path()).unwrap();
        assert!(files.iter().any(|name| name.ends_with(".snap")), "seed {seed}: {files:?}");
        applied_max = applied_max.max(run.applied_max);
        all += stats;
    }
    assert!(
        applied_max > 150,
        "{applied_max} entries in one run: too few to compact the in-memory log"
    );
    assert!(all.changed_members > 20 && all.timed_out > 20, "{all}");
}

#[test]
fn a_seed_gives_the_same_run_to_the_byte() {
    for seed in 0..SEEDS {
        let [first, second] = [(); 2].map(|()| {
            let disk = SimDisk::new(seed);
            let run = Scenario { seed, steps: STEPS }.run_on(&disk);
            (disk.calls(), disk.contents("/data/member/snap/db"), run.clients.stats.acknowledged)
        });
        assert!(first == second, "seed {seed} gave two runs: {:?}, {:?}", first.0, second.0);
    }
}
