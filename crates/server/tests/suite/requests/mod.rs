//! Client requests to a running single member.
//!
//! | file | subject |
//! | --- | --- |
//! | `keys` | put, delete, transaction, range, compaction, quota |
//! | `streams` | ranges streamed in chunks |
//! | `leases` | grant, renew, time to live, revoke, expiry |
//! | `users` | authentication, permissions, passwords and tokens |
//! | `members` | the member list, accepted and refused conf changes, leader transfer |
//! | `maintenance` | status, hashes, alarms, defragmentation, downgrades |
//! | `metrics` | the metrics of these requests |

mod keys;
mod leases;
mod maintenance;
mod members;
mod metrics;
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

/// A running member, stopped at the end of the test.
struct Running {
    member: Option<Member>,
    registry: prometheus::Registry,
    folder: TempDir,
}

impl Running {
    fn start() -> Running {
        Running::start_with(|_| {})
    }

    fn start_with(configure: impl FnOnce(&mut ServerConfig)) -> Running {
        Running::start_at(Arc::new(OsClock::default()), configure)
    }

    /// Starts with a clock that runs `times` as fast as real time, for tests that wait for seconds.
    fn start_fast(times: u32, configure: impl FnOnce(&mut ServerConfig)) -> Running {
        Running::start_at(Arc::new(FastClock { clock: OsClock::default(), times }), configure)
    }

    fn start_at(clock: Arc<dyn Clock>, configure: impl FnOnce(&mut ServerConfig)) -> Running {
        let folder = tempfile::tempdir().unwrap();
        let (member, registry) = start_in(&folder, clock, configure);
        Running { member: Some(member.unwrap()), registry, folder }
    }

    /// Restarts on the same data directory with another configuration.
    fn restart(&mut self, configure: impl FnOnce(&mut ServerConfig)) -> Result<(), StartError> {
        self.stop();
        let (member, registry) = start_in(&self.folder, Arc::new(OsClock::default()), configure);
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
    configure: impl FnOnce(&mut ServerConfig),
) -> (Result<Member, StartError>, prometheus::Registry) {
    let mut config = ServerConfig::new("default", folder.path());
    config.heartbeat = Duration::from_millis(10);
    config.unsafe_no_fsync = true;
    config.bcrypt_cost = auth::COST_MIN;
    configure(&mut config);
    let platform = Platform { disk: Arc::new(OsDisk), clock, random: Box::new(OsRandom) };
    let registry = prometheus::Registry::new();
    (Member::start(config, platform, Arc::new(BlackholeTransport), &registry), registry)
}

impl Drop for Running {
    fn drop(&mut self) {
        let reason = self.stop();
        if !std::thread::panicking() {
            assert!(matches!(reason, None | Some(StopReason::Requested)), "{reason:?}");
        }
    }
}

/// A transport that drops all messages, so that no peer ever answers.
#[derive(Debug)]
struct BlackholeTransport;

impl Transport for BlackholeTransport {
    fn send(&self, _: Vec<raft::Message>) {}

    fn send_snapshot(&self, _: OutgoingSnapshot) {}

    fn active_since(&self, _: types::MemberId) -> Option<Duration> {
        None
    }

    fn set_members(&self, _: &membership::Membership) {}
}

/// A clock that runs `times` as fast as real time.
#[derive(Debug)]
struct FastClock {
    clock: OsClock,
    times: u32,
}

impl Clock for FastClock {
    fn monotonic(&self) -> Duration {
        self.clock.monotonic() * self.times
    }

    #[expect(clippy::disallowed_types, reason = "the trait returns it")]
    fn wall(&self) -> std::time::SystemTime {
        self.clock.wall()
    }

    fn sleep(&self, time: Duration) {
        self.clock.sleep(time / self.times);
    }
}

/// Credentials without token and certificate.
const ANONYMOUS: &Credentials = &Credentials { token: None, common_name: None, timings: None };

fn put_request(key: &str, value: &str) -> pb::PutRequest {
    let (key, value) = (key.to_owned().into(), value.to_owned().into());
    pb::PutRequest { key, value, ..Default::default() }
}

/// A request for one key, or for a range if `end` is not empty.
fn range_request(key: &str, end: &str) -> pb::RangeRequest {
    let (key, range_end) = (key.to_owned().into(), end.to_owned().into());
    pb::RangeRequest { key, range_end, ..Default::default() }
}

/// Puts a key. Returns the revision.
fn put(server: &Server, key: &str, value: &str) -> i64 {
    block_on(server.put(ANONYMOUS, put_request(key, value))).unwrap().revision
}

/// Puts a key `times` times.
fn put_repeatedly(server: &Server, key: &str, times: usize, value: &str) {
    for _ in 0..times {
        put(server, key, value);
    }
}

/// Reads the keys of a range.
fn keys(server: &Server, key: &str, end: &str) -> Vec<String> {
    let reading = block_on(server.read(ANONYMOUS, true)).unwrap();
    names(&reading.range(&range_request(key, end)).unwrap().kvs)
}

fn names(kvs: &mvcc::Kvs) -> Vec<String> {
    let kvs = kvs.iter().map(|kv| mvcc::kv::KeyValueRef::parse(kv).unwrap());
    kvs.map(|kv| String::from_utf8(kv.key.to_vec()).unwrap()).collect()
}

/// Tokio requires `Send` of the futures that it spawns.
#[test]
fn request_futures_are_send() {
    fn assert_send<T: Send>(future: T) -> T {
        future
    }
    let running = Running::start();
    let server = running.server();
    block_on(assert_send(server.put(ANONYMOUS, put_request("a", "1")))).unwrap();
    block_on(assert_send(server.read(ANONYMOUS, true))).unwrap();
    block_on(assert_send(server.lease_renew(ANONYMOUS, 1))).unwrap();
    block_on(assert_send(server.member_list(ANONYMOUS, pb::MemberListRequest::default()))).unwrap();
    block_on(assert_send(server.compact(ANONYMOUS, pb::CompactionRequest::default()))).unwrap();
    block_on(assert_send(server.user_add(ANONYMOUS, pb::AuthUserAddRequest::default())))
        .unwrap_err();
    block_on(assert_send(server.downgrade(ANONYMOUS, pb::DowngradeRequest::default())))
        .unwrap_err();
    block_on(assert_send(server.status(ANONYMOUS))).unwrap();
}
