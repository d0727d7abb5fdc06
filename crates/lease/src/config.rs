//! The settings of a lessor.

use std::time::Duration;

use backend::schema::version::Version;

/// The maximum TTL in seconds, as in etcd: about 285 years, which as nanoseconds fit into 63 bits.
pub const TTL_MAX_SECONDS: i64 = 9_000_000_000;
/// The minimum TTL in seconds, with etcd's default election timeout of one second.
pub const TTL_MIN_SECONDS_DEFAULT: i64 = 2;
/// The time after which an expired lease that is still not revoked is reported again.
pub const EXPIRED_RETRY_DEFAULT: Duration = Duration::from_secs(3);
/// The interval of checkpoints.
pub const CHECKPOINT_INTERVAL_DEFAULT: Duration = Duration::from_secs(5 * 60);

/// The cluster version from which every member persists checkpoints.
const CHECKPOINT_PERSIST_SINCE: Version = Version::new(3, 6);

/// The settings of a lessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The minimum TTL in seconds: shorter requests get this. See [`ttl_min_seconds`].
    pub ttl_min_seconds: i64,
    /// The time after which an expired lease that is still not revoked is reported again. Zero
    /// selects the default.
    pub expired_retry: Duration,
    /// Whether to propose checkpoints.
    pub checkpoint: bool,
    /// The interval of checkpoints for a lease with a longer remaining TTL. Zero selects the
    /// default.
    pub checkpoint_interval: Duration,
    /// Whether to persist checkpoints in a cluster older than 3.6 too.
    pub checkpoint_persist: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            ttl_min_seconds: TTL_MIN_SECONDS_DEFAULT,
            expired_retry: EXPIRED_RETRY_DEFAULT,
            checkpoint: false,
            checkpoint_interval: CHECKPOINT_INTERVAL_DEFAULT,
            checkpoint_persist: false,
        }
    }
}

impl Config {
    /// Replaces zeros by defaults.
    pub(crate) fn with_defaults(mut self) -> Config {
        if self.expired_retry.is_zero() {
            self.expired_retry = EXPIRED_RETRY_DEFAULT;
        }
        if self.checkpoint_interval.is_zero() {
            self.checkpoint_interval = CHECKPOINT_INTERVAL_DEFAULT;
        }
        self
    }

    /// Returns whether a checkpoint is persisted at a cluster version (`None`: not agreed yet).
    pub(crate) fn persists_checkpoints(&self, cluster: Option<Version>) -> bool {
        self.checkpoint_persist || cluster.is_some_and(|it| it >= CHECKPOINT_PERSIST_SINCE)
    }

    /// Returns the interval of checkpoints in whole seconds, rounded down.
    pub(crate) fn checkpoint_interval_seconds(&self) -> i64 {
        i64::try_from(self.checkpoint_interval.as_secs()).unwrap_or(i64::MAX)
    }
}

/// Returns the minimum TTL: one and a half election timeouts in whole ticks, rounded up to seconds.
/// A lease must outlive an election, or no client could renew it in time.
#[must_use]
pub fn ttl_min_seconds(election_ticks: u32, heartbeat: Duration) -> i64 {
    let ticks = u128::from(election_ticks) * 3 / 2;
    let seconds = (ticks * heartbeat.as_nanos()).div_ceil(Duration::from_secs(1).as_nanos());
    i64::try_from(seconds).unwrap_or(TTL_MAX_SECONDS).min(TTL_MAX_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minimum_ttl_is_one_and_a_half_election_timeouts() {
        let ms = Duration::from_millis;
        assert_eq!(ttl_min_seconds(10, ms(100)), TTL_MIN_SECONDS_DEFAULT);
        assert_eq!(ttl_min_seconds(10, ms(10)), 1);
        assert_eq!(ttl_min_seconds(5, ms(200)), 2, "7 ticks of 200 ms");
        assert_eq!(ttl_min_seconds(100, ms(500)), 75);
        assert_eq!(ttl_min_seconds(0, ms(500)), 0);
        assert_eq!(ttl_min_seconds(u32::MAX, Duration::MAX), TTL_MAX_SECONDS);
    }

    #[test]
    fn checkpoints_are_persisted_from_cluster_version_3_6() {
        let (off, on) =
            (Config::default(), Config { checkpoint_persist: true, ..Config::default() });
        assert!(!off.persists_checkpoints(None));
        assert!(!off.persists_checkpoints(Some(Version::new(3, 5))));
        assert!(off.persists_checkpoints(Some(Version::new(3, 6))));
        assert!(on.persists_checkpoints(None));
    }

    #[test]
    fn zero_selects_the_default() {
        let zero = Config {
            expired_retry: Duration::ZERO,
            checkpoint_interval: Duration::ZERO,
            ..Config::default()
        };
        assert_eq!(zero.with_defaults(), Config::default());
    }
}
