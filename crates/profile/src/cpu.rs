//! The CPU profile: where the threads of this process spend CPU time.

use std::collections::HashMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use env::{CpuSampler, CpuSamplerError};
use rustix::time::{ClockId, clock_gettime};

use crate::mapped_files::mapped_files;
use crate::pprof::{self, Description};
use crate::stack_counts::{Stack, StackCounts};
use crate::symbols::Symbols;
use crate::unwind::StackUnwinder;

/// CPU time between samples, as in Go.
const PERIOD: Duration = Duration::from_millis(10);
/// The interval at which samples are taken from the sampler.
const DRAIN_INTERVAL: Duration = Duration::from_millis(20);

/// A CPU profile that cannot be taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CpuError {
    /// Go's text.
    #[error("cpu profiling already in use")]
    InUse,
    #[error("this platform is not supported")]
    Unsupported,
    #[error("{}", gocompat::os_error_text(.0))]
    System(std::io::Error),
}

impl From<CpuSamplerError> for CpuError {
    fn from(error: CpuSamplerError) -> CpuError {
        match error {
            CpuSamplerError::InUse => CpuError::InUse,
            CpuSamplerError::Unsupported => CpuError::Unsupported,
            CpuSamplerError::System(error) => CpuError::System(error),
        }
    }
}

/// A CPU profile that is being taken.
pub(crate) struct CpuProfile {
    sampler: CpuSampler,
    started: (SystemTime, Instant, Duration),
}

impl CpuProfile {
    /// Starts sampling.
    ///
    /// # Errors
    /// Another profile is being taken, or the system refuses.
    pub(crate) fn start() -> Result<CpuProfile, CpuError> {
        let started = (SystemTime::now(), Instant::now(), cpu_time());
        Ok(CpuProfile { sampler: CpuSampler::start(PERIOD)?, started })
    }

    /// Samples for a while, or until `is_canceled`, and returns the encoded profile.
    ///
    /// # Errors
    /// The samples cannot be read.
    pub(crate) fn run(
        mut self,
        duration: Duration,
        is_canceled: impl Fn() -> bool,
    ) -> Result<Vec<u8>, CpuError> {
        let files = mapped_files();
        let mut unwinder = StackUnwinder::new(&files);
        let mut names = ThreadNames::default();
        let mut stacks = StackCounts::default();
        let (at, begun, cpu_before) = self.started;
        loop {
            let left = duration.saturating_sub(begun.elapsed());
            if !is_canceled() {
                thread::sleep(left.min(DRAIN_INTERVAL));
            }
            let drained = self.sampler.drain(|sample| {
                let thread = names.name(sample.thread);
                stacks.add(Stack { addresses: unwinder.unwind(&sample), thread }, [1, 0]);
            });
            drained.map_err(CpuError::System)?;
            if left.is_zero() || is_canceled() {
                break;
            }
        }
        stacks.add_lost(self.sampler.lost());
        let (elapsed, used) = (begun.elapsed(), cpu_time().saturating_sub(cpu_before));
        // Stops the timer before the work below.
        drop(self);
        Ok(encode(&stacks, used, (at, elapsed)))
    }
}

/// Encodes the samples. The CPU time that was used is distributed among them: with many busy cores,
/// the kernel sends fewer signals than one per period.
fn encode(
    stacks: &StackCounts<2>,
    used: Duration,
    (at, duration): (SystemTime, Duration),
) -> Vec<u8> {
    let samples = stacks.total()[0].max(1);
    let period = i64::try_from(used.as_nanos()).unwrap_or(i64::MAX) / samples;
    let mut timed = StackCounts::default();
    for (stack, [count, _]) in stacks.sorted() {
        timed.add(stack.clone(), [*count, count.saturating_mul(period)]);
    }
    let description = Description {
        kinds: [("samples", "count"), ("cpu", "nanoseconds")],
        default_kind: "cpu",
        period: (("cpu", "nanoseconds"), period),
        at,
        duration,
        comments: stacks.lost_comment().into_iter().collect(),
    };
    let files = mapped_files();
    let symbols = Symbols::resolve(&timed.addresses(), &files);
    pprof::encode(&description, &timed, &symbols, &files)
}

/// Returns the CPU time of this process.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// The names of threads, by their id in the kernel.
#[derive(Debug, Default)]
struct ThreadNames(HashMap<u32, String>);

impl ThreadNames {
    fn name(&mut self, thread: u32) -> String {
        let name = self.0.entry(thread).or_insert_with(|| {
            let name = fs::read_to_string(format!("/proc/self/task/{thread}/comm"));
            // The thread may have ended.
            name.map_or_else(|_| thread.to_string(), |name| name.trim_end().to_owned())
        });
        name.clone()
    }
}

#[cfg(all(test, target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests;
