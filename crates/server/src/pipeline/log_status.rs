//! The state of the log that other threads observe: whether a write hangs, and which segments a
//! replay needs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::units::nanos;

/// The state that the log writer publishes.
#[derive(Debug, Default)]
pub(crate) struct LogStatus {
    /// The start of the write in progress, in nanoseconds of the clock; zero if there is none.
    write_began: AtomicU64,
    /// The first segment that a replay needs. The file locks of the log writer would show the
    /// same, but they are released when it fails.
    first_segment: AtomicU64,
}

impl LogStatus {
    /// Records the start of a write; none when it ends.
    pub(crate) fn set_write_began(&self, began: Option<Duration>) {
        self.write_began.store(began.map_or(0, nanos), Ordering::Relaxed);
    }

    /// Returns the duration of the write in progress, if there is one.
    pub(crate) fn busy_for(&self, now: impl FnOnce() -> Duration) -> Option<Duration> {
        let began = self.write_began.load(Ordering::Relaxed);
        (began != 0).then(|| now().saturating_sub(Duration::from_nanos(began)))
    }

    /// The first segment that a replay needs. Earlier ones may be purged.
    pub(crate) fn first_segment(&self) -> u64 {
        self.first_segment.load(Ordering::Acquire)
    }

    pub(crate) fn set_first_segment(&self, segment: u64) {
        self.first_segment.store(segment, Ordering::Release);
    }
}
