//! Moves the storage version of the database to the cluster version.
//!
//! ```text
//!   cluster version   database   then
//!   none, 3.0         3.5        nothing: the cluster version is not decided yet
//!   3.7               3.5        migrates to 3.6, then to 3.7
//!   3.6, downgrade    3.7        migrates to 3.6, unless the log contains entries that 3.6 cannot
//!                                read: retries every 4 s, until a snapshot has truncated the log
//! ```

use std::time::Duration;

use backend::schema::version::{Version, detect, migrate};
use membership::version::OLDEST;

use super::pending_task::{Interval, POLL, PendingTask};
use super::{BackgroundTask, MONITOR_VERSION_INTERVAL};
use crate::request::SERVER_VERSION;
use crate::server::Server;
use crate::state::StateMachine;

/// Migrates the database to the cluster version.
#[derive(Debug)]
pub(super) struct StorageVersion {
    server: Server,
    every: Interval,
    /// The cluster version at the last turn.
    seen: Option<Version>,
    migrating: PendingTask<()>,
}

impl StorageVersion {
    pub(super) fn new(server: Server) -> StorageVersion {
        let every = Interval::after(MONITOR_VERSION_INTERVAL, server.now());
        let seen = server.state().cluster.now().version();
        StorageVersion { server, every, seen, migrating: PendingTask::default() }
    }

    fn has_changed(&mut self) -> bool {
        let now = self.server.state().cluster.now().version();
        now != std::mem::replace(&mut self.seen, now)
    }
}

impl BackgroundTask for StorageVersion {
    fn turn(&mut self, now: Duration) -> Duration {
        if !self.migrating.is_pending() {
            let (has_changed, is_due) = (self.has_changed(), self.every.is_due(now));
            if has_changed || is_due {
                // On the worker pool, since the write may have to wait for the disk.
                self.migrating.begin_blocking(&self.server, follow_cluster_version);
                self.every.restart(now);
            }
        }
        self.migrating.poll();
        if self.migrating.is_pending() { now + POLL } else { self.every.next() }
    }
}

/// Migrates the database if its version differs from the cluster version.
pub(super) fn follow_cluster_version(server: &Server) {
    let state = server.state();
    let cluster = state.cluster.now();
    let Some(target) = cluster.version().filter(|version| *version != OLDEST) else { return };
    let current = detect(&state.backend.view()).map_err(|error| {
        tracing::warn!(%error, "Failed to detect schema version");
    });
    if current == Ok(target) {
        return;
    }
    if let Ok(current) = current {
        tracing::info!(cluster_version = %target, storage_version = %current, "cluster version differs from storage version.");
    }
    if let Err(error) = migrate_to(server, &state, current.ok(), target) {
        tracing::error!(cluster_version = %target, %error, "failed to update storage version");
        return;
    }
    if cluster.downgrade().enabled {
        tracing::info!(
            target_version = cluster.downgrade().target_version,
            server_version = SERVER_VERSION,
            "The server is ready to downgrade"
        );
    }
}

fn migrate_to(
    server: &Server,
    state: &StateMachine,
    current: Option<Version>,
    target: Version,
) -> Result<(), Box<dyn std::error::Error>> {
    let is_lower = current.is_some_and(|current| target < current);
    let log = if is_lower { log_version(server)? } else { None };
    let mut tx = state.backend.begin();
    let steps = migrate(&mut tx, target, log)?;
    tx.commit()?;
    for version in steps {
        tracing::info!(new_storage_version = %version, "updated storage version");
    }
    Ok(())
}

/// Returns the oldest release that can read the log, from the last snapshot on.
fn log_version(server: &Server) -> Result<Option<Version>, Box<dyn std::error::Error>> {
    let (disk, dir) = (&*server.inner.context.disk, server.config().wal_path());
    let entries = wal::read_live(disk, &dir)?.entries;
    let Some(needed) = wal::minimal_etcd_version(&entries)? else { return Ok(None) };
    Ok(Some(Version::new(u32::try_from(needed.major)?, u32::try_from(needed.minor)?)))
}
