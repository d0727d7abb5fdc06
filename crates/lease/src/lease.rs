//! One lease, as it is in memory.

use std::time::Duration;

use types::LeaseId;

use crate::config::Config;
use crate::monotonic_time::MonotonicTime;
use crate::record::LeaseRecord;

/// What a lessor knows of a lease. The last three mean something only while the lessor is primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    /// Seconds granted.
    pub(crate) ttl: i64,
    /// Seconds left at the last checkpoint. Zero or less: none since the lease was renewed.
    pub(crate) remaining_ttl: i64,
    /// When it expires.
    pub(crate) deadline: MonotonicTime,
    /// The time of its entry in the queue of expiries: never after the deadline, except while an expired lease waits to be handed out again.
    pub(crate) queued: MonotonicTime,
    /// The time of its entry in the queue of checkpoints. Forever if it has none.
    pub(crate) checkpoint_due: MonotonicTime,
}

impl Lease {
    /// A lease for which time does not run yet.
    pub(crate) fn new(ttl: i64, remaining_ttl: i64) -> Lease {
        let never = MonotonicTime::FOREVER;
        Lease { ttl, remaining_ttl, deadline: never, queued: never, checkpoint_due: never }
    }

    pub(crate) fn record(&self, id: LeaseId) -> LeaseRecord {
        LeaseRecord { id, ttl: self.ttl, remaining_ttl: self.remaining_ttl }
    }

    /// Seconds that every member knows to be left: at the last checkpoint, or else all that were granted.
    fn known_ttl(&self) -> i64 {
        if self.remaining_ttl > 0 { self.remaining_ttl } else { self.ttl }
    }

    /// Lets time run, from now and from what every member knows.
    pub(crate) fn start(&mut self, now: MonotonicTime, extend: Duration, config: &Config) {
        self.deadline = now.after_seconds(self.known_ttl()).after(extend);
        self.queued = self.deadline;
        self.checkpoint_due = self.next_checkpoint(now, config);
    }

    pub(crate) fn is_expired(&self, now: MonotonicTime) -> bool {
        self.deadline <= now
    }

    /// Takes over what was left at a checkpoint, and says when the next is due.
    ///
    /// A checkpoint that was on its way while the lease was renewed leaves too little. If the leader failed now the next one would let
    /// the lease expire too early: so the truth is due at once.
    pub(crate) fn checkpoint(&mut self, remaining_ttl: i64, now: MonotonicTime, config: &Config) {
        self.remaining_ttl = remaining_ttl;
        let too_little = remaining_ttl > 0 && self.deadline > now.after_seconds(remaining_ttl);
        self.checkpoint_due =
            if config.checkpoint && too_little { now } else { self.next_checkpoint(now, config) };
    }

    /// After a checkpoint, only what is left for longer than until the next one is worth another.
    fn next_checkpoint(&self, now: MonotonicTime, config: &Config) -> MonotonicTime {
        if config.checkpoint && self.known_ttl() > config.checkpoint_interval_seconds() {
            now.after(config.checkpoint_interval)
        } else {
            MonotonicTime::FOREVER
        }
    }

    /// What a checkpoint should say now, if there is something to say: the seconds left, rounded up, or zero for all of them.
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

    /// Started at second 0.
    fn started(ttl: i64, remaining_ttl: i64) -> Lease {
        let mut lease = Lease::new(ttl, remaining_ttl);
        lease.start(MonotonicTime::default(), Duration::ZERO, &config());
        lease
    }

    #[test]
    fn starts_from_the_last_checkpoint() {
        assert_eq!(started(600, 0).deadline, at(600));
        assert_eq!(started(600, 90).deadline, at(90));
        assert_eq!(started(600, i64::MIN).deadline, at(600));
        assert_eq!(started(600, i64::MAX).deadline, MonotonicTime::FOREVER);
    }

    #[test]
    fn only_what_is_longer_than_the_interval_is_checkpointed() {
        assert_eq!(started(300, 0).checkpoint_due, MonotonicTime::FOREVER);
        assert_eq!(started(301, 0).checkpoint_due, at(300));
        assert_eq!(started(900, 300).checkpoint_due, MonotonicTime::FOREVER);
    }

    #[test]
    fn a_checkpoint_says_what_is_left() {
        let mut lease = started(600, 0);
        assert_eq!(lease.checkpoint_value(MonotonicTime::default()), None, "all of it");
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
    fn a_checkpoint_from_before_a_renewal_is_put_right_at_once() {
        let mut lease = started(600, 0);
        lease.checkpoint(400, at(200), &config());
        assert_eq!(lease.checkpoint_due, at(500), "as it should be");
        lease.checkpoint(399, at(200), &config());
        assert_eq!(lease.checkpoint_due, at(200), "one second too little");
        lease.checkpoint(0, at(200), &config());
        assert_eq!(lease.checkpoint_due, at(500));
    }
}
