//! A member without threads: each stage takes a turn when it is told to.
//!
//! What [`Member::start`](crate::Member::start) gives to threads is held here side by side. A stage that fails ends, and tells the others, as its
//! thread would; [`Stages::stop`] ends them in the order of [`Member::stop`](crate::Member::stop).

use std::fmt::Display;
use std::sync::Arc;

use backend::Committer;
use env::{Clock, Disk, SeededRandom, SimClock, SimDisk};
use prometheus::Registry;
use types::Index;
use wal::Preparer;

use crate::applier::{Applier, Work};
use crate::bootstrap::{Bootstrapped, StartError, Surroundings, bootstrap};
use crate::chores::purge::purge;
use crate::compactor::Compactor;
use crate::config::ServerConfig;
use crate::inbox::Inbox;
use crate::log_writer::{LogWork, LogWriter};
use crate::metrics::Metrics;
use crate::raft_loop::RaftLoop;
use crate::server::{Server, Shared, StopReason};
use crate::snapshots::{Snapshot, Snapshots};
use crate::transport::Alone;

/// The machine that a member runs on.
#[derive(Clone)]
pub(super) struct Machine {
    pub(super) disk: SimDisk,
    pub(super) clock: SimClock,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Raft,
    Log,
    Apply,
    Snapshot,
    Compact,
    Commit,
    /// Whoever makes the next segment of the log ahead of time.
    Prepare,
    Purge,
}

impl Stage {
    pub(super) const ALL: [Stage; 8] = [
        Stage::Raft,
        Stage::Log,
        Stage::Apply,
        Stage::Snapshot,
        Stage::Compact,
        Stage::Commit,
        Stage::Prepare,
        Stage::Purge,
    ];
}

/// The stages of a member. Those that have ended are none.
pub(super) struct Stages {
    pub(super) server: Server,
    pub(super) log_inbox: Arc<Inbox<LogWork>>,
    apply_inbox: Arc<Inbox<Work>>,
    snapshot_inbox: Arc<Inbox<Snapshot>>,
    raft: Option<RaftLoop>,
    writer: Option<LogWriter>,
    applier: Option<Applier>,
    snapshots: Option<Snapshots>,
    compactor: Option<Compactor>,
    committer: Option<Committer>,
    preparer: Preparer,
    applied_at_start: Index,
}

impl Stages {
    /// Takes up what is on the disk, or begins a cluster on an empty one.
    pub(super) fn boot(machine: &Machine, config: ServerConfig) -> Result<Stages, StartError> {
        let disk: Arc<dyn Disk> = Arc::new(machine.disk.clone());
        let clock: Arc<dyn Clock> = Arc::new(machine.clock.clone());
        let mut random = SeededRandom::new(0);
        let mut around = Surroundings { disk: &disk, clock: &clock, random: &mut random };
        let booted = bootstrap(&config, &mut around)?;
        let Bootstrapped { cluster_id, local, state, wal, node, voters, .. } = booted;
        let metrics = Metrics::new(&Registry::new()).unwrap();
        let transport = Arc::new(Alone);
        let committer = Some(state.backend.committer());
        let shared = Shared::new(config, disk, clock, cluster_id, local, state, transport, metrics);
        let shared = Arc::new(shared);
        let own = || Arc::clone(&shared);
        shared.applied.advance(booted.applied);
        shared.progress.set_committed(booted.applied);
        let (log, apply, snapshots): (Arc<Inbox<_>>, Arc<Inbox<_>>, Arc<Inbox<_>>) =
            Default::default();
        let preparer = wal.preparer();
        let writer = LogWriter::new(own(), wal, Arc::clone(&log));
        let (work, taken) = (Arc::clone(&apply), Arc::clone(&snapshots));
        let applier = Applier::new(own(), work, taken, voters, booted.snapshot_index);
        let raft = RaftLoop::new(own(), node, Arc::clone(&log), Arc::clone(&apply));
        let taker = Snapshots::new(own(), Arc::clone(&snapshots), Arc::clone(&log));
        Ok(Stages {
            server: Server { shared: own() },
            log_inbox: log,
            apply_inbox: apply,
            snapshot_inbox: snapshots,
            raft: Some(raft),
            writer: Some(writer),
            applier: Some(applier),
            snapshots: Some(taker),
            compactor: Some(Compactor::new(own())),
            committer,
            preparer,
            applied_at_start: booted.applied,
        })
    }

    /// One turn of a stage, unless it has ended.
    pub(super) fn turn(&mut self, stage: Stage) {
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
                turn(shared, &mut self.committer, "commit to the database", |it| {
                    it.turn().map(drop)
                });
            }
            Stage::Prepare => drop(self.preparer.turn()),
            Stage::Purge => purge(shared),
        }
    }

    /// One turn of each.
    pub(super) fn turn_all(&mut self) {
        Stage::ALL.into_iter().for_each(|stage| self.turn(stage));
    }

    /// Whether the raft loop has ended, and whoever waited has been told.
    pub(super) fn is_over(&self) -> bool {
        self.raft.is_none()
    }

    /// Whether this member leads and has applied all that there is.
    pub(super) fn is_settled(&self) -> bool {
        let applied = self.server.applied();
        self.server.shared.progress.rules_alone() && applied == self.server.committed()
    }

    /// What the database has applied, pending or not.
    pub(super) fn applied(&self) -> Index {
        self.server.state().applied().unwrap().0
    }

    /// How many entries were applied since it was started.
    pub(super) fn applied_since_start(&self) -> u64 {
        self.server.applied().0 - self.applied_at_start.0
    }

    /// Ends everything in good order. Returns why.
    pub(super) fn stop(mut self) -> StopReason {
        let shared = Arc::clone(&self.server.shared);
        shared.end(StopReason::Asked);
        while !self.is_over() {
            self.turn(Stage::Raft);
        }
        self.log_inbox.close();
        self.apply_inbox.close();
        self.snapshot_inbox.close();
        // What waits is still done.
        [Stage::Log, Stage::Apply, Stage::Snapshot].into_iter().for_each(|stage| self.turn(stage));
        if let Some(Err(error)) = self.writer.take().map(LogWriter::close) {
            shared.fail("close the log", &error);
        }
        self.turn(Stage::Commit);
        shared.reason()
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
