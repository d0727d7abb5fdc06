//! What a member does by itself, when nobody asks it to.
//!
//! | chore | who | when |
//! | --- | --- | --- |
//! | `publish` | each | once, at a start: tells its name; nobody is served before |
//! | `leases` | leader | every 500 ms: revokes what has expired |
//! | `versions` | leader | as soon as it leads, then every 4 s: the cluster's version, the end of a downgrade |
//! | `storage` | each | when the cluster's version changes, and every 4 s: the database's version |
//! | `compaction` | leader | as the flags say: drops old revisions |
//! | `corruption` | leader | as the flags say: compares hashes |
//! | `purge` | each | every 30 s: removes old files |
//! | `descriptors` | each | every 10 min: counts file descriptors |
//! | `election` | each | once, at a start: shortens the wait for the first election |
//! | `stall` | each | every 500 ms: notices a disk that hangs; a leader then hands leadership on |
//! | `memory` | each | every 5 s, after much work: gives memory back |
//!
//! Each is a [`BackgroundTask`]: a struct whose `turn` does what is due and says when there will be more. One thread calls them all; a simulation calls them when it
//! pleases. So none of them may wait: what takes long is an `task` (a proposal, or a job for the pool) that is looked at again in a later turn.
//!
//! What is always true: a chore has at most one task under way, and leases a bounded number; only the leader proposes, except for a member's own name; what
//! fails is tried again at its next time.

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
use corruption::{Others, PeerHashes};
pub(crate) use publish::Published;

/// How often versions are looked at.
const MONITOR_VERSION_INTERVAL: Duration = Duration::from_secs(4);
/// The longest time between turns: what reacts to a change does so within it.
const TURN_MAX: Duration = Duration::from_millis(500);
/// The shortest, so that no chore can make the thread spin.
const TURN_MIN: Duration = Duration::from_millis(1);

/// Something that a member does by itself.
trait BackgroundTask: Send + fmt::Debug {
    /// Does what is due; returns when to be called again. It may be called before.
    fn turn(&mut self, now: Duration) -> Duration;
}

/// All of them.
#[derive(Debug)]
pub(crate) struct BackgroundTasks {
    chores: Vec<Box<dyn BackgroundTask>>,
    published: Arc<Published>,
}

impl BackgroundTasks {
    /// The chores that the flags ask for.
    pub(crate) fn new(server: Server) -> BackgroundTasks {
        let others = Arc::new(Others(server.clone()));
        BackgroundTasks::with_peers(server, others)
    }

    fn with_peers(server: Server, peers: Arc<dyn PeerHashes>) -> BackgroundTasks {
        let own = || server.clone();
        let publish = publish::Publish::new(own(), Arc::clone(&peers));
        let published = publish.published();
        let mut chores: Vec<Box<dyn BackgroundTask>> = vec![
            Box::new(publish),
            Box::new(leases::Leases::new(own())),
            Box::new(versions::ClusterVersion::new(own())),
            Box::new(storage::StorageVersion::new(own())),
            Box::new(descriptors::Descriptors::new(own())),
            Box::new(stall::Stall::new(own())),
            Box::new(memory::Memory::new(own())),
        ];
        chores.extend(boxed(election::FirstElection::new(own())));
        chores.extend(boxed(versions::DowngradeEnd::new(own())));
        chores.extend(boxed(purge::Purge::new(own())));
        chores.extend(compaction::auto_compaction(&server));
        chores.extend(boxed(corruption::AllKeys::new(own(), Arc::clone(&peers))));
        chores.extend(boxed(corruption::Compactions::new(server, peers)));
        BackgroundTasks { chores, published }
    }

    /// Whether this member has published what it is, and clients may be served.
    pub(crate) fn published(&self) -> Arc<Published> {
        Arc::clone(&self.published)
    }

    /// Does what is due. Returns how long the next turn can wait.
    pub(crate) fn turn(&mut self, now: Duration) -> Duration {
        let next = self.chores.iter_mut().map(|chore| chore.turn(now)).min();
        let wait = next.unwrap_or(Duration::MAX).saturating_sub(now);
        wait.clamp(TURN_MIN, TURN_MAX)
    }
}

fn boxed<C: BackgroundTask + 'static>(chore: Option<C>) -> Option<Box<dyn BackgroundTask>> {
    chore.map(|chore| Box::new(chore) as Box<dyn BackgroundTask>)
}

#[cfg(test)]
pub(crate) mod tests;
