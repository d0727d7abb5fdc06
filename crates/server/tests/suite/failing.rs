//! A member of which something fails, or panics: it ends, whoever notices and whether or not anybody asks for anything.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use env::{Clock, Disk, Fault, File, Kind, Open, OsClock, OsRandom, SimDisk};
use proto::etcdserverpb as pb;
use server::{Credentials, Error, Member, NoPeers, Platform, Server, ServerConfig, StopReason};
use testkit::waiting::block_on;

const NOBODY: &Credentials = &Credentials { token: None, common_name: None, timings: None };
const WAL_DIR: &str = "/log/wal";

/// One disk for the log, and one for all else: so the one can fail without the other.
#[derive(Debug)]
struct Disks {
    log: SimDisk,
    rest: SimDisk,
}

impl Disks {
    fn of(&self, path: &Path) -> &SimDisk {
        if path.starts_with("/log") { &self.log } else { &self.rest }
    }
}

impl Disk for Disks {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        self.of(path).open(path, how)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.of(path).create_dir_all(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<String>> {
        self.of(path).read_dir(path)
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        self.of(path).kind(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.of(from).rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.of(path).remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.of(path).remove_dir_all(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.of(path).sync_dir(path)
    }
}

/// A clock at which threads of a name panic, if that is asked for.
#[derive(Debug, Default)]
struct Trap {
    clock: OsClock,
    name: Mutex<Option<&'static str>>,
}

impl Trap {
    fn set(&self, name: Option<&'static str>) {
        *self.name.lock().unwrap() = name;
    }
}

impl Clock for Trap {
    fn monotonic(&self) -> Duration {
        let name = *self.name.lock().unwrap();
        let thread = std::thread::current();
        let is_caught = name.is_some_and(|name| thread.name().unwrap_or("").starts_with(name));
        assert!(!is_caught, "trapped");
        self.clock.monotonic()
    }

    #[expect(clippy::disallowed_types, reason = "a clock is what gives the time")]
    fn wall(&self) -> std::time::SystemTime {
        self.clock.wall()
    }

    fn sleep(&self, time: Duration) {
        self.clock.sleep(time);
    }
}

struct Failing {
    member: Member,
    server: Server,
    rest: SimDisk,
    trap: Arc<Trap>,
}

impl Failing {
    fn start() -> Failing {
        let (log, rest, trap) = (SimDisk::new(1), SimDisk::new(2), Arc::new(Trap::default()));
        let mut config = ServerConfig::new("default", "/data");
        config.wal_dir = Some(PathBuf::from(WAL_DIR));
        config.heartbeat = Duration::from_millis(10);
        let disk = Arc::new(Disks { log, rest: rest.clone() });
        let clock: Arc<Trap> = Arc::clone(&trap);
        let machine = Platform { disk, clock, random: Box::new(OsRandom) };
        let registry = prometheus::Registry::new();
        let member = Member::start(config, machine, Arc::new(NoPeers), &registry).unwrap();
        block_on(member.published()).unwrap();
        let server = member.server().clone();
        Failing { member, server, rest, trap }
    }

    /// Gives the member something to do. It may end before it can answer.
    fn put(&self) {
        let put = pb::PutRequest { key: "a".into(), ..Default::default() };
        let answer = block_on(self.server.put(NOBODY, put));
        assert!(matches!(answer, Ok(_) | Err(Error::Stopped)), "{answer:?}");
    }

    /// Why it ended by itself.
    fn ends(self) -> String {
        let reason = block_on(self.server.stopped());
        drop(self.server);
        assert_eq!(self.member.stop(), reason, "the first counts");
        fault(&reason)
    }
}

fn fault(reason: &StopReason) -> String {
    assert!(matches!(reason, StopReason::Fault(_)), "{reason:?}");
    reason.to_string()
}

#[test]
fn a_database_that_cannot_be_written_is_noticed_though_nobody_asks_for_anything() {
    let failing = Failing::start();
    failing.rest.fail_from_change(0, Fault::Eio);
    failing.put();
    let reason = failing.ends();
    assert!(reason.starts_with("commit to the database: "), "{reason}");
}

#[test]
fn a_job_that_panics_ends_the_member() {
    let failing = Failing::start();
    failing.put();
    failing.trap.set(Some("long-"));
    block_on(failing.server.hash(NOBODY)).unwrap_err();
    let reason = failing.ends();
    assert!(reason.starts_with("a thread panicked: long-"), "{reason}");

    let failing = Failing::start();
    failing.put();
    failing.put();
    failing.trap.set(Some("pool-"));
    // Until the commit thread is not there first, and leaves something to do.
    for revision in 2.. {
        let physical = pb::CompactionRequest { revision, physical: true };
        if block_on(failing.server.compact(NOBODY, physical)).is_err() {
            break;
        }
        failing.put();
    }
    let reason = failing.ends();
    assert!(reason.starts_with("a thread panicked: pool-"), "{reason}");
}

#[test]
fn a_commit_thread_that_panics_ends_the_member() {
    let failing = Failing::start();
    failing.trap.set(Some("commit"));
    failing.put();
    let reason = failing.ends();
    assert!(reason.ends_with("the commit thread panicked: trapped"), "{reason}");
}

/// Whoever stops a member is told what went wrong, instead of being torn along.
#[test]
fn a_commit_thread_that_panics_at_the_end_is_why_it_ended() {
    let failing = Failing::start();
    loop {
        failing.put();
        failing.trap.set(Some("commit"));
        if failing.server.state().backend.stats().pending.ops > 0 {
            break;
        }
        failing.trap.set(None);
    }
    let Failing { member, server, .. } = failing;
    drop(server);
    let reason = fault(&member.stop());
    assert!(reason.ends_with("the commit thread panicked: trapped"), "{reason}");
}
