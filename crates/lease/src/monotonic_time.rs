//! A point in monotonic time, in half the size of a [`Duration`].

use std::time::Duration;

/// Nanoseconds since the origin of the clock, up to 584 years; the longest TTL is 285 years. Sums
/// saturate at [`MonotonicTime::FOREVER`], so that no number from the log or a database yields an
/// earlier time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MonotonicTime(u64);

const NANOS_PER_SECOND: u64 = 1_000_000_000;

impl MonotonicTime {
    /// Later than any clock reading.
    pub(crate) const FOREVER: MonotonicTime = MonotonicTime(u64::MAX);

    /// Converts a clock reading.
    pub(crate) fn from_clock(now: Duration) -> MonotonicTime {
        MonotonicTime(nanos(now).min(u64::MAX - 1))
    }

    /// Converts to a clock reading. Returns `None` for `FOREVER`.
    pub(crate) fn to_clock(self) -> Option<Duration> {
        (self != MonotonicTime::FOREVER).then(|| Duration::from_nanos(self.0))
    }

    pub(crate) fn after(self, time: Duration) -> MonotonicTime {
        MonotonicTime(self.0.saturating_add(nanos(time)))
    }

    /// Adds seconds. Negative ones count as zero.
    pub(crate) fn after_seconds(self, seconds: i64) -> MonotonicTime {
        let seconds = u64::try_from(seconds).unwrap_or(0);
        MonotonicTime(self.0.saturating_add(seconds.saturating_mul(NANOS_PER_SECOND)))
    }

    /// Returns the whole seconds since another time, rounded towards zero; negative if this one is
    /// earlier.
    pub(crate) fn seconds_since(self, other: MonotonicTime) -> i64 {
        let whole = i64::try_from(self.0.abs_diff(other.0) / NANOS_PER_SECOND).unwrap_or(i64::MAX);
        if self < other { -whole } else { whole }
    }

    /// Returns the whole seconds since an earlier time, rounded up.
    pub(crate) fn seconds_since_ceil(self, earlier: MonotonicTime) -> i64 {
        let nanos = self.0.saturating_sub(earlier.0);
        i64::try_from(nanos.div_ceil(NANOS_PER_SECOND)).unwrap_or(i64::MAX)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> MonotonicTime {
        MonotonicTime::from_clock(Duration::from_millis(ms))
    }

    #[test]
    fn sums_saturate_at_forever() {
        assert_eq!(at(1).after_seconds(i64::MAX), MonotonicTime::FOREVER);
        assert_eq!(at(1).after_seconds(i64::MIN), at(1));
        assert_eq!(at(1).after(Duration::MAX), MonotonicTime::FOREVER);
        assert!(MonotonicTime::from_clock(Duration::MAX) < MonotonicTime::FOREVER);
        assert!(
            at(u64::MAX / 4_000_000).after_seconds(crate::TTL_MAX_SECONDS) < MonotonicTime::FOREVER
        );
        assert_eq!(MonotonicTime::FOREVER.to_clock(), None);
    }

    #[test]
    fn seconds_are_rounded_as_etcd_does() {
        assert_eq!(at(2500).seconds_since(at(1000)), 1);
        assert_eq!(at(1000).seconds_since(at(1900)), 0);
        assert_eq!(at(1000).seconds_since(at(2500)), -1);
        assert_eq!(at(2500).seconds_since_ceil(at(1000)), 2);
        assert_eq!(at(2000).seconds_since_ceil(at(1000)), 1);
        assert_eq!(at(1000).seconds_since_ceil(at(2000)), 0);
        assert_eq!(MonotonicTime::FOREVER.seconds_since(MonotonicTime::default()), 18_446_744_073);
    }
}
