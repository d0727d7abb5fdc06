//! However a member ends, everybody who waits is told.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use env::{Fault, SeededRandom, SimClock, SimDisk};
use types::Index;

use super::clients::{Clients, Pending, poll};
use super::stages::{Platform, Stage, Stages};
use super::story::{assert_serves_nobody, small};
use crate::config::ServerConfig;
use crate::error::Error;
use crate::lifecycle::StopReason;
use crate::pipeline::raft_loop::Event;
use crate::server::Server;

const SECOND: Duration = Duration::from_secs(1);

/// A member with clients that wait for all that can be waited for.
struct Rig {
    machine: Platform,
    stages: Stages,
    clients: Clients,
    random: SeededRandom,
    waiting: Vec<Pending>,
    stopped: Pin<Box<dyn Future<Output = StopReason>>>,
}

impl Rig {
    /// A member that leads.
    fn new(config: ServerConfig) -> Rig {
        let machine = Platform { disk: SimDisk::new(0), clock: SimClock::default() };
        let mut stages = Stages::boot(&machine, config).unwrap();
        while !stages.is_settled() {
            stages.turn_all();
        }
        let (clients, random) = (Clients::new(), SeededRandom::new(0));
        let waiting = waiting(stages.server());
        let server = stages.server().clone();
        let stopped = Box::pin(async move { server.stopped().await });
        Rig { machine, stages, clients, random, waiting, stopped }
    }

    fn ask(&mut self, count: usize) {
        (0..count).for_each(|_| self.clients.ask(self.stages.server(), &mut self.random));
    }

    fn turns(&mut self, stages: &[Stage]) {
        stages.iter().for_each(|stage| self.stages.turn(*stage));
    }

    /// Has something at each place on the way: applied, committed, in the log, proposed.
    fn fill(&mut self) {
        use Stage::{Apply, Log, Raft};
        for way in [&[Raft, Log, Raft, Apply][..], &[Raft, Log, Raft], &[Raft, Log], &[Raft], &[]] {
            self.ask(3);
            self.turns(way);
        }
        self.waiting.iter_mut().for_each(|waiting| assert_eq!(poll(waiting), None));
        assert_eq!(poll(&mut self.stopped), None);
    }

    /// The raft loop learns of the end, and everybody else of it.
    fn assert_all_told(mut self, reason: &str) -> Platform {
        self.stages.turn(Stage::Raft);
        assert!(self.stages.is_over(), "the raft loop goes on");
        let found = poll(&mut self.stopped).expect("whoever waits for the end is told");
        assert!(found.to_string().starts_with(reason), "{found}");
        for waiting in &mut self.waiting {
            assert_eq!(poll(waiting), Some(Err(Error::Stopped)));
        }
        let server = self.stages.server().clone();
        self.clients.listen(&server);
        assert!(self.clients.is_everybody_told());
        assert_serves_nobody(&server);
        assert_eq!(self.stages.stop(), found, "the first reason counts");
        self.machine
    }
}

/// Everything that takes time, but requests: those are the clients'.
fn waiting(server: &Server) -> Vec<Pending> {
    let [one, two] = [(); 2].map(|()| server.clone());
    vec![
        Box::pin(async move { one.sleep(3600 * SECOND).await }),
        Box::pin(async move { two.wait_applied(Index(u64::MAX)).await }),
    ]
}

/// Each entry is a transaction of the file, so that applying needs the disk.
fn eager() -> ServerConfig {
    let mut config = small();
    config.backend.pending_bytes_max = 0;
    config
}

#[test]
fn a_log_that_cannot_be_written() {
    let mut rig = Rig::new(small());
    rig.fill();
    rig.turns(&[Stage::Raft]);
    rig.machine.disk.fail_change(0, Fault::Eio);
    rig.turns(&[Stage::Log]);
    rig.assert_all_told("write the log: ");
}

#[test]
fn a_database_that_cannot_be_written_by_who_applies() {
    let mut rig = Rig::new(eager());
    rig.fill();
    rig.machine.disk.fail_change(0, Fault::Enospc);
    rig.turns(&[Stage::Apply]);
    rig.assert_all_told("apply the log: ");
}

#[test]
fn a_database_that_cannot_be_committed() {
    let mut rig = Rig::new(small());
    rig.fill();
    rig.machine.disk.fail_change(0, Fault::Eio);
    rig.turns(&[Stage::Commit]);
    rig.assert_all_told("commit to the database: ");
}

#[test]
fn a_snapshot_that_cannot_be_taken() {
    let mut config = small();
    config.snapshot_count = 10;
    let mut rig = Rig::new(config);
    while rig.stages.applied_since_start() < 20 {
        rig.ask(3);
        rig.turns(&[Stage::Raft, Stage::Log, Stage::Raft, Stage::Apply]);
    }
    rig.fill();
    // So that it is the file that cannot be written, and not the database.
    rig.turns(&[Stage::Commit]);
    rig.machine.disk.fail_change(0, Fault::Eio);
    rig.turns(&[Stage::Snapshot]);
    rig.assert_all_told("take a snapshot: snap: ");
}

#[test]
fn a_compaction_that_cannot_go_on() {
    let mut rig = Rig::new(eager());
    while rig.stages.server().state().store.compacted() < 5 {
        rig.ask(3);
        rig.turns(&[Stage::Raft, Stage::Log, Stage::Raft, Stage::Apply]);
    }
    rig.fill();
    rig.machine.disk.fail_change(0, Fault::Eio);
    (0..50).for_each(|_| rig.turns(&[Stage::Compact]));
    rig.assert_all_told("compact: ");
}

/// And the member that starts again comes to it again, rather than to pass it by.
#[test]
fn an_entry_that_makes_no_sense() {
    let mut rig = Rig::new(small());
    rig.fill();
    let (data, since) = (Bytes::from_static(b"\xff"), rig.stages.server().now());
    rig.stages.server().inner.raft.push(Event::Propose { id: 1, data, since, leader_term: None });
    rig.turns(&[Stage::Raft, Stage::Log, Stage::Raft, Stage::Apply]);
    let why = "apply the log: entry ";
    let machine = rig.assert_all_told(why);
    let mut again = Stages::boot(&machine, small()).unwrap();
    while !again.is_over() {
        again.turn_all();
        assert!(!again.is_settled(), "it serves");
    }
    assert!(again.stop().to_string().starts_with(why));
}

#[test]
fn a_member_that_was_removed() {
    let mut rig = Rig::new(small());
    rig.fill();
    let inner = &rig.stages.server().inner;
    inner.lifecycle.stop_at(inner.context.now() + SECOND, StopReason::Removed);
    rig.turns(&[Stage::Timers]);
    assert!(!rig.stages.server().is_stopping(), "not yet");
    rig.machine.clock.advance(SECOND);
    rig.turns(&[Stage::Timers]);
    rig.assert_all_told("the member has been permanently removed");
}

/// As when it has panicked, and is unwound.
#[test]
fn a_raft_loop_that_is_gone() {
    let mut rig = Rig::new(small());
    rig.fill();
    let Rig { stages, mut clients, waiting, .. } = rig;
    let server = stages.server().clone();
    drop(stages);
    for mut waiting in waiting {
        assert_eq!(poll(&mut waiting), Some(Err(Error::Stopped)));
    }
    clients.listen(&server);
    assert!(clients.is_everybody_told());
    assert_serves_nobody(&server);
}
