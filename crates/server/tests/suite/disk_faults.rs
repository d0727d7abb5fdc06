//! Disk errors and panics: the member stops and reports the first cause, also without requests.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use env::{Clock, Disk, Fault, File, Kind, Open, OsClock, SimDisk};
use proto::etcdserverpb as pb;
use server::{Credentials, Error, Server, StopReason};
use testkit::waiting::{block_on, step_until};
use testmember::TestMember;

const ANONYMOUS: &Credentials = &Credentials { token: None, common_name: None, timings: None };
const WAL_DIR: &str = "/log/wal";

/// A disk for the log and a disk for all other files, so that one can fail without the other.
#[derive(Debug)]
struct SplitDisk {
    log: SimDisk,
    rest: SimDisk,
}

impl SplitDisk {
    fn disk_of(&self, path: &Path) -> &SimDisk {
        if path.starts_with("/log") { &self.log } else { &self.rest }
    }
}

impl Disk for SplitDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        self.disk_of(path).open(path, how)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk_of(path).create_dir_all(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<String>> {
        self.disk_of(path).read_dir(path)
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        self.disk_of(path).kind(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk_of(from).rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.disk_of(path).remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk_of(path).remove_dir_all(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.disk_of(path).sync_dir(path)
    }
}

/// A clock that panics in threads whose name begins with a prefix, once one is set.
#[derive(Debug, Default)]
struct PanickingClock {
    clock: OsClock,
    prefix: Mutex<Option<&'static str>>,
}

impl PanickingClock {
    fn set(&self, prefix: Option<&'static str>) {
        *self.prefix.lock().unwrap() = prefix;
    }
}

impl Clock for PanickingClock {
    fn monotonic(&self) -> Duration {
        let prefix = *self.prefix.lock().unwrap();
        let thread = std::thread::current();
        let matches = prefix.is_some_and(|prefix| thread.name().unwrap_or("").starts_with(prefix));
        assert!(!matches, "injected panic");
        self.clock.monotonic()
    }

    #[expect(clippy::disallowed_types, reason = "the trait returns it")]
    fn wall(&self) -> std::time::SystemTime {
        self.clock.wall()
    }

    fn sleep(&self, time: Duration) {
        self.clock.sleep(time);
    }
}

struct FaultyMember {
    member: TestMember,
    server: Server,
    rest: SimDisk,
    clock: Arc<PanickingClock>,
}

impl FaultyMember {
    fn start() -> FaultyMember {
        let (log, rest) = (SimDisk::new(1), SimDisk::new(2));
        let clock = Arc::new(PanickingClock::default());
        let disk = SplitDisk { log, rest: rest.clone() };
        let member = TestMember::builder().disk(Arc::new(disk)).clock(Arc::clone(&clock) as _);
        let member = member.config(|config| config.wal_dir = Some(PathBuf::from(WAL_DIR))).start();
        member.wait_until_published();
        FaultyMember { server: member.server(), member, rest, clock }
    }

    /// Puts a key. The member may stop before it replies.
    fn put(&self) {
        let put = pb::PutRequest { key: "a".into(), ..Default::default() };
        let answer = block_on(self.server.put(ANONYMOUS, put));
        assert!(matches!(answer, Ok(_) | Err(Error::Stopped)), "{answer:?}");
    }

    /// Waits until the member stops. Returns the cause.
    fn wait_for_fault(mut self) -> String {
        let reason = block_on(self.server.stopped());
        drop(self.server);
        assert_eq!(self.member.stop(), reason, "the first stop reason is final");
        fault(&reason)
    }
}

fn fault(reason: &StopReason) -> String {
    assert!(matches!(reason, StopReason::Fault(_)), "{reason:?}");
    reason.to_string()
}

#[test]
fn a_failed_commit_stops_an_idle_member() {
    let faulty = FaultyMember::start();
    faulty.rest.fail_from_change(0, Fault::Eio);
    faulty.put();
    let reason = faulty.wait_for_fault();
    assert!(reason.starts_with("commit to the database: "), "{reason}");
}

#[test]
fn a_panic_in_a_worker_thread_stops_the_member() {
    let faulty = FaultyMember::start();
    faulty.put();
    faulty.clock.set(Some("long-"));
    block_on(faulty.server.hash(ANONYMOUS)).unwrap_err();
    let reason = faulty.wait_for_fault();
    assert!(reason.starts_with("a thread panicked: long-"), "{reason}");

    let faulty = FaultyMember::start();
    faulty.put();
    faulty.put();
    faulty.clock.set(Some("pool-"));
    let mut revision = 1;
    step_until("a worker gets a turn of compaction before the commit thread does", || {
        revision += 1;
        let physical = pb::CompactionRequest { revision, physical: true };
        let has_failed = block_on(faulty.server.compact(ANONYMOUS, physical)).is_err();
        if !has_failed {
            faulty.put();
        }
        has_failed
    });
    let reason = faulty.wait_for_fault();
    assert!(reason.starts_with("a thread panicked: pool-"), "{reason}");
}

#[test]
fn a_panic_of_the_commit_thread_stops_the_member() {
    let faulty = FaultyMember::start();
    faulty.clock.set(Some("commit"));
    faulty.put();
    let reason = faulty.wait_for_fault();
    assert!(reason.ends_with("the commit thread panicked: injected panic"), "{reason}");
}

/// The caller of `stop` gets the fault as the reason and does not panic itself.
#[test]
fn a_panic_of_the_commit_thread_during_shutdown_is_the_stop_reason() {
    let faulty = FaultyMember::start();
    step_until("the put is pending when the commit thread is about to panic", || {
        faulty.put();
        faulty.clock.set(Some("commit"));
        let is_pending = faulty.server.state().backend().stats().pending.ops > 0;
        if !is_pending {
            faulty.clock.set(None);
        }
        is_pending
    });
    let FaultyMember { mut member, server, .. } = faulty;
    drop(server);
    let reason = fault(&member.stop());
    assert!(reason.ends_with("the commit thread panicked: injected panic"), "{reason}");
}
