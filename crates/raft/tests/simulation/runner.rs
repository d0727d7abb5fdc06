//! Runs seeds on all cores and reports how to repeat a failed one.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::cluster::Cluster;
use crate::invariants::{Invariant, Violation};
use crate::scenario::Defect;
use crate::totals::Totals;

/// The seeds to run, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) from: u64,
    pub(crate) seeds: u64,
    pub(crate) keep_going: bool,
    pub(crate) defect: Option<Defect>,
}

/// The outcome of one seed.
pub(crate) struct Outcome {
    pub(crate) totals: Totals,
    /// Runs with equal digests are identical.
    pub(crate) digest: u64,
    pub(crate) failure: Option<Failure>,
}

/// A failed seed.
pub(crate) struct Failure {
    pub(crate) seed: u64,
    pub(crate) violation: Violation,
    trace: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Failure { seed, violation, trace } = self;
        writeln!(f, "seed {seed} violates {violation}\nthe last events (time, member, what):")?;
        writeln!(f, "{trace}repeat it with: cargo xtask raft-sim --seeds 1 --from {seed}")
    }
}

/// Runs one seed.
pub(crate) fn run_seed(seed: u64, defect: Option<Defect>) -> Outcome {
    let mut cluster = Cluster::new(seed, defect);
    let result = catching_panics(|| cluster.run());
    let failure = result.err().map(|violation| Failure {
        seed,
        violation,
        trace: cluster.sim.trace.to_string(),
    });
    let mut totals = std::mem::take(&mut cluster.sim.totals);
    totals.seeds = 1;
    Outcome { totals, digest: cluster.sim.trace.digest(), failure }
}

/// Runs the seeds of a plan on all cores. Failures are sorted by seed. Unless `keep_going` is set,
/// no seed starts after a failure.
pub(crate) fn run(plan: Plan) -> (Totals, Vec<Failure>) {
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let results = Mutex::new((Totals::default(), Vec::new()));
    let work = || {
        loop {
            let offset = next.fetch_add(1, Ordering::Relaxed);
            if offset >= plan.seeds || stop.load(Ordering::Relaxed) {
                return;
            }
            let outcome = run_seed(plan.from + offset, plan.defect);
            if outcome.failure.is_some() && !plan.keep_going {
                stop.store(true, Ordering::Relaxed);
            }
            let mut results = results.lock();
            results.0.add(&outcome.totals);
            results.1.extend(outcome.failure);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let (totals, mut failures) = results.into_inner();
    failures.sort_by_key(|failure| failure.seed);
    (totals, failures)
}

thread_local! {
    /// The panic message of this thread during a simulation; `None` outside of one.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Turns a panic of the core into a violation.
fn catching_panics(run: impl FnOnce() -> Result<(), Violation>) -> Result<(), Violation> {
    capture_panics();
    PANIC.set(Some(String::new()));
    let result = catch_unwind(AssertUnwindSafe(run));
    let detail = PANIC.take().unwrap_or_default();
    result.unwrap_or(Err(Violation { invariant: Invariant::NoPanic, detail }))
}

/// Captures panic messages of simulating threads instead of printing them.
fn capture_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let simulating = PANIC.with_borrow_mut(|panic| {
                panic.as_mut().map(|words| *words = info.to_string()).is_some()
            });
            if !simulating {
                print(info);
            }
        }));
    });
}
