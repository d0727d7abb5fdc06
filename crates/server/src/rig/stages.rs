//! A member without threads and peers, on a simulated platform.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use env::{SeededRandom, SimClock, SimDisk};
use types::Index;

use crate::background::purge::purge;
use crate::bootstrap::StartError;
use crate::config::ServerConfig;
use crate::lifecycle::StopReason;
pub(super) use crate::stages::Stage;
use crate::transport::NoPeers;

/// The simulated platform of a member.
#[derive(Clone)]
pub(super) struct Platform {
    pub(super) disk: SimDisk,
    pub(super) clock: SimClock,
}

/// The stages of the pipeline. The other stages do nothing for a member without peers.
const PIPELINE: [Stage; 7] = [
    Stage::Raft,
    Stage::Log,
    Stage::Apply,
    Stage::Snapshot,
    Stage::Compact,
    Stage::Commit,
    Stage::Prepare,
];

/// The stages of a member.
pub(super) struct Stages {
    stages: crate::stages::Stages,
    applied_at_start: Index,
}

impl Deref for Stages {
    type Target = crate::stages::Stages;

    fn deref(&self) -> &Self::Target {
        &self.stages
    }
}

impl DerefMut for Stages {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.stages
    }
}

impl Stages {
    /// Restores the member from the disk, or bootstraps a new one on an empty disk.
    pub(super) fn boot(machine: &Platform, config: ServerConfig) -> Result<Stages, StartError> {
        let machine = crate::Platform {
            disk: Arc::new(machine.disk.clone()),
            clock: Arc::new(machine.clock.clone()),
            random: Box::new(SeededRandom::new(0)),
        };
        let stages = crate::stages::Stages::boot(config, machine, Arc::new(NoPeers))?;
        let applied_at_start = stages.server().applied();
        Ok(Stages { stages, applied_at_start })
    }

    /// Removes old files.
    pub(super) fn purge(&self) {
        purge(self.server());
    }

    /// Gives each stage of the pipeline one turn, and purges files.
    pub(super) fn turn_all(&mut self) {
        PIPELINE.into_iter().for_each(|stage| self.turn(stage));
        self.purge();
    }

    /// Returns whether the member leads, has applied an entry of its own term, and has applied all
    /// committed entries.
    pub(super) fn is_settled(&self) -> bool {
        let server = self.server();
        let (_, term) = server.state().applied().unwrap();
        let is_own = server.is_leader() && term == server.term();
        is_own && server.applied() == server.committed()
    }

    /// Returns the applied index in the database, including its pending batch.
    pub(super) fn applied(&self) -> Index {
        self.server().state().applied().unwrap().0
    }

    /// Returns the number of entries applied since the start.
    pub(super) fn applied_since_start(&self) -> u64 {
        self.server().applied().0 - self.applied_at_start.0
    }

    /// Shuts the member down in order. Returns the reason.
    pub(super) fn stop(self) -> StopReason {
        self.stages.stop()
    }
}
