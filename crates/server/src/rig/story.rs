//! What a member goes through, from a seed.

use env::{Fault, SeededRandom, SimClock, SimDisk};
use proto::etcdserverpb::PutRequest;
use types::Index;

use super::SEGMENT_BYTES;
use super::clients::{Clients, poll};
use super::op::LEARNERS_MAX;
use super::stages::{Platform, Stage, Stages};
use crate::bootstrap::StartError;
use crate::config::ServerConfig;
use crate::error::Error;
use crate::lifecycle::StopReason;
use crate::server::Server;

/// Rounds in which every stage has a turn, after which a member must have done all there is to do.
const ROUNDS_MAX: usize = 200;
/// What is asked of a member that has started again, to see that it serves.
const ASKED_AFTER: usize = 3;

/// What a member is to go through.
#[derive(Clone, Copy)]
pub(super) struct Story {
    pub(super) seed: u64,
    pub(super) steps: usize,
}

impl Story {
    /// How the member behaves. Whatever happens seldom elsewhere happens often here.
    pub(super) fn config(&self) -> ServerConfig {
        let mut random = SeededRandom::new(!self.seed);
        let mut config = small();
        config.snapshot_count = 6 + random.below(20);
        config.snapshot_catchup_entries = random.below(2) * 4;
        config.initial_election_tick_advance = random.chance(3, 4);
        if random.chance(1, 2) {
            // Its first entry is longer than what a disk writes whole.
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

    /// Goes through it on a disk, until the end or until the member has ended by itself.
    pub(super) fn tell(&self, disk: &SimDisk) -> Run {
        let mut run = Run::new(*self, disk);
        run.end = run.go();
        run
    }
}

/// A member with small pages, few files and short steps, so that a story goes through many of each, and a cut has little to copy.
pub(super) fn small() -> ServerConfig {
    let mut config = ServerConfig::new("default", "/data");
    (config.max_snapshots, config.max_wals) = (2, 1);
    config.max_learners = LEARNERS_MAX;
    config.compaction_batch_limit = 3;
    config.segment_bytes = SEGMENT_BYTES;
    config.backend.bolt.page_size = 1024;
    config.backend.bolt.grow_bytes = 8 << 10;
    config
}

/// How far a story has come.
pub(super) struct Run {
    machine: Platform,
    story: Story,
    random: SeededRandom,
    pub(super) clients: Clients,
    stages: Option<Stages>,
    /// The most entries that were applied between two starts.
    pub(super) applied_max: u64,
    pub(super) end: End,
}

/// How a story ends.
#[derive(Debug)]
pub(super) enum End {
    /// As it should.
    Well,
    /// The member could not be started.
    NotStarted(StartError),
    /// It had to stop.
    Stopped(StopReason),
}

impl Run {
    pub(super) fn new(story: Story, disk: &SimDisk) -> Run {
        let machine = Platform { disk: disk.clone(), clock: SimClock::default() };
        let (random, clients) = (SeededRandom::new(story.seed), Clients::new());
        Run { machine, story, random, clients, stages: None, applied_max: 0, end: End::Well }
    }

    /// Another one, of a member that has ended, with clients who know the same.
    pub(super) fn fork(&self) -> Run {
        let Run { machine, story, random, clients, .. } = self;
        assert!(clients.is_everybody_told(), "somebody still waits");
        let (machine, random, clients) = (machine.clone(), random.clone(), clients.fork());
        Run { machine, random, clients, ..Run::new(*story, &self.machine.disk) }
    }

    /// Goes through all of it.
    fn go(&mut self) -> End {
        match self.go_on(self.story.steps) {
            Err(error) => End::NotStarted(error),
            Ok(()) => self.finish(),
        }
    }

    /// Starts, and goes on for some steps, or until the member has ended.
    pub(super) fn go_on(&mut self, steps: usize) -> Result<(), StartError> {
        self.start()?;
        for _ in 0..steps {
            if self.stages().is_over() {
                break;
            }
            self.step()?;
        }
        Ok(())
    }

    pub(super) fn stages(&mut self) -> &mut Stages {
        self.stages.as_mut().expect("it was started")
    }

    fn step(&mut self) -> Result<(), StartError> {
        let Run { machine, random, clients, stages, .. } = self;
        let stages = stages.as_mut().expect("it was started");
        let config = stages.server().config();
        let (heartbeat, request_timeout) = (config.heartbeat, config.request_timeout());
        match random.below(100) {
            0..24 => (0..=random.below(4)).for_each(|_| clients.ask(stages.server(), random)),
            24..26 => clients.read(stages.server()),
            26..28 => clients.glance(stages.server()),
            28..46 => stages.turn(Stage::Raft),
            46..60 => stages.turn(Stage::Log),
            60..72 => stages.turn(Stage::Apply),
            72..77 => stages.turn(Stage::Snapshot),
            77..83 => stages.turn(Stage::Compact),
            83..86 => stages.turn(Stage::Commit),
            86..92 => stages.turn(Stage::Prepare),
            92..94 => stages.purge(),
            // Longer than anybody waits.
            94 if random.chance(1, 3) => machine.clock.advance(request_timeout),
            95 if random.chance(1, 4) => return self.restart(),
            _ => machine.clock.advance(heartbeat),
        }
        clients.listen(stages.server());
        Ok(())
    }

    /// Ends in good order, or as if killed; and starts again. No power is lost.
    fn restart(&mut self) -> Result<(), StartError> {
        if self.random.chance(1, 2) {
            self.stop();
        } else {
            self.kill();
        }
        self.start()
    }

    /// Starts the member, and looks at what it finds, unless it ends before that can be told.
    fn start(&mut self) -> Result<(), StartError> {
        let stages = Stages::boot(&self.machine, self.story.config())?;
        self.clients.assert_opened(&stages.server().state());
        self.stages = Some(stages);
        if self.settle() {
            let stages = self.stages.as_ref().expect("it was just started");
            assert_eq!(
                stages.applied(),
                stages.server().applied(),
                "in the database and beside it"
            );
            self.clients.recover(stages.server());
            self.assert_members();
        }
        Ok(())
    }

    /// Consensus and the state machine agree about who is a member.
    fn assert_members(&mut self) {
        let server = self.stages().server().clone();
        let mut status = Box::pin(server.raft_status());
        assert!(poll(&mut status).is_none());
        self.stages().turn(Stage::Raft);
        let conf = poll(&mut status).unwrap().unwrap().config.to_conf_state();
        let members = server.state().cluster.now();
        let (learners, voters): (Vec<_>, _) = members.ids().partition(|id| members.is_learner(*id));
        assert_eq!((conf.voters, conf.learners), (voters, learners));
    }

    /// Lets the member come to rest as the leader. False if it ends instead.
    fn settle(&mut self) -> bool {
        for _ in 0..ROUNDS_MAX {
            if self.stages().is_over() {
                return false;
            }
            let is_settled = self.stages().is_settled();
            // Once more, so that consensus has heard of it too: until then it would let requests pass changes of members.
            self.round();
            if is_settled {
                return !self.stages().is_over();
            }
        }
        panic!("it does not come to rest");
    }

    /// Lets everything happen that waits to happen, and a tick of time pass.
    pub(super) fn round(&mut self) {
        let stages = self.stages.as_mut().expect("it was started");
        stages.turn_all();
        self.clients.listen(stages.server());
        self.machine.clock.advance(stages.server().config().heartbeat);
    }

    /// Lets everybody be told. False if the member ends instead, which tells them too.
    fn tell_everybody(&mut self) -> bool {
        for _ in 0..ROUNDS_MAX {
            if self.stages().is_over() || self.clients.is_everybody_told() {
                return !self.stages().is_over();
            }
            self.round();
        }
        panic!("somebody is never told");
    }

    /// Lets everybody be told, and ends.
    pub(super) fn finish(&mut self) -> End {
        self.tell_everybody();
        match self.stop() {
            StopReason::Requested => End::Well,
            other => End::Stopped(other),
        }
    }

    /// Ends the member in good order.
    pub(super) fn stop(&mut self) -> StopReason {
        let stages = self.ended();
        let server = stages.server().clone();
        let reason = stages.stop();
        self.clients.listen(&server);
        assert!(self.clients.is_everybody_told(), "stopped because of: {reason}");
        assert_serves_nobody(&server);
        reason
    }

    /// Ends the member as the system does it.
    pub(super) fn kill(&mut self) {
        let stages = self.ended();
        let server = stages.server().clone();
        drop(stages);
        self.clients.listen(&server);
        assert!(self.clients.is_everybody_told(), "killed");
        assert_serves_nobody(&server);
    }

    fn ended(&mut self) -> Stages {
        let stages = self.stages.take().expect("it was started");
        self.applied_max = self.applied_max.max(stages.applied_since_start());
        stages
    }

    /// Goes on until the power goes, soon, and to what that leaves.
    pub(super) fn lose_power(&mut self, random: &mut SeededRandom) {
        const CHANGES_MAX: u64 = 300;
        self.machine.disk.fail_change(random.below(CHANGES_MAX), Fault::Crash);
        // Whether it could be started or not: the power is gone.
        let _ = self.go_on(self.story.steps);
        if self.stages.is_some() {
            self.kill();
        }
        self.machine.disk = self.machine.disk.power_cut(random.next());
    }

    /// Starts the member from what is on a disk: it must serve.
    pub(super) fn assert_serves(&mut self, disk: SimDisk) {
        self.machine.disk = disk;
        self.assert_serves_now();
    }

    /// Starts the member: it must serve.
    pub(super) fn assert_serves_now(&mut self) {
        self.start().unwrap();
        let before = self.clients.told.acknowledged;
        let stages = self.stages.as_mut().expect("it was just started");
        (0..ASKED_AFTER).for_each(|_| self.clients.ask(stages.server(), &mut self.random));
        self.clients.read(stages.server());
        assert!(
            self.tell_everybody(),
            "it ended: {}",
            self.stages().server().inner.lifecycle.reason()
        );
        assert_eq!(self.clients.told.acknowledged, before + ASKED_AFTER);
    }
}

/// Whoever comes when all is over is turned away at once.
pub(super) fn assert_serves_nobody(server: &Server) {
    let stopped = Some(Err(Error::Stopped));
    assert_eq!(poll(&mut Box::pin(server.linearizable())), stopped);
    assert_eq!(poll(&mut Box::pin(server.sleep(server.config().heartbeat))), stopped);
    assert_eq!(poll(&mut Box::pin(server.wait_applied(Index(u64::MAX)))), stopped);
    assert!(matches!(poll(&mut Box::pin(server.raft_status())), Some(Err(Error::Stopped))));
    assert_eq!(server.propose(PutRequest::default()).unwrap_err(), Error::Stopped);
}
