//! Background tasks: the periodic work of a member.
//!
//! | task | member | when |
//! | --- | --- | --- |
//! | `publish` | each | once, at a start: publishes its name; clients are served after that |
//! | `leases` | leader | every 500 ms: revokes expired leases |
//! | `versions` | leader | once it leads, then every 4 s: cluster version, end of a downgrade |
//! | `storage` | each | when the cluster version changes, and every 4 s: the storage version |
//! | `compaction` | leader | as the flags say: drops old revisions |
//! | `corruption` | leader | as the flags say: compares hashes |
//! | `purge` | each | every 30 s: removes old files |
//! | `descriptors` | each | every 10 min: counts file descriptors |
//! | `election` | each | once, at a start: shortens the wait for the first election |
//! | `stall` | each | every 500 ms: notices a disk that hangs; a leader then hands leadership on |
//! | `memory` | each | every 5 s, after much work: gives memory back |
//!
//! Each is a [`BackgroundTask`]: a struct whose `turn` does the work that is due and returns the
//! time of the next. One thread calls them all; the simulator calls them in its own order. So no
//! task may block: long work is a [`PendingTask`](pending_task::PendingTask) (a proposal, or a job
//! of a worker pool) that a later turn polls.
//!
//! Invariants: a background task has at most one pending task, leases a bounded number; only the
//! leader proposes, except for the name of a member; a failed operation is retried at its next
//! time.

mod compaction;
mod corruption;
mod descriptors;
mod election;
mod leases;
mod memory;
mod pending_task;
mod publish;
pub(crate) mod purge;
mod stall;
mod storage;
mod versions;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::server::Server;
use corruption::{ClusterPeers, PeerHashes};
pub(crate) use publish::Published;

/// The interval at which versions are compared.
const MONITOR_VERSION_INTERVAL: Duration = Duration::from_secs(4);
/// The longest time between turns, and so the longest reaction time to a change.
const TURN_MAX: Duration = Duration::from_millis(500);
/// The shortest time between turns, so that no task can make the thread spin.
const TURN_MIN: Duration = Duration::from_millis(1);

/// A periodic task of a member.
trait BackgroundTask: Send + fmt::Debug {
    /// Does the work that is due. Returns the time of the next call, which may come earlier.
    fn turn(&mut self, now: Duration) -> Duration;
}

/// All background tasks of a member.
#[derive(Debug)]
pub(crate) struct BackgroundTasks {
    tasks: Vec<Box<dyn BackgroundTask>>,
    published: Arc<Published>,
}

impl BackgroundTasks {
    /// Creates the tasks that the configuration enables.
    pub(crate) fn new(server: Server) -> BackgroundTasks {
        let peers = Arc::new(ClusterPeers(server.clone()));
        BackgroundTasks::with_peers(server, peers)
    }

    fn with_peers(server: Server, peers: Arc<dyn PeerHashes>) -> BackgroundTasks {
        let handle = || server.clone();
        let publish = publish::Publish::new(handle(), Arc::clone(&peers));
        let published = publish.published();
        let mut tasks: Vec<Box<dyn BackgroundTask>> = vec![
            Box::new(publish),
            Box::new(leases::Leases::new(handle())),
            Box::new(versions::ClusterVersion::new(handle())),
            Box::new(storage::StorageVersion::new(handle())),
            Box::new(descriptors::Descriptors::new(handle())),
            Box::new(stall::Stall::new(handle())),
            Box::new(memory::Memory::new(handle())),
        ];
        tasks.extend(boxed(election::FirstElection::new(handle())));
        tasks.extend(boxed(versions::DowngradeEnd::new(handle())));
        tasks.extend(boxed(purge::Purge::new(handle())));
        tasks.extend(compaction::auto_compaction(&server));
        tasks.extend(boxed(corruption::AllKeys::new(handle(), Arc::clone(&peers))));
        tasks.extend(boxed(corruption::Compactions::new(server, peers)));
        BackgroundTasks { tasks, published }
    }

    /// Returns the handle that reports when the member has published its name, after which clients
    /// may be served.
    pub(crate) fn published(&self) -> Arc<Published> {
        Arc::clone(&self.published)
    }

    /// Gives each task a turn. Returns the time until the next turn.
    pub(crate) fn turn(&mut self, now: Duration) -> Duration {
        let next = self.tasks.iter_mut().map(|task| task.turn(now)).min();
        let wait = next.unwrap_or(Duration::MAX).saturating_sub(now);
        wait.clamp(TURN_MIN, TURN_MAX)
    }
}

fn boxed<T: BackgroundTask + 'static>(task: Option<T>) -> Option<Box<dyn BackgroundTask>> {
    task.map(|task| Box::new(task) as Box<dyn BackgroundTask>)
}

#[cfg(test)]
pub(crate) mod tests;
