//! Numbers as others want them.

use std::time::{Duration, UNIX_EPOCH};

use env::Clock;

/// A moment in nanoseconds, for which five hundred years are enough. Never the zero that stands for none.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1)
}

/// Bytes as the API and gauges have them.
pub(crate) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// The date, in seconds since 1970.
pub(crate) fn unix_seconds(clock: &dyn Clock) -> i64 {
    let since = clock.wall().duration_since(UNIX_EPOCH).unwrap_or_default();
    signed(since.as_secs())
}
