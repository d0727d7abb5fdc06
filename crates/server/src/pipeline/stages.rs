//! A member without threads: the caller decides which stage takes a turn.
//!
//! For the simulator, in which one seed yields one run, and for tests that choose the moment of
//! each step. A stage that fails is dropped and stops the member, as its thread would in a
//! [`Member`](crate::Member). [`Stages::stop`] ends the stages in the order of
//! [`Member::stop`](crate::Member::stop).

use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use backend::{Backend, Committer};
use parking_lot::Mutex;
use wal::Preparer;

use crate::background::BackgroundTasks;
use crate::background::purge::purge;
use crate::bootstrap::StartError;
use crate::config::ServerConfig;
use crate::lifecycle::{Lifecycle, StopReason};
use crate::member::{Platform, serve_watchers};
use crate::pipeline::applier::{Applier, BackendMaintenance};
use crate::pipeline::compactor::Compactor;
use crate::pipeline::log_writer::LogWriter;
use crate::pipeline::raft_loop::RaftLoop;
use crate::pipeline::{Inboxes, Pipeline};
use crate::server::{Server, ServerInner};
use crate::snapshot::SnapshotStage;
use crate::transport::Transport;

/// The stages of a member, named like its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The raft loop.
    Raft,
    /// The log writer.
    Log,
    /// The applier.
    Apply,
    /// The snapshot stage.
    Snapshot,
    /// The compactor.
    Compact,
    /// The committer of the backend.
    Commit,
    /// The preparation of the next segment of the log.
    Prepare,
    /// The catch-up of unsynced watchers.
    Watch,
    /// The background tasks.
    Background,
    /// The timers.
    Timers,
    /// The worker pools: one job of each.
    Pools,
}

impl Stage {
    /// All stages.
    pub const ALL: [Stage; 11] = [
        Stage::Raft,
        Stage::Log,
        Stage::Apply,
        Stage::Snapshot,
        Stage::Compact,
        Stage::Commit,
        Stage::Prepare,
        Stage::Watch,
        Stage::Background,
        Stage::Timers,
        Stage::Pools,
    ];
}

/// The stages of a member. A stage that has ended is `None`.
pub struct Stages {
    server: Server,
    pub(crate) inboxes: Inboxes,
    raft: Option<RaftLoop>,
    writer: Option<LogWriter>,
    applier: Option<Applier>,
    snapshots: Option<SnapshotStage>,
    compactor: Option<Compactor>,
    committer: CurrentCommitter,
    background: Option<BackgroundTasks>,
    preparer: Preparer,
}

/// The committer of the open database. A received snapshot replaces it.
#[derive(Clone, Default)]
struct CurrentCommitter(Arc<Mutex<Option<Committer>>>);

impl BackendMaintenance for CurrentCommitter {
    fn switch_to(&mut self, backend: &Backend) -> io::Result<()> {
        *self.0.lock() = Some(backend.committer());
        Ok(())
    }
}

impl Stages {
    /// Restores the member from its disk, or bootstraps a new one on an empty disk.
    ///
    /// # Errors
    /// The member cannot start.
    pub fn boot(
        config: ServerConfig,
        platform: Platform,
        transport: Arc<dyn Transport>,
    ) -> Result<Stages, StartError> {
        let committer = CurrentCommitter::default();
        let registry = prometheus::Registry::new();
        let maintenance = |server: &ServerInner| {
            *committer.0.lock() = Some(server.state.get().backend.committer());
            committer.clone()
        };
        let pipeline = Pipeline::assemble(config, platform, transport, &registry, maintenance)?;
        Ok(Stages {
            server: pipeline.server,
            inboxes: pipeline.inboxes,
            raft: Some(pipeline.raft),
            writer: Some(pipeline.writer),
            applier: Some(pipeline.applier),
            snapshots: Some(pipeline.snapshots),
            compactor: Some(pipeline.compactor),
            committer,
            background: Some(pipeline.background),
            preparer: pipeline.preparer,
        })
    }

    /// The handle of the member.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Returns whether the cluster knows the name of this member, so that clients may be served.
    pub fn is_published(&self) -> bool {
        self.background.as_ref().is_some_and(|background| background.published().is_set())
    }

    /// Gives a stage one turn, unless it has ended.
    pub fn turn(&mut self, stage: Stage) {
        let inner = &*self.server.inner;
        let lifecycle = &*inner.lifecycle;
        match stage {
            Stage::Raft => drop(self.raft.take_if(|raft| raft.turn().is_none())),
            Stage::Log => turn(lifecycle, &mut self.writer, "write the log", LogWriter::turn),
            Stage::Apply => turn(lifecycle, &mut self.applier, "apply the log", Applier::turn),
            Stage::Snapshot => {
                turn(lifecycle, &mut self.snapshots, "take a snapshot", SnapshotStage::turn);
            }
            Stage::Compact => {
                turn(lifecycle, &mut self.compactor, "compact", |it| it.turn().map(drop));
            }
            Stage::Commit => {
                let mut committer = self.committer.0.lock();
                turn(lifecycle, &mut committer, "commit to the database", |it| it.turn().map(drop));
            }
            Stage::Prepare => drop(self.preparer.turn()),
            Stage::Watch => drop(serve_watchers(&inner.context, &inner.state, lifecycle)),
            Stage::Background => {
                if let Some(background) = &mut self.background {
                    background.turn(inner.context.now());
                }
            }
            Stage::Timers => inner.timers.turn(inner.context.now()),
            Stage::Pools => inner.pools.all().into_iter().for_each(|(_, pool)| pool.turn()),
        }
    }

    /// Gives each stage one turn.
    pub fn turn_all(&mut self) {
        Stage::ALL.into_iter().for_each(|stage| self.turn(stage));
    }

    /// Removes old files, as the background task does every 30 s.
    pub fn purge(&self) {
        purge(&self.server);
    }

    /// Returns whether the raft loop has ended. All its waiters have failed then.
    pub fn is_over(&self) -> bool {
        self.raft.is_none()
    }

    /// Simulates that the disk of the log hangs, or responds again: a write seems to be in
    /// progress. The caller must not give the log writer a turn while it hangs.
    pub fn hang_log(&self, hangs: bool) {
        let inner = &self.server.inner;
        inner.log_status.set_write_began(hangs.then(|| inner.context.now()));
    }

    /// The time until the next tick of the raft loop.
    pub fn idle_for(&self) -> Duration {
        self.raft.as_ref().map_or(Duration::MAX, RaftLoop::idle_for)
    }

    /// Shuts the member down in order. Returns the reason.
    pub fn stop(mut self) -> StopReason {
        let lifecycle = Arc::clone(&self.server.inner.lifecycle);
        lifecycle.stop(StopReason::Requested);
        while !self.is_over() {
            self.turn(Stage::Raft);
        }
        self.background = None;
        self.inboxes.close();
        // Queued work is still done.
        [Stage::Log, Stage::Apply, Stage::Snapshot].into_iter().for_each(|stage| self.turn(stage));
        if let Some(Err(error)) = self.writer.take().map(LogWriter::close) {
            lifecycle.fail("close the log", &error);
        }
        self.turn(Stage::Commit);
        lifecycle.reason()
    }
}

/// Queued jobs and timers hold the member and would keep it alive.
impl Drop for Stages {
    fn drop(&mut self) {
        self.server.inner.pools.close();
        self.server.inner.timers.close();
    }
}

/// Gives a stage one turn. A stage that fails is dropped, and the member stops.
fn turn<S, E: Display>(
    lifecycle: &Lifecycle,
    stage: &mut Option<S>,
    what: &str,
    turn: impl FnOnce(&mut S) -> Result<(), E>,
) {
    let Some(running) = stage else { return };
    if let Err(error) = turn(running) {
        lifecycle.fail(what, &error);
        *stage = None;
    }
}

impl std::fmt::Debug for Stages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stages").field("server", &self.server).finish_non_exhaustive()
    }
}
