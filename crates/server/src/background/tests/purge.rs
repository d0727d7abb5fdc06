//! Old files are removed, and no others.

use env::{Create, Lock, Locking, Open};

use super::super::BackgroundTask as _;
use super::super::pending_task::{POLL, poll};
use super::super::purge::{Purge, purge};
use testkit::waiting::block_on;

use super::*;
use crate::request::Credentials;

/// Puts empty files into a folder.
fn make(rig: &Rig, dir: &Path, names: impl Iterator<Item = String>) {
    let disk = &rig.server.inner.context.disk;
    disk.create_dir_all(dir).unwrap();
    names.for_each(|name| drop(disk.open(&dir.join(name), Open::create(Create::New)).unwrap()));
}

fn segment(number: u64) -> String {
    format!("{number:016x}-{number:016x}.wal")
}

fn names(rig: &Rig, dir: &Path) -> Vec<String> {
    rig.server.inner.context.disk.read_dir(dir).unwrap()
}

fn rig() -> Rig {
    let rig = Rig::with(|config| (config.max_wals, config.max_snapshots) = (2, 1));
    rig.server.inner.log_status.set_first_segment(u64::MAX);
    rig
}

#[test]
fn the_newest_are_kept() {
    let rig = rig();
    let (log, snap) = (rig.server.config().wal_path(), rig.server.config().snap_path());
    make(&rig, &log, (0..4).map(segment).chain(["0.tmp".to_owned()]));
    let snapshots = ["1-1.snap", "1-2.snap", "1.snap.db", "2.snap.db", "db"].map(str::to_owned);
    make(&rig, &snap, snapshots.into_iter());
    purge(&rig.server);
    assert_eq!(names(&rig, &log), ["0.tmp".to_owned(), segment(2), segment(3)]);
    assert_eq!(names(&rig, &snap), ["1-2.snap", "2.snap.db", "db"]);
}

#[test]
fn a_segment_that_is_in_use_stays_and_all_after_it() {
    let rig = rig();
    let log = rig.server.config().wal_path();
    make(&rig, &log, (0..5).map(segment));
    make(&rig, &rig.server.config().snap_path(), std::iter::empty());
    let used = rig.server.inner.context.disk.open(&log.join(segment(1)), Open::write()).unwrap();
    assert!(used.try_lock(Locking::Ofd, Lock::Exclusive).unwrap());
    purge(&rig.server);
    assert_eq!(names(&rig, &log), (1..5).map(segment).collect::<Vec<_>>());
}

/// Whoever writes the log may have failed, and holds no locks any more.
#[test]
fn a_segment_that_a_replay_needs_stays_though_nobody_has_it_locked() {
    let rig = rig();
    rig.server.inner.log_status.set_first_segment(1);
    let log = rig.server.config().wal_path();
    make(&rig, &log, (0..5).map(segment));
    make(&rig, &rig.server.config().snap_path(), std::iter::empty());
    purge(&rig.server);
    assert_eq!(names(&rig, &log), (1..5).map(segment).collect::<Vec<_>>());
}

#[test]
fn a_folder_that_cannot_be_read_ends_nothing() {
    let rig = rig();
    purge(&rig.server);
    assert!(!rig.server.is_stopping());
}

/// Hashing everything may take minutes, on all threads there are for what takes so long.
#[test]
fn whatever_takes_long_does_not_hold_it_up() {
    let rig = rig();
    let log = rig.server.config().wal_path();
    make(&rig, &log, (0..4).map(segment));
    make(&rig, &rig.server.config().snap_path(), std::iter::empty());
    // Nobody works there: so it takes for ever.
    let hash = poll(&mut Box::pin(rig.server.hash_kv(&Credentials::default(), 0)));
    assert!(hash.is_none());
    let mut chore = Purge::new(rig.server.clone()).unwrap();
    let now = rig.now();
    assert_eq!(chore.turn(now), now + POLL, "it is under way");
    // A thread does what waits for it before it ends.
    let pool = Arc::clone(&rig.server.inner.pools.short);
    let done = pool.run(|| ());
    let thread = std::thread::spawn({
        let pool = Arc::clone(&pool);
        move || pool.work()
    });
    block_on(done).unwrap();
    assert!(chore.turn(now) > now + POLL, "it is done");
    assert_eq!(names(&rig, &log), [segment(2), segment(3)]);
    pool.close();
    thread.join().unwrap();
}

#[test]
fn nothing_is_removed_if_all_is_kept() {
    let rig = Rig::with(|config| (config.max_wals, config.max_snapshots) = (0, 0));
    assert!(Purge::new(rig.server.clone()).is_none());
}
