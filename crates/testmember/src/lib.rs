//! A running member for tests: all its threads, in a temporary directory or on a disk of the test.
//!
//! ```
//! use testmember::TestMember;
//!
//! let member = TestMember::builder().config(|config| config.max_txn_ops = 3).start();
//! assert!(member.server().is_leader());
//! ```
//!
//! Without further calls a [`Builder`] makes the only member of a cluster, named `default`, in a
//! temporary directory that is removed with it, with the clock of the machine. Its heartbeat is
//! short, its passwords are cheap, and it does not sync its files. Peers do not answer
//! ([`SilentPeers`]).
//!
//! A [`TestMember`] stops when it is dropped, and the test fails if the member had stopped by
//! itself. [`TestMember::restart`] starts it again on its data.
//!
//! Tests of processes use `e2e::Member`; tests that run the stages one by one use
//! [`server::stages`].

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod builder;
mod silent_peers;

use std::path::Path;

use prometheus::Registry;
use server::{Member, Server, ServerConfig, StartError, StopReason};
use testkit::waiting::{block_on, wait_until};

pub use builder::Builder;
pub use silent_peers::SilentPeers;

use builder::Setup;

/// A member that runs until it is stopped or dropped.
#[derive(Debug)]
pub struct TestMember {
    member: Option<Member>,
    registry: Registry,
    setup: Setup,
}

impl TestMember {
    /// Returns a builder with the defaults of tests.
    pub fn builder() -> Builder {
        Builder::new("default")
    }

    /// Returns a builder for a member with this name.
    pub fn named(name: &str) -> Builder {
        Builder::new(name)
    }

    /// Returns a handle of the running member.
    ///
    /// # Panics
    /// The member does not run.
    pub fn server(&self) -> Server {
        self.running().server().clone()
    }

    fn running(&self) -> &Member {
        self.member.as_ref().expect("the test has not stopped the member")
    }

    /// Returns the metrics of the member since its last start.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Returns the data directory.
    pub fn data_dir(&self) -> &Path {
        &self.setup.config.data_dir
    }

    /// Waits until the member leads.
    ///
    /// # Panics
    /// The member does not lead within the [bound of all waits](testkit::waiting::TIMEOUT).
    #[track_caller]
    pub fn wait_until_leading(&self) {
        let server = self.server();
        wait_until("the member leads", || server.is_leader());
    }

    /// Waits until the member has published its name, so that clients may be served.
    ///
    /// # Panics
    /// The member stops, or does not publish its name within the
    /// [bound of all waits](testkit::waiting::TIMEOUT).
    #[track_caller]
    pub fn wait_until_published(&self) {
        block_on(self.running().published()).expect("a member publishes its name unless it stops");
    }

    /// Shuts the member down. Returns the reason of its stop.
    ///
    /// # Panics
    /// The member does not run.
    pub fn stop(&mut self) -> StopReason {
        self.member.take().expect("the test has not stopped the member").stop()
    }

    /// Stops the member if it runs, and starts it again on the same disk and data directory, with
    /// new metrics. `configure` changes the configuration of the last start.
    ///
    /// # Errors
    /// The member cannot start. It may be restarted again.
    pub fn restart(&mut self, configure: impl FnOnce(&mut ServerConfig)) -> Result<(), StartError> {
        self.member.take().map(Member::stop);
        configure(&mut self.setup.config);
        self.registry = Registry::new();
        self.member = Some(self.setup.start(&self.registry)?);
        Ok(())
    }
}

impl Drop for TestMember {
    fn drop(&mut self) {
        let reason = self.member.take().map(Member::stop);
        if !std::thread::panicking() {
            assert!(matches!(reason, None | Some(StopReason::Requested)), "{reason:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use env::{Fault, SimDisk};
    use proto::etcdserverpb::PutRequest;

    use super::*;

    fn put(member: &TestMember) -> i64 {
        let put = PutRequest { key: "a".into(), ..PutRequest::default() };
        block_on(member.server().propose(put).unwrap()).unwrap().revision
    }

    #[test]
    fn a_restarted_member_has_its_data_and_the_changed_configuration() {
        let mut member = TestMember::builder().start();
        assert_eq!(put(&member), 2);
        assert!(member.data_dir().join("member/snap/db").exists());
        member.restart(|config| config.max_txn_ops = 3).unwrap();
        assert_eq!(put(&member), 3);
        assert_eq!(member.server().config().max_txn_ops, 3);
        assert_eq!(member.stop(), StopReason::Requested);
    }

    #[test]
    fn a_member_runs_on_a_simulated_disk() {
        let disk = SimDisk::new(0);
        let member = TestMember::builder().disk(Arc::new(disk.clone())).start();
        put(&member);
        assert!(disk.contents("/data/member/snap/db").is_some());
    }

    #[test]
    #[should_panic(expected = "Fault")]
    fn a_member_that_stopped_by_itself_fails_the_test() {
        let disk = SimDisk::new(0);
        let member = TestMember::builder().disk(Arc::new(disk.clone())).start();
        disk.fail_from_change(0, Fault::Eio);
        let put = PutRequest { key: "a".into(), ..PutRequest::default() };
        // The reply may precede the stop.
        drop(block_on(member.server().propose(put).unwrap()));
        block_on(member.server().stopped());
    }
}
