//! Removes segments of the log and snapshots beyond the number that the flags keep.
//!
//! ```text
//!   --max-wals 5        member/wal/   0..0.wal 1..1.wal 2..2.wal │ 3 4 5 6 7
//!   --max-snapshots 5   member/snap/  …1.snap …2.snap            │ …3 …4 …5 …6 …7   also .snap.db
//!                                     removed, oldest first      │ kept
//! ```
//!
//! Removal of segments stops at the first one that is locked, and so still needed.

use std::time::Duration;

use super::BackgroundTask;
use super::pending_task::{Interval, POLL, PendingTask};
use crate::server::Server;

/// The interval between purges.
const INTERVAL: Duration = Duration::from_secs(30);

/// Removes old files periodically.
#[derive(Debug)]
pub(super) struct Purge {
    server: Server,
    every: Interval,
    purging: PendingTask<()>,
}

impl Purge {
    /// Returns `None` if the flags keep all files.
    pub(super) fn new(server: Server) -> Option<Purge> {
        let (wals, snapshots) = (server.config().max_wals, server.config().max_snapshots);
        let every = Interval::from_now(INTERVAL, server.now());
        let purges = wals > 0 || snapshots > 0;
        purges.then(|| Purge { server, every, purging: PendingTask::default() })
    }
}

impl BackgroundTask for Purge {
    fn turn(&mut self, now: Duration) -> Duration {
        if !self.purging.is_pending() && self.every.is_due(now) {
            // On the worker pool: removing a large file may take long.
            self.purging.begin_blocking(&self.server, purge);
        }
        self.purging.poll();
        if self.purging.is_pending() { now + POLL } else { self.every.next() }
    }
}

// Compat: where etcd ends the process if a file cannot be removed, this member logs an error and
// retries, since the file only takes space.
pub(crate) fn purge(server: &Server) {
    let inner = &server.inner;
    let config = &inner.context.config;
    if let Err(error) = inner.snapshot_files.snapshotter.purge(config.max_snapshots) {
        tracing::error!(%error, "failed to purge snap file");
    }
    let needed = inner.log_status.first_segment();
    if let Err(error) =
        wal::purge(&*inner.context.disk, &config.wal_path(), config.max_wals, needed)
    {
        tracing::error!(%error, "failed to purge wal file");
    }
}
