//! Benchmarks of the database file on a real disk: `cargo bench -p bolt`.
//!
//! Each line is a result, `name value unit`, under the names that `interop/run bench` joins with
//! those of bbolt. The files are created in a temporary directory, or below `BOWLINE_BENCH_DIR`.
//! `-- --quick` runs everything at a small size, as a smoke test; so does `cargo test --benches`.
//! `-- NAME` runs the results whose name contains `NAME`.

#![expect(clippy::disallowed_types, reason = "a benchmark measures time")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bolt::{Db, Options};
use env::{OsClock, OsDisk, SeededRandom};

/// Puts per transaction while loading.
const BATCH: u64 = 10_000;
const VALUE: usize = 256;
/// The fill fraction that etcd uses for its keys.
const FILL: f64 = 0.9;

struct Bench {
    dir: PathBuf,
    /// Divisor of all sizes.
    shrink: u64,
    only: Vec<String>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    // Cargo passes `--bench` when it benchmarks, and not when it tests.
    let quick = !has("--bench") || has("--quick");
    let only = arguments.iter().filter(|argument| !argument.starts_with("--")).cloned().collect();
    let dir = match std::env::var_os("BOWLINE_BENCH_DIR") {
        Some(dir) => tempfile::tempdir_in(dir),
        None => tempfile::tempdir(),
    };
    let dir = dir.expect("create a directory");
    let bench = Bench { dir: dir.path().to_owned(), shrink: if quick { 1000 } else { 1 }, only };
    bench.million();
    bench.ten_million();
    bench.defragment();
}

impl Bench {
    fn wants(&self, names: &[&str]) -> bool {
        let wanted = |name: &&str| self.only.iter().any(|only| name.contains(only.as_str()));
        self.only.is_empty() || names.iter().any(wanted)
    }

    /// A typical etcd database: a million keys.
    fn million(&self) {
        if !self.wants(&[
            "bolt_load_1m",
            "bolt_get_1m",
            "bolt_scan_1m",
            "bolt_commit_100_in_1m",
            "bolt_open_1m",
        ]) {
            return;
        }
        let keys = 1_000_000 / self.shrink;
        let path = self.dir.join("million");
        let db = open(&path);
        figure("bolt_load_1m", "s", seconds(|| load(&db, 0, keys)));
        figure("bolt_get_1m", "s", best(|| random_reads(&db, keys)));
        figure("bolt_scan_1m", "s", best(|| scan(&db, keys)));
        figure("bolt_commit_100_in_1m", "ms", commits(&db, keys));
        drop(db);
        figure("bolt_open_1m", "s", best(|| drop(open(&path))));
        std::fs::remove_file(&path).expect("remove the file");
    }

    /// A large database: ten million keys.
    fn ten_million(&self) {
        if !self.wants(&["bolt_commit_100_in_10m", "bolt_open_10m"]) {
            return;
        }
        let keys = 10_000_000 / self.shrink;
        let path = self.dir.join("ten-million");
        let db = open(&path);
        load(&db, 0, keys);
        figure("bolt_commit_100_in_10m", "ms", commits(&db, keys));
        drop(db);
        figure("bolt_open_10m", "s", seconds(|| drop(open(&path))));
        std::fs::remove_file(&path).expect("remove the file");
    }

    /// Defragments a half-free gigabyte while transactions continue.
    fn defragment(&self) {
        if !self.wants(&["bolt_defrag_1g"]) {
            return;
        }
        let keys = 3_200_000 / self.shrink;
        let path = self.dir.join("fragmented");
        let db = Arc::new(open(&path));
        load(&db, 0, keys);
        for first in (0..keys).step_by(20_000) {
            let mut tx = db.write().expect("begin");
            let mut bucket = tx.bucket(b"key").expect("open the bucket");
            for number in first..(first + 10_000).min(keys) {
                bucket.delete(&key(number)).expect("delete");
            }
            tx.commit().expect("commit");
        }
        let stop = Arc::new(AtomicBool::new(false));
        let writer = std::thread::spawn({
            let (db, stop) = (Arc::clone(&db), Arc::clone(&stop));
            move || write_until(&db, keys, &stop)
        });
        let clock = OsClock::default();
        let mut report = None;
        figure(
            "bolt_defrag_1g",
            "s",
            seconds(|| report = Some(db.defragment(&clock).expect("defragment"))),
        );
        stop.store(true, Ordering::Relaxed);
        let slowest = writer.join().expect("join the writer");
        let report = report.expect("the benchmark ran");
        figure("bolt_defrag_1g_swap", "ms", report.swap_time.as_secs_f64() * 1e3);
        figure("bolt_defrag_1g_slowest_commit", "ms", slowest.as_secs_f64() * 1e3);
        println!(
            "# {} MB to {} MB, {} copied, {} caught up in {} rounds, {} of them while the writer was blocked",
            report.size_before >> 20,
            report.size_after >> 20,
            report.copied,
            report.caught_up,
            report.rounds,
            report.swap_changes,
        );
        assert!(report.size_after < report.size_before);
    }
}

fn open(path: &Path) -> Db {
    Db::open(Arc::new(OsDisk), &OsClock::default(), path, Options::default()).expect("open")
}

/// Encodes a revision as etcd does.
fn key(number: u64) -> [u8; 17] {
    let mut key = [0; 17];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key[8] = b'_';
    key
}

fn load(db: &Db, from: u64, to: u64) {
    let value = [7; VALUE];
    for first in (from..to).step_by(usize::try_from(BATCH).expect("BATCH fits into a usize")) {
        let mut tx = db.write().expect("begin");
        let mut bucket = tx.create_bucket_if_missing(b"key").expect("create the bucket");
        bucket.set_fill_percent(FILL);
        for number in first..(first + BATCH).min(to) {
            bucket.put(&key(number), &value).expect("put");
        }
        tx.commit().expect("commit");
    }
}

fn random_reads(db: &Db, keys: u64) {
    let mut random = SeededRandom::new(1);
    let snapshot = db.snapshot();
    let bucket = snapshot.bucket(b"key").expect("read").expect("the bucket exists");
    let mut bytes = 0;
    for _ in 0..keys {
        let found = bucket.get(&key(random.below(keys))).expect("read").expect("the key exists");
        bytes += found.len() as u64;
    }
    assert_eq!(bytes, keys * VALUE as u64);
}

fn scan(db: &Db, keys: u64) {
    let snapshot = db.snapshot();
    let mut cursor = snapshot.bucket(b"key").expect("read").expect("the bucket exists").cursor();
    let (mut count, mut bytes) = (0, 0);
    while let Some(item) = cursor.next().expect("read") {
        count += 1;
        bytes += item.key.len() + item.value.map_or(0, <[u8]>::len);
    }
    assert_eq!((count, bytes as u64), (keys, keys * (17 + VALUE as u64)));
}

/// Median time of a transaction that appends 100 keys.
fn commits(db: &Db, keys: u64) -> f64 {
    let mut times: Vec<f64> = (0..200)
        .map(|round| seconds(|| load(db, keys + round * 100, keys + (round + 1) * 100)))
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2] * 1e3
}

/// Puts until `stop` is set. Returns the duration of the slowest transaction.
fn write_until(db: &Db, from: u64, stop: &AtomicBool) -> Duration {
    let mut slowest = Duration::ZERO;
    let mut number = from;
    while !stop.load(Ordering::Relaxed) {
        let started = Instant::now();
        load(db, number, number + 100);
        slowest = slowest.max(started.elapsed());
        number += 100;
    }
    slowest
}

fn seconds(work: impl FnOnce()) -> f64 {
    let started = Instant::now();
    work();
    started.elapsed().as_secs_f64()
}

/// The shortest of five runs.
fn best(mut work: impl FnMut()) -> f64 {
    (0..5).map(|_| seconds(&mut work)).fold(f64::INFINITY, f64::min)
}

fn figure(name: &str, unit: &str, value: f64) {
    println!("{name} {value:.4} {unit}");
}
