//! Measures the time per verdict: `cargo bench -p history`.
//!
//! Records histories of ten clients on ten keys, with 5 % of the outcomes unknown, from the
//! reference store and checks them, once as recorded and once with a wrong value planted near the
//! end. `cargo bench -p history -- --quick` checks small histories to see that the benchmark runs;
//! so does `cargo test --benches`.

#![expect(clippy::disallowed_types, reason = "a benchmark measures time")]
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

#[expect(dead_code, reason = "tests use more of it")]
#[path = "../tests/suite/common/mod.rs"]
mod common;

use std::time::Instant;

use common::generator::{Plan, record};
use history::record::Body;
use history::{History, Options, Outcome, check};

fn main() {
    let has = |flag: &str| std::env::args().any(|argument| argument == flag);
    // Cargo passes `--bench` to benchmarks and nothing when it tests them.
    let sizes =
        if has("--bench") && !has("--quick") { [1_000, 10_000, 50_000] } else { [100, 200, 300] };
    println!("operations  watches     right     wrong");
    for operations in sizes {
        for watches in [0, 5] {
            let plan =
                Plan { clients: 10, operations, keys: 10, unknown: 5, watches, ..Plan::default() };
            let mut history = record(1, plan);
            let right = timed(&history, true);
            plant(&mut history);
            let wrong = timed(&history, false);
            println!("{operations:>10}  {watches:>7}  {right:>7.3} s  {wrong:>7.3} s");
        }
    }
}

fn timed(history: &History, expected: bool) -> f64 {
    let start = Instant::now();
    let verdict = check(history, &Options::default());
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(verdict.is_ok(), expected, "wrong verdict: {:?}", verdict.err());
    seconds
}

/// Changes the value in the last read that found a key.
fn plant(history: &mut History) {
    let found =
        history.operations.iter_mut().rev().find_map(|operation| match &mut operation.outcome {
            Outcome::Answered { response, .. } => match &mut response.body {
                Body::Range { kvs, .. } => kvs.first_mut(),
                _ => None,
            },
            Outcome::Refused { .. } | Outcome::Unknown { .. } => None,
        });
    found.unwrap().value = "planted".into();
}
