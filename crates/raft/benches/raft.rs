//! Measures consensus without network and disk: `cargo bench -p raft`.
//!
//! Three members in one thread commit and apply proposals in batches; five members exchange
//! heartbeats. Each figure is the median of several rounds, with the slowest and the fastest, and
//! the number of allocations on all members together. The counting allocator costs a little in
//! every figure.
//!
//! `cargo bench -p raft -- --quick` runs one small round of each to see that the benchmark runs; so
//! does `cargo test --benches`.

#![expect(clippy::disallowed_types, reason = "a benchmark measures time")]

#[path = "../tests/replication/mod.rs"]
mod replication;

use std::time::{Duration, Instant};

use replication::Cluster;

/// The bytes per proposal.
const PAYLOAD: usize = 256;

/// The amount of measuring.
#[derive(Clone, Copy)]
struct Effort {
    rounds: usize,
    /// The approximate length of a round.
    round: Duration,
}

const FULL: Effort = Effort { rounds: 9, round: Duration::from_millis(700) };
const QUICK: Effort = Effort { rounds: 1, round: Duration::from_millis(5) };

fn main() {
    let has = |flag: &str| std::env::args().any(|argument| argument == flag);
    // Cargo passes `--bench` to benchmarks and nothing when it tests them.
    let effort = if has("--bench") && !has("--quick") { FULL } else { QUICK };

    println!("three members commit and apply proposals of {PAYLOAD} bytes\n");
    println!(
        "{:>8} {:>14} {:>29} {:>18}",
        "batch", "entries/s", "slowest .. fastest", "allocations/entry"
    );
    for batch in [1, 64, 1000] {
        let mut cluster = Cluster::new(3, PAYLOAD);
        let figures = measure(effort, batch as u64, || cluster.commit(batch));
        println!("{batch:>8} {figures}");
        assert!(cluster.applied().0 >= batch as u64, "not all members have applied the batch");
        assert!(cluster.kept() < 20_000, "storage is not compacted");
    }

    println!("\nfive members, one of them leading, pass an idle tick\n");
    println!("{:>8} {:>14} {:>29} {:>18}", "", "ticks/s", "slowest .. fastest", "allocations/tick");
    let mut cluster = Cluster::new(5, 0);
    let figures = measure(effort, 1, || cluster.tick());
    println!("{:>8} {figures}", "");
}

/// Executions per second, and allocations.
struct Figures {
    /// Sorted.
    per_second: Vec<f64>,
    allocations: f64,
}

/// Calls `act`, which does `units` of work, in several rounds of equal length.
fn measure(effort: Effort, units: u64, mut act: impl FnMut()) -> Figures {
    let calls = calls_in(effort.round, &mut act);
    let mut per_second: Vec<f64> = (0..effort.rounds)
        .map(|_| {
            let start = Instant::now();
            (0..calls).for_each(|_| act());
            (calls * units) as f64 / start.elapsed().as_secs_f64()
        })
        .collect();
    per_second.sort_by(f64::total_cmp);
    let counted = allocation_counter::measure(|| (0..calls).for_each(|_| act()));
    let allocations = counted.count_total as f64 / (calls * units) as f64;
    Figures { per_second, allocations }
}

/// Warms up for the length of a round and returns the number of calls in one.
fn calls_in(round: Duration, act: &mut impl FnMut()) -> u64 {
    let start = Instant::now();
    let mut calls = 0;
    while start.elapsed() < round {
        act();
        calls += 1;
    }
    calls
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (slowest, fastest) = (self.per_second[0], self.per_second[self.per_second.len() - 1]);
        let median = self.per_second[self.per_second.len() / 2];
        let spread = format!("{slowest:.0} .. {fastest:.0}");
        write!(f, "{median:>14.0} {spread:>29} {:>18.3}", self.allocations)
    }
}
