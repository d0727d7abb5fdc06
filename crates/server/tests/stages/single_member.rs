//! A member without threads and peers, on a simulated disk and clock.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use env::{SeededRandom, SimClock, SimDisk};
use server::stages::{Stage, Stages};
use server::{NoPeers, Platform, ServerConfig, StartError, StopReason};
use testkit::waiting::step_until;
use types::Index;

/// The simulated disk and clock of a member.
#[derive(Clone)]
pub(crate) struct SimPlatform {
    pub(crate) disk: SimDisk,
    pub(crate) clock: SimClock,
}

impl SimPlatform {
    /// Returns the platform that a member is started on.
    pub(crate) fn to_platform(&self) -> Platform {
        Platform {
            disk: Arc::new(self.disk.clone()),
            clock: Arc::new(self.clock.clone()),
            random: Box::new(SeededRandom::new(0)),
        }
    }
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

/// A member without peers, whose stages the test gives their turns.
pub(crate) struct SingleMember {
    stages: Stages,
    applied_at_start: Index,
}

impl Deref for SingleMember {
    type Target = Stages;

    fn deref(&self) -> &Self::Target {
        &self.stages
    }
}

impl DerefMut for SingleMember {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.stages
    }
}

impl SingleMember {
    /// Restores the member from the disk, or bootstraps a new one on an empty disk.
    pub(crate) fn boot(
        platform: &SimPlatform,
        config: ServerConfig,
    ) -> Result<SingleMember, StartError> {
        let stages = Stages::boot(config, platform.to_platform(), Arc::new(NoPeers))?;
        let applied_at_start = stages.server().applied();
        Ok(SingleMember { stages, applied_at_start })
    }

    /// Gives each stage of the pipeline one turn, and purges files.
    pub(crate) fn turn_all(&mut self) {
        PIPELINE.into_iter().for_each(|stage| self.turn(stage));
        self.purge();
    }

    /// Returns whether the member leads, has applied an entry of its own term, and has applied all
    /// committed entries.
    pub(crate) fn is_settled(&self) -> bool {
        let server = self.server();
        let (_, term) = server.state().applied().unwrap();
        let is_own = server.is_leader() && term == server.term();
        is_own && server.applied() == server.committed()
    }

    /// Gives the stages turns until the member [is settled](Self::is_settled). A heartbeat passes
    /// with each round.
    pub(crate) fn settle(&mut self, clock: &SimClock) {
        let heartbeat = self.server().config().heartbeat;
        step_until("the member leads and has applied its log", || {
            self.turn_all();
            clock.advance(heartbeat);
            self.is_settled()
        });
    }

    /// Returns the applied index in the database, including its pending batch.
    pub(crate) fn applied(&self) -> Index {
        self.server().state().applied().unwrap().0
    }

    /// Returns the number of entries applied since the start.
    pub(crate) fn applied_since_start(&self) -> u64 {
        self.server().applied().0 - self.applied_at_start.0
    }

    /// Shuts the member down in order. Returns the reason.
    pub(crate) fn stop(self) -> StopReason {
        self.stages.stop()
    }
}
