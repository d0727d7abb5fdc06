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

use env::{Clock, OsClock, SimClock};
use proto::etcdserverpb as pb;
use server::{Credentials, Server, ServerConfig};
use testkit::waiting::{block_on, wait_until};
use testmember::TestMember;

/// Starts a member with a clock that runs `times` as fast as real time, for tests that wait for
/// seconds.
fn start_fast(times: u32, configure: impl FnOnce(&mut ServerConfig)) -> TestMember {
    let clock = FastClock { clock: OsClock::default(), times };
    TestMember::builder().clock(Arc::new(clock)).config(configure).start()
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

/// Starts a member with a clock that the test can advance.
fn start_with_clock() -> (TestMember, Arc<AdvanceableClock>) {
    let clock = Arc::new(AdvanceableClock::default());
    let member = TestMember::builder().clock(Arc::<AdvanceableClock>::clone(&clock)).start();
    (member, clock)
}

/// A clock that runs in real time, and that the test can advance.
#[derive(Debug, Default)]
struct AdvanceableClock {
    clock: OsClock,
    advanced: SimClock,
}

impl AdvanceableClock {
    fn advance(&self, time: Duration) {
        self.advanced.advance(time);
    }
}

impl Clock for AdvanceableClock {
    fn monotonic(&self) -> Duration {
        self.clock.monotonic() + self.advanced.monotonic()
    }

    #[expect(clippy::disallowed_types, reason = "the trait returns it")]
    fn wall(&self) -> std::time::SystemTime {
        self.clock.wall() + self.advanced.monotonic()
    }

    fn sleep(&self, time: Duration) {
        self.clock.sleep(time);
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
    let running = TestMember::builder().start();
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
