//! Everything that one can do with a file whose bytes may be anything.
//!
//! Shared by the fuzz target, by the tests that damage files, and by the one that replays the fuzzer's corpus. Whatever the bytes are, nothing
//! panics, everything ends, and what cannot be read is told with the name of the file and the page. If the file was sound before a
//! write, it is afterwards, and holds what was written.

use std::path::Path;
use std::sync::Arc;

use bolt::{Bucket, Damaged, Db, Error, OpenError, Options, Snapshot};
use env::{Create, Disk, Open, SimClock, SimDisk};

const FILE: &str = "db";

/// Longer input is cut: it would only take longer.
const INPUT_MAX: usize = 1 << 17;
/// Items looked at in all, and buckets inside buckets. The bound is ours: a walk through all buckets is the caller's loop, and a
/// damaged file may show it one bucket in many places.
const ITEMS_MAX: usize = 20_000;
const NESTING_MAX: usize = 6;
/// Keys that a finger goes on to, for one that is far away.
const JUMP_EVERY: usize = 8;
/// Buckets that are written to, and pairs deleted from each.
const WRITTEN_MAX: usize = 4;
const DELETED_MAX: usize = 12;

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It could not be opened.
    Refused,
    /// It was opened, and something in it could not be read.
    Damaged,
    /// Nothing was amiss.
    Sound,
}

/// Uses a file as it is, and with its meta pages' checksums set right, so that one gets past them.
pub(crate) fn exercise(bytes: &[u8]) {
    let mut bytes = bytes[..bytes.len().min(INPUT_MAX)].to_vec();
    open_and_use(&bytes);
    fix_checksums(&mut bytes);
    open_and_use(&bytes);
}

/// Reads all of a file and writes to it.
pub(crate) fn open_and_use(bytes: &[u8]) -> Outcome {
    let disk = disk_with(bytes);
    // A file that is only read is not walked through when it is opened, so more is left to be met.
    if let Some(db) = open(&disk, true) {
        let _ = read(&db);
    }
    let Some(db) = open(&disk, false) else { return Outcome::Refused };
    let outcome = read(&db);
    let written = write(&db);
    if outcome == Outcome::Sound {
        assert_eq!(db.snapshot().check(), [], "a sound file, after a write");
        match written {
            Ok(()) => {}
            // The file has a bucket where we put a pair, or the other way round.
            Err(error) if error == bolt::Error::IncompatibleValue.to_string() => return outcome,
            Err(error) => panic!("a sound file cannot be written: {error}"),
        }
        drop(db);
        let db = open(&disk, false).expect("a sound file, after a write");
        assert_eq!(db.snapshot().check(), [], "a sound file, opened again");
        assert_written(&db);
    }
    outcome
}

fn disk_with(bytes: &[u8]) -> SimDisk {
    let disk = SimDisk::new(0);
    let file = disk.open(Path::new(FILE), Open::create(Create::New)).expect("an empty disk");
    file.write_at(bytes, 0).expect("a disk without faults");
    disk
}

fn open(disk: &SimDisk, read_only: bool) -> Option<Db> {
    let options = Options { read_only, grow_bytes: 4096, ..Options::default() };
    match Db::open(Arc::new(disk.clone()), &SimClock::default(), Path::new(FILE), options) {
        Ok(db) => Some(db),
        Err(error) => {
            assert!(error.to_string().contains(FILE), "{error}");
            if let OpenError::Damaged(damaged) = error {
                assert_named(&damaged);
            }
            None
        }
    }
}

/// Looks at everything, in every way.
fn read(db: &Db) -> Outcome {
    let snapshot = db.snapshot();
    let errors = snapshot.check();
    errors.iter().for_each(assert_named);
    assert!(snapshot.size_in_use() <= snapshot.size());
    let mut budget = Budget::new(&snapshot);
    let walked = walk(&snapshot.root(), &mut budget, 0);
    let counted = snapshot.root().stats();
    for damaged in walked.as_ref().err().into_iter().chain(counted.as_ref().err()) {
        assert_named(damaged);
        assert_ne!(errors, [], "found on the way, and not by the check: {damaged}");
    }
    if errors.is_empty() { Outcome::Sound } else { Outcome::Damaged }
}

/// Where damage is, has a name.
fn assert_named(damaged: &Damaged) {
    assert_eq!(damaged.path(), Path::new(FILE));
    assert!(damaged.to_string().contains("page") && !damaged.reason().is_empty(), "{damaged}");
}

struct Budget {
    /// Items that are still looked at.
    items: usize,
    /// More steps of one cursor than that, and it goes in circles: every page once, each with as many elements as the file could
    /// hold, and what we add.
    steps_max: u64,
}

impl Budget {
    fn new(snapshot: &Snapshot) -> Budget {
        let (size, page_size) = (snapshot.size(), snapshot.page_size() as u64);
        Budget { items: ITEMS_MAX, steps_max: (size / page_size) * (size / 16) + 100 }
    }
}

fn walk(bucket: &Bucket<'_>, budget: &mut Budget, nesting: usize) -> Result<(), Damaged> {
    let mut first_error = Ok(());
    let mut note = |result: Result<(), Damaged>| {
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
        assert!(steps <= budget.steps_max, "a cursor that does not end");
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

fn backward(bucket: &Bucket<'_>, budget: &Budget) -> Result<(), Damaged> {
    let mut cursor = bucket.cursor();
    let mut steps = 0;
    let mut item = cursor.last()?;
    while item.is_some() {
        steps += 1;
        assert!(steps <= budget.steps_max, "a cursor that does not end");
        item = cursor.prev()?;
    }
    Ok(())
}

/// Changes a bit of everything, and commits twice.
fn write(db: &Db) -> Result<(), String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let mut tx = db.write().map_err(|error| told(&error))?;
    let changed = change(&mut tx);
    let mut budget = Budget::new(&db.snapshot());
    let read = walk(&tx.read(), &mut budget, 0);
    // A caller who meets an error drops the transaction; one who does not look commits it all the same.
    let committed = tx.commit();
    changed.map_err(|error| told(&error))?;
    read.map_err(|error| told(&error))?;
    committed.map_err(|error| told(&error))?;
    let mut tx = db.write().map_err(|error| told(&error))?;
    tx.create_bucket_if_missing(b"~fuzz")
        .and_then(|mut bucket| bucket.put(b"again", b"and again"))
        .map_err(|error| told(&error))?;
    tx.commit().map(drop).map_err(|error| told(&error))
}

fn change(tx: &mut bolt::WriteTx<'_>) -> Result<(), Error> {
    let buckets: Vec<Vec<u8>> = names(&tx.read(), true, WRITTEN_MAX)?;
    for (index, name) in buckets.iter().enumerate() {
        // A name of no bytes can be read and not be opened.
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
    // A pair with this name would be in the way.
    if tx.read().get(b"~fuzz")?.is_some() {
        tx.root().delete(b"~fuzz")?;
    }
    let mut bucket = tx.create_bucket_if_missing(b"~fuzz")?;
    bucket.put(b"small", b"value")?;
    bucket.create_bucket_if_missing(b"inside")?.put(b"deep", &[1; 100])
}

/// The first few buckets, or pairs.
fn names(bucket: &Bucket<'_>, buckets: bool, most: usize) -> Result<Vec<Vec<u8>>, Damaged> {
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
    let bucket = snapshot.bucket(b"~fuzz").expect("sound").expect("was written");
    assert_eq!(bucket.get(b"small").expect("sound"), Some(&b"value"[..]));
    assert_eq!(bucket.get(b"again").expect("sound"), Some(&b"and again"[..]));
    let inside = bucket.bucket(b"inside").expect("sound").expect("was written");
    assert_eq!(inside.get(b"deep").expect("sound"), Some(&[1; 100][..]));
}

/// Sets the checksums of both meta pages right: of the first where it always is, of the second where the first says.
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
