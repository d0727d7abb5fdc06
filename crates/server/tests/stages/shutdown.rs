//! Every end of a member completes all waiters.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use env::{Fault, SeededRandom, SimClock, SimDisk};
use server::stages::Stage;
use server::{Error, Server, ServerConfig, StopReason, test_util};
use simkit::poll_once;
use testkit::waiting::step_until;
use types::Index;

use crate::clients::{Clients, Pending};
use crate::scenario::{assert_refuses_requests, small};
use crate::single_member::{SimPlatform, SingleMember};

const SECOND: Duration = Duration::from_secs(1);

/// A member with clients and futures of every kind that can wait.
struct BusyMember {
    platform: SimPlatform,
    stages: SingleMember,
    clients: Clients,
    random: SeededRandom,
    waiting: Vec<Pending>,
    stopped: Pin<Box<dyn Future<Output = StopReason>>>,
}

impl BusyMember {
    /// Returns a member that leads.
    fn new(config: ServerConfig) -> BusyMember {
        let platform = SimPlatform { disk: SimDisk::new(0), clock: SimClock::default() };
        let mut stages = SingleMember::boot(&platform, config).unwrap();
        stages.settle(&platform.clock);
        let (clients, random) = (Clients::new(), SeededRandom::new(0));
        let waiting = waiting(stages.server());
        let server = stages.server().clone();
        let stopped = Box::pin(async move { server.stopped().await });
        BusyMember { platform, stages, clients, random, waiting, stopped }
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
        self.waiting.iter_mut().for_each(|waiting| assert_eq!(poll_once(waiting), None));
        assert_eq!(poll_once(&mut self.stopped), None);
    }

    /// Checks that the raft loop ends and all waiters fail, with this reason for the stop.
    fn assert_all_failed(mut self, reason: &str) -> SimPlatform {
        self.stages.turn(Stage::Raft);
        assert!(self.stages.is_over(), "the raft loop has not ended");
        let found = poll_once(&mut self.stopped).expect("the future of the end completes");
        assert!(found.to_string().starts_with(reason), "{found}");
        for waiting in &mut self.waiting {
            assert_eq!(poll_once(waiting), Some(Err(Error::Stopped)));
        }
        let server = self.stages.server().clone();
        self.clients.poll_results(&server);
        assert!(self.clients.is_idle());
        assert_refuses_requests(&server);
        assert_eq!(self.stages.stop(), found, "the first reason counts");
        self.platform
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
    let mut busy = BusyMember::new(small());
    busy.fill();
    busy.turns(&[Stage::Raft]);
    busy.platform.disk.fail_change(0, Fault::Eio);
    busy.turns(&[Stage::Log]);
    busy.assert_all_failed("write the log: ");
}

#[test]
fn a_failed_apply_fails_all_waiters() {
    let mut busy = BusyMember::new(eager());
    busy.fill();
    busy.platform.disk.fail_change(0, Fault::Enospc);
    busy.turns(&[Stage::Apply]);
    busy.assert_all_failed("apply the log: ");
}

#[test]
fn a_failed_commit_fails_all_waiters() {
    let mut busy = BusyMember::new(small());
    busy.fill();
    busy.platform.disk.fail_change(0, Fault::Eio);
    busy.turns(&[Stage::Commit]);
    busy.assert_all_failed("commit to the database: ");
}

#[test]
fn a_failed_snapshot_fails_all_waiters() {
    let mut config = small();
    config.snapshot_count = 10;
    let mut busy = BusyMember::new(config);
    step_until("20 entries are applied", || {
        busy.submit(3);
        busy.turns(&[Stage::Raft, Stage::Log, Stage::Raft, Stage::Apply]);
        busy.stages.applied_since_start() >= 20
    });
    busy.fill();
    // Commits first, so that writing the snapshot file fails, not the database.
    busy.turns(&[Stage::Commit]);
    busy.platform.disk.fail_change(0, Fault::Eio);
    busy.turns(&[Stage::Snapshot]);
    busy.assert_all_failed("take a snapshot: snap: ");
}

#[test]
fn a_failed_compaction_fails_all_waiters() {
    let mut busy = BusyMember::new(eager());
    step_until("revision 5 is compacted", || {
        busy.submit(3);
        busy.turns(&[Stage::Raft, Stage::Log, Stage::Raft, Stage::Apply]);
        busy.stages.server().state().store().compacted() >= 5
    });
    busy.fill();
    busy.platform.disk.fail_change(0, Fault::Eio);
    (0..50).for_each(|_| busy.turns(&[Stage::Compact]));
    busy.assert_all_failed("compact: ");
}

/// A restarted member stops at the same entry, instead of skipping it.
#[test]
fn an_invalid_entry_fails_all_waiters() {
    let mut busy = BusyMember::new(small());
    busy.fill();
    test_util::propose_bytes(busy.stages.server(), Bytes::from_static(b"\xff"));
    busy.turns(&[Stage::Raft, Stage::Log, Stage::Raft, Stage::Apply]);
    let why = "apply the log: entry ";
    let platform = busy.assert_all_failed(why);
    let mut again = SingleMember::boot(&platform, small()).unwrap();
    step_until("the member stops at the invalid entry", || {
        again.turn_all();
        assert!(!again.is_settled(), "the member must not serve");
        again.is_over()
    });
    assert!(again.stop().to_string().starts_with(why));
}

#[test]
fn the_removal_of_the_member_fails_all_waiters() {
    let mut busy = BusyMember::new(small());
    busy.fill();
    test_util::stop_after_removal(busy.stages.server(), SECOND);
    busy.turns(&[Stage::Timers]);
    assert!(!busy.stages.server().is_stopping(), "stops only after a delay");
    busy.platform.clock.advance(SECOND);
    busy.turns(&[Stage::Timers]);
    busy.assert_all_failed("the member has been permanently removed");
}

/// As after a panic of the loop, which drops it.
#[test]
fn dropping_the_raft_loop_fails_all_waiters() {
    let mut busy = BusyMember::new(small());
    busy.fill();
    let BusyMember { stages, mut clients, waiting, .. } = busy;
    let server = stages.server().clone();
    drop(stages);
    for mut waiting in waiting {
        assert_eq!(poll_once(&mut waiting), Some(Err(Error::Stopped)));
    }
    clients.poll_results(&server);
    assert!(clients.is_idle());
    assert_refuses_requests(&server);
}
