//! Arbitrary bytes cause neither panics nor endless loops.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bolt::Options;
use env::{SeededRandom, SimDisk};

use crate::exercise::{Outcome, exercise, fix_checksums, open_and_use};
use crate::support::image::{BRANCH, Image, LEAF, META_HIGH_WATER, META_ROOT};
use crate::support::{FILE, open, options};

/// A file of about ten pages with every feature: branches, overflow, nested and inline buckets,
/// free pages and a saved freelist.
pub(crate) fn small_file() -> Vec<u8> {
    let options = Options { page_size: 1024, sync_freelist: true, grow_bytes: 0, ..options() };
    let disk = SimDisk::new(0);
    let db = open(&disk, &options).unwrap();
    for round in 0..2_u8 {
        let mut tx = db.write().unwrap();
        let mut bucket = tx.create_bucket_if_missing(b"branchy").unwrap();
        for key in 0..14 - 10 * round {
            bucket.put(format!("key-{key:02}").as_bytes(), &[round; 60]).unwrap();
        }
        bucket.create_bucket_if_missing(b"inline").unwrap().put(b"small", &[round]).unwrap();
        let mut outer = tx.create_bucket_if_missing(b"outer").unwrap();
        let mut inner = outer.create_bucket_if_missing(b"inner").unwrap();
        inner.put(b"large", &[round; 1500]).unwrap();
        inner.put(b"other", b"value").unwrap();
        tx.create_bucket_if_missing(b"tiny").unwrap().put(b"a", b"b").unwrap();
        tx.commit().unwrap();
    }
    disk.contents(FILE).unwrap()
}

#[test]
fn the_small_file_has_every_page_type() {
    let image = Image::new(small_file());
    let pages: Vec<u64> = (2..image.meta(META_HIGH_WATER)).collect();
    assert!(pages.len() < 24, "{} pages", pages.len());
    let root = image.meta(META_ROOT);
    assert_eq!((image.flags(root), image.count(root)), (LEAF, 3));
    assert!(pages.iter().any(|id| image.flags(*id) == BRANCH));
    assert!(pages.iter().any(|id| image.flags(*id) == LEAF && image.overflow(*id) == 1));
    assert_eq!(image.freelist_pages(), 1);
    assert_eq!(open_and_use(&image.bytes), Outcome::Sound);
}

/// Runs all cases and reports each one that panicked.
fn assert_no_panics<T: std::fmt::Debug>(all: impl Iterator<Item = T>, each: impl Fn(&T)) -> u64 {
    let (mut tried, mut panicked) = (0, Vec::new());
    for one in all {
        tried += 1;
        if catch_unwind(AssertUnwindSafe(|| each(&one))).is_err() {
            panicked.push(one);
        }
    }
    assert!(
        panicked.is_empty(),
        "{} of {tried}: {:?}",
        panicked.len(),
        &panicked[..panicked.len().min(20)]
    );
    tried
}

#[test]
fn any_flipped_bit_causes_no_panic() {
    let bytes = small_file();
    let tried = assert_no_panics(0..bytes.len() * 8, |bit| {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        open_and_use(&bytes);
    });
    assert!(tried > 80_000, "{tried} bits");
}

#[test]
fn any_flipped_meta_bit_with_a_valid_checksum_causes_no_panic() {
    let bytes = small_file();
    let meta_bits = (16 * 8..72 * 8).chain((1024 + 16) * 8..(1024 + 72) * 8);
    assert_no_panics(meta_bits, |bit| {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        fix_checksums(&mut bytes);
        open_and_use(&bytes);
    });
}

#[test]
fn many_changed_bytes_cause_no_panic() {
    let bytes = small_file();
    assert_no_panics(0..6_000_u64, |seed| {
        let mut random = SeededRandom::new(*seed);
        let mut bytes = bytes.clone();
        for _ in 0..1 + random.below(12) {
            let at = usize::try_from(random.below(bytes.len() as u64)).unwrap();
            // Small numbers: counts, sizes and page ids consist of them.
            let few = [0, 1, 2, 3, 16, 255];
            bytes[at] = match random.below(2) {
                0 => few[usize::try_from(random.below(6)).unwrap()],
                _ => random.next().to_le_bytes()[0],
            };
        }
        exercise(&bytes);
    });
}

#[test]
fn swapped_pages_cause_no_panic() {
    let image = Image::new(small_file());
    let pages = image.meta(META_HIGH_WATER);
    let swaps = (2..pages).flat_map(|from| (2..pages).map(move |to| (from, to)));
    assert_no_panics(swaps, |(from, to)| {
        let mut image = image.clone();
        let (from, at) = (image.page(*from), image.page(*to));
        image.bytes.copy_within(from..from + 1024, at);
        open_and_use(&image.bytes);
        // With a matching page number, the page passes the header check.
        image.bytes[at..at + 8].copy_from_slice(&to.to_le_bytes());
        open_and_use(&image.bytes);
    });
}

#[test]
fn a_truncated_file_is_refused_or_consistent() {
    let bytes = small_file();
    let used = Image::new(bytes.clone()).meta(META_HIGH_WATER) * 1024;
    assert_no_panics((0..bytes.len()).step_by(64).chain([1, 15, 17, 79, 80, 1023, 1025]), |len| {
        let outcome = open_and_use(&bytes[..*len]);
        // An empty file is initialized as a new database.
        let whole = *len as u64 >= used || *len == 0;
        assert_eq!(outcome, if whole { Outcome::Sound } else { Outcome::Refused }, "{len}");
    });
}

#[test]
fn garbage_is_refused() {
    assert_no_panics(0..300_u64, |seed| {
        let mut random = SeededRandom::new(*seed);
        let len = random.below(20_000) + 1;
        let bytes: Vec<u8> = (0..len).map(|_| random.next().to_le_bytes()[0]).collect();
        assert_eq!(open_and_use(&bytes), Outcome::Refused);
        assert_eq!(open_and_use(&vec![0; bytes.len()]), Outcome::Refused);
    });
}
