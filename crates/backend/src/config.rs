//! Options for opening and committing a database.

use std::time::Duration;

/// Default delay before a batch is committed, as in etcd (`--backend-batch-interval`).
pub const BATCH_INTERVAL_DEFAULT: Duration = Duration::from_millis(100);

/// Default number of changes at which a batch is committed at once, as in etcd
/// (`--backend-batch-limit`).
pub const BATCH_OPS_DEFAULT: usize = 10_000;

/// Default size in bytes at which a batch is committed at once: a few times the largest request.
pub const BATCH_BYTES_DEFAULT: usize = 16 << 20;

/// Default limit of pending bytes, in both batches, above which a transaction waits for a commit.
pub const PENDING_BYTES_MAX_DEFAULT: usize = 64 << 20;

/// Options for opening and committing a database.
#[derive(Clone, Debug)]
pub struct Config {
    /// Delay before a batch is committed.
    pub batch_interval: Duration,
    /// Number of changes at which a batch is committed at once.
    pub batch_ops: usize,
    /// Size in bytes at which a batch is committed at once.
    pub batch_bytes: usize,
    /// Pending bytes above which a transaction waits for a commit.
    pub pending_bytes_max: usize,
    /// Options of the bolt file.
    pub bolt: bolt::Options,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            batch_interval: BATCH_INTERVAL_DEFAULT,
            batch_ops: BATCH_OPS_DEFAULT,
            batch_bytes: BATCH_BYTES_DEFAULT,
            pending_bytes_max: PENDING_BYTES_MAX_DEFAULT,
            // Detect bit rot by default.
            bolt: bolt::Options { checksums: true, ..bolt::Options::default() },
        }
    }
}
