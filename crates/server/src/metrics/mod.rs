//! What a member counts: etcd's metrics, by etcd's names.
//!
//! ```text
//!   counted where it happens   Metrics          wal_fsync_duration.observe(0.0011), leader_changes.inc()
//!   read when somebody asks    ServerCollector  db size, keys, watchers, indexes, who leads
//! ```
//!
//! Everything is registered once, under the name, type, labels and buckets that etcd has (some gauges are called `…_total`, and stay gauges); the
//! help is our own, and is the comment of the field. A series with labels shows only once something was observed, and is looked up only
//! then ([`PerOp`]): what counts is a handle, and costs an atomic addition.
//!
//! Not here: what the API counts of calls, bytes and health checks, and what the operating system knows of the process.

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

/// From a millisecond to eight seconds: most of what a disk is asked for.
const DISK: Bounds = Bounds { first: 0.001, count: 14 };
/// From a tenth of a millisecond to a minute: what is applied.
const APPLY: Bounds = Bounds { first: 0.0001, count: 20 };
/// From ten milliseconds to three minutes: what reads everything.
const HASH: Bounds = Bounds { first: 0.01, count: 15 };

/// The type of a metric, by how it is made.
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

/// Declares the fields of [`Metrics`]: help, field, and how it is made.
macro_rules! metrics {
    ($(#[doc = $help:literal] $field:ident: $kind:ident($name:literal $(, $with:expr)*),)*) => {
        /// What a member counts. Cheap to clone.
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
    /// Leaders learned of that were another than the last one.
    leader_changes: counter("etcd_server_leader_changes_seen_total"),
    /// Heartbeats that this leader sent more than two intervals after the one before, as when its disk is slow.
    heartbeat_send_failures: counter("etcd_server_heartbeat_send_failures_total"),
    /// Proposals that consensus refused, or that were given up.
    proposals_failed: counter("etcd_server_proposals_failed_total"),
    /// Read indexes that were not confirmed in time.
    slow_read_indexes: counter("etcd_server_slow_read_indexes_total"),
    /// Read indexes that could not be asked for, or were given up.
    read_indexes_failed: counter("etcd_server_read_indexes_failed_total"),
    /// Learners that this leader promoted.
    learner_promote_successes: counter("etcd_server_learner_promote_successes"),
    /// Learners that this leader did not promote, by the text of the error.
    learner_promote_failures: counters("etcd_server_learner_promote_failures", &["Reason"]),
    /// Whether a snapshot of another member is being taken over.
    snapshot_apply_in_progress: gauge("etcd_server_snapshot_apply_in_progress_total"),
    /// Entries that took longer to apply than goes without a warning.
    slow_apply: counter("etcd_server_slow_apply_total"),
    /// Time to apply an entry, in seconds, by what it asks for.
    apply_duration: per_op("etcd_server_apply_duration_seconds", APPLY, ["version", "op"], Some("v3")),
    /// Time from a request to its answer, in seconds. An answer that refuses it is one, too.
    request_duration: per_op("etcd_server_request_duration_seconds", DISK, ["type"], None),
    /// Time of a range, in seconds; not of one within a transaction.
    range_duration: per_outcome("etcd_server_range_duration_seconds", APPLY),
    /// Leases that had expired, and that this leader revoked.
    lease_expired: counter("etcd_debugging_server_lease_expired_total"),

    /// Time to sync the log, in seconds.
    wal_fsync_duration: histogram("etcd_disk_wal_fsync_duration_seconds", DISK),
    /// Time to write to the log, in seconds.
    wal_write_duration: histogram("etcd_disk_wal_write_duration_seconds", DISK),
    /// Bytes written to the log.
    wal_write_bytes: gauge("etcd_disk_wal_write_bytes_total"),
    /// Time to commit to the database file, in seconds.
    backend_commit_duration: histogram("etcd_disk_backend_commit_duration_seconds", DISK),
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
    /// Time to save a snapshot file, all in all, in seconds.
    snap_save_total_duration: histogram("etcd_debugging_snap_save_total_duration_seconds", DISK),
    /// Time to sync a database that another member sent, in seconds.
    snap_db_fsync_duration: histogram("etcd_snap_db_fsync_duration_seconds", DISK),
    /// Time to save a database that another member sent, all in all, in seconds.
    snap_db_save_total_duration: histogram("etcd_snap_db_save_total_duration_seconds", Bounds { first: 0.1, count: 10 }),

    /// Ranges carried out.
    ranges: counter("etcd_mvcc_range_total"),
    /// Puts carried out.
    puts: counter("etcd_mvcc_put_total"),
    /// Deletions of a range carried out.
    deletes: counter("etcd_mvcc_delete_total"),
    /// Transactions of more than one operation.
    txns: counter("etcd_mvcc_txn_total"),
    /// Bytes of keys and values that were put.
    put_bytes: gauge("etcd_debugging_mvcc_total_put_size_in_bytes"),
    /// Events sent to watchers.
    events: counter("etcd_debugging_mvcc_events_total"),
    /// Time to hash the whole database, in seconds.
    hash_duration: histogram("etcd_mvcc_hash_duration_seconds", HASH),
    /// Time to hash the keys up to a revision, in seconds.
    hash_rev_duration: histogram("etcd_mvcc_hash_rev_duration_seconds", HASH),
    /// Time that a compaction spends in the index at once, in milliseconds.
    index_compaction_pause_ms: histogram("etcd_debugging_mvcc_index_compaction_pause_duration_milliseconds", Bounds { first: 0.5, count: 14 }),
    /// Time that a compaction spends in the database at once, in milliseconds.
    db_compaction_pause_ms: histogram("etcd_debugging_mvcc_db_compaction_pause_duration_milliseconds", Bounds { first: 1.0, count: 13 }),
    /// Time of a whole compaction, in milliseconds.
    db_compaction_total_ms: histogram("etcd_debugging_mvcc_db_compaction_total_duration_milliseconds", Bounds { first: 100.0, count: 14 }),
    /// When the last compaction ended, in seconds since 1970; zero after a start.
    db_compaction_last: gauge("etcd_debugging_mvcc_db_compaction_last"),
    /// Revisions that compactions dropped.
    db_compaction_keys: counter("etcd_debugging_mvcc_db_compaction_keys_total"),

    /// Time to send a response with events to a watcher, in seconds.
    watch_send_events_duration: histogram("etcd_debugging_server_watch_send_loop_watch_stream_duration_seconds", DISK),
    /// Time to send a response with events to a watcher, for each event in it, in seconds.
    watch_send_per_event_duration: histogram("etcd_debugging_server_watch_send_loop_watch_stream_duration_per_event_seconds", DISK),
    /// Time to send a watcher the answer to a request, in seconds.
    watch_send_control_duration: histogram("etcd_debugging_server_watch_send_loop_control_stream_duration_seconds", DISK),
    /// Time to send a watcher a progress notification, in seconds.
    watch_send_progress_duration: histogram("etcd_debugging_server_watch_send_loop_progress_duration_seconds", DISK),

    /// Whether a feature gate is on, by its name and stage.
    feature_enabled: gauges("etcd_server_feature_enabled", &["name", "stage"]),
    /// File descriptors in use, when last looked.
    fd_used: gauge("os_fd_used"),
    /// File descriptors that may be in use.
    fd_limit: gauge("os_fd_limit"),
}

impl Metrics {
    /// Registers them all.
    ///
    /// # Errors
    /// One of the names is taken.
    pub fn new(registry: &Registry) -> Result<Metrics, Error> {
        let make = Make(registry);
        let help = "The version that is running: 1 for the label that names it.";
        let version = make.gauges("etcd_server_version", help, &["server_version"])?;
        version.with_label_values(&[SERVER_VERSION]).set(1);
        register_unused(make)?;
        Metrics::register(make)
    }
}

/// From one moment to another, in seconds.
pub(crate) fn seconds(began: Duration, now: Duration) -> f64 {
    now.saturating_sub(began).as_secs_f64()
}

/// What has no meaning here, and is zero for ever: dashboards ask for it by name.
fn register_unused(make: Make<'_>) -> Result<(), Error> {
    const PHASE: &str = "A phase of a commit that this member does not have. Always empty.";
    const PROXY: &str = "Of a proxy, which this is not. Always zero.";
    const STORE: &str = "Of the v2 store, which this member does not have. Always zero.";
    for phase in ["rebalance", "spill", "write"] {
        let name = format!("etcd_debugging_disk_backend_commit_{phase}_duration_seconds");
        make.histogram(&name, PHASE, DISK)?;
    }
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
        "Open read transactions of the file. Readers here share a state and open none. Always zero.",
    )?;
    Ok(())
}

#[cfg(test)]
mod tests;
