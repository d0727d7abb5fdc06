//! The pipeline: the stages that a write passes, and their assembly.
//!
//! ```text
//!   request ─► raft_loop ─► log_writer: write, one sync ─► raft_loop ─► applier ─► response
//!              (consensus)    peers meanwhile               (quorum)       │
//!                                                                          ▼
//!                                                             pending batch ─► committer
//! ```
//!
//! Each stage is a struct with a `turn`: it takes what is queued and processes it.
//! [`Member`](crate::Member) runs each stage in a thread; [`Stages`](stages::Stages) calls them one
//! after the other, for the simulator. [`Pipeline::assemble`] connects them.

pub mod stages;

pub(crate) mod applier;
pub(crate) mod compactor;
pub(crate) mod log_status;
pub(crate) mod log_writer;
pub(crate) mod peer_inbox;
pub(crate) mod progress;
pub(crate) mod raft_handle;
pub(crate) mod raft_loop;
pub(crate) mod voters;
pub(crate) mod worker_pools;

use std::sync::Arc;

use sync::{Notify, Queue};
use wal::Preparer;

use crate::background::BackgroundTasks;
use crate::bootstrap::{Bootstrapped, StartError, bootstrap};
use crate::config::ServerConfig;
use crate::context::MemberContext;
use crate::member::Platform;
use crate::metrics::{Metrics, ServerCollector};
use crate::server::{Server, ServerInner};
use crate::snapshot::{SnapshotStage, SnapshotWork};
use crate::transport::Transport;
use applier::{Applier, ApplyWork, BackendMaintenance};
use compactor::Compactor;
use log_writer::{LogWork, LogWriter};
use raft_loop::RaftLoop;

/// The queues of the stages after the raft loop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inboxes {
    pub(crate) log: Arc<Queue<LogWork>>,
    pub(crate) apply: Arc<Queue<ApplyWork>>,
    pub(crate) snapshots: Arc<Queue<SnapshotWork>>,
}

impl Inboxes {
    /// Refuses further work. Queued work is still done.
    pub(crate) fn close(&self) {
        self.log.close();
        self.apply.close();
        self.snapshots.close();
    }
}

/// The stages of a member, connected and not yet running.
pub(crate) struct Pipeline {
    pub(crate) server: Server,
    pub(crate) inboxes: Inboxes,
    pub(crate) raft: RaftLoop,
    pub(crate) writer: LogWriter,
    pub(crate) applier: Applier,
    pub(crate) snapshots: SnapshotStage,
    pub(crate) compactor: Compactor,
    pub(crate) background: BackgroundTasks,
    /// Prepares the next segment of the log ahead of time.
    pub(crate) preparer: Preparer,
    /// Wakes the stage that serves unsynced watchers.
    pub(crate) watch: Arc<Notify>,
}

impl Pipeline {
    /// Restores the member from its data directory, or bootstraps a new one, and connects its
    /// stages. `maintenance` makes the component that commits the database.
    pub(crate) fn assemble<M: BackendMaintenance + 'static>(
        config: ServerConfig,
        mut platform: Platform,
        transport: Arc<dyn Transport>,
        registry: &prometheus::Registry,
        maintenance: impl FnOnce(&ServerInner) -> M,
    ) -> Result<Pipeline, StartError> {
        let booted = bootstrap(&config, &mut platform)?;
        if !config.force_new_cluster {
            check_transport(&booted, &*transport)?;
        }
        let metrics = Metrics::new(registry)?;
        let Bootstrapped { cluster_id, local, state, wal, node, voters, .. } = booted;
        transport.set_members(&state.cluster.now());
        let Platform { disk, clock, .. } = platform;
        let context = MemberContext { local, cluster_id, config, disk, clock, metrics };
        let inner = Arc::new(ServerInner::new(context, state, transport));
        inner.applied.advance(booted.applied);
        inner.raft.progress.set_committed(booted.applied);
        let server = Server { inner };
        registry.register(Box::new(ServerCollector::new(&server)?))?;
        let (inner, inboxes) = (&*server.inner, Inboxes::default());
        let preparer = wal.preparer();
        let maintenance = Box::new(maintenance(inner));
        Ok(Pipeline {
            raft: RaftLoop::new(inner, &inboxes, node),
            writer: LogWriter::new(inner, &inboxes, wal),
            applier: Applier::new(inner, &inboxes, voters, booted.snapshot_index, maintenance),
            snapshots: SnapshotStage::new(inner, &inboxes),
            compactor: Compactor::new(inner),
            background: BackgroundTasks::new(server.clone()),
            preparer,
            watch: booted.watch,
            inboxes,
            server,
        })
    }
}

/// Refuses a transport without peers if a peer is a voter: an election could never succeed.
fn check_transport(booted: &Bootstrapped, transport: &dyn Transport) -> Result<(), StartError> {
    match booted.voters.count_if_has_peers(booted.local) {
        Some(voters) if !transport.reaches_peers() => Err(StartError::NoPeers { voters }),
        _ => Ok(()),
    }
}
