//! Conversions of durations, sizes and dates into plain numbers.

use std::time::{Duration, UNIX_EPOCH};

use env::Clock;

/// Converts a duration to nanoseconds, saturating after 584 years. Never returns zero, which stands
/// for "none".
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1)
}

/// Converts a size in bytes to the signed type of the API and of gauges, saturating.
pub(crate) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Returns the wall-clock time in seconds since 1970.
pub(crate) fn unix_seconds(clock: &dyn Clock) -> i64 {
    let since = clock.wall().duration_since(UNIX_EPOCH).unwrap_or_default();
    signed(since.as_secs())
}
