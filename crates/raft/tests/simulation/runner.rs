//! Runs seeds on all cores, and tells how to repeat the one that fails.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, Once};

use crate::cluster::Cluster;
use crate::invariants::{Invariant, Violation};
use crate::scenario::Flaw;
use crate::totals::Totals;

/// Which seeds to run, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) from: u64,
    pub(crate) seeds: u64,
    pub(crate) keep_going: bool,
    pub(crate) flaw: Option<Flaw>,
}

/// What came of one seed.
pub(crate) struct Outcome {
    pub(crate) totals: Totals,
    /// Two runs with the same digest went the same way.
    pub(crate) digest: u64,
    pub(crate) failure: Option<Failure>,
}

/// A seed that failed.
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

/// Runs one seed from beginning to end.
pub(crate) fn run_seed(seed: u64, flaw: Option<Flaw>) -> Outcome {
    let mut cluster = Cluster::new(seed, flaw);
    let result = catching_panics(|| cluster.run());
    let failure = result.err().map(|violation| Failure {
        seed,
        violation,
        trace: cluster.world.trace.to_string(),
    });
    let mut totals = std::mem::take(&mut cluster.world.totals);
    totals.seeds = 1;
    Outcome { totals, digest: cluster.world.trace.digest(), failure }
}

/// Runs the seeds of a plan on all cores. Failures come in the order of their seeds; unless the plan says to
/// keep going, no seed is begun after one has failed.
pub(crate) fn run(plan: Plan) -> (Totals, Vec<Failure>) {
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let results = Mutex::new((Totals::default(), Vec::new()));
    let work = || {
        loop {
            let offset = next.fetch_add(1, Ordering::Relaxed);
            if offset >= plan.seeds || stop.load(Ordering::Relaxed) {
                return;
            }
            let outcome = run_seed(plan.from + offset, plan.flaw);
            if outcome.failure.is_some() && !plan.keep_going {
                stop.store(true, Ordering::Relaxed);
            }
            let mut results = results.lock().expect("no thread panics while it counts");
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
    let (totals, mut failures) = results.into_inner().expect("all threads have ended");
    failures.sort_by_key(|failure| failure.seed);
    (totals, failures)
}

thread_local! {
    /// Why this thread panicked while it simulated; nothing while it does not simulate.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A panic of the core is a violation like any other.
fn catching_panics(run: impl FnOnce() -> Result<(), Violation>) -> Result<(), Violation> {
    note_panics();
    PANIC.set(Some(String::new()));
    let result = catch_unwind(AssertUnwindSafe(run));
    let detail = PANIC.take().unwrap_or_default();
    result.unwrap_or(Err(Violation { invariant: Invariant::NoPanic, detail }))
}

/// Keeps the words of a panic in place of printing them, on threads that simulate.
fn note_panics() {
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
