//! A writer, readers, compaction and commits at the same time: no reader sees part of a
//! transaction, or a revision lower than before.
//!
//! Each transaction puts the same value to ten keys, or deletes them all. Many other keys never
//! change, so that some ranges read under the lock and others from a copy of the index.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use backend::Backend;
use bytes::Bytes;
use mvcc::{Config, Error, NoLeases, Store};
use proto::etcdserverpb::{DeleteRangeRequest, PutRequest, RangeRequest, RangeResponse};
use testkit::waiting::wait_until;

use crate::subject::{Subject, message};

const WRITES: i64 = 4000;
const COMPACT_EVERY: i64 = 4;
/// Writes between two waits for the readers.
const WAIT_EVERY: i64 = 200;
const KEYS: usize = 10;
const OTHERS: usize = 600;

fn key(number: usize) -> Bytes {
    Bytes::from(format!("k{number}"))
}

fn range(from: &'static str, to: &'static str) -> RangeRequest {
    RangeRequest { key: from.into(), range_end: to.into(), ..RangeRequest::default() }
}

#[test]
fn no_reader_sees_part_of_a_transaction() {
    // Compactions take few turns, so that they overtake readers.
    let subject = Subject::new(Config { compaction_batch_limit: 500 }, &BTreeSet::new());
    // The lessor of the test is not thread-safe.
    let Subject { backend, store, .. } = subject;
    write_others(&backend, &store);
    let done = AtomicBool::new(false);
    let reads: [AtomicU64; 4] = Default::default();
    let until_done = |f: &dyn Fn()| {
        while !done.load(Ordering::Relaxed) {
            f();
            thread::yield_now();
        }
    };
    thread::scope(|scope| {
        let turns = scope.spawn(|| until_done(&|| _ = store.turn_compaction().unwrap()));
        let commits = scope.spawn(|| until_done(&|| backend.force_commit().unwrap()));
        let readers = [
            scope.spawn(|| read(&store, &done, &reads[0], read_newest)),
            scope.spawn(|| read(&store, &done, &reads[1], read_again)),
            scope.spawn(|| read(&store, &done, &reads[2], read_one_by_one)),
            scope.spawn(|| read(&store, &done, &reads[3], read_oldest)),
        ];
        let written = scope.spawn(|| {
            for count in 0..WRITES {
                if count % WAIT_EVERY == 0 {
                    wait_for_all(&reads);
                }
                write(&backend, &store, count);
            }
        });
        let written = written.join();
        // Stops the other threads even after a failure.
        done.store(true, Ordering::Relaxed);
        written.unwrap();
        turns.join().unwrap();
        commits.join().unwrap();
        for reader in readers {
            reader.join().unwrap();
        }
    });
    for reads in &reads {
        assert!(reads.load(Ordering::Relaxed) > 10, "the reader made progress");
    }
    assert_eq!(store.current(), 2 + WRITES);
}

fn write_others(backend: &Backend, store: &Store) {
    let mut tx = backend.begin();
    let mut txn = store.write(&mut tx, &NoLeases);
    for number in 0..OTHERS {
        let key = Bytes::from(format!("other{number}"));
        txn.put(&PutRequest { key, ..PutRequest::default() }).unwrap();
    }
    let changes = txn.finish();
    tx.commit().unwrap();
    store.publish(&changes);
}

/// Applies one entry: all keys with one value, or no keys. Now and then schedules a compaction.
fn write(backend: &Backend, store: &Store, count: i64) {
    let mut tx = backend.begin();
    if count % COMPACT_EVERY == COMPACT_EVERY - 1 {
        store.compact(&mut tx, store.current()).unwrap();
    }
    let mut txn = store.write(&mut tx, &NoLeases);
    if count % 10 == 9 {
        let all = DeleteRangeRequest { key: "k".into(), range_end: "l".into(), prev_kv: true };
        assert_eq!(txn.delete_range(&all).unwrap().prev_kvs.len(), KEYS);
    } else {
        let value = Bytes::from(count.to_string());
        for number in 0..KEYS {
            let (key, value) = (key(number), value.clone());
            txn.put(&PutRequest { key, value, ..PutRequest::default() }).unwrap();
        }
    }
    let changes = txn.finish();
    tx.commit().unwrap();
    store.publish(&changes);
}

/// Reads until the writer is done, and counts the reads.
fn read(store: &Store, done: &AtomicBool, reads: &AtomicU64, once: fn(&Store, &mut i64)) {
    let mut newest = 0;
    while !done.load(Ordering::Relaxed) {
        once(store, &mut newest);
        reads.fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits until each reader has read once more, so that none lags on a busy machine.
fn wait_for_all(reads: &[AtomicU64]) {
    let count = |reads: &AtomicU64| reads.load(Ordering::Relaxed);
    let before: Vec<_> = reads.iter().map(count).collect();
    wait_until("each reader has read once more", || {
        reads.iter().zip(&before).all(|(reads, before)| count(reads) > *before)
    });
}

/// Checks that the revision never goes back.
fn advance(newest: &mut i64, answer: &RangeResponse) {
    let revision = answer.header.as_ref().unwrap().revision;
    assert!(revision >= *newest, "revision {revision} after {newest}");
    *newest = revision;
}

/// Checks that all keys have one value, or that there are none.
fn check_whole(answer: &RangeResponse, at: i64) {
    let kvs: Vec<_> = answer.kvs.iter().filter(|kv| kv.key.starts_with(b"k")).collect();
    assert!(kvs.is_empty() || kvs.len() == KEYS, "{kvs:?}");
    for kv in &kvs {
        assert_eq!((&kv.value, kv.mod_revision), (&kvs[0].value, at), "{kvs:?}");
    }
    // The value and the revision both count the writes.
    let write = at - 3;
    assert_eq!(kvs.is_empty(), write < 0 || write % 10 == 9, "at {at}");
    assert!(kvs.is_empty() || kvs[0].value == write.to_string());
}

fn read_newest(store: &Store, newest: &mut i64) {
    let everything = RangeRequest { limit: 0, ..range("\0", "\0") };
    for request in [range("k", "l"), everything, RangeRequest { limit: 20, ..range("k", "\0") }] {
        let answer: RangeResponse = message(&store.range(&request).unwrap());
        advance(newest, &answer);
        check_whole(&answer, *newest);
    }
    let count = store.range(&RangeRequest { count_only: true, ..range("k", "l") }).unwrap();
    assert!(count.count == 0 || count.count == KEYS as i64);
}

/// Checks that reads at one revision repeat until it is compacted.
fn read_again(store: &Store, newest: &mut i64) {
    let revision = store.current();
    assert!(revision >= *newest);
    *newest = revision;
    let request = RangeRequest { revision, ..range("k", "\0") };
    let reader = store.reader();
    let first = store.hash_kv(revision);
    for _ in 0..3 {
        match store.range(&request) {
            Ok(answer) => check_whole(&message(&answer), revision),
            Err(error) => assert_eq!(error, Error::Compacted),
        }
        let held = reader.range(&RangeRequest { revision: 0, ..request.clone() }).unwrap();
        check_whole(&message(&held), reader.current());
        if let (Ok((first, _)), Ok((again, _))) = (&first, &store.hash_kv(revision))
            && first.compact_revision == again.compact_revision
        {
            assert_eq!(first, again);
        }
    }
}

/// Checks that a revision that may be compacted at any time is read completely or refused.
fn read_oldest(store: &Store, newest: &mut i64) {
    let revision = store.compacted().max(2);
    assert!(revision >= *newest);
    *newest = revision;
    for request in [range("\0", "\0"), range("k", "l"), range("k1", "")] {
        let single = request.range_end.is_empty();
        match store.range(&RangeRequest { revision, ..request }) {
            Ok(answer) if single => assert!(answer.kvs.len() < 2),
            Ok(answer) => check_whole(&message(&answer), revision),
            Err(error) => assert_eq!(error, Error::Compacted),
        }
    }
}

/// Checks single keys: the same value at the same revision.
fn read_one_by_one(store: &Store, newest: &mut i64) {
    for number in 0..KEYS {
        let request = RangeRequest { key: key(number), ..RangeRequest::default() };
        let answer: RangeResponse = message(&store.range(&request).unwrap());
        advance(newest, &answer);
        let at = *newest;
        assert_eq!(answer.kvs.is_empty(), at < 3 || (at - 3) % 10 == 9, "at {at}");
        if let Some(kv) = answer.kvs.first() {
            assert_eq!((kv.mod_revision, kv.value.as_ref()), (at, (at - 3).to_string().as_bytes()));
            let stored = store.value_at(&kv.key, at);
            assert!(matches!(stored, Ok(Some(_)) | Err(Error::Compacted)), "{stored:?}");
        }
    }
}
