//! Stories from seeds: whatever goes wrong, clients are told nothing that one store would not have told them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use sim::{Counts, Failure, Mishap, Story};

/// How many stories an ordinary run tells.
const SEEDS: u64 = 80;

/// A number that somebody may ask for.
fn asked(name: &str, ordinary: u64) -> u64 {
    std::env::var(name).map_or(ordinary, |number| number.parse().unwrap())
}

/// What to say to have a story told again, in detail.
fn again(seed: u64) -> String {
    format!("again: cargo xtask sim --from {seed} --seeds 1")
}

/// Tells stories on all cores. Returns those that failed, and how much of what there was.
fn tell(from: u64, seeds: u64) -> (Vec<Failure>, Counts) {
    let next = AtomicU64::new(from);
    let told = Mutex::new((Vec::new(), Counts::default(), 0));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + seeds {
                        return;
                    }
                    let end = Story::new(seed).tell();
                    let (failures, total, count) = &mut *told.lock().unwrap();
                    *count += 1;
                    match end {
                        Ok(told) => *total += told.counts,
                        Err(failure) => {
                            println!("{failure}\n{}", again(seed));
                            failures.push(failure);
                        }
                    }
                    if *count % 50 == 0 {
                        println!("{count} of {seeds} stories, {} failed", failures.len());
                    }
                }
            });
        }
    });
    let (failures, total, _) = told.into_inner().unwrap();
    (failures, total)
}

#[test]
fn stories_end_well() {
    let (from, seeds) = (asked("BOWLINE_SIM_FROM", 0), asked("BOWLINE_SIM_SEEDS", SEEDS));
    let (failures, total) = tell(from, seeds);
    println!("{total:?}");
    let mut failed: Vec<u64> = failures.iter().map(|failure| failure.seed).collect();
    failed.sort_unstable();
    if let Some(seed) = failed.first() {
        // The same again, in detail.
        println!("{}", Story::new(*seed).tell_in_detail().unwrap_err());
    }
    let commands: Vec<_> = failed.iter().copied().map(again).collect();
    assert!(failed.is_empty(), "these seeds failed: {failed:?}\n{}", commands.join("\n"));
}

/// What the stories are about has to happen in them.
#[test]
fn stories_are_eventful() {
    let (_, total) = tell(5000, 12);
    let Counts { starts, joined, removed, promoted, snapshots, answered, unknown, .. } = total;
    let least = [starts, joined, removed, promoted, snapshots, unknown].into_iter().min();
    assert!(least > Some(1) && answered > 1000 && total.events > 100, "{total:?}");
    for (kind, count) in Mishap::ALL.into_iter().zip(total.mishaps) {
        assert!(count > 0, "{kind:?} never happens");
    }
}

#[test]
fn a_seed_repeats_to_the_byte() {
    for seed in [3, 6, 10] {
        let digest = || {
            let told = Story { steps: 1500, ..Story::new(seed) }.tell();
            told.unwrap_or_else(|failure| panic!("{failure}")).digest
        };
        let (first, again) = (digest(), std::thread::scope(|it| it.spawn(digest).join().unwrap()));
        assert_eq!(first, again, "seed {seed}");
    }
}
