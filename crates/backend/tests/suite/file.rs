//! The file: buckets, copies, hash, scrub, defragmentation.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use backend::schema::{Bucket, ignored_by_hash, meta};
use backend::{Backend, BackendView, CloseError, CommitError, OpenError, ScrubThread, Scrubber};
use env::{Create, Disk as _, Open, SimClock, SimDisk};
use testkit::waiting::{STEPS_MAX, step_until, wait_until};
use types::{Index, Term};

use crate::{Fixture, config, line};

const B: Bucket = Bucket::AuthUsers;

fn buckets(db: &Fixture) -> Vec<String> {
    let snapshot = db.backend.snapshot().unwrap();
    let root = snapshot.root();
    let names = root.cursor().rest().map(|item| item.unwrap().key.to_vec()).collect::<Vec<_>>();
    names.into_iter().map(|name| String::from_utf8(name).unwrap()).collect()
}

#[test]
fn a_new_file_has_meta_and_other_buckets_on_demand() {
    let db = Fixture::new(config());
    assert_eq!(buckets(&db), ["meta"]);
    db.put(Bucket::Lease, "a", "1");
    assert_eq!(buckets(&db), ["lease", "meta"]);
    db.backend.create_buckets(&Bucket::ALL).unwrap();
    let mut all = Bucket::ALL.map(Bucket::name);
    all.sort_unstable();
    assert_eq!(buckets(&db), all);
}

#[test]
fn opening_a_file_changes_only_the_meta_pages() {
    let db = Fixture::new(config());
    db.put(B, "a", "1");
    db.backend.force_commit().unwrap();
    let before = db.disk.contents("db").unwrap();
    let db = db.reopen();
    db.backend.force_commit().unwrap();
    // Except the meta pages, which both hold the same state now.
    assert!(db.disk.contents("db").unwrap()[2 * 4096..] == before[2 * 4096..]);
}

#[test]
fn closing_a_database_in_use_is_an_error() {
    let db = Fixture::new(config());
    db.put(B, "a", "1");
    let committer = db.backend.committer();
    let other = db.backend.clone();
    assert!(matches!(db.backend.close(), Err(CloseError::InUse)));
    assert_eq!(other.durable().0, 1, "pending writes are committed nevertheless");
    drop(committer);
    other.close().unwrap();
    assert!(db.disk.contents("db.sums").is_some());
}

#[test]
fn an_applied_index_of_zero_is_not_written() {
    let db = Fixture::new(config());
    let mut tx = db.backend.begin();
    tx.set_applied(Index(9), Term(3));
    tx.commit().unwrap();
    for (index, term) in [(Index(4), Term(0)), (Index(0), Term(0))] {
        let mut tx = db.backend.begin();
        tx.force_applied(index, term);
        tx.commit().unwrap();
        assert_eq!(meta::applied(&db.backend.view()).unwrap(), (index, term));
    }
}

#[test]
fn closing_commits_pending_writes() {
    let Fixture { disk, backend, .. } = {
        let db = Fixture::new(config());
        db.put(B, "a", "1");
        db
    };
    let view = backend.view();
    backend.close().unwrap();
    assert_eq!(line(&view, B), "a=1", "a view outlives its database");
    drop(view);
    let db = Fixture::on(disk.power_cut(0), config());
    assert_eq!(line(&db.backend.view(), B), "a=1");
}

#[test]
fn a_read_only_database_refuses_transactions() {
    let db = Fixture::new(config());
    db.put(B, "a", "1");
    db.backend.force_commit().unwrap();
    let disk = db.disk.power_cut(0);
    let mut config = config();
    config.bolt.read_only = true;
    let db = Fixture::on(disk, config);
    assert_eq!(line(&db.backend.view(), B), "a=1");
    let mut tx = db.backend.begin();
    tx.put(B, "b", "2").unwrap();
    let refused = tx.commit().unwrap_err();
    assert!(matches!(refused, CommitError::Commit(bolt::CommitError::ReadOnly(_))), "{refused}");
    assert_eq!(db.backend.stats().pending.ops, 0);
}

#[test]
fn opening_fails_on_a_malformed_applied_index() {
    let disk = SimDisk::new(0);
    let options = config().bolt;
    let clock = SimClock::default();
    let path = Path::new("db");
    let file = bolt::Db::open(Arc::new(disk.clone()), &clock, path, options).unwrap();
    let mut tx = file.write().unwrap();
    tx.create_bucket_if_missing(b"meta").unwrap().put(b"consistent_index", b"short").unwrap();
    tx.commit().unwrap();
    drop(file);
    let opened = Backend::open(Arc::new(disk), Arc::new(clock), path, config());
    let error = opened.unwrap_err();
    assert!(matches!(error, OpenError::Read(_)));
    assert_eq!(error.to_string(), "bucket meta, key consistent_index: not 8 bytes long");
}

#[test]
fn the_hash_covers_names_keys_and_values_except_ignored_keys() {
    let db = Fixture::new(config());
    db.put(Bucket::Alarm, "k", "v");
    db.put(Bucket::Meta, "confState", "{}");
    let mut tx = db.backend.begin();
    tx.set_applied(Index(3), Term(2));
    tx.commit().unwrap();
    let hashed = db.backend.hash(&ignored_by_hash).unwrap();
    assert_eq!(hashed, crc32c::crc32c(b"alarmkvmetaconfState{}"));
    assert_ne!(hashed, db.backend.hash(&|_, _| false).unwrap());
}

#[test]
fn a_copy_includes_pending_writes_and_is_a_complete_file() {
    let db = Fixture::new(config());
    db.put(B, "a", "1");
    let mut copy = Vec::new();
    let size = db.backend.snapshot_to(&mut copy).unwrap();
    assert_eq!(size, copy.len() as u64);
    assert_eq!(size, db.backend.size());
    let disk = SimDisk::new(0);
    let file = disk.open(Path::new("db"), Open::create(Create::New)).unwrap();
    file.write_at(&copy, 0).unwrap();
    drop(file);
    let copy = Fixture::on(disk, config());
    assert_eq!(line(&copy.backend.view(), B), "a=1");
    let snapshot = copy.backend.snapshot().unwrap();
    assert_eq!(snapshot.check(), []);
    assert_eq!(line(&BackendView::of_file(snapshot), B), "a=1");
}

/// A closed database with many values, and the offset of one of them in the file.
fn with_values() -> (SimDisk, u64) {
    let db = Fixture::new(config());
    for n in 0..1000 {
        db.put(B, &format!("{n:04}"), "some value that takes up space");
    }
    db.backend.force_commit().unwrap();
    assert_eq!(db.backend.scrub().unwrap().finish().corrupt, []);
    let contents = db.disk.contents("db").unwrap();
    let needle = b"takes up space";
    let at = contents.windows(needle.len()).position(|bytes| bytes == needle).unwrap();
    let Fixture { disk, backend, .. } = db;
    backend.close().unwrap();
    (disk, at as u64)
}

#[test]
fn a_scrub_detects_a_flipped_bit() {
    let (disk, at) = with_values();
    disk.flip_bit("db", at * 8);
    let db = Fixture::on(disk, config());
    let mut scrub = db.backend.scrub().unwrap();
    step_until("the scrub is finished", || !scrub.step(10));
    assert_eq!(scrub.report().corrupt.len(), 1, "{:?}", scrub.report());
}

#[test]
fn defragmentation_shrinks_the_file_and_keeps_views() {
    let db = Fixture::new(config());
    for n in 0..2000 {
        db.put(B, &format!("{n:04}"), "some value that takes up space");
    }
    db.put(B, "x", "1");
    db.backend.force_commit().unwrap();
    for n in 0..2000 {
        db.delete(B, &format!("{n:04}"));
    }
    let before = db.backend.view();
    let report = db.backend.defragment().unwrap();
    assert!(report.size_after < report.size_before / 4, "{report:?}");
    assert_eq!(db.backend.size(), report.size_after);
    assert_eq!(line(&before, B), "x=1");
    db.put(B, "y", "2");
    assert_eq!(line(&db.backend.view(), B), "x=1 y=2");
    db.backend.force_commit().unwrap();
    assert_eq!(line(&before, B), "x=1");
    let db = db.reopen();
    assert_eq!(line(&db.backend.view(), B), "x=1 y=2");
    assert_eq!(db.backend.snapshot().unwrap().check(), []);
}

#[test]
fn a_scrubber_completes_a_pass_in_turns() {
    let db = Fixture::new(config());
    for number in 0..500 {
        db.put(Bucket::Key, &format!("key {number}"), &"x".repeat(200));
    }
    db.backend.force_commit().unwrap();
    let mut scrubber = Scrubber::new(&db.backend, 10);
    let first = (1..STEPS_MAX).find_map(|turn| Some((turn, scrubber.turn()?)));
    let (turns, report) = first.expect("the first pass ends within STEPS_MAX turns");
    assert!(turns > 2, "{turns} turns of ten pages");
    assert_eq!((report.corrupt, report.learned), (vec![], 0), "all pages match their checksums");
    assert!(report.verified > 20);
    // The next pass verifies the newest state.
    for number in 0..500 {
        db.put(Bucket::Key, &format!("more {number}"), &"y".repeat(200));
    }
    db.backend.force_commit().unwrap();
    let again = (1..STEPS_MAX).find_map(|_| scrubber.turn());
    let again = again.expect("the second pass ends within STEPS_MAX turns");
    assert!(again.verified > report.verified, "{again:?}");
}

#[test]
fn the_scrub_thread_verifies_pages() {
    let (disk, at) = with_values();
    disk.flip_bit("db", at * 8);
    let db = Fixture::on(disk, config());
    let thread = ScrubThread::spawn(&db.backend, 10, Duration::from_millis(1)).unwrap();
    wait_until("all pages are scrubbed twice", || db.backend.stats().scrubs >= 2);
    thread.stop();
    assert_eq!(db.backend.stats().corrupt_pages, 1);
}
