//! A member taken apart: its stages, connected and not yet running.
//!
//! [`Member`](crate::Member) gives each a thread; [`Stages`](crate::stages::Stages) calls them one after the other.

pub mod stages;

pub(crate) mod applier;
pub(crate) mod compactor;
pub(crate) mod heartbeats;
pub(crate) mod log_writer;
pub(crate) mod peer_inbox;
pub(crate) mod progress;
pub(crate) mod raft_loop;
pub(crate) mod voters;

use std::sync::Arc;

use crate::background::Chores;
use crate::bootstrap::{Bootstrapped, StartError, Surroundings, bootstrap};
use crate::config::ServerConfig;
use crate::member::Machine;
use crate::metrics::{Metrics, ServerCollector};
use crate::pipeline::applier::{Applier, Keeper, Work};
use crate::pipeline::compactor::Compactor;
use crate::pipeline::log_writer::{LogWork, LogWriter};
use crate::pipeline::raft_loop::RaftLoop;
use crate::server::{Server, Shared};
use crate::snapshot::{SnapshotWork, Snapshots};
use crate::sync::notify::Bell;
use crate::sync::queue::Inbox;
use crate::transport::Transport;
use wal::Preparer;

/// What waits for the stages that are handed something.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inboxes {
    pub(crate) log: Arc<Inbox<LogWork>>,
    pub(crate) apply: Arc<Inbox<Work>>,
    pub(crate) snapshots: Arc<Inbox<SnapshotWork>>,
}

impl Inboxes {
    /// They take nothing more. What waits is still done.
    pub(crate) fn close(&self) {
        self.log.close();
        self.apply.close();
        self.snapshots.close();
    }
}

/// The stages of a member.
pub(crate) struct Parts {
    pub(crate) server: Server,
    pub(crate) inboxes: Inboxes,
    pub(crate) raft: RaftLoop,
    pub(crate) writer: LogWriter,
    pub(crate) applier: Applier,
    pub(crate) snapshots: Snapshots,
    pub(crate) compactor: Compactor,
    pub(crate) chores: Chores,
    /// Makes the next segment of the log ahead of time.
    pub(crate) preparer: Preparer,
    /// Rung when there is something to do for watchers.
    pub(crate) watch: Arc<Bell>,
}

impl Parts {
    /// Takes up what is in the folder, or begins what is to begin in an empty one. `keeper` is told what the stages share, and says who commits the database.
    pub(crate) fn assemble<K: Keeper + 'static>(
        config: ServerConfig,
        machine: Machine,
        transport: Arc<dyn Transport>,
        registry: &prometheus::Registry,
        keeper: impl FnOnce(&Arc<Shared>) -> K,
    ) -> Result<Parts, StartError> {
        let Machine { disk, clock, mut random } = machine;
        let mut around = Surroundings { disk: &disk, clock: &clock, random: &mut *random };
        let booted = bootstrap(&config, &mut around)?;
        if !config.force_new_cluster {
            check_reach(&booted, &*transport)?;
        }
        let metrics = Metrics::new(registry)?;
        let Bootstrapped { cluster_id, local, state, wal, node, voters, .. } = booted;
        transport.set_members(&state.cluster.now());
        let shared = Shared::new(config, disk, clock, cluster_id, local, state, transport, metrics);
        let shared = Arc::new(shared);
        shared.applied.advance(booted.applied);
        shared.progress.set_committed(booted.applied);
        let server = Server { shared: Arc::clone(&shared) };
        registry.register(Box::new(ServerCollector::new(&server)?))?;
        let inboxes = Inboxes::default();
        let Inboxes { log, apply, snapshots } = inboxes.clone();
        let own = || Arc::clone(&shared);
        let preparer = wal.preparer();
        let writer = LogWriter::new(own(), wal, Arc::clone(&log), Arc::clone(&apply));
        let keeper = Box::new(keeper(&shared));
        let place = booted.snapshot_index;
        let (work, taken) = (Arc::clone(&apply), Arc::clone(&snapshots));
        let applier = Applier::new(own(), work, taken, voters, place, keeper);
        let taker = Snapshots::new(own(), Arc::clone(&snapshots), Arc::clone(&log));
        let raft = RaftLoop::new(own(), node, log, apply, snapshots);
        let compactor = Compactor::new(own());
        let chores = Chores::new(server.clone());
        Ok(Parts {
            server,
            inboxes,
            raft,
            writer,
            applier,
            snapshots: taker,
            compactor,
            chores,
            preparer,
            watch: booted.watch,
        })
    }
}

/// Without a way to the others, whoever needs their votes would wait for ever.
fn check_reach(booted: &Bootstrapped, transport: &dyn Transport) -> Result<(), StartError> {
    match booted.voters.besides(booted.local) {
        Some(voters) if !transport.reaches_others() => Err(StartError::Alone { voters }),
        _ => Ok(()),
    }
}
