//! A simulated machine, and the member that runs on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use env::{Clock, SeededRandom, SimClock, SimDisk};
use server::stages::{Stage, Stages};
use server::{Platform, Server, ServerConfig, StartError, StopReason};
use types::MemberId;

use crate::network::Network;

/// A machine with its disk and clock, and the member on it.
#[derive(Debug)]
pub struct Node {
    /// Id of the member.
    pub id: MemberId,
    /// Configuration of the member.
    pub config: ServerConfig,
    /// Simulated disk.
    pub disk: SimDisk,
    /// Simulated clock.
    pub clock: NodeClock,
    /// Rate of the clock in thousandths of the simulated time, at most 1000.
    pub clock_rate: u64,
    /// Whether the member is paused: no stage runs, while the clock advances.
    pub is_paused: bool,
    /// Whether the disk blocks the log writer.
    pub is_stalled: bool,
    /// Whether the disk was made to fail, so that the member may stop after a failed call.
    pub is_faulty: bool,
    /// Whether a faulty disk works again. The member may still stop because of an earlier failure.
    pub is_healed: bool,
    /// Whether the power fails at one of the next changes to the disk, or has failed and the member
    /// has not stopped yet.
    pub has_pending_power_cut: bool,
    stages: Option<Stages>,
    starts: u64,
}

/// The clock of a node: monotonic time advances, the wall clock may be set back. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct NodeClock {
    time: SimClock,
    /// Sum of all adjustments of the wall clock, all of which set it back.
    set_back_ms: Arc<AtomicU64>,
}

impl NodeClock {
    /// Advances both clocks.
    pub fn advance(&self, time: Duration) {
        self.time.advance(time);
    }

    /// Sets the wall clock back; monotonic time is unaffected.
    pub fn set_back(&self, by_ms: u64) {
        self.set_back_ms.fetch_add(by_ms, Ordering::Relaxed);
    }
}

impl Clock for NodeClock {
    fn monotonic(&self) -> Duration {
        self.time.monotonic()
    }

    fn wall(&self) -> SystemTime {
        self.time.wall() - Duration::from_millis(self.set_back_ms.load(Ordering::Relaxed))
    }

    fn sleep(&self, time: Duration) {
        self.time.sleep(time);
    }
}

/// Rate of a clock that is as fast as the clients' clock.
pub(crate) const CLOCK_RATE_MAX: u64 = 1000;

/// Errors of a failing simulated disk.
const DISK_ERRORS: [&str; 3] =
    ["Input/output error", "No space left on device", "the machine is off"];

impl Node {
    /// Creates a node with an empty disk.
    pub fn new(id: MemberId, config: ServerConfig, seed: u64) -> Node {
        let (disk, clock) = (SimDisk::new(seed), NodeClock::default());
        Node {
            id,
            config,
            disk,
            clock,
            clock_rate: CLOCK_RATE_MAX,
            is_paused: false,
            is_stalled: false,
            is_faulty: false,
            is_healed: false,
            has_pending_power_cut: false,
            stages: None,
            starts: 0,
        }
    }

    /// Starts the member.
    ///
    /// # Errors
    /// The member does not start.
    pub fn start(&mut self, network: &Network) -> Result<(), StartError> {
        self.starts += 1;
        if std::mem::take(&mut self.is_healed) {
            self.is_faulty = false;
        }
        let platform = Platform {
            disk: Arc::new(self.disk.clone()),
            clock: Arc::new(self.clock.clone()),
            random: Box::new(SeededRandom::new(self.id.0 ^ self.starts)),
        };
        let stages = Stages::boot(self.config.clone(), platform, Arc::new(network.link(self.id)))?;
        network.attach(stages.server());
        stages.hang_log(self.is_stalled);
        self.stages = Some(stages);
        Ok(())
    }

    /// Returns the member while it runs.
    pub fn server(&self) -> Option<&Server> {
        self.stages.as_ref().map(Stages::server)
    }

    /// Whether the member runs.
    pub fn is_running(&self) -> bool {
        self.stages.is_some()
    }

    /// Whether the member is published and serves clients.
    pub fn is_published(&self) -> bool {
        self.stages.as_ref().is_some_and(Stages::is_published)
    }

    /// Runs one turn of a stage, unless it is blocked.
    pub fn turn(&mut self, stage: Stage) {
        if self.is_paused || self.is_stalled && stage == Stage::Log {
            return;
        }
        if let Some(stages) = &mut self.stages {
            stages.turn(stage);
        }
    }

    /// Removes a member that has stopped by itself, and returns the reason.
    pub fn reap(&mut self, network: &Network) -> Option<StopReason> {
        let stopped = self.stages.take_if(|stages| stages.is_over())?;
        network.detach(self.id);
        Some(stopped.stop())
    }

    /// Stops the member in order.
    pub fn stop(&mut self, network: &Network) -> Option<StopReason> {
        network.detach(self.id);
        self.stages.take().map(Stages::stop)
    }

    /// Kills the member as `kill -9` does: data that was written and not synced survives.
    pub fn kill(&mut self, network: &Network) {
        network.detach(self.id);
        self.stages = None;
    }

    /// Cuts the power: unsynced data may be lost or torn.
    pub fn lose_power(&mut self, network: &Network, seed: u64) {
        self.kill(network);
        self.disk = self.disk.power_cut(seed);
        self.has_pending_power_cut = false;
    }

    /// Repairs the disk.
    pub fn heal(&mut self) {
        self.disk.heal();
        self.disk.set_capacity(None);
        self.is_healed = true;
    }

    /// Returns whether an injected disk fault explains this reason of a stop: the disk was made to
    /// fail, and the reason contains an error that only the simulated disk returns.
    pub(crate) fn is_explained_by_disk_fault(&self, reason: &str) -> bool {
        self.is_faulty && DISK_ERRORS.iter().any(|error| reason.contains(error))
    }

    /// Records that the disk was made to fail.
    pub(crate) fn mark_faulty(&mut self) {
        (self.is_faulty, self.is_healed) = (true, false);
    }

    /// Blocks the log writer, as a hanging disk does.
    pub fn stall(&mut self) {
        self.is_stalled = true;
        self.stages.iter().for_each(|stages| stages.hang_log(true));
    }

    /// Ends pause and stall.
    pub fn resume(&mut self) {
        if self.is_stalled {
            self.stages.iter().for_each(|stages| stages.hang_log(false));
        }
        (self.is_paused, self.is_stalled) = (false, false);
    }

    /// Advances the clock at its own rate.
    pub(crate) fn advance_clock(&self, time: Duration) {
        self.clock.advance(time.mul_f64(self.clock_rate as f64 / CLOCK_RATE_MAX as f64));
    }
}
