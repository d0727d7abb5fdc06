//! Removes files that nobody needs: segments of the log and snapshots, beyond the number that the flags keep.
//!
//! ```text
//!   --max-wals 5        member/wal/   0..0.wal 1..1.wal 2..2.wal │ 3 4 5 6 7     the oldest go, up to one that is locked, and so needed
//!   --max-snapshots 5   member/snap/  …1.snap …2.snap            │ …3 …4 …5 …6 …7       and the same of .snap.db
//! ```

use std::time::Duration;

use super::BackgroundTask;
use super::pending_task::{Interval, POLL, PendingTask};
use crate::server::Server;

/// How often.
const INTERVAL: Duration = Duration::from_secs(30);

/// Removes old files.
#[derive(Debug)]
pub(super) struct Purge {
    server: Server,
    every: Interval,
    purging: PendingTask<()>,
}

impl Purge {
    /// None if all files are kept.
    pub(super) fn new(server: Server) -> Option<Purge> {
        let (wals, snapshots) = (server.config().max_wals, server.config().max_snapshots);
        let every = Interval::from_now(INTERVAL, server.now());
        let purges = wals > 0 || snapshots > 0;
        purges.then(|| Purge { server, every, purging: PendingTask::default() })
    }
}

impl BackgroundTask for Purge {
    fn turn(&mut self, now: Duration) -> Duration {
        if !self.purging.is_under_way() && self.every.is_due(now) {
            // Aside: removing a file of this size may take its time.
            self.purging.begin_blocking(&self.server, purge);
        }
        self.purging.poll();
        if self.purging.is_under_way() { now + POLL } else { self.every.next() }
    }
}

// A file that cannot be removed takes room and does no harm: where etcd would end the process, this one tells, and tries again.
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
