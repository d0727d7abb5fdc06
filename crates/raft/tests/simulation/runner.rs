//! Runs seeds, and reports the last events of a failed one.

use std::fmt;

use simkit::{Outcome, Results, Seeds, catch_panic};

use crate::cluster::Cluster;
use crate::invariants::{Invariant, Violation};
use crate::scenario::Defect;
use crate::totals::Totals;

/// The outcome of one seed.
pub(crate) struct Run {
    pub(crate) totals: Totals,
    /// Runs with equal digests are identical.
    pub(crate) digest: u64,
    pub(crate) failure: Option<Failure>,
}

/// A violated invariant, with the events that led to it.
pub(crate) struct Failure {
    pub(crate) violation: Violation,
    trace: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { violation, trace } = self;
        let trace = trace.trim_end();
        write!(f, "violates {violation}\nthe last events (time, member, what):\n{trace}")
    }
}

/// Runs one seed.
pub(crate) fn run_seed(seed: u64, defect: Option<Defect>) -> Run {
    let mut cluster = Cluster::new(seed, defect);
    // A panic of the core is a violation too.
    let result = catch_panic(|| cluster.run())
        .unwrap_or_else(|detail| Err(Violation { invariant: Invariant::NoPanic, detail }));
    let trace = &cluster.sim.trace;
    let failure = result.err().map(|violation| Failure { violation, trace: trace.to_string() });
    let totals = Totals { seeds: 1, ..cluster.sim.totals };
    Run { totals, digest: trace.digest(), failure }
}

/// Runs seeds on all cores. Unless `keep_going` is set, no seed starts after a failure.
pub(crate) fn run(
    from: u64,
    count: u64,
    keep_going: bool,
    defect: Option<Defect>,
) -> Results<Totals, Failure> {
    let repeat = |seed| format!("cargo xtask raft-sim --seeds 1 --from {seed}");
    let seeds = Seeds { from, count, keep_going, repeat };
    seeds.run(|seed| {
        let Run { totals, failure, .. } = run_seed(seed, defect);
        Outcome { totals, failure }
    })
}
