//! Scenarios from seeds: under all faults, one store explains every observation of the clients.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use sim::{Counts, Failure, Fault, Scenario};

/// Number of scenarios in an ordinary run.
const SEEDS: u64 = 80;

/// Returns a number from the environment.
fn from_env(name: &str, ordinary: u64) -> u64 {
    std::env::var(name).map_or(ordinary, |number| number.parse().unwrap())
}

/// Returns the command that repeats a seed in detail.
fn repeat(seed: u64) -> String {
    format!("repeat: cargo xtask sim --from {seed} --seeds 1")
}

/// Runs scenarios on all cores. Returns the failures and the statistics.
fn run_all(from: u64, seeds: u64) -> (Vec<Failure>, Counts) {
    let next = AtomicU64::new(from);
    let results = Mutex::new((Vec::new(), Counts::default(), 0));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + seeds {
                        return;
                    }
                    let end = Scenario::new(seed).run();
                    let (failures, total, count) = &mut *results.lock().unwrap();
                    *count += 1;
                    match end {
                        Ok(report) => *total += report.counts,
                        Err(failure) => {
                            println!("{failure}\n{}", repeat(seed));
                            failures.push(failure);
                        }
                    }
                    if *count % 50 == 0 {
                        println!("{count} of {seeds} scenarios, {} failed", failures.len());
                    }
                }
            });
        }
    });
    let (failures, total, _) = results.into_inner().unwrap();
    (failures, total)
}

#[test]
fn scenarios_pass() {
    let (from, seeds) = (from_env("BOWLINE_SIM_FROM", 0), from_env("BOWLINE_SIM_SEEDS", SEEDS));
    let (failures, total) = run_all(from, seeds);
    println!("{total:?}");
    let mut failed: Vec<u64> = failures.iter().map(|failure| failure.seed).collect();
    failed.sort_unstable();
    if let Some(seed) = failed.first() {
        // Repeats the first failure with a journal.
        println!("{}", Scenario::new(*seed).run_with_journal().unwrap_err());
    }
    let commands: Vec<_> = failed.iter().copied().map(repeat).collect();
    assert!(failed.is_empty(), "these seeds failed: {failed:?}\n{}", commands.join("\n"));
}

/// Every kind of event and fault has to occur.
#[test]
fn scenarios_are_eventful() {
    let (_, total) = run_all(5000, 12);
    let Counts { starts, joined, removed, promoted, snapshots, answered, unknown, .. } = total;
    let least = [starts, joined, removed, promoted, snapshots, unknown].into_iter().min();
    assert!(least > Some(1) && answered > 1000 && total.events > 100, "{total:?}");
    for (kind, count) in Fault::ALL.into_iter().zip(total.faults) {
        assert!(count > 0, "{kind:?} never occurs");
    }
}

#[test]
fn a_seed_repeats_to_the_byte() {
    for seed in [3, 6, 10] {
        let digest = || {
            let report = Scenario { steps: 1500, ..Scenario::new(seed) }.run();
            report.unwrap_or_else(|failure| panic!("{failure}")).digest
        };
        let (first, second) = (digest(), std::thread::scope(|it| it.spawn(digest).join().unwrap()));
        assert_eq!(first, second, "seed {seed}");
    }
}
