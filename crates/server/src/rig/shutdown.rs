//! Every end of a member completes all waiters.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use env::{Fault, SeededRandom, SimClock, SimDisk};
use types::Index;

use super::clients::{Clients, Pending, poll};
use super::scenario::{assert_refuses_requests, small};
use super::stages::{Platform, Stage, Stages};
use crate::config::ServerConfig;
use crate::error::Error;
use crate::lifecycle::StopReason;
use crate::pipeline::raft_loop::Event;
use crate::server::Server;

const SECOND: Duration = Duration::from_secs(1);

/// A member with clients and futures of every kind that can wait.
struct Rig {
    machine: Platform,
    stages: Stages,
    clients: Clients,
    random: SeededRandom,
    waiting: Vec<Pending>,
    stopped: Pin<Box<dyn Future<Output = StopReason>>>,
}

impl Rig {
    /// Returns a member that leads.
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

    fn submit(&mut self, count: usize) {
        (0..count).for_each(|_| self.clients.submit(self.stages.server(), &mut self.random));
    }

    fn turns(&mut self, stages: &[Stage]) {
        stages.iter().for_each(|stage| self.stages.turn(*stage));
    }

    /// Leaves requests in every stage: applied, committed, in the log, proposed.
    fn fill(&mut self) {
        use Stage::{Apply, Log, Raft};
        for way in [&[Raft, Log, Raft, Apply][..], &[Raft, Log, Raft], &[Raft, Log], &[Raft], &[]] {
            self.submit(3);
            self.turns(way);
        }
        self.waiting.iter_mut().for_each(|waiting| assert_eq!(poll(waiting), None));
        assert_eq!(poll(&mut self.stopped), None);
    }

    /// Checks that the raft loop ends and all waiters fail, with this reason for the stop.
    fn assert_all_failed(mut self, reason: &str) -> Platform {
        self.stages.turn(Stage::Raft);
        assert!(self.stages.is_over(), "the raft loop has not ended");
        let found = poll(&mut self.stopped).expect("the future of the end completes");
        assert!(found.to_string().starts_with(reason), "{found}");
        for waiting in &mut self.waiting {
            assert_eq!(poll(waiting), Some(Err(Error::Stopped)));
        }
        let server = self.stages.server().clone();
        self.clients.poll_results(&server);
        assert!(self.clients.is_idle());
        assert_refuses_requests(&server);
        assert_eq!(self.stages.stop(), found, "the first reason counts");
        self.machine
    }
}

/// Returns one future of each kind that waits, besides requests.
fn waiting(server: &Server) -> Vec<Pending> {
    let [one, two] = [(); 2].map(|()| server.clone());
    vec![
        Box::pin(async move { one.sleep(3600 * SECOND).await }),
        Box::pin(async move { two.wait_applied(Index(u64::MAX)).await }),
    ]
}

/// Returns a configuration in which each entry is a transaction of the file, so that applying needs
/// the disk.
fn eager() -> ServerConfig {
    let mut config = small();
    config.backend.pending_bytes_max = 0;
    config
}

#[test]
fn a_failed_log_write_fails_all_waiters() {
    let mut rig = Rig::new(small());
    rig.fill();
    rig.turns(&[Stage::Raft]);
    rig.machine.disk.fail_change(0, Fault::Eio);
    rig.turns(&[Stage::Log]);
    rig.assert_all_failed("write the log: ");
}

#[test]
fn a_failed_apply_fails_all_waiters() {
    let mut rig = Rig::new(eager());
    rig.fill();
    rig.machine.disk.fail_change(0, Fault::Enospc);
    rig.turns(&[Stage::Apply]);
    rig.assert_all_failed("apply the log: ");
}

#[test]
fn a_failed_commit_fails_all_waiters() {
    let mut rig = Rig::new(small());
    rig.fill();
    rig.machine.disk.fail_change(0, Fault::Eio);
    rig.turns(&[Stage::Commit]);
    rig.assert_all_failed("commit to the database: ");
}

#[test]
fn a_failed_snapshot_fails_all_waiters() {
    let mut config = small();
    config.snapshot_count = 10;
    let mut rig = Rig::new(config);
    while rig.stages.applied_since_start() < 20 {
        rig.submit(3);
        rig.turns(&[Stage::Raft, Stage::Log, Stage::Raft, Stage::Apply]);
    }
    rig.fill();
    // Commits first, so that writing the snapshot file fails, not the database.
    rig.turns(&[Stage::Commit]);
    rig.machine.disk.fail_change(0, Fault::Eio);
    rig.turns(&[Stage::Snapshot]);
    rig.assert_all_failed("take a snapshot: snap: ");
}

#[test]
fn a_failed_compaction_fails_all_waiters() {
    let mut rig = Rig::new(eager());
    while rig.stages.server().state().store.compacted() < 5 {
        rig.submit(3);
        rig.turns(&[Stage::Raft, Stage::Log, Stage::Raft, Stage::Apply]);
    }
    rig.fill();
    rig.machine.disk.fail_change(0, Fault::Eio);
    (0..50).for_each(|_| rig.turns(&[Stage::Compact]));
    rig.assert_all_failed("compact: ");
}

/// A restarted member stops at the same entry, instead of skipping it.
#[test]
fn an_invalid_entry_fails_all_waiters() {
    let mut rig = Rig::new(small());
    rig.fill();
    let (data, since) = (Bytes::from_static(b"\xff"), rig.stages.server().now());
    rig.stages.server().inner.raft.push(Event::Propose { id: 1, data, since, leader_term: None });
    rig.turns(&[Stage::Raft, Stage::Log, Stage::Raft, Stage::Apply]);
    let why = "apply the log: entry ";
    let machine = rig.assert_all_failed(why);
    let mut again = Stages::boot(&machine, small()).unwrap();
    while !again.is_over() {
        again.turn_all();
        assert!(!again.is_settled(), "the member must not serve");
    }
    assert!(again.stop().to_string().starts_with(why));
}

#[test]
fn the_removal_of_the_member_fails_all_waiters() {
    let mut rig = Rig::new(small());
    rig.fill();
    let inner = &rig.stages.server().inner;
    inner.lifecycle.stop_at(inner.context.now() + SECOND, StopReason::Removed);
    rig.turns(&[Stage::Timers]);
    assert!(!rig.stages.server().is_stopping(), "stops only after a delay");
    rig.machine.clock.advance(SECOND);
    rig.turns(&[Stage::Timers]);
    rig.assert_all_failed("the member has been permanently removed");
}

/// As after a panic of the loop, which drops it.
#[test]
fn dropping_the_raft_loop_fails_all_waiters() {
    let mut rig = Rig::new(small());
    rig.fill();
    let Rig { stages, mut clients, waiting, .. } = rig;
    let server = stages.server().clone();
    drop(stages);
    for mut waiting in waiting {
        assert_eq!(poll(&mut waiting), Some(Err(Error::Stopped)));
    }
    clients.poll_results(&server);
    assert!(clients.is_idle());
    assert_refuses_requests(&server);
}
