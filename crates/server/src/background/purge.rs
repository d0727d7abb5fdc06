//! Removes files that nobody needs: segments of the log and snapshots, beyond the number that the flags keep.
//!
//! ```text
//!   --max-wals 5        member/wal/   0..0.wal 1..1.wal 2..2.wal │ 3 4 5 6 7     the oldest go, up to one that is locked, and so needed
//!   --max-snapshots 5   member/snap/  …1.snap …2.snap            │ …3 …4 …5 …6 …7       and the same of .snap.db
//! ```

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Chore;
use super::pending_task::{Errand, Every, POLL};
use crate::server::{Server, Shared};

/// How often.
const INTERVAL: Duration = Duration::from_secs(30);

/// Removes old files.
#[derive(Debug)]
pub(super) struct Purge {
    server: Server,
    every: Every,
    purging: Errand<Option<()>>,
}

impl Purge {
    /// None if all files are kept.
    pub(super) fn new(server: Server) -> Option<Purge> {
        let (wals, snapshots) = (server.config().max_wals, server.config().max_snapshots);
        let every = Every::from_now(INTERVAL, server.now());
        let purges = wals > 0 || snapshots > 0;
        purges.then(|| Purge { server, every, purging: Errand::default() })
    }
}

impl Chore for Purge {
    fn turn(&mut self, now: Duration) -> Duration {
        if !self.purging.is_under_way() && self.every.is_due(now) {
            // Aside: removing a file of this size may take its time.
            self.purging.begin_aside(&self.server, purge);
        }
        self.purging.poll();
        if self.purging.is_under_way() { now + POLL } else { self.every.next() }
    }
}

// A file that cannot be removed takes room and does no harm: where etcd would end the process, this one tells, and tries again.
pub(crate) fn purge(shared: &Shared) {
    let config = &shared.config;
    if let Err(error) = shared.files.purge(config.max_snapshots) {
        tracing::error!(%error, "failed to purge snap file");
    }
    let needed = shared.first_segment.load(Ordering::Acquire);
    if let Err(error) = wal::purge(&*shared.disk, &config.wal_path(), config.max_wals, needed) {
        tracing::error!(%error, "failed to purge wal file");
    }
}
