//! The commit thread, with concurrent readers and a writer.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::TryRecvError;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use backend::schema::{Bucket, meta};
use backend::{Backend, CommitError, CommitThread, Config, Read as _};
use env::{Fault, OsClock, OsDisk, SimDisk};
use testkit::waiting::{SetOnDrop, TIMEOUT, wait_until};
use types::{Index, Term};

use crate::config;

const TRANSACTIONS: u64 = 3_000;
const KEYS: u64 = 4;

fn open(dir: &tempfile::TempDir, config: Config) -> Backend {
    let (disk, clock) = (Arc::new(OsDisk), Arc::new(OsClock::default()));
    Backend::open(disk, clock, &dir.path().join("db"), config).unwrap()
}

/// Every transaction sets all keys and the applied index to its number.
fn write(backend: &Backend) {
    for n in 1..=TRANSACTIONS {
        let mut tx = backend.begin();
        for key in 0..KEYS {
            tx.put(Bucket::Lease, key.to_be_bytes().to_vec(), n.to_be_bytes().to_vec()).unwrap();
        }
        tx.put(Bucket::Key, n.to_be_bytes().to_vec(), vec![7; 200]).unwrap();
        tx.set_applied(Index(n), Term(1));
        tx.commit().unwrap();
    }
}

/// Takes views until stopped, and asserts that they show complete transactions and never go back.
fn read(backend: &Backend, stop: &AtomicBool, reads: &AtomicU64) {
    let mut last = 0;
    while !stop.load(Ordering::Relaxed) {
        let view = backend.view();
        let (Index(n), _) = meta::applied(&view).unwrap();
        assert!(n >= last, "went back from {last} to {n}");
        last = n;
        let keys: Vec<_> =
            view.all(Bucket::Lease).unwrap().map(|item| item.unwrap().value).collect();
        assert_eq!(keys.len() as u64, if n == 0 { 0 } else { KEYS });
        assert!(keys.iter().all(|value| **value == n.to_be_bytes()), "saw a partial transaction");
        let newest = view.get(Bucket::Key, &n.to_be_bytes()).unwrap();
        assert_eq!(newest.is_some(), n > 0);
        assert!(view.get(Bucket::Key, &(n + 1).to_be_bytes()).unwrap().is_none());
        reads.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn readers_see_complete_transactions_while_a_thread_commits() {
    let dir = tempfile::tempdir().unwrap();
    let config = Config { batch_ops: 100, pending_bytes_max: 100_000, ..config() };
    let backend = open(&dir, config.clone());
    let thread = CommitThread::spawn(&backend).unwrap();
    let (stop, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| read(&backend, &stop, &reads));
        }
        let _stop = SetOnDrop(&stop);
        write(&backend);
        wait_until("10 views are read", || reads.load(Ordering::Relaxed) >= 10);
    });
    assert!(backend.stats().commits > 1, "the thread commits in the background");
    thread.stop().unwrap();
    assert_eq!(backend.durable().0, TRANSACTIONS, "stopping commits the rest");
    drop(backend);
    let backend = open(&dir, config);
    assert_eq!(meta::applied(&backend.view()).unwrap(), (Index(TRANSACTIONS), Term(1)));
    assert_eq!(backend.snapshot().unwrap().check(), []);
}

#[test]
fn the_thread_commits_after_the_interval() {
    let dir = tempfile::tempdir().unwrap();
    let backend = open(&dir, Config { batch_interval: Duration::from_millis(1), ..config() });
    let thread = CommitThread::spawn(&backend).unwrap();
    for round in 1..=3 {
        let sequence = backend.create_buckets(&[Bucket::Key]).unwrap();
        backend.wait_durable(sequence).unwrap();
        assert!(backend.stats().commits >= round);
    }
    drop(thread);
}

#[test]
fn a_full_batch_wakes_the_thread() {
    let dir = tempfile::tempdir().unwrap();
    let never = Duration::from_secs(1_000_000);
    let backend = open(&dir, Config { batch_interval: never, batch_ops: 10, ..config() });
    let thread = CommitThread::spawn(&backend).unwrap();
    for round in 1..=3 {
        let mut tx = backend.begin();
        for n in 0..10_u64 {
            tx.put(Bucket::Key, n.to_be_bytes().to_vec(), "1").unwrap();
        }
        let sequence = tx.commit().unwrap();
        backend.wait_durable(sequence).unwrap();
        assert_eq!(backend.stats().commits, round);
    }
    thread.stop().unwrap();
}

#[test]
fn defragmentation_runs_concurrently_with_reads_and_writes() {
    let dir = tempfile::tempdir().unwrap();
    let backend = open(&dir, Config { batch_ops: 100, ..config() });
    let thread = CommitThread::spawn(&backend).unwrap();
    let (stop, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| read(&backend, &stop, &reads));
        let defragmenting = scope.spawn(|| {
            for _ in 0..3 {
                backend.defragment().unwrap();
            }
        });
        write(&backend);
        defragmenting.join().unwrap();
        stop.store(true, Ordering::Relaxed);
    });
    thread.stop().unwrap();
    drop(backend);
    let backend = open(&dir, config());
    assert_eq!(meta::applied(&backend.view()).unwrap(), (Index(TRANSACTIONS), Term(1)));
    assert_eq!(backend.view().all(Bucket::Key).unwrap().count() as u64, TRANSACTIONS);
    assert_eq!(backend.snapshot().unwrap().check(), []);
}

#[test]
fn waiters_learn_of_a_disk_error() {
    let (disk, clock) = (SimDisk::new(0), OsClock::default());
    let config = Config { batch_interval: Duration::from_millis(1), ..config() };
    let path = Path::new("db");
    let backend = Backend::open(Arc::new(disk.clone()), Arc::new(clock), path, config).unwrap();
    let thread = CommitThread::spawn(&backend).unwrap();
    assert_eq!(backend.failure(), None);
    disk.fail_from_change(0, Fault::Eio);
    let sequence = backend.create_buckets(&[Bucket::Key]).unwrap();
    assert!(matches!(backend.wait_durable(sequence), Err(CommitError::Poisoned(_))));
    assert!(backend.failure().is_some());
    assert!(thread.stop().is_err());
}

/// Asserts that the callback reports a failing disk or a panicking observer, although no caller
/// waits for a commit.
fn assert_reported(
    disk: &SimDisk,
    interval: Duration,
    fail: impl FnOnce(&Backend),
) -> (Backend, String) {
    let (path, clock) = (Path::new("db"), Arc::new(OsClock::default()));
    let config = Config { batch_interval: interval, ..config() };
    let backend = Backend::open(Arc::new(disk.clone()), clock, path, config).unwrap();
    let (sender, receiver) = mpsc::channel();
    let failed = move |error: &CommitError| sender.send(error.to_string()).unwrap();
    let thread = CommitThread::spawn_with_callback(&backend, failed).unwrap();
    fail(&backend);
    let error = receiver.recv_timeout(TIMEOUT).expect("the callback is called");
    assert_eq!(
        thread.stop().unwrap_err().to_string(),
        error,
        "stop returns the same error without a panic"
    );
    assert!(backend.failure().is_some() && backend.create_buckets(&[Bucket::Key]).is_err());
    (backend, error)
}

#[test]
fn the_callback_reports_a_disk_error() {
    let disk = SimDisk::new(0);
    assert_reported(&disk, Duration::from_millis(1), |backend| {
        disk.fail_from_change(0, Fault::Eio);
        backend.create_buckets(&[Bucket::Key]).unwrap();
    });
}

#[test]
fn the_callback_reports_a_failed_commit_of_another_committer() {
    let (disk, never) = (SimDisk::new(0), Duration::from_secs(1_000_000));
    let (_, error) = assert_reported(&disk, never, |backend| {
        backend.create_buckets(&[Bucket::Key]).unwrap();
        disk.fail_from_change(0, Fault::Eio);
        backend.force_commit().unwrap_err();
    });
    assert!(error.starts_with("writes are refused because a commit failed: "), "{error}");
}

#[test]
fn the_callback_reports_a_panic_of_the_thread() {
    let (_, error) = assert_reported(&SimDisk::new(0), Duration::from_millis(1), |backend| {
        backend.observe_commits(Box::new(|_| panic!("an observer")));
        backend.create_buckets(&[Bucket::Key]).unwrap();
    });
    assert!(error.ends_with("the commit thread panicked: an observer"), "{error}");
}

#[test]
fn the_callback_does_not_run_after_a_stop() {
    let dir = tempfile::tempdir().unwrap();
    let backend = open(&dir, config());
    let (sender, receiver) = mpsc::channel::<()>();
    let thread =
        CommitThread::spawn_with_callback(&backend, move |_| sender.send(()).unwrap()).unwrap();
    backend.create_buckets(&[Bucket::Key]).unwrap();
    thread.stop().unwrap();
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected), "the callback ran");
}
