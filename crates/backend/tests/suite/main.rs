//! Tests of the backend through its public API.
//!
//! | file | contents |
//! | --- | --- |
//! | `behavior` | transactions, views, turns and limits, one by one |
//! | `model` | random operations: every view equals a map at some point in time |
//! | `reader` | a reader finds the same as individual lookups |
//! | `threads` | concurrency |
//! | `file` | buckets, copies, hash, scrub, defragmentation |
//! | `schema` | typed values, and migration between storage versions |
//!
//! Crash tests are in `tests/crash.rs`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod behavior;
mod file;
mod model;
mod reader;
mod schema;
mod threads;

use std::path::Path;
use std::sync::Arc;

use backend::schema::Bucket;
use backend::{Backend, Config, Read};
use env::{SimClock, SimDisk};

/// A database on a simulated disk with a simulated clock.
struct Fixture {
    disk: SimDisk,
    clock: SimClock,
    backend: Backend,
}

impl Fixture {
    fn new(config: Config) -> Fixture {
        Fixture::on(SimDisk::new(0), config)
    }

    fn on(disk: SimDisk, config: Config) -> Fixture {
        let clock = SimClock::default();
        let shared = (Arc::new(disk.clone()), Arc::new(clock.clone()));
        let backend = Backend::open(shared.0, shared.1, Path::new("db"), config).unwrap();
        Fixture { disk, clock, backend }
    }

    /// Reopens the file, as after a stop.
    fn reopen(self) -> Fixture {
        let (disk, config) = (self.disk.clone(), config());
        drop(self);
        Fixture::on(disk, config)
    }

    /// Commits a transaction that puts one pair.
    fn put(&self, bucket: Bucket, key: &str, value: &str) -> backend::Sequence {
        let mut tx = self.backend.begin();
        tx.put(bucket, key.to_owned(), value.to_owned()).unwrap();
        tx.commit().unwrap()
    }

    /// Commits a transaction that deletes one key.
    fn delete(&self, bucket: Bucket, key: &str) -> backend::Sequence {
        let mut tx = self.backend.begin();
        tx.delete(bucket, key.to_owned());
        tx.commit().unwrap()
    }

    fn turn(&self) -> Option<backend::CommitReport> {
        self.backend.committer().turn().unwrap()
    }
}

/// Small growth, so that a simulated disk has little to copy.
fn config() -> Config {
    let mut config = Config::default();
    config.bolt.grow_bytes = 64 << 10;
    config
}

/// The contents of a bucket, as text.
fn dump(from: &impl Read, bucket: Bucket) -> Vec<(String, String)> {
    pairs(from.all(bucket).unwrap())
}

fn pairs(range: backend::Range<'_>) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    range.map(|item| item.unwrap()).map(|item| (text(&item.key), text(&item.value))).collect()
}

/// The pairs in one line: `a=1 b=2`.
fn line(from: &impl Read, bucket: Bucket) -> String {
    let pairs = dump(from, bucket).into_iter().map(|(key, value)| format!("{key}={value}"));
    pairs.collect::<Vec<_>>().join(" ")
}

fn get(from: &impl Read, bucket: Bucket, key: &str) -> Option<String> {
    let found = from.get(bucket, key.as_bytes()).unwrap();
    found.map(|value| String::from_utf8(value.to_vec()).unwrap())
}
