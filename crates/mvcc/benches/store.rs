//! The cost of reads and writes, in one process: `cargo bench -p mvcc --bench store`.
//!
//! Puts a million keys of 64 bytes with values of 256 bytes, one per transaction, into a database
//! that a thread commits to, as in a member. Then it reads them, ranges over them, compares and
//! puts, puts them again until each has five revisions, restores the store as after a restart, and
//! ranges beside a writer.
//!
//! `--quick` runs with few keys, as a smoke test. So does `cargo test --benches`.

#![expect(clippy::disallowed_types, reason = "a benchmark measures time")]
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use backend::{Backend, CommitThread};
use bytes::{Bytes, BytesMut};
use env::{OsClock, OsDisk};
use mvcc::{Config, NoLeases, Response as _, Store, WatchableStore, watch};
use proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{
    Compare, PutRequest, RangeRequest, RequestOp, ResponseHeader, TxnRequest,
};

const KEY_BYTES: usize = 64;
const VALUE_BYTES: usize = 256;
const RANGE_KEYS: i64 = 500;

struct Bench {
    backend: Backend,
    store: WatchableStore,
    keys: usize,
    random: u64,
}

fn main() {
    let has = |flag: &str| std::env::args().any(|argument| argument == flag);
    // `cargo bench` passes `--bench`, `cargo test` does not.
    let keys = if has("--bench") && !has("--quick") { 1_000_000 } else { 2_000 };
    println!("{keys} keys of {KEY_BYTES} bytes, values of {VALUE_BYTES}\n");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let open = || {
        let (disk, clock) = (Arc::new(OsDisk), Arc::new(OsClock::default()));
        Backend::open(disk, clock, &path, backend::Config::default()).unwrap()
    };

    let backend = open();
    let store = open_store(&backend);
    let committer = CommitThread::spawn(&backend).unwrap();
    let mut bench = Bench { backend, store, keys, random: 1 };
    bench.put_all("put, new keys at random");
    bench.read();
    bench.range();
    bench.compare_and_put();
    bench.range_beside_a_writer();
    committer.stop().unwrap();
    drop(bench.store);
    bench.backend.close().unwrap();

    restore(open(), keys, "one revision each");
    let backend = open();
    let store = open_store(&backend);
    let committer = CommitThread::spawn(&backend).unwrap();
    let mut bench = Bench { backend, store, keys, random: 1 };
    for _ in 0..4 {
        bench.put_all("put, known keys at random");
    }
    committer.stop().unwrap();
    drop(bench.store);
    bench.backend.close().unwrap();
    restore(open(), keys, "five revisions each, and a few more");
}

fn open_store(backend: &Backend) -> WatchableStore {
    let (config, watch) = (Config::default(), watch::Config::default());
    WatchableStore::open(backend.clone(), &NoLeases, config, &watch, Arc::new(|| ())).unwrap()
}

/// Returns the nth key, in an order unrelated to theirs.
fn key(n: usize, keys: usize) -> Bytes {
    let shuffled = n.wrapping_mul(0x9E37_79B1) % keys;
    let mut key = format!("/registry/pods/default/{shuffled:012}/").into_bytes();
    key.resize(KEY_BYTES, b'x');
    key.into()
}

fn put(key: Bytes) -> PutRequest {
    let value = Bytes::from(vec![b'v'; VALUE_BYTES]);
    PutRequest { key, value, ..PutRequest::default() }
}

impl Bench {
    fn random_key(&mut self) -> Bytes {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let n = usize::try_from(self.random >> 33).unwrap() % self.keys;
        key(n, self.keys)
    }

    fn put(&self, request: &PutRequest) {
        let mut tx = self.backend.begin();
        let mut txn = self.store.write(&mut tx, &NoLeases);
        txn.put(request).unwrap();
        let changes = txn.finish();
        self.store.commit(tx, &changes).unwrap();
    }

    fn put_all(&mut self, what: &str) {
        let start = Instant::now();
        for n in 0..self.keys {
            self.put(&put(key(n, self.keys)));
        }
        report(what, self.keys, start.elapsed());
        assert_eq!(self.store.keys(), self.keys as u64);
    }

    fn read(&mut self) {
        let mut out = BytesMut::new();
        let start = Instant::now();
        for _ in 0..self.keys {
            let request = RangeRequest { key: self.random_key(), ..RangeRequest::default() };
            out.clear();
            self.store.range(&request).unwrap().encode(&ResponseHeader::default(), &mut out);
            assert!(black_box(&out).len() > VALUE_BYTES);
        }
        report("point read at latest, framed", self.keys, start.elapsed());
    }

    fn range(&mut self) {
        for (what, revision, keys_only) in [
            ("range of 500 keys, framed", 0, false),
            ("range of 500 keys, only the keys", 0, true),
            ("range of 500 keys, before the last write", self.store.current() - 1, false),
        ] {
            let rounds = (self.keys / 500).min(2000);
            let start = Instant::now();
            for _ in 0..rounds {
                let request = RangeRequest {
                    key: self.random_key(),
                    range_end: Bytes::from_static(b"\0"),
                    limit: RANGE_KEYS,
                    revision,
                    keys_only,
                    ..RangeRequest::default()
                };
                let mut out = BytesMut::new();
                self.store.range(&request).unwrap().encode(&ResponseHeader::default(), &mut out);
                black_box(&out);
            }
            report(what, rounds, start.elapsed());
        }
    }

    fn compare_and_put(&mut self) {
        let rounds = self.keys / 4;
        let start = Instant::now();
        for _ in 0..rounds {
            let key = self.random_key();
            let compare = Compare {
                result: CompareResult::Greater as i32,
                target: CompareTarget::Mod as i32,
                key: key.clone(),
                target_union: Some(TargetUnion::ModRevision(0)),
                ..Compare::default()
            };
            let op = RequestOp { request: Some(Request::RequestPut(put(key))) };
            let request =
                TxnRequest { compare: vec![compare], success: vec![op], failure: Vec::new() };
            let mut tx = self.backend.begin();
            let mut txn = self.store.write(&mut tx, &NoLeases);
            assert!(txn.txn(&request, false).unwrap().succeeded);
            let changes = txn.finish();
            self.store.commit(tx, &changes).unwrap();
        }
        report("compare and put", rounds, start.elapsed());
    }

    /// Measures the latency of puts with and without ranges over all keys beside them.
    fn range_beside_a_writer(&mut self) {
        for readers in [0, 1] {
            let done = AtomicBool::new(false);
            let (slowest, ranges) = std::thread::scope(|scope| {
                let reader = (readers > 0).then(|| scope.spawn(|| self.range_until(&done)));
                let slowest = self.slowest_puts();
                done.store(true, Ordering::Relaxed);
                (slowest, reader.map_or(0, |reader| reader.join().unwrap()))
            });
            let [middle, late, last] = slowest.map(|took| took.as_secs_f64() * 1e6);
            println!(
                "put beside {ranges} ranges over all: p50 {middle:.1} us, p99.9 {late:.1} us, slowest {last:.0} us"
            );
        }
    }

    fn range_until(&self, done: &AtomicBool) -> usize {
        let all = Bytes::from_static(b"\0");
        let request = RangeRequest { key: all.clone(), range_end: all, ..RangeRequest::default() };
        let mut ranges = 0;
        while !done.load(Ordering::Relaxed) {
            assert_eq!(self.store.range(&request).unwrap().kvs.len(), self.keys);
            ranges += 1;
        }
        ranges
    }

    fn slowest_puts(&self) -> [Duration; 3] {
        let mut took: Vec<Duration> = (0..self.keys / 5)
            .map(|n| {
                let request = put(key(n, self.keys));
                let start = Instant::now();
                self.put(&request);
                start.elapsed()
            })
            .collect();
        took.sort();
        [took[took.len() / 2], took[took.len() - took.len() / 1000 - 1], took[took.len() - 1]]
    }
}

fn restore(backend: Backend, keys: usize, what: &str) {
    let start = Instant::now();
    let store = Store::open(backend.clone(), &NoLeases, Config::default()).unwrap();
    println!("\nrestored in {:.2} s: {what}", start.elapsed().as_secs_f64());
    assert_eq!(store.keys(), keys as u64);
    let bytes = store.index_bytes() as f64 / keys as f64 - KEY_BYTES as f64;
    println!("index: {bytes:.1} bytes for each key beyond the key itself");
    drop(store);
    backend.close().unwrap();
}

fn report(what: &str, count: usize, took: Duration) {
    let rate = count as f64 / took.as_secs_f64();
    println!("{what:<44} {rate:>12.0} /s {:>9.2} us", 1e6 / rate);
}
