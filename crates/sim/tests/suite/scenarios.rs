//! Scenarios from seeds: under all faults, one store explains every observation of the clients.

use std::ops::AddAssign;

use sim::{Counts, Fault, FaultCounts, Scenario};
use simkit::{Outcome, Results, Seeds, number_from_env};

/// Number of scenarios in an ordinary run.
const SEEDS: u64 = 80;

/// Statistics of several scenarios.
#[derive(Default)]
struct Totals {
    counts: Counts,
    faults: FaultCounts,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Totals) {
        self.counts += other.counts;
        self.faults += other.faults;
    }
}

/// Runs scenarios on all cores.
fn run_all(from: u64, count: u64) -> Results<Totals, String> {
    let repeat = |seed| format!("cargo xtask sim --from {seed} --seeds 1");
    Seeds { from, count, keep_going: true, repeat }.run(|seed| match Scenario::new(seed).run() {
        Ok(report) => {
            let totals = Totals { counts: report.counts, faults: report.faults };
            Outcome { totals, failure: None }
        }
        Err(failure) => Outcome { totals: Totals::default(), failure: Some(failure.reason) },
    })
}

#[test]
fn scenarios_pass() {
    let from = number_from_env("BOWLINE_SIM_FROM", 0);
    let results = run_all(from, number_from_env("BOWLINE_SIM_SEEDS", SEEDS));
    println!("{}{:?}", results.totals.counts, results.totals.faults);
    if let Some(first) = results.failures.first() {
        // Repeats the first failure with a journal.
        println!("{}", Scenario::new(first.seed).run_with_journal().unwrap_err());
    }
    results.assert_passed();
}

/// Every kind of event and fault has to occur.
#[test]
fn scenarios_are_eventful() {
    let Totals { counts, faults } = run_all(5000, 12).totals;
    let Counts { starts, joined, removed, promoted, snapshots, answered, unknown, .. } = counts;
    let rarest = [starts, joined, removed, promoted, snapshots, unknown].into_iter().min();
    assert!(rarest > Some(1) && answered > 1000 && counts.events > 100, "{counts}");
    for kind in Fault::ALL {
        assert!(faults.of(kind) > 0, "{kind:?} never occurs");
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
