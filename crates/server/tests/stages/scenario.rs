//! Scenarios: runs of a member, generated from a seed.

use env::{Fault, SeededRandom, SimClock, SimDisk};
use proto::etcdserverpb::PutRequest;
use server::stages::Stage;
use server::{Error, Server, ServerConfig, StartError, StopReason};
use simkit::poll_once;
use types::Index;

use crate::SEGMENT_BYTES;
use crate::clients::Clients;
use crate::op::LEARNERS_MAX;
use crate::single_member::{SimPlatform, SingleMember};

/// The maximum number of rounds, with a turn of every stage each, until a member is idle.
const ROUNDS_MAX: usize = 200;
/// The number of requests that check that a restarted member serves.
const REQUESTS_AFTER_START: u64 = 3;

/// A scenario.
#[derive(Clone, Copy)]
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) steps: usize,
}

impl Scenario {
    /// Returns the configuration of the member. Events that are rare in practice are frequent here.
    pub(crate) fn config(&self) -> ServerConfig {
        let mut random = SeededRandom::new(!self.seed);
        let mut config = small();
        config.snapshot_count = 6 + random.below(20);
        config.snapshot_catchup_entries = random.below(2) * 4;
        config.initial_election_tick_advance = random.chance(3, 4);
        if random.chance(1, 2) {
            // The first entry is longer than a disk writes atomically.
            let urls = vec![format!("http://{}:2380", "host".repeat(200))];
            config.initial_cluster.insert(config.name.clone(), urls.clone());
            config.peer_urls = urls;
        }
        if random.chance(1, 2) {
            // Each entry is a transaction of the file.
            config.backend.pending_bytes_max = 0;
        }
        config
    }

    /// Runs the scenario on a disk, to its end or until the member stops by itself.
    pub(crate) fn run_on(&self, disk: &SimDisk) -> Run {
        let mut run = Run::new(*self, disk);
        run.end = run.run_all();
        run
    }
}

/// Returns a configuration with small pages, few files and short steps, so that a scenario uses
/// many of each and a power cut has little to copy.
pub(crate) fn small() -> ServerConfig {
    let mut config = ServerConfig::new("default", "/data");
    (config.max_snapshots, config.max_wals) = (2, 1);
    config.max_learners = LEARNERS_MAX;
    config.compaction_batch_limit = 3;
    config.segment_bytes = SEGMENT_BYTES;
    config.backend.bolt.page_size = 1024;
    config.backend.bolt.grow_bytes = 8 << 10;
    config
}

/// The progress of a scenario.
pub(crate) struct Run {
    platform: SimPlatform,
    scenario: Scenario,
    random: SeededRandom,
    pub(crate) clients: Clients,
    stages: Option<SingleMember>,
    /// The maximum number of entries applied between two starts.
    pub(crate) applied_max: u64,
    pub(crate) end: RunEnd,
}

/// The end of a run.
#[derive(Debug)]
pub(crate) enum RunEnd {
    /// The scenario was completed.
    Completed,
    /// The member could not be started.
    NotStarted(StartError),
    /// The member had to stop.
    Stopped(StopReason),
}

impl Run {
    pub(crate) fn new(scenario: Scenario, disk: &SimDisk) -> Run {
        let platform = SimPlatform { disk: disk.clone(), clock: SimClock::default() };
        let (random, clients) = (SeededRandom::new(scenario.seed), Clients::new());
        Run {
            platform,
            scenario,
            random,
            clients,
            stages: None,
            applied_max: 0,
            end: RunEnd::Completed,
        }
    }

    /// Returns another run of a member that has ended, with clients of the same knowledge.
    pub(crate) fn fork(&self) -> Run {
        let Run { platform, scenario, random, clients, .. } = self;
        assert!(clients.is_idle(), "requests are still pending");
        let (platform, random, clients) = (platform.clone(), random.clone(), clients.fork());
        Run { platform, random, clients, ..Run::new(*scenario, &self.platform.disk) }
    }

    /// Runs all steps.
    fn run_all(&mut self) -> RunEnd {
        match self.run_steps(self.scenario.steps) {
            Err(error) => RunEnd::NotStarted(error),
            Ok(()) => self.finish(),
        }
    }

    /// Starts the member and runs some steps, or until the member has ended.
    pub(crate) fn run_steps(&mut self, steps: usize) -> Result<(), StartError> {
        self.start()?;
        for _ in 0..steps {
            if self.stages().is_over() {
                break;
            }
            self.step()?;
        }
        Ok(())
    }

    pub(crate) fn stages(&mut self) -> &mut SingleMember {
        self.stages.as_mut().expect("it was started")
    }

    fn step(&mut self) -> Result<(), StartError> {
        let Run { platform, random, clients, stages, .. } = self;
        let stages = stages.as_mut().expect("it was started");
        let config = stages.server().config();
        let (heartbeat, request_timeout) = (config.heartbeat, config.request_timeout());
        match random.below(100) {
            0..24 => (0..=random.below(4)).for_each(|_| clients.submit(stages.server(), random)),
            24..26 => clients.read(stages.server()),
            26..28 => clients.read_local(stages.server()),
            28..46 => stages.turn(Stage::Raft),
            46..60 => stages.turn(Stage::Log),
            60..72 => stages.turn(Stage::Apply),
            72..77 => stages.turn(Stage::Snapshot),
            77..83 => stages.turn(Stage::Compact),
            83..86 => stages.turn(Stage::Commit),
            86..92 => stages.turn(Stage::Prepare),
            92..94 => stages.purge(),
            // Longer than the request timeout.
            94 if random.chance(1, 3) => platform.clock.advance(request_timeout),
            95 if random.chance(1, 4) => return self.restart(),
            _ => platform.clock.advance(heartbeat),
        }
        clients.poll_results(stages.server());
        Ok(())
    }

    /// Stops or kills the member and starts it again, without a power cut.
    fn restart(&mut self) -> Result<(), StartError> {
        if self.random.chance(1, 2) {
            self.stop();
        } else {
            self.kill();
        }
        self.start()
    }

    /// Starts the member and checks its recovered state, unless it ends before.
    fn start(&mut self) -> Result<(), StartError> {
        let stages = SingleMember::boot(&self.platform, self.scenario.config())?;
        self.clients.assert_opened(&stages.server().state());
        self.stages = Some(stages);
        if self.settle() {
            let stages = self.stages.as_ref().expect("it was just started");
            assert_eq!(
                stages.applied(),
                stages.server().applied(),
                "applied index in the database and in memory"
            );
            self.clients.recover(stages.server());
            self.assert_members();
        }
        Ok(())
    }

    /// Checks that consensus and the state machine have the same members.
    fn assert_members(&mut self) {
        let server = self.stages().server().clone();
        let mut status = Box::pin(server.raft_status());
        assert!(poll_once(&mut status).is_none());
        self.stages().turn(Stage::Raft);
        let conf = poll_once(&mut status).unwrap().unwrap().config.to_conf_state();
        let members = server.membership();
        let (learners, voters): (Vec<_>, _) = members.ids().partition(|id| members.is_learner(*id));
        assert_eq!((conf.voters, conf.learners), (voters, learners));
    }

    /// Runs rounds until the member is an idle leader. Returns false if it ends instead.
    fn settle(&mut self) -> bool {
        for _ in 0..ROUNDS_MAX {
            if self.stages().is_over() {
                return false;
            }
            let is_settled = self.stages().is_settled();
            // One more round lets consensus learn of the applied index. Until then, it would let
            // requests overtake conf changes.
            self.round();
            if is_settled {
                return !self.stages().is_over();
            }
        }
        panic!("the member is not idle after {ROUNDS_MAX} rounds");
    }

    /// Gives every stage a turn and advances time by a tick.
    pub(crate) fn round(&mut self) {
        let stages = self.stages.as_mut().expect("it was started");
        stages.turn_all();
        self.clients.poll_results(stages.server());
        self.platform.clock.advance(stages.server().config().heartbeat);
    }

    /// Runs rounds until all requests complete. Returns false if the member ends instead, which
    /// completes them too.
    fn complete_requests(&mut self) -> bool {
        for _ in 0..ROUNDS_MAX {
            if self.stages().is_over() || self.clients.is_idle() {
                return !self.stages().is_over();
            }
            self.round();
        }
        panic!("requests are still pending after {ROUNDS_MAX} rounds");
    }

    /// Completes all requests and stops the member.
    pub(crate) fn finish(&mut self) -> RunEnd {
        self.complete_requests();
        match self.stop() {
            StopReason::Requested => RunEnd::Completed,
            other => RunEnd::Stopped(other),
        }
    }

    /// Shuts the member down in order.
    pub(crate) fn stop(&mut self) -> StopReason {
        let stages = self.take_stages();
        let server = stages.server().clone();
        let reason = stages.stop();
        self.clients.poll_results(&server);
        assert!(self.clients.is_idle(), "stopped because of: {reason}");
        assert_refuses_requests(&server);
        reason
    }

    /// Drops the member, as if the process was killed.
    pub(crate) fn kill(&mut self) {
        let stages = self.take_stages();
        let server = stages.server().clone();
        drop(stages);
        self.clients.poll_results(&server);
        assert!(self.clients.is_idle(), "killed");
        assert_refuses_requests(&server);
    }

    /// Returns the reason why the member stopped.
    fn stop_reason(&mut self) -> StopReason {
        let server = self.stages().server().clone();
        poll_once(&mut Box::pin(server.stopped())).expect("the member has stopped")
    }

    fn take_stages(&mut self) -> SingleMember {
        let stages = self.stages.take().expect("it was started");
        self.applied_max = self.applied_max.max(stages.applied_since_start());
        stages
    }

    /// Runs the scenario until a power cut at a random change, and continues with the remaining
    /// disk.
    pub(crate) fn lose_power(&mut self, random: &mut SeededRandom) {
        const CHANGES_MAX: u64 = 300;
        self.platform.disk.fail_change(random.below(CHANGES_MAX), Fault::Crash);
        // The result does not matter: the power is cut.
        let _ = self.run_steps(self.scenario.steps);
        if self.stages.is_some() {
            self.kill();
        }
        self.platform.disk = self.platform.disk.power_cut(random.next());
    }

    /// Starts the member from a disk and checks that it serves.
    pub(crate) fn assert_serves(&mut self, disk: SimDisk) {
        self.platform.disk = disk;
        self.assert_serves_now();
    }

    /// Starts the member and checks that it serves.
    pub(crate) fn assert_serves_now(&mut self) {
        self.start().unwrap();
        let before = self.clients.stats.acknowledged;
        let stages = self.stages.as_mut().expect("it was just started");
        (0..REQUESTS_AFTER_START)
            .for_each(|_| self.clients.submit(stages.server(), &mut self.random));
        self.clients.read(stages.server());
        assert!(self.complete_requests(), "the member stopped: {}", self.stop_reason());
        assert_eq!(self.clients.stats.acknowledged, before + REQUESTS_AFTER_START);
    }
}

/// Checks that a stopped member refuses all requests at once.
pub(crate) fn assert_refuses_requests(server: &Server) {
    let stopped = Some(Err(Error::Stopped));
    assert_eq!(poll_once(&mut Box::pin(server.linearizable())), stopped);
    assert_eq!(poll_once(&mut Box::pin(server.sleep(server.config().heartbeat))), stopped);
    assert_eq!(poll_once(&mut Box::pin(server.wait_applied(Index(u64::MAX)))), stopped);
    assert!(matches!(poll_once(&mut Box::pin(server.raft_status())), Some(Err(Error::Stopped))));
    assert_eq!(server.propose(PutRequest::default()).unwrap_err(), Error::Stopped);
}
