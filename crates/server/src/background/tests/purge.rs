//! Purging removes old files and no others.

use env::{Create, Lock, Locking, Open};

use super::super::BackgroundTask as _;
use super::super::pending_task::{POLL, poll};
use super::super::purge::{Purge, purge};
use testkit::waiting::block_on;

use super::*;
use crate::request::Credentials;

/// Creates empty files in a directory.
fn make(member: &ManualMember, dir: &Path, names: impl Iterator<Item = String>) {
    let disk = &member.server.inner.context.disk;
    disk.create_dir_all(dir).unwrap();
    names.for_each(|name| drop(disk.open(&dir.join(name), Open::create(Create::New)).unwrap()));
}

fn segment(number: u64) -> String {
    format!("{number:016x}-{number:016x}.wal")
}

fn names(member: &ManualMember, dir: &Path) -> Vec<String> {
    member.server.inner.context.disk.read_dir(dir).unwrap()
}

fn member() -> ManualMember {
    let member = ManualMember::with(|config| (config.max_wals, config.max_snapshots) = (2, 1));
    member.server.inner.log_status.set_first_segment(u64::MAX);
    member
}

#[test]
fn the_newest_files_are_kept() {
    let member = member();
    let (log, snap) = (member.server.config().wal_path(), member.server.config().snap_path());
    make(&member, &log, (0..4).map(segment).chain(["0.tmp".to_owned()]));
    let snapshots = ["1-1.snap", "1-2.snap", "1.snap.db", "2.snap.db", "db"].map(str::to_owned);
    make(&member, &snap, snapshots.into_iter());
    purge(&member.server);
    assert_eq!(names(&member, &log), ["0.tmp".to_owned(), segment(2), segment(3)]);
    assert_eq!(names(&member, &snap), ["1-2.snap", "2.snap.db", "db"]);
}

#[test]
fn a_locked_segment_and_all_later_ones_stay() {
    let member = member();
    let log = member.server.config().wal_path();
    make(&member, &log, (0..5).map(segment));
    make(&member, &member.server.config().snap_path(), std::iter::empty());
    let used = member.server.inner.context.disk.open(&log.join(segment(1)), Open::write()).unwrap();
    assert!(used.try_lock(Locking::Ofd, Lock::Exclusive).unwrap());
    purge(&member.server);
    assert_eq!(names(&member, &log), (1..5).map(segment).collect::<Vec<_>>());
}

/// The log writer may have failed and released its locks.
#[test]
fn a_segment_needed_for_replay_stays_without_a_lock() {
    let member = member();
    member.server.inner.log_status.set_first_segment(1);
    let log = member.server.config().wal_path();
    make(&member, &log, (0..5).map(segment));
    make(&member, &member.server.config().snap_path(), std::iter::empty());
    purge(&member.server);
    assert_eq!(names(&member, &log), (1..5).map(segment).collect::<Vec<_>>());
}

#[test]
fn an_unreadable_directory_does_not_stop_the_member() {
    let member = member();
    purge(&member.server);
    assert!(!member.server.is_stopping());
}

/// Hashing all keys may take minutes on all threads for long jobs.
#[test]
fn long_jobs_do_not_delay_a_purge() {
    let member = member();
    let log = member.server.config().wal_path();
    make(&member, &log, (0..4).map(segment));
    make(&member, &member.server.config().snap_path(), std::iter::empty());
    // The pool has no threads, so the hash never completes.
    let hash = poll(&mut Box::pin(member.server.hash_kv(&Credentials::default(), 0)));
    assert!(hash.is_none());
    let mut task = Purge::new(member.server.clone()).unwrap();
    let now = member.now();
    assert_eq!(task.turn(now), now + POLL, "pending");
    // A thread runs the queued jobs before it ends.
    let pool = Arc::clone(&member.server.inner.pools.short);
    let done = pool.run(|| ());
    let thread = std::thread::spawn({
        let pool = Arc::clone(&pool);
        move || pool.work()
    });
    block_on(done).unwrap();
    assert!(task.turn(now) > now + POLL, "completed");
    assert_eq!(names(&member, &log), [segment(2), segment(3)]);
    pool.close();
    thread.join().unwrap();
}

#[test]
fn purging_is_off_if_the_flags_keep_all_files() {
    let member = ManualMember::with(|config| (config.max_wals, config.max_snapshots) = (0, 0));
    assert!(Purge::new(member.server.clone()).is_none());
}
