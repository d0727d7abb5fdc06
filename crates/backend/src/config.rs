//! How a database is opened and committed.

use std::time::Duration;

/// How long changes wait for others to be committed with, as in etcd (`--backend-batch-interval`).
pub const BATCH_INTERVAL_DEFAULT: Duration = Duration::from_millis(100);

/// How many changes are waited for at most, as in etcd (`--backend-batch-limit`).
pub const BATCH_OPS_DEFAULT: usize = 10_000;

/// How many bytes are waited for at most: a few times the largest request.
pub const BATCH_BYTES_DEFAULT: usize = 16 << 20;

/// How many bytes may be pending, in both batches, before a transaction waits for a commit.
pub const PENDING_BYTES_MAX_DEFAULT: usize = 64 << 20;

/// How a database is opened and committed.
#[derive(Clone, Debug)]
pub struct Config {
    /// How long changes wait for others to be committed with.
    pub batch_interval: Duration,
    /// How many changes are waited for at most.
    pub batch_ops: usize,
    /// How many bytes are waited for at most.
    pub batch_bytes: usize,
    /// How many bytes may be pending before a transaction waits for a commit.
    pub pending_bytes_max: usize,
    /// How the file is opened.
    pub bolt: bolt::Options,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            batch_interval: BATCH_INTERVAL_DEFAULT,
            batch_ops: BATCH_OPS_DEFAULT,
            batch_bytes: BATCH_BYTES_DEFAULT,
            pending_bytes_max: PENDING_BYTES_MAX_DEFAULT,
            // Bit rot is looked for unless somebody says otherwise.
            bolt: bolt::Options { checksums: true, ..bolt::Options::default() },
        }
    }
}
