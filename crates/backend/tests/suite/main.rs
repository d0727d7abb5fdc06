//! What a backend promises, seen from outside.
//!
//! | file | what it shows |
//! | --- | --- |
//! | `behaviour` | transactions, views, turns and bounds, one by one |
//! | `model` | whatever comes in whatever order, every view is a map at some moment |
//! | `reader` | looking up many keys finds what looking up each does |
//! | `threads` | the same with threads |
//! | `file` | buckets, copies, hash, scrub, defragmentation |
//! | `schema` | typed values, and the way between storage versions |
//!
//! What a power cut or a failing disk leaves is in `tests/crash.rs`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod behaviour;
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

/// A database on a disk and with a clock that only move when they are moved.
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

    /// Opens the file again, as after a stop.
    fn reopen(self) -> Fixture {
        let (disk, config) = (self.disk.clone(), config());
        drop(self);
        Fixture::on(disk, config)
    }

    /// A transaction that puts one pair.
    fn put(&self, bucket: Bucket, key: &str, value: &str) -> backend::Sequence {
        let mut tx = self.backend.begin();
        tx.put(bucket, key.to_owned(), value.to_owned()).unwrap();
        tx.commit().unwrap()
    }

    /// A transaction that deletes one key.
    fn delete(&self, bucket: Bucket, key: &str) -> backend::Sequence {
        let mut tx = self.backend.begin();
        tx.delete(bucket, key.to_owned());
        tx.commit().unwrap()
    }

    fn turn(&self) -> Option<backend::Committed> {
        self.backend.committer().turn().unwrap()
    }
}

/// Small growth, so that a simulated disk has little to copy.
fn config() -> Config {
    let mut config = Config::default();
    config.bolt.grow_bytes = 64 << 10;
    config
}

/// What is in a bucket, as text.
fn dump(from: &impl Read, bucket: Bucket) -> Vec<(String, String)> {
    pairs(from.all(bucket).unwrap())
}

fn pairs(range: backend::Range<'_>) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    range.map(|item| item.unwrap()).map(|item| (text(&item.key), text(&item.value))).collect()
}

/// One pair after another: `a=1 b=2`.
fn line(from: &impl Read, bucket: Bucket) -> String {
    let pairs = dump(from, bucket).into_iter().map(|(key, value)| format!("{key}={value}"));
    pairs.collect::<Vec<_>>().join(" ")
}

fn get(from: &impl Read, bucket: Bucket, key: &str) -> Option<String> {
    let found = from.get(bucket, key.as_bytes()).unwrap();
    found.map(|value| String::from_utf8(value.to_vec()).unwrap())
}
