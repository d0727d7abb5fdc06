//! etcd's metrics of a member, under etcd's names.
//!
//! ```text
//!   updated on events   Metrics          wal_fsync_duration.observe(0.0011), leader_changes.inc()
//!   read on a scrape    ServerCollector  database size, keys, watchers, indexes, leader
//! ```
//!
//! Each metric is registered once, with the name, type, labels and buckets of etcd (some gauges are
//! called `…_total`, and stay gauges). The help text is our own: the doc comment of the field. A
//! series with labels appears once a value was observed; its handle is looked up then and cached
//! ([`PerOp`]), so that an update costs an atomic addition.
//!
//! Not here: metrics of calls, bytes and health checks (`api`) and of the process.

mod collector;
mod executed;
mod make;
mod op;

use std::time::Duration;

use prometheus::{Error, Histogram, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry};

pub use collector::ServerCollector;
pub use executed::Executed;
pub use op::{Op, PerOp, PerOutcome};

use crate::request::SERVER_VERSION;
use make::{Bounds, Make};

/// From 1 ms to 8 s: disk operations.
const DISK: Bounds = Bounds { first: 0.001, count: 14 };
/// From 0.1 ms to 1 min: applying.
const APPLY: Bounds = Bounds { first: 0.0001, count: 20 };
/// From 10 ms to 3 min: operations that read the whole database.
const HASH: Bounds = Bounds { first: 0.01, count: 15 };

/// Maps a builder method to the type of the metric.
macro_rules! type_of {
    (counter) => {
        IntCounter
    };
    (counters) => {
        IntCounterVec
    };
    (gauge) => {
        IntGauge
    };
    (gauges) => {
        IntGaugeVec
    };
    (histogram) => {
        Histogram
    };
    (per_op) => {
        PerOp
    };
    (per_outcome) => {
        PerOutcome
    };
}

/// Declares the fields of [`Metrics`]: help, field, and builder method.
macro_rules! metrics {
    ($(#[doc = $help:literal] $field:ident: $kind:ident($name:literal $(, $with:expr)*),)*) => {
        /// The metrics of a member. Cheap to clone.
        #[derive(Clone, Debug)]
        pub struct Metrics {
            $(#[doc = $help] pub $field: type_of!($kind),)*
        }

        impl Metrics {
            fn register(make: Make<'_>) -> Result<Metrics, Error> {
                Ok(Metrics { $($field: make.$kind($name, $help.trim_start() $(, $with)*)?,)* })
            }
        }
    };
}

metrics! {
    /// Leader changes seen.
    leader_changes: counter("etcd_server_leader_changes_seen_total"),
    /// Heartbeats that this leader sent late, more than two intervals after the previous one.
    heartbeat_send_failures: counter("etcd_server_heartbeat_send_failures_total"),
    /// Proposals that were dropped, timed out or canceled.
    proposals_failed: counter("etcd_server_proposals_failed_total"),
    /// Read indexes that were not confirmed in time.
    slow_read_indexes: counter("etcd_server_slow_read_indexes_total"),
    /// Read indexes that could not be requested or timed out.
    read_indexes_failed: counter("etcd_server_read_indexes_failed_total"),
    /// Learners that this leader promoted.
    learner_promote_successes: counter("etcd_server_learner_promote_successes"),
    /// Failed promotions of learners, by the text of the error.
    learner_promote_failures: counters("etcd_server_learner_promote_failures", &["Reason"]),
    /// Whether a snapshot of another member is being applied.
    snapshot_apply_in_progress: gauge("etcd_server_snapshot_apply_in_progress_total"),
    /// Entries whose apply duration exceeded the warning threshold.
    slow_apply: counter("etcd_server_slow_apply_total"),
    /// Time to apply an entry, in seconds, by kind of request.
    apply_duration: per_op("etcd_server_apply_duration_seconds", APPLY, ["version", "op"], Some("v3")),
    /// Time from a request to its response, refusals included, in seconds.
    request_duration: per_op("etcd_server_request_duration_seconds", DISK, ["type"], None),
    /// Time of a range outside of transactions, in seconds.
    range_duration: per_outcome("etcd_server_range_duration_seconds", APPLY),
    /// Expired leases that this leader revoked.
    lease_expired: counter("etcd_debugging_server_lease_expired_total"),

    /// Time to sync the log, in seconds.
    wal_fsync_duration: histogram("etcd_disk_wal_fsync_duration_seconds", DISK),
    /// Time to write to the log, in seconds.
    wal_write_duration: histogram("etcd_disk_wal_write_duration_seconds", DISK),
    /// Bytes written to the log.
    wal_write_bytes: gauge("etcd_disk_wal_write_bytes_total"),
    /// Time to commit to the database file, in seconds.
    backend_commit_duration: histogram("etcd_disk_backend_commit_duration_seconds", DISK),
    /// Time of a commit to merge small pages, in seconds.
    backend_commit_rebalance_duration: histogram("etcd_debugging_disk_backend_commit_rebalance_duration_seconds", DISK),
    /// Time of a commit to cut changed nodes into pages, in seconds.
    backend_commit_spill_duration: histogram("etcd_debugging_disk_backend_commit_spill_duration_seconds", DISK),
    /// Time of a commit to write and sync, in seconds.
    backend_commit_write_duration: histogram("etcd_debugging_disk_backend_commit_write_duration_seconds", DISK),
    /// Time to defragment the database file, in seconds.
    backend_defrag_duration: histogram("etcd_disk_backend_defrag_duration_seconds", Bounds { first: 0.1, count: 13 }),
    /// Whether the database file is being defragmented.
    defrag_inflight: gauge("etcd_disk_defrag_inflight"),
    /// Time to send the whole database, in seconds.
    backend_snapshot_duration: histogram("etcd_disk_backend_snapshot_duration_seconds", Bounds { first: 0.01, count: 17 }),
    /// Time to sync a snapshot file, in seconds.
    snap_fsync_duration: histogram("etcd_snap_fsync_duration_seconds", DISK),
    /// Time to encode a snapshot file, in seconds.
    snap_save_marshalling_duration: histogram("etcd_debugging_snap_save_marshalling_duration_seconds", DISK),
    /// Total time to save a snapshot file, in seconds.
    snap_save_total_duration: histogram("etcd_debugging_snap_save_total_duration_seconds", DISK),
    /// Time to sync a received database, in seconds.
    snap_db_fsync_duration: histogram("etcd_snap_db_fsync_duration_seconds", DISK),
    /// Total time to save a received database, in seconds.
    snap_db_save_total_duration: histogram("etcd_snap_db_save_total_duration_seconds", Bounds { first: 0.1, count: 10 }),

    /// Ranges executed.
    ranges: counter("etcd_mvcc_range_total"),
    /// Puts executed.
    puts: counter("etcd_mvcc_put_total"),
    /// Range deletions executed.
    deletes: counter("etcd_mvcc_delete_total"),
    /// Transactions with more than one operation.
    txns: counter("etcd_mvcc_txn_total"),
    /// Bytes of all keys and values put.
    put_bytes: gauge("etcd_debugging_mvcc_total_put_size_in_bytes"),
    /// Events sent to watchers.
    events: counter("etcd_debugging_mvcc_events_total"),
    /// Time to hash the whole database, in seconds.
    hash_duration: histogram("etcd_mvcc_hash_duration_seconds", HASH),
    /// Time to hash the keys up to a revision, in seconds.
    hash_rev_duration: histogram("etcd_mvcc_hash_rev_duration_seconds", HASH),
    /// Time of one batch of a compaction in the index, in milliseconds.
    index_compaction_pause_ms: histogram("etcd_debugging_mvcc_index_compaction_pause_duration_milliseconds", Bounds { first: 0.5, count: 14 }),
    /// Time of one batch of a compaction in the database, in milliseconds.
    db_compaction_pause_ms: histogram("etcd_debugging_mvcc_db_compaction_pause_duration_milliseconds", Bounds { first: 1.0, count: 13 }),
    /// Total time of a compaction, in milliseconds.
    db_compaction_total_ms: histogram("etcd_debugging_mvcc_db_compaction_total_duration_milliseconds", Bounds { first: 100.0, count: 14 }),
    /// End of the last compaction, in seconds since 1970; zero after a start.
    db_compaction_last: gauge("etcd_debugging_mvcc_db_compaction_last"),
    /// Revisions that compactions deleted.
    db_compaction_keys: counter("etcd_debugging_mvcc_db_compaction_keys_total"),

    /// Time to send a response with events to a watcher, in seconds.
    watch_send_events_duration: histogram("etcd_debugging_server_watch_send_loop_watch_stream_duration_seconds", DISK),
    /// Time to send a response with events to a watcher, per event, in seconds.
    watch_send_per_event_duration: histogram("etcd_debugging_server_watch_send_loop_watch_stream_duration_per_event_seconds", DISK),
    /// Time to send a watcher a control response, in seconds.
    watch_send_control_duration: histogram("etcd_debugging_server_watch_send_loop_control_stream_duration_seconds", DISK),
    /// Time to send a watcher a progress notification, in seconds.
    watch_send_progress_duration: histogram("etcd_debugging_server_watch_send_loop_progress_duration_seconds", DISK),

    /// Whether a feature gate is enabled, by name and stage.
    feature_enabled: gauges("etcd_server_feature_enabled", &["name", "stage"]),
    /// File descriptors in use, at the last check.
    fd_used: gauge("os_fd_used"),
    /// Limit of file descriptors.
    fd_limit: gauge("os_fd_limit"),
}

impl Metrics {
    /// Registers all metrics.
    ///
    /// # Errors
    /// A name is already registered.
    pub fn new(registry: &Registry) -> Result<Metrics, Error> {
        let make = Make(registry);
        let help = "The version of this server, as a label; the value is 1.";
        let version = make.gauges("etcd_server_version", help, &["server_version"])?;
        version.with_label_values(&[SERVER_VERSION]).set(1);
        register_unused(make)?;
        Metrics::register(make)
    }
}

/// Returns the time between two instants, in seconds.
pub(crate) fn seconds(began: Duration, now: Duration) -> f64 {
    now.saturating_sub(began).as_secs_f64()
}

/// Registers metrics that are always zero here, for dashboards that query them by name.
fn register_unused(make: Make<'_>) -> Result<(), Error> {
    const PROXY: &str = "Metric of etcd's proxy. Always zero in Bowline.";
    const STORE: &str = "Metric of etcd's v2 store. Always zero in Bowline.";
    make.gauge("etcd_grpc_proxy_cache_hits_total", PROXY)?;
    make.gauge("etcd_grpc_proxy_cache_keys_total", PROXY)?;
    make.gauge("etcd_grpc_proxy_cache_misses_total", PROXY)?;
    make.counter("etcd_grpc_proxy_events_coalescing_total", PROXY)?;
    make.gauge("etcd_grpc_proxy_watchers_coalescing_total", PROXY)?;
    make.counter("etcd_debugging_store_expires_total", STORE)?;
    make.counter("etcd_debugging_store_watch_requests_total", STORE)?;
    make.gauge("etcd_debugging_store_watchers", STORE)?;
    make.gauge(
        "etcd_mvcc_db_open_read_transactions",
        "Open read transactions of the database. Always zero in Bowline.",
    )?;
    Ok(())
}

#[cfg(test)]
mod tests;
