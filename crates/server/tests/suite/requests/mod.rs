//! Requests of clients, to a member that runs alone.
//!
//! | file | what it shows |
//! | --- | --- |
//! | `keys` | puts, deletions, transactions, ranges; compaction; the quota |
//! | `streams` | ranges in pieces |
//! | `leases` | granted, renewed, looked at, revoked, expired |
//! | `users` | who asks, and may they; passwords and tokens |
//! | `members` | who is in the cluster, and which changes are refused |
//! | `maintenance` | status, hashes, alarms, downgrades |
//! | `counted` | what is counted of all this |

mod counted;
mod keys;
mod leases;
mod maintenance;
mod members;
mod streams;
mod users;

use std::sync::Arc;
use std::time::Duration;

use env::{Clock, OsClock, OsDisk, OsRandom};
use proto::etcdserverpb as pb;
use server::{
    Credentials, Member, OutgoingSnapshot, Platform, Server, ServerConfig, StartError, StopReason,
    Transport,
};
use tempfile::TempDir;
use testkit::waiting::block_on;

/// A member that runs until the end of a test.
struct Running {
    member: Option<Member>,
    registry: prometheus::Registry,
    folder: TempDir,
}

impl Running {
    fn start() -> Running {
        Running::start_with(|_| {})
    }

    fn start_with(change: impl FnOnce(&mut ServerConfig)) -> Running {
        Running::start_at(Arc::new(OsClock::default()), change)
    }

    /// With a clock that is so many times faster than time: for what takes seconds.
    fn start_fast(times: u32, change: impl FnOnce(&mut ServerConfig)) -> Running {
        Running::start_at(Arc::new(Fast { clock: OsClock::default(), times }), change)
    }

    fn start_at(clock: Arc<dyn Clock>, change: impl FnOnce(&mut ServerConfig)) -> Running {
        let folder = tempfile::tempdir().unwrap();
        let (member, registry) = start_in(&folder, clock, change);
        Running { member: Some(member.unwrap()), registry, folder }
    }

    /// Starts again with what is in the folder, and other settings.
    fn restart(&mut self, change: impl FnOnce(&mut ServerConfig)) -> Result<(), StartError> {
        self.stop();
        let (member, registry) = start_in(&self.folder, Arc::new(OsClock::default()), change);
        (self.member, self.registry) = (Some(member?), registry);
        Ok(())
    }

    fn server(&self) -> Server {
        self.member.as_ref().unwrap().server().clone()
    }

    fn stop(&mut self) -> Option<StopReason> {
        self.member.take().map(Member::stop)
    }
}

fn start_in(
    folder: &TempDir,
    clock: Arc<dyn Clock>,
    change: impl FnOnce(&mut ServerConfig),
) -> (Result<Member, StartError>, prometheus::Registry) {
    let mut config = ServerConfig::new("default", folder.path());
    config.heartbeat = Duration::from_millis(10);
    config.unsafe_no_fsync = true;
    config.bcrypt_cost = auth::COST_MIN;
    change(&mut config);
    let machine = Platform { disk: Arc::new(OsDisk), clock, random: Box::new(OsRandom) };
    let registry = prometheus::Registry::new();
    (Member::start(config, machine, Arc::new(Unheard), &registry), registry)
}

impl Drop for Running {
    fn drop(&mut self) {
        let reason = self.stop();
        if !std::thread::panicking() {
            assert!(matches!(reason, None | Some(StopReason::Requested)), "{reason:?}");
        }
    }
}

/// A way to others, who never answer.
#[derive(Debug)]
struct Unheard;

impl Transport for Unheard {
    fn send(&self, _: Vec<raft::Message>) {}

    fn send_snapshot(&self, _: OutgoingSnapshot) {}

    fn active_since(&self, _: types::MemberId) -> Option<Duration> {
        None
    }

    fn set_members(&self, _: &membership::Membership) {}
}

/// A clock that runs fast.
#[derive(Debug)]
struct Fast {
    clock: OsClock,
    times: u32,
}

impl Clock for Fast {
    fn monotonic(&self) -> Duration {
        self.clock.monotonic() * self.times
    }

    #[expect(clippy::disallowed_types, reason = "a clock is what gives the time")]
    fn wall(&self) -> std::time::SystemTime {
        self.clock.wall()
    }

    fn sleep(&self, time: Duration) {
        self.clock.sleep(time / self.times);
    }
}

/// Who says nothing about who they are.
const NOBODY: &Credentials = &Credentials { token: None, common_name: None, timings: None };

fn put_request(key: &str, value: &str) -> pb::PutRequest {
    let (key, value) = (key.to_owned().into(), value.to_owned().into());
    pb::PutRequest { key, value, ..Default::default() }
}

/// One key, or all up to another.
fn range_request(key: &str, end: &str) -> pb::RangeRequest {
    let (key, range_end) = (key.to_owned().into(), end.to_owned().into());
    pb::RangeRequest { key, range_end, ..Default::default() }
}

/// Puts a key. Returns the revision.
fn put(server: &Server, key: &str, value: &str) -> i64 {
    block_on(server.put(NOBODY, put_request(key, value))).unwrap().revision
}

/// Puts a key, again and again.
fn put_often(server: &Server, key: &str, times: usize, value: &str) {
    for _ in 0..times {
        put(server, key, value);
    }
}

/// The keys from one up to another.
fn keys(server: &Server, key: &str, end: &str) -> Vec<String> {
    let reading = block_on(server.read(NOBODY, true)).unwrap();
    names(&reading.range(&range_request(key, end)).unwrap().kvs)
}

fn names(kvs: &mvcc::Kvs) -> Vec<String> {
    let kvs = kvs.iter().map(|kv| mvcc::kv::KeyValueRef::parse(kv).unwrap());
    kvs.map(|kv| String::from_utf8(kv.key.to_vec()).unwrap()).collect()
}

/// What every runtime wants of the futures it is given.
#[test]
fn requests_may_be_moved_between_threads() {
    fn sendable<T: Send>(future: T) -> T {
        future
    }
    let running = Running::start();
    let server = running.server();
    block_on(sendable(server.put(NOBODY, put_request("a", "1")))).unwrap();
    block_on(sendable(server.read(NOBODY, true))).unwrap();
    block_on(sendable(server.lease_renew(NOBODY, 1))).unwrap();
    block_on(sendable(server.member_list(NOBODY, pb::MemberListRequest::default()))).unwrap();
    block_on(sendable(server.compact(NOBODY, pb::CompactionRequest::default()))).unwrap();
    block_on(sendable(server.user_add(NOBODY, pb::AuthUserAddRequest::default()))).unwrap_err();
    block_on(sendable(server.downgrade(NOBODY, pb::DowngradeRequest::default()))).unwrap_err();
    block_on(sendable(server.status(NOBODY))).unwrap();
}
