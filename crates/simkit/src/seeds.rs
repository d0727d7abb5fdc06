//! Runs of many seeds on all cores.

use std::fmt::{self, Display};
use std::ops::AddAssign;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::catch_panic;

/// Progress is printed this many times in a run.
const PROGRESS_LINES: u64 = 20;

/// The seeds to run, with the options of the run.
#[derive(Clone, Copy, Debug)]
pub struct Seeds {
    /// First seed.
    pub from: u64,
    /// Number of seeds.
    pub count: u64,
    /// Whether further seeds start after one has failed.
    pub keep_going: bool,
    /// Returns the command that repeats a seed.
    pub repeat: fn(u64) -> String,
}

/// The outcome of one seed.
#[derive(Debug)]
pub struct Outcome<T, F> {
    /// Counters, also of a seed that failed.
    pub totals: T,
    /// The failure, if the seed failed.
    pub failure: Option<F>,
}

/// The results of all seeds.
#[derive(Debug)]
pub struct Results<T, F> {
    /// The sum of all counters.
    pub totals: T,
    /// The failures, sorted by seed.
    pub failures: Vec<SeedFailure<F>>,
}

/// A failed seed.
#[derive(Debug)]
pub struct SeedFailure<F> {
    /// The seed.
    pub seed: u64,
    /// The failure that the run reported.
    pub failure: F,
    repeat: fn(u64) -> String,
}

impl<F: Display> Display for SeedFailure<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SeedFailure { seed, failure, repeat } = self;
        write!(f, "seed {seed}: {failure}\nrepeat it with: {}", repeat(*seed))
    }
}

impl Seeds {
    /// Runs the seeds on all cores. A failure is printed at once, since the rest may take long.
    pub fn run<T, F>(&self, run: impl Fn(u64) -> Outcome<T, F> + Sync) -> Results<T, F>
    where
        T: AddAssign + Default + Send,
        F: Display + Send,
    {
        let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        let results = Mutex::new(RunningResults::default());
        let work = || {
            while let Some(seed) = self.next_seed(&next, &stop) {
                let Outcome { totals, failure } = run(seed);
                if failure.is_some() && !self.keep_going {
                    stop.store(true, Ordering::Relaxed);
                }
                let failure =
                    failure.map(|failure| SeedFailure { seed, failure, repeat: self.repeat });
                results.lock().add(self.count, totals, failure);
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(work);
            }
        });
        let RunningResults { totals, mut failures, .. } = results.into_inner();
        failures.sort_by_key(|failure| failure.seed);
        Results { totals, failures }
    }

    /// Runs seeds that fail by panicking. Returns the sum of their counters.
    ///
    /// # Panics
    /// A seed failed.
    #[track_caller]
    pub fn check<T>(&self, run: impl Fn(u64) -> T + Sync) -> T
    where
        T: AddAssign + Default + Send,
    {
        let results = self.run(|seed| match catch_panic(|| run(seed)) {
            Ok(totals) => Outcome { totals, failure: None },
            Err(panic) => Outcome { totals: T::default(), failure: Some(panic) },
        });
        results.assert_passed();
        results.totals
    }

    fn next_seed(&self, next: &AtomicU64, stop: &AtomicBool) -> Option<u64> {
        let offset = next.fetch_add(1, Ordering::Relaxed);
        let may_start = offset < self.count && !stop.load(Ordering::Relaxed);
        may_start.then(|| self.from + offset)
    }
}

impl<T, F: Display> Results<T, F> {
    /// Fails the test if a seed failed, with all failures and the commands that repeat them.
    ///
    /// # Panics
    /// A seed failed.
    #[track_caller]
    pub fn assert_passed(&self) {
        let reports: Vec<_> = self.failures.iter().map(ToString::to_string).collect();
        assert!(reports.is_empty(), "{} seeds failed\n{}", reports.len(), reports.join("\n"));
    }
}

/// The results so far.
struct RunningResults<T, F> {
    totals: T,
    failures: Vec<SeedFailure<F>>,
    done: u64,
}

impl<T: Default, F> Default for RunningResults<T, F> {
    fn default() -> RunningResults<T, F> {
        RunningResults { totals: T::default(), failures: Vec::new(), done: 0 }
    }
}

impl<T: AddAssign, F: Display> RunningResults<T, F> {
    fn add(&mut self, count: u64, totals: T, failure: Option<SeedFailure<F>>) {
        self.totals += totals;
        if let Some(failure) = failure {
            println!("{failure}");
            self.failures.push(failure);
        }
        self.done += 1;
        if self.done.is_multiple_of(count.div_ceil(PROGRESS_LINES)) {
            println!("{} of {count} seeds, {} failed", self.done, self.failures.len());
        }
    }
}

/// Returns the number in an environment variable, or the default if it is not set.
///
/// # Panics
/// The value is not a number.
pub fn number_from_env(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(value) => value.parse().unwrap_or_else(|_| panic!("{name}={value} is not a number")),
        Err(_) => default,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seeds(keep_going: bool) -> Seeds {
        Seeds { from: 10, count: 100, keep_going, repeat: |seed| format!("again --from {seed}") }
    }

    #[test]
    fn all_seeds_run_once_and_their_counters_are_added() {
        assert_eq!(seeds(false).check(|seed| seed), (10..110).sum());
    }

    #[test]
    fn failures_are_reported_in_order_with_the_command_that_repeats_them() {
        let results = seeds(true).run(|seed| Outcome {
            totals: 1_u64,
            failure: (seed % 40 == 0).then(|| format!("odd number {seed}")),
        });
        assert_eq!(results.totals, 100);
        let seeds: Vec<_> = results.failures.iter().map(|failure| failure.seed).collect();
        assert_eq!(seeds, [40, 80]);
        let first = "seed 40: odd number 40\nrepeat it with: again --from 40";
        assert_eq!(results.failures[0].to_string(), first);
    }

    #[test]
    fn no_seed_starts_after_a_failure() {
        let results = seeds(false).run(|_| Outcome { totals: 1_u64, failure: Some("failed") });
        assert!(results.totals < 100 && !results.failures.is_empty());
    }

    #[test]
    fn a_panic_fails_its_seed() {
        let check = || {
            seeds(true).check(|seed| {
                assert!(seed != 50, "seed fifty");
                seed
            })
        };
        let error = catch_panic(check).unwrap_err();
        assert!(error.contains("1 seeds failed"), "{error}");
        assert!(error.contains("seed fifty") && error.contains("again --from 50"), "{error}");
    }
}
