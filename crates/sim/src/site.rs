//! Where a member is: its machine, and the member itself while it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use env::{Clock, SeededRandom, SimClock, SimDisk};
use server::stages::{Stage, Stages};
use server::{Platform, Server, ServerConfig, StartError, StopReason};
use types::MemberId;

use crate::network::Network;

/// A machine, and a member on it.
#[derive(Debug)]
pub struct Site {
    /// The member.
    pub id: MemberId,
    /// How it behaves.
    pub config: ServerConfig,
    /// Its disk.
    pub disk: SimDisk,
    /// Its clock.
    pub clock: SiteClock,
    /// How fast its clock goes, in thousandths of the time that passes: a thousand at most.
    pub pace: u64,
    /// Whether none of its stages has a turn, while its clock goes on.
    pub is_paused: bool,
    /// Whether its log does not get on.
    pub is_stalled: bool,
    /// Whether its disk was made to fail, so that it may end by itself once a call has failed.
    pub is_faulty: bool,
    /// Whether that is over. What failed before may still be found out.
    pub is_healed: bool,
    /// Whether its machine lost power at some write, and does not know yet.
    pub is_off: bool,
    stages: Option<Stages>,
    starts: u64,
}

/// The clock of a machine: time only goes on, but the date may be set back. Clones show the same time.
#[derive(Clone, Debug, Default)]
pub struct SiteClock {
    time: SimClock,
    /// By how much the date was set back, in all.
    set_back_ms: Arc<AtomicU64>,
}

impl SiteClock {
    /// Moves the time on, and the date with it.
    pub fn advance(&self, time: Duration) {
        self.time.advance(time);
    }

    /// Sets the date back. How much time has passed stays the same.
    pub fn set_back(&self, by_ms: u64) {
        self.set_back_ms.fetch_add(by_ms, Ordering::Relaxed);
    }
}

impl Clock for SiteClock {
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

/// A clock that goes as fast as the time that passes.
pub(crate) const PACE_MAX: u64 = 1000;

/// What a simulated disk says when it is made to fail: out of order, full, without power.
const DISK_ERRORS: [&str; 3] =
    ["Input/output error", "No space left on device", "the machine is off"];

impl Site {
    /// A machine with an empty disk.
    pub fn new(id: MemberId, config: ServerConfig, seed: u64) -> Site {
        let (disk, clock) = (SimDisk::new(seed), SiteClock::default());
        Site {
            id,
            config,
            disk,
            clock,
            pace: PACE_MAX,
            is_paused: false,
            is_stalled: false,
            is_faulty: false,
            is_healed: false,
            is_off: false,
            stages: None,
            starts: 0,
        }
    }

    /// Starts the member.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(&mut self, network: &Network) -> Result<(), StartError> {
        self.starts += 1;
        if std::mem::take(&mut self.is_healed) {
            self.is_faulty = false;
        }
        let machine = Platform {
            disk: Arc::new(self.disk.clone()),
            clock: Arc::new(self.clock.clone()),
            random: Box::new(SeededRandom::new(self.id.0 ^ self.starts)),
        };
        let stages = Stages::boot(self.config.clone(), machine, Arc::new(network.link(self.id)))?;
        network.attach(stages.server());
        stages.hang_log(self.is_stalled);
        self.stages = Some(stages);
        Ok(())
    }

    /// The member, while it runs.
    pub fn server(&self) -> Option<&Server> {
        self.stages.as_ref().map(Stages::server)
    }

    /// Whether it runs.
    pub fn is_running(&self) -> bool {
        self.stages.is_some()
    }

    /// Whether others know its name, and clients may be served.
    pub fn is_published(&self) -> bool {
        self.stages.as_ref().is_some_and(Stages::is_published)
    }

    /// One turn of a stage, unless it is held up.
    pub fn turn(&mut self, stage: Stage) {
        if self.is_paused || self.is_stalled && stage == Stage::Log {
            return;
        }
        if let Some(stages) = &mut self.stages {
            stages.turn(stage);
        }
    }

    /// Notes that it has ended by itself, if it has. Returns why.
    pub fn reap(&mut self, network: &Network) -> Option<StopReason> {
        let ended = self.stages.take_if(|stages| stages.is_over())?;
        network.detach(self.id);
        Some(ended.stop())
    }

    /// Ends in good order.
    pub fn stop(&mut self, network: &Network) -> Option<StopReason> {
        network.detach(self.id);
        self.stages.take().map(Stages::stop)
    }

    /// Is killed: what the system has, it writes.
    pub fn kill(&mut self, network: &Network) {
        network.detach(self.id);
        self.stages = None;
    }

    /// Loses its power: what was not synced may be gone, or torn.
    pub fn lose_power(&mut self, network: &Network, seed: u64) {
        self.kill(network);
        self.disk = self.disk.power_cut(seed);
        self.is_off = false;
    }

    /// Its disk does what it is asked again, and has space.
    pub fn heal(&mut self) {
        self.disk.heal();
        self.disk.set_capacity(None);
        self.is_healed = true;
    }

    /// Whether a member may end for this reason: its disk was made to fail, did so since the member started, and that is what stopped it. Nothing but the disk says
    /// these words, so whoever repeats them was told so by a call of its own.
    pub(crate) fn excuses(&self, why: &str) -> bool {
        self.is_faulty && DISK_ERRORS.iter().any(|words| why.contains(words))
    }

    /// Its disk is made to fail.
    pub(crate) fn make_faulty(&mut self) {
        (self.is_faulty, self.is_healed) = (true, false);
    }

    /// Its log waits for the disk, which does not answer.
    pub fn stall(&mut self) {
        self.is_stalled = true;
        self.stages.iter().for_each(|stages| stages.hang_log(true));
    }

    /// Nothing holds it up any more.
    pub fn resume(&mut self) {
        if self.is_stalled {
            self.stages.iter().for_each(|stages| stages.hang_log(false));
        }
        (self.is_paused, self.is_stalled) = (false, false);
    }

    /// Time passes.
    pub(crate) fn pass(&self, time: Duration) {
        self.clock.advance(time.mul_f64(self.pace as f64 / PACE_MAX as f64));
    }
}
