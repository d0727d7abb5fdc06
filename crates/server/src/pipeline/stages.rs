//! A member without threads: each stage takes a turn when it is told to.
//!
//! What [`Member`](crate::Member) gives to threads is held here side by side, for whoever wants to decide himself what happens when: a simulation, in which the same
//! seed gives the same run to the byte. A stage that fails ends, and tells the others, as its thread would; [`Stages::stop`] ends them in the order of
//! [`Member::stop`](crate::Member::stop).

use std::fmt::Display;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backend::{Backend, Committer};
use wal::Preparer;

use crate::background::Chores;
use crate::bootstrap::StartError;
use crate::config::ServerConfig;
use crate::member::{Machine, serve_watchers};
use crate::pipeline::applier::{Applier, Keeper};
use crate::pipeline::compactor::Compactor;
use crate::pipeline::log_writer::LogWriter;
use crate::pipeline::raft_loop::RaftLoop;
use crate::pipeline::{Inboxes, Parts};
use crate::server::{Server, Shared, StopReason};
use crate::snapshot::Snapshots;
use crate::transport::Transport;
use crate::units::nanos;

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named like the threads of a member")]
pub enum Stage {
    Raft,
    Log,
    Apply,
    Snapshot,
    Compact,
    Commit,
    /// Whoever makes the next segment of the log ahead of time.
    Prepare,
    Watch,
    Chores,
    /// All pools: one job of each.
    Pools,
}

impl Stage {
    /// All of them.
    pub const ALL: [Stage; 10] = [
        Stage::Raft,
        Stage::Log,
        Stage::Apply,
        Stage::Snapshot,
        Stage::Compact,
        Stage::Commit,
        Stage::Prepare,
        Stage::Watch,
        Stage::Chores,
        Stage::Pools,
    ];
}

/// The stages of a member. Those that have ended are none.
pub struct Stages {
    server: Server,
    pub(crate) inboxes: Inboxes,
    raft: Option<RaftLoop>,
    writer: Option<LogWriter>,
    applier: Option<Applier>,
    snapshots: Option<Snapshots>,
    compactor: Option<Compactor>,
    committer: Committing,
    chores: Option<Chores>,
    preparer: Preparer,
}

/// Who commits the database that there is.
#[derive(Clone, Default)]
struct Committing(Arc<Mutex<Option<Committer>>>);

impl Committing {
    fn lock(&self) -> MutexGuard<'_, Option<Committer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keeper for Committing {
    fn take_over(&mut self, backend: &Backend) -> io::Result<()> {
        *self.lock() = Some(backend.committer());
        Ok(())
    }
}

impl Stages {
    /// Takes up what is on the disk, or begins what is to begin on an empty one.
    ///
    /// # Errors
    /// It does not start.
    pub fn boot(
        config: ServerConfig,
        machine: Machine,
        transport: Arc<dyn Transport>,
    ) -> Result<Stages, StartError> {
        let committer = Committing::default();
        let registry = prometheus::Registry::new();
        let keeper = |shared: &Arc<Shared>| {
            *committer.lock() = Some(shared.state().backend.committer());
            committer.clone()
        };
        let parts = Parts::assemble(config, machine, transport, &registry, keeper)?;
        Ok(Stages {
            server: parts.server,
            inboxes: parts.inboxes,
            raft: Some(parts.raft),
            writer: Some(parts.writer),
            applier: Some(parts.applier),
            snapshots: Some(parts.snapshots),
            compactor: Some(parts.compactor),
            committer,
            chores: Some(parts.chores),
            preparer: parts.preparer,
        })
    }

    /// The handle for everybody else.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Whether the cluster knows this member's name, and clients may be served.
    pub fn is_published(&self) -> bool {
        self.chores.as_ref().is_some_and(|chores| chores.published().is_set())
    }

    /// One turn of a stage, unless it has ended.
    pub fn turn(&mut self, stage: Stage) {
        let shared = &*self.server.shared;
        match stage {
            Stage::Raft => drop(self.raft.take_if(|raft| raft.turn().is_none())),
            Stage::Log => turn(shared, &mut self.writer, "write the log", LogWriter::turn),
            Stage::Apply => turn(shared, &mut self.applier, "apply the log", Applier::turn),
            Stage::Snapshot => {
                turn(shared, &mut self.snapshots, "take a snapshot", Snapshots::turn);
            }
            Stage::Compact => {
                turn(shared, &mut self.compactor, "compact", |it| it.turn().map(drop));
            }
            Stage::Commit => {
                let mut committer = self.committer.lock();
                turn(shared, &mut committer, "commit to the database", |it| it.turn().map(drop));
            }
            Stage::Prepare => drop(self.preparer.turn()),
            Stage::Watch => drop(serve_watchers(shared)),
            Stage::Chores => {
                if let Some(chores) = &mut self.chores {
                    chores.turn(shared.now());
                }
            }
            Stage::Pools => shared.pools.all().into_iter().for_each(|(_, pool)| pool.turn()),
        }
    }

    /// One turn of each.
    pub fn turn_all(&mut self) {
        Stage::ALL.into_iter().for_each(|stage| self.turn(stage));
    }

    /// Whether the raft loop has ended, and whoever waited has been told.
    pub fn is_over(&self) -> bool {
        self.raft.is_none()
    }

    /// The disk of the log does not answer, or does again: as if a write were under way that does not come back. The log is to have no turn meanwhile.
    pub fn hang_log(&self, hangs: bool) {
        let shared = &self.server.shared;
        let since = if hangs { nanos(shared.now()).max(1) } else { 0 };
        shared.sync_began.store(since, Ordering::Relaxed);
    }

    /// How long the raft loop has nothing to do, unless something comes.
    pub fn idle_for(&self) -> Duration {
        self.raft.as_ref().map_or(Duration::MAX, RaftLoop::idle_for)
    }

    /// Ends everything in good order. Returns why.
    pub fn stop(mut self) -> StopReason {
        let shared = Arc::clone(&self.server.shared);
        shared.end(StopReason::Asked);
        while !self.is_over() {
            self.turn(Stage::Raft);
        }
        self.chores = None;
        self.inboxes.close();
        // What waits is still done.
        [Stage::Log, Stage::Apply, Stage::Snapshot].into_iter().for_each(|stage| self.turn(stage));
        if let Some(Err(error)) = self.writer.take().map(LogWriter::close) {
            shared.fail("close the log", &error);
        }
        self.turn(Stage::Commit);
        shared.reason()
    }
}

/// What waits for a pool has a handle of the member, and would keep it for ever.
impl Drop for Stages {
    fn drop(&mut self) {
        self.server.shared.pools.close();
    }
}

/// One turn. A stage that fails is over, with all that it holds, and so is the member.
fn turn<S, E: Display>(
    shared: &Shared,
    stage: &mut Option<S>,
    what: &str,
    turn: impl FnOnce(&mut S) -> Result<(), E>,
) {
    let Some(running) = stage else { return };
    if let Err(error) = turn(running) {
        shared.fail(what, &error);
        *stage = None;
    }
}

impl std::fmt::Debug for Stages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stages").field("server", &self.server).finish_non_exhaustive()
    }
}
