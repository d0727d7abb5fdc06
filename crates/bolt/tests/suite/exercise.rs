//! Exercises a database file with arbitrary bytes.
//!
//! Shared by the fuzz target, the tests that corrupt files, and the test that replays the fuzzer's
//! corpus. Whatever the bytes are: nothing panics, everything terminates, and each error names the
//! file and the page. If the file was consistent before a write, it still is afterwards, and holds
//! the written data.

use std::path::Path;
use std::sync::Arc;

use bolt::{Bucket, CorruptPage, Db, Error, OpenError, Options, Snapshot};
use env::{Create, Disk, Open, SimClock, SimDisk};

const FILE: &str = "db";

/// Longer input is cut, to bound the run time.
const INPUT_MAX: usize = 1 << 17;
/// Maximum number of items read in total, and maximum nesting depth. A walk through all buckets is
/// the caller's loop, so the caller must bound it: a corrupt file may show one bucket in many
/// places.
const ITEMS_MAX: usize = 20_000;
const NESTING_MAX: usize = 6;
/// Interval of finger lookups that jump to a distant key.
const JUMP_EVERY: usize = 8;
/// Maximum number of buckets written to, and of pairs deleted from each.
const WRITTEN_MAX: usize = 4;
const DELETED_MAX: usize = 12;

/// Result of exercising a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The file could not be opened.
    Refused,
    /// The file was opened, and a part of it could not be read.
    Corrupt,
    /// The file is consistent.
    Sound,
}

/// Exercises a file as it is, and once more with corrected meta page checksums, to get past them.
pub(crate) fn exercise(bytes: &[u8]) {
    let mut bytes = bytes[..bytes.len().min(INPUT_MAX)].to_vec();
    open_and_use(&bytes);
    fix_checksums(&mut bytes);
    open_and_use(&bytes);
}

/// Reads all of a file and writes to it.
pub(crate) fn open_and_use(bytes: &[u8]) -> Outcome {
    let disk = disk_with(bytes);
    // A read-only open does not walk the file, so reads meet more corruption.
    if let Some(db) = open(&disk, true) {
        let _ = read(&db);
    }
    let Some(db) = open(&disk, false) else { return Outcome::Refused };
    let outcome = read(&db);
    let written = write(&db);
    if outcome == Outcome::Sound {
        assert_eq!(db.snapshot().check(), [], "a consistent file stays consistent after a write");
        match written {
            Ok(()) => {}
            // The file has a bucket where the write puts a pair, or vice versa.
            Err(error) if error == bolt::Error::IncompatibleValue.to_string() => return outcome,
            Err(error) => panic!("a consistent file cannot be written: {error}"),
        }
        drop(db);
        let db = open(&disk, false).expect("a consistent file can be reopened after a write");
        assert_eq!(db.snapshot().check(), [], "a consistent file stays consistent after reopening");
        assert_written(&db);
    }
    outcome
}

fn disk_with(bytes: &[u8]) -> SimDisk {
    let disk = SimDisk::new(0);
    let file = disk.open(Path::new(FILE), Open::create(Create::New)).expect("create the file");
    file.write_at(bytes, 0).expect("write to a disk without faults");
    disk
}

fn open(disk: &SimDisk, read_only: bool) -> Option<Db> {
    let options = Options { read_only, grow_bytes: 4096, ..Options::default() };
    match Db::open(Arc::new(disk.clone()), &SimClock::default(), Path::new(FILE), options) {
        Ok(db) => Some(db),
        Err(error) => {
            assert!(error.to_string().contains(FILE), "{error}");
            if let OpenError::Corrupt(corrupt) = error {
                assert_named(&corrupt);
            }
            None
        }
    }
}

/// Reads everything in every way.
fn read(db: &Db) -> Outcome {
    let snapshot = db.snapshot();
    let errors = snapshot.check();
    errors.iter().for_each(assert_named);
    assert!(snapshot.size_in_use() <= snapshot.size());
    let mut budget = Budget::new(&snapshot);
    let walked = walk(&snapshot.root(), &mut budget, 0);
    let counted = snapshot.root().stats();
    for corrupt in walked.as_ref().err().into_iter().chain(counted.as_ref().err()) {
        assert_named(corrupt);
        assert_ne!(errors, [], "corruption found by reading but not by the check: {corrupt}");
    }
    if errors.is_empty() { Outcome::Sound } else { Outcome::Corrupt }
}

/// Asserts that an error names the file, the page and a reason.
fn assert_named(corrupt: &CorruptPage) {
    assert_eq!(corrupt.path(), Path::new(FILE));
    assert!(corrupt.to_string().contains("page") && !corrupt.reason().is_empty(), "{corrupt}");
}

struct Budget {
    /// Number of items left to read.
    items: usize,
    /// Maximum number of steps of one cursor; beyond it, the cursor is in a cycle. Allows for every
    /// page once, each with as many elements as the file could hold, and the written ones.
    steps_max: u64,
}

impl Budget {
    fn new(snapshot: &Snapshot) -> Budget {
        let (size, page_size) = (snapshot.size(), snapshot.page_size() as u64);
        Budget { items: ITEMS_MAX, steps_max: (size / page_size) * (size / 16) + 100 }
    }
}

fn walk(bucket: &Bucket<'_>, budget: &mut Budget, nesting: usize) -> Result<(), CorruptPage> {
    let mut first_error = Ok(());
    let mut note = |result: Result<(), CorruptPage>| {
        if first_error.is_ok() {
            first_error = result;
        }
    };
    let mut cursor = bucket.cursor();
    let mut steps = 0;
    let mut keys = Vec::new();
    let mut found = cursor.first();
    while let Ok(Some(item)) = found {
        steps += 1;
        assert!(steps <= budget.steps_max, "the cursor does not terminate");
        if budget.items > 0 {
            budget.items -= 1;
            keys.push((item.key, item.value.is_none()));
        }
        found = cursor.next();
    }
    note(found.map(drop));
    note(backward(bucket, budget));
    let mut finger = bucket.finger();
    let ends: Vec<_> = keys.iter().rev().map(|(key, _)| *key).collect();
    for (at, ((key, is_bucket), end)) in keys.into_iter().zip(ends).enumerate() {
        note(bucket.get(key).map(drop));
        note(finger.get(key).map(drop));
        if at % JUMP_EVERY == 0 {
            note(finger.get(end).map(drop));
        }
        note(bucket.cursor().seek(key).map(drop));
        if is_bucket && nesting < NESTING_MAX {
            match bucket.bucket(key) {
                Ok(Some(inner)) if budget.items > 0 => note(walk(&inner, budget, nesting + 1)),
                other => note(other.map(drop)),
            }
        }
    }
    first_error
}

fn backward(bucket: &Bucket<'_>, budget: &Budget) -> Result<(), CorruptPage> {
    let mut cursor = bucket.cursor();
    let mut steps = 0;
    let mut item = cursor.last()?;
    while item.is_some() {
        steps += 1;
        assert!(steps <= budget.steps_max, "the cursor does not terminate");
        item = cursor.prev()?;
    }
    Ok(())
}

/// Makes a variety of changes and commits twice.
fn write(db: &Db) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let mut tx = db.write().map_err(|error| text(&error))?;
    let changed = change(&mut tx);
    let mut budget = Budget::new(&db.snapshot());
    let read = walk(&tx.read(), &mut budget, 0);
    // A caller that sees an error drops the transaction; one that ignores it commits anyway.
    let committed = tx.commit();
    changed.map_err(|error| text(&error))?;
    read.map_err(|error| text(&error))?;
    committed.map_err(|error| text(&error))?;
    let mut tx = db.write().map_err(|error| text(&error))?;
    tx.create_bucket_if_missing(b"~fuzz")
        .and_then(|mut bucket| bucket.put(b"again", b"and again"))
        .map_err(|error| text(&error))?;
    tx.commit().map(drop).map_err(|error| text(&error))
}

fn change(tx: &mut bolt::WriteTx<'_>) -> Result<(), Error> {
    let buckets: Vec<Vec<u8>> = names(&tx.read(), true, WRITTEN_MAX)?;
    for (index, name) in buckets.iter().enumerate() {
        // A bucket with an empty name can be read but not opened for writing.
        if name.is_empty() {
            continue;
        }
        if index == 1 {
            tx.root().delete_bucket(name)?;
            continue;
        }
        let keys = names(&tx.bucket(name)?.read(), false, DELETED_MAX)?;
        let inner = names(&tx.bucket(name)?.read(), true, 1)?;
        let mut bucket = tx.bucket(name)?;
        for (index, key) in keys.iter().enumerate().filter(|(_, key)| !key.is_empty()) {
            match index % 3 {
                0 if key.len() <= bolt::KEY_MAX => bucket.put(key, &[7; 300])?,
                _ => drop(bucket.delete(key)?),
            }
        }
        for name in inner.iter().filter(|name| !name.is_empty()) {
            bucket.bucket(name)?.put(b"~", b"put inside")?;
        }
        bucket.set_sequence(index as u64);
        bucket.put(b"~large", &[9; 5000])?;
    }
    // A pair of this name would be in the way.
    if tx.read().get(b"~fuzz")?.is_some() {
        tx.root().delete(b"~fuzz")?;
    }
    let mut bucket = tx.create_bucket_if_missing(b"~fuzz")?;
    bucket.put(b"small", b"value")?;
    bucket.create_bucket_if_missing(b"inside")?.put(b"deep", &[1; 100])
}

/// Returns the names of the first few buckets, or the keys of the first few pairs.
fn names(bucket: &Bucket<'_>, buckets: bool, most: usize) -> Result<Vec<Vec<u8>>, CorruptPage> {
    let mut names = Vec::new();
    let mut cursor = bucket.cursor();
    while names.len() < most
        && let Some(item) = cursor.next()?
    {
        if item.value.is_none() == buckets {
            names.push(item.key.to_vec());
        }
    }
    Ok(names)
}

fn assert_written(db: &Db) {
    let snapshot = db.snapshot();
    let bucket = snapshot.bucket(b"~fuzz").expect("readable").expect("written before");
    assert_eq!(bucket.get(b"small").expect("readable"), Some(&b"value"[..]));
    assert_eq!(bucket.get(b"again").expect("readable"), Some(&b"and again"[..]));
    let inside = bucket.bucket(b"inside").expect("readable").expect("written before");
    assert_eq!(inside.get(b"deep").expect("sound"), Some(&[1; 100][..]));
}

/// Corrects the checksums of both meta pages: the first at its fixed offset, the second where the
/// first's page size puts it.
pub(crate) fn fix_checksums(bytes: &mut [u8]) {
    const PAYLOAD: usize = 16;
    const CHECKED: usize = 56;
    let page_size = bytes.get(PAYLOAD + 8..PAYLOAD + 12).map_or(0, |size| {
        usize::try_from(u32::from_le_bytes(size.try_into().expect("four bytes"))).unwrap_or(0)
    });
    for start in [PAYLOAD, page_size.saturating_add(PAYLOAD)] {
        let Some(meta) = bytes.get_mut(start..).and_then(|rest| rest.get_mut(..CHECKED + 8)) else {
            continue;
        };
        let hash = meta[..CHECKED].iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        meta[CHECKED..].copy_from_slice(&hash.to_le_bytes());
    }
}
