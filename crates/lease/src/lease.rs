//! A lease in memory.

use std::time::Duration;

use types::LeaseId;

use crate::config::Config;
use crate::monotonic_time::MonotonicTime;
use crate::record::LeaseRecord;

/// The state of a lease. The last three fields are valid only while the lessor is primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    /// The granted TTL in seconds.
    pub(crate) ttl: i64,
    /// The remaining TTL in seconds at the last checkpoint. Zero or less: no checkpoint since the
    /// last renewal.
    pub(crate) remaining_ttl: i64,
    /// The time of expiry.
    pub(crate) deadline: MonotonicTime,
    /// The time of its entry in the expiry queue: at most the deadline, except for an expired lease
    /// that waits to be reported again.
    pub(crate) queued: MonotonicTime,
    /// The time of its entry in the checkpoint queue, or `FOREVER`.
    pub(crate) checkpoint_due: MonotonicTime,
}

impl Lease {
    /// Creates a lease without a deadline.
    pub(crate) fn new(ttl: i64, remaining_ttl: i64) -> Lease {
        let never = MonotonicTime::FOREVER;
        Lease { ttl, remaining_ttl, deadline: never, queued: never, checkpoint_due: never }
    }

    pub(crate) fn record(&self, id: LeaseId) -> LeaseRecord {
        LeaseRecord { id, ttl: self.ttl, remaining_ttl: self.remaining_ttl }
    }

    /// Returns the remaining TTL that every member knows: from the last checkpoint, or the granted
    /// one.
    fn known_ttl(&self) -> i64 {
        if self.remaining_ttl > 0 { self.remaining_ttl } else { self.ttl }
    }

    /// Sets the deadline, from now and from the TTL that every member knows.
    pub(crate) fn start(&mut self, now: MonotonicTime, extend: Duration, config: &Config) {
        self.deadline = now.after_seconds(self.known_ttl()).after(extend);
        self.queued = self.deadline;
        self.checkpoint_due = self.next_checkpoint(now, config);
    }

    pub(crate) fn is_expired(&self, now: MonotonicTime) -> bool {
        self.deadline <= now
    }

    /// Applies a checkpoint, and schedules the next one.
    ///
    /// A checkpoint that was proposed before a renewal and applied after it is too low. If the
    /// leader failed now, the next one would expire the lease too early. So a correcting checkpoint
    /// is due at once.
    pub(crate) fn checkpoint(&mut self, remaining_ttl: i64, now: MonotonicTime, config: &Config) {
        self.remaining_ttl = remaining_ttl;
        let too_little = remaining_ttl > 0 && self.deadline > now.after_seconds(remaining_ttl);
        self.checkpoint_due =
            if config.checkpoint && too_little { now } else { self.next_checkpoint(now, config) };
    }

    /// Returns when the next checkpoint is due: only if the remaining TTL exceeds the interval.
    fn next_checkpoint(&self, now: MonotonicTime, config: &Config) -> MonotonicTime {
        if config.checkpoint && self.known_ttl() > config.checkpoint_interval_seconds() {
            now.after(config.checkpoint_interval)
        } else {
            MonotonicTime::FOREVER
        }
    }

    /// Returns the value to checkpoint now: the remaining seconds, rounded up, or zero for the full
    /// TTL. `None` if it is known already.
    pub(crate) fn checkpoint_value(&self, now: MonotonicTime) -> Option<i64> {
        let left = self.deadline.seconds_since_ceil(now);
        if left < self.ttl { Some(left) } else { (self.remaining_ttl > 0).then_some(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> MonotonicTime {
        MonotonicTime::from_clock(Duration::from_secs(seconds))
    }

    fn config() -> Config {
        Config { checkpoint: true, ..Config::default() }
    }

    /// A lease whose deadline was set at second 0.
    fn started(ttl: i64, remaining_ttl: i64) -> Lease {
        let mut lease = Lease::new(ttl, remaining_ttl);
        lease.start(MonotonicTime::default(), Duration::ZERO, &config());
        lease
    }

    #[test]
    fn deadline_starts_from_the_last_checkpoint() {
        assert_eq!(started(600, 0).deadline, at(600));
        assert_eq!(started(600, 90).deadline, at(90));
        assert_eq!(started(600, i64::MIN).deadline, at(600));
        assert_eq!(started(600, i64::MAX).deadline, MonotonicTime::FOREVER);
    }

    #[test]
    fn only_a_ttl_above_the_interval_is_checkpointed() {
        assert_eq!(started(300, 0).checkpoint_due, MonotonicTime::FOREVER);
        assert_eq!(started(301, 0).checkpoint_due, at(300));
        assert_eq!(started(900, 300).checkpoint_due, MonotonicTime::FOREVER);
    }

    #[test]
    fn checkpoint_value_is_the_remaining_ttl_rounded_up() {
        let mut lease = started(600, 0);
        assert_eq!(lease.checkpoint_value(MonotonicTime::default()), None, "the full TTL");
        assert_eq!(lease.checkpoint_value(at(1)), Some(599));
        let half = MonotonicTime::from_clock(Duration::from_millis(1500));
        assert_eq!(lease.checkpoint_value(half), Some(599), "rounded up");
        lease.remaining_ttl = 20;
        assert_eq!(
            lease.checkpoint_value(MonotonicTime::default()),
            Some(0),
            "all of it, other than known"
        );
    }

    #[test]
    fn a_checkpoint_proposed_before_a_renewal_is_corrected_at_once() {
        let mut lease = started(600, 0);
        lease.checkpoint(400, at(200), &config());
        assert_eq!(lease.checkpoint_due, at(500), "the checkpoint matches the deadline");
        lease.checkpoint(399, at(200), &config());
        assert_eq!(lease.checkpoint_due, at(200), "one second too little");
        lease.checkpoint(0, at(200), &config());
        assert_eq!(lease.checkpoint_due, at(500));
    }
}
