//! Handcrafted files with cycles, overlaps and inconsistent headers.
//!
//! All have small pages, and a root bucket on page 3. Opening for writing refuses most of them,
//! because the walk that finds the free pages meets the corruption; in read-only mode, reads meet
//! it.

use std::sync::Arc;

use bolt::{Db, Error, OpenError, Options};
use env::{Disk, OsClock, OsDisk};

use crate::exercise::{Outcome, open_and_use};
use crate::support::image::{
    Element, FREELIST, HEADER, Image, META_FREELIST, META_HIGH_WATER, META_ROOT, encode_page,
};
use crate::support::{FILE, disk_with, open, options};

const PAGE_SIZE: usize = 1024;
const ROOT: u64 = 3;

/// Builds a file with the given pages and no saved freelist.
fn file(pages: &[(u64, Vec<Element<'_>>)]) -> Image {
    let disk = env::SimDisk::new(0);
    drop(open(&disk, &Options { page_size: PAGE_SIZE, ..options() }).unwrap());
    let mut image = Image::new(disk.contents(FILE).unwrap());
    for (id, elements) in pages {
        image.write_page(*id, elements);
    }
    let pages = (image.bytes.len() / PAGE_SIZE) as u64;
    image.set_meta(META_ROOT, ROOT);
    image.set_meta(META_FREELIST, u64::MAX);
    image.set_meta(META_HIGH_WATER, pages);
    image
}

/// Builds a file whose root has one bucket, `b`, on page 4.
fn file_of_bucket(pages: &[(u64, Vec<Element<'_>>)]) -> Image {
    let root = (ROOT, vec![Element::Bucket { key: b"b", root: 4 }]);
    file(&[&[root], pages].concat())
}

fn child(key: &[u8], page: u64) -> Element<'_> {
    Element::Child { key, page }
}

fn pair(key: &[u8]) -> Element<'_> {
    Element::Pair { key, value: b"value".to_vec() }
}

fn read_only(image: &Image) -> Db {
    open(&disk_with(&image.bytes), &Options { read_only: true, ..options() }).unwrap()
}

fn refusal(image: &Image) -> (u64, String) {
    match open(&disk_with(&image.bytes), &options()) {
        Err(OpenError::Corrupt(corrupt)) => (corrupt.page(), corrupt.reason().to_owned()),
        other => panic!("{other:?}"),
    }
}

/// Asserts that opening for writing fails and that reading finds the corruption without a panic.
/// Returns the page and the reason.
fn assert_refused(image: &Image) -> (u64, String) {
    assert_eq!(open_and_use(&image.bytes), Outcome::Refused);
    assert_ne!(read_only(image).snapshot().check(), [], "the check reports it");
    refusal(image)
}

#[test]
fn handcrafted_files_pass_the_check_unless_corrupted() {
    let image = file_of_bucket(&[
        (4, vec![child(b"a", 5), child(b"m", 6)]),
        (5, vec![pair(b"a"), pair(b"b")]),
        (6, vec![pair(b"m"), Element::Bucket { key: b"n", root: 7 }]),
        (7, vec![Element::Pair { key: b"large", value: vec![1; 3000] }]),
    ]);
    assert_eq!(open_and_use(&image.bytes), Outcome::Sound);
}

#[test]
fn a_branch_that_refers_to_itself_is_refused() {
    let image = file_of_bucket(&[(4, vec![child(b"a", 4), child(b"b", 4)])]);
    assert_eq!(assert_refused(&image), (4, "reached twice".into()));
    let db = read_only(&image);
    let snapshot = db.snapshot();
    let bucket = snapshot.bucket(b"b").unwrap().unwrap();
    assert!(bucket.get(b"a").is_err());
    assert!(bucket.cursor().first().is_err());
    assert!(bucket.cursor().last().is_err());
    assert!(bucket.cursor().seek(b"b").is_err());
    assert!(bucket.stats().is_err());
}

#[test]
fn a_branch_that_refers_to_the_root_is_refused() {
    let image =
        file_of_bucket(&[(4, vec![child(b"a", 5), child(b"b", ROOT)]), (5, vec![pair(b"a")])]);
    assert_eq!(assert_refused(&image).1, "reached twice");
}

#[test]
fn two_branch_elements_with_one_child_page_are_refused() {
    let image = file_of_bucket(&[(4, vec![child(b"a", 5), child(b"b", 5)]), (5, vec![pair(b"a")])]);
    assert_eq!(assert_refused(&image), (5, "reached twice".into()));
}

#[test]
fn a_tree_that_doubles_at_each_level_is_refused() {
    let mut pages: Vec<_> =
        (4..50).map(|id| (id, vec![child(b"a", id + 1), child(b"b", id + 1)])).collect();
    pages.push((50, vec![pair(b"a")]));
    let image = file_of_bucket(&pages);
    assert_eq!(assert_refused(&image).1, "reached twice");
    // 2^46 times the same pair: a cursor gives up after as many pages as the file has.
    let db = read_only(&image);
    let snapshot = db.snapshot();
    let bucket = snapshot.bucket(b"b").unwrap().unwrap();
    let mut cursor = bucket.cursor();
    assert!(cursor.rest().take(100).any(|item| item.is_err()));
    assert!(bucket.stats().is_err());
    assert_eq!(bucket.get(b"a").unwrap(), Some(&b"value"[..]));
}

#[test]
fn a_bucket_nested_in_its_own_root_is_refused() {
    let itself = file(&[(ROOT, vec![Element::Bucket { key: b"b", root: ROOT }])]);
    assert_eq!(assert_refused(&itself), (ROOT, "reached twice".into()));
    let above = file_of_bucket(&[(4, vec![pair(b"a"), Element::Bucket { key: b"b", root: ROOT }])]);
    assert_eq!(assert_refused(&above), (ROOT, "reached twice".into()));
    assert!(read_only(&above).snapshot().root().stats().is_err());
}

#[test]
fn two_buckets_with_one_root_are_refused() {
    let bucket = |key| Element::Bucket { key, root: 4 };
    let image = file(&[(ROOT, vec![bucket(b"a"), bucket(b"b")]), (4, vec![pair(b"a")])]);
    assert_eq!(assert_refused(&image), (4, "reached twice".into()));
}

#[test]
fn an_inline_bucket_with_a_nested_bucket_is_refused() {
    for inside in [
        Element::Bucket { key: b"in", root: 4 },
        Element::InlineBucket { key: b"in", page: encode_page(0, &[pair(b"a")], PAGE_SIZE) },
    ] {
        let page = encode_page(0, &[inside], PAGE_SIZE);
        let root = vec![Element::InlineBucket { key: b"b", page }];
        let image = file(&[(ROOT, root), (4, vec![pair(b"a")])]);
        assert_eq!(assert_refused(&image).1, "inline bucket contains a bucket");
    }
}

#[test]
fn an_inline_bucket_without_a_leaf_page_is_refused() {
    let branch = encode_page(0, &[child(b"a", 4)], PAGE_SIZE);
    let mut too_many = encode_page(0, &[pair(b"a")], PAGE_SIZE);
    too_many[10] = 200;
    for page in [branch, too_many, Vec::new(), vec![0; 7]] {
        let image =
            file(&[(ROOT, vec![Element::InlineBucket { key: b"b", page }]), (4, vec![pair(b"a")])]);
        let (page, reason) = assert_refused(&image);
        assert_eq!(page, ROOT, "{reason}");
    }
}

#[test]
fn a_bucket_without_a_header_is_refused() {
    let mut image = file_of_bucket(&[(4, vec![pair(b"a")])]);
    // The size of the value, the last field of the first element.
    let at = image.page(ROOT) + HEADER + 12;
    image.bytes[at] = 15;
    assert_eq!(assert_refused(&image), (ROOT, "bucket header truncated".into()));
}

/// Overwrites bytes in the header of page 4, the root of a bucket.
fn with_header(at: usize, bytes: &[u8]) -> Image {
    let mut image = file_of_bucket(&[(4, vec![pair(b"a"), pair(b"b")])]);
    let start = image.page(4) + at;
    image.bytes[start..start + bytes.len()].copy_from_slice(bytes);
    image
}

#[test]
fn inconsistent_page_headers_are_refused() {
    for (at, lie, reason) in [
        (0, &[5_u8][..], "page header has the wrong page number"),
        (8, &[0, 0], "neither a branch nor a leaf page"),
        (8, &[4, 0], "neither a branch nor a leaf page"),
        (8, &[3, 0], "neither a branch nor a leaf page"),
        (10, &[64, 0], "more elements than fit the page"),
        (10, &[255, 255], "more elements than fit the page"),
        (12, &[1, 0, 0, 0], "overflow pages beyond the high water mark"),
        (12, &[255, 255, 255, 255], "overflow pages beyond the high water mark"),
    ] {
        assert_eq!(assert_refused(&with_header(at, lie)), (4, reason.into()));
    }
}

#[test]
fn a_branch_without_children_or_with_children_out_of_bounds_is_refused() {
    let mut empty = file_of_bucket(&[(4, vec![child(b"a", 5)]), (5, vec![pair(b"a")])]);
    let at = empty.page(4) + 10;
    empty.bytes[at] = 0;
    assert_eq!(assert_refused(&empty).0, 4);
    for page in [0, 1, 6, 1 << 40, u64::MAX] {
        let image =
            file_of_bucket(&[(4, vec![child(b"a", 5), child(b"b", page)]), (5, vec![pair(b"a")])]);
        assert_eq!(assert_refused(&image), (page, "page number beyond the high water mark".into()));
    }
}

#[test]
fn a_high_water_mark_beyond_the_end_of_the_file_is_refused() {
    for pages in [6, 1 << 20, 1 << 54, 1 << 60, u64::MAX] {
        let mut image = file_of_bucket(&[(4, vec![pair(b"a")])]);
        image.set_meta(META_HIGH_WATER, pages);
        assert_eq!(open_and_use(&image.bytes), Outcome::Refused);
        let (_, reason) = refusal(&image);
        assert!(reason.starts_with("file truncated"), "{reason}");
    }
}

#[test]
fn a_wrong_freelist_is_ignored_and_reported_by_the_check() {
    let list = |id: u64, flags: u16, count: u16, ids: &[u64]| {
        let mut image =
            file_of_bucket(&[(4, vec![pair(b"a")]), (5, vec![pair(b"x")]), (6, vec![])]);
        let at = image.page(5);
        image.bytes[at + 8..at + 10].copy_from_slice(&flags.to_le_bytes());
        image.bytes[at + 10..at + 12].copy_from_slice(&count.to_le_bytes());
        let ids: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        image.bytes[at + 16..at + 16 + ids.len()].copy_from_slice(&ids);
        image.set_meta(META_FREELIST, id);
        image
    };
    assert_eq!(open_and_use(&list(5, FREELIST, 2, &[2, 6]).bytes), Outcome::Sound);
    // The saved freelist is not trusted, so a wrong one does no harm; the check reports it.
    for (count, ids) in [
        (1, vec![2]),
        (2, vec![6, 6]),
        (2, vec![4, 6]),
        (3, vec![2, 6, 1 << 50]),
        (2, vec![0, 1]),
        (0xfffe, vec![]),
        (0xffff, vec![u64::MAX]),
        (0xffff, vec![1 << 61]),
    ] {
        assert_eq!(
            open_and_use(&list(5, FREELIST, count, &ids).bytes),
            Outcome::Corrupt,
            "{count} {ids:?}"
        );
    }
    // A freelist page of another type makes the file inconsistent.
    for (id, flags) in [(5, 2), (4, FREELIST), (1, FREELIST), (7, FREELIST), (1 << 60, FREELIST)] {
        assert_eq!(open_and_use(&list(id, flags, 2, &[2, 6]).bytes), Outcome::Refused, "{id}");
    }
}

#[test]
fn unsorted_keys_are_an_error_for_the_writer() {
    for keys in [
        &[&b"b"[..], b"c", b"a"][..],
        &[b"b", b"a", b"c"],
        &[b"a", b"a", b"b"],
        &[b"a", b"b", b"b"],
    ] {
        let elements: Vec<_> = keys.iter().map(|key| pair(key)).collect();
        let image = file_of_bucket(&[(4, elements)]);
        assert_eq!(open_and_use(&image.bytes), Outcome::Corrupt);
        let db = open(&disk_with(&image.bytes), &options()).unwrap();
        let mut tx = db.write().unwrap();
        let mut bucket = tx.bucket(b"b").unwrap();
        for key in [b"a", b"b", b"c"] {
            if bucket.get(key).unwrap().is_some() {
                let error = bucket.delete(key).unwrap_err();
                assert!(
                    matches!(error, Error::Corrupt(ref corrupt) if corrupt.page() == 4),
                    "{error}"
                );
            }
        }
    }
}

#[test]
fn a_pair_and_a_bucket_of_the_same_name_are_an_error() {
    let bucket = || Element::Bucket { key: b"x", root: 5 };
    for elements in [
        vec![pair(b"x"), bucket()],
        vec![bucket(), pair(b"x")],
        vec![bucket(), pair(b"x"), pair(b"y")],
    ] {
        let image = file_of_bucket(&[(4, elements), (5, vec![pair(b"a")])]);
        assert_eq!(open_and_use(&image.bytes), Outcome::Corrupt);
    }
}

#[test]
fn overlapping_elements_are_not_rewritten() {
    // A page of 16 KiB whose 500 elements each claim 7 KB of it.
    let (count, key_at) = (500_usize, 500 * 16);
    let mut image =
        file_of_bucket(&[(4, vec![Element::Pair { key: b"a", value: vec![0; 15_000] }])]);
    let at = image.page(4);
    image.bytes[at + 10..at + 12].copy_from_slice(&u16::try_from(count).unwrap().to_le_bytes());
    for index in 0..count {
        let element = at + HEADER + index * 16;
        let key = u32::try_from(key_at - index * 16 + 2 * index).unwrap();
        for (field, number) in [0, key, 2, 6_000].into_iter().enumerate() {
            let at = element + field * 4;
            image.bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        let key_at = at + HEADER + 500 * 16 + 2 * index;
        image.bytes[key_at..key_at + 2]
            .copy_from_slice(&u16::try_from(index).unwrap().to_be_bytes());
    }
    let disk = disk_with(&image.bytes);
    let db = open(&disk, &options()).unwrap();
    let mut tx = db.write().unwrap();
    let put = tx.bucket(b"b").unwrap().put(b"zz", b"value");
    let committed = tx.commit();
    assert!(
        put.is_err() || committed.is_err() || db.snapshot().size() < 100_000,
        "{}",
        db.snapshot().size()
    );
}

/// Maximum tree depth, in the maximum number of nested buckets.
#[test]
fn the_deepest_readable_file_does_not_exhaust_the_stack() {
    let (nesting, depth) = (62, 62);
    let mut pages = Vec::new();
    let mut id = ROOT;
    for _ in 0..nesting {
        for _ in 0..depth {
            pages.push((id, vec![child(b"b", id + 1)]));
            id += 1;
        }
        pages.push((id, vec![Element::Bucket { key: b"b", root: id + 1 }]));
        id += 1;
    }
    pages.push((id, vec![pair(b"b")]));
    let image = file(&pages);
    // Uses the stack size of an async runtime's thread.
    let used = std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(move || open_and_use(&image.bytes))
        .unwrap()
        .join();
    assert!(used.is_ok());
}

#[test]
fn buckets_are_nested_no_deeper_than_can_be_read() {
    let disk = env::SimDisk::new(0);
    let db = open(&disk, &options()).unwrap();
    let mut tx = db.write().unwrap();
    let nested = (0..100).try_fold(tx.root(), |bucket, _| bucket.into_bucket_if_missing(b"deeper"));
    let refused = nested.map(drop).is_err();
    tx.commit().unwrap();
    drop(db);
    let db = open(&disk, &options()).unwrap();
    assert_eq!(db.snapshot().check(), []);
    assert_eq!(db.snapshot().root().stats().unwrap().buckets > 100, !refused);
}

#[test]
fn a_cursor_yields_only_existing_keys_after_an_error() {
    let image = file_of_bucket(&[
        (4, vec![child(b"a", 5), child(b"g", 99), child(b"m", 6), child(b"p", 6)]),
        (5, vec![pair(b"a"), pair(b"b")]),
        (6, vec![pair(b"m"), pair(b"n")]),
    ]);
    let db = read_only(&image);
    let snapshot = db.snapshot();
    let bucket = snapshot.bucket(b"b").unwrap().unwrap();
    let there = [&b"a"[..], b"b", b"m", b"n"];
    let mut cursor = bucket.cursor();
    let forward: Vec<_> = (0..20).map(|_| cursor.next()).collect();
    let mut item = cursor.last();
    let mut backward = Vec::new();
    for _ in 0..20 {
        backward.push(item);
        item = cursor.prev();
    }
    for found in [forward, backward] {
        assert!(found.iter().any(Result::is_err));
        for item in found.into_iter().flatten().flatten() {
            assert!(there.contains(&item.key), "{item:?}");
        }
    }
}

/// A leaf whose elements are all buckets that share the same bytes, an inline bucket with as many
/// elements. Following each of them would take quadratic time.
#[test]
fn overlapping_inline_buckets_are_not_followed() {
    const BUCKETS: usize = 10_000;
    let mut image = file(&[]);
    let value_len = 16 + HEADER + 16 * BUCKETS;
    let data = HEADER + 16 * BUCKETS;
    let pages = (data + 8 + value_len).div_ceil(PAGE_SIZE);
    let at = usize::try_from(ROOT).unwrap() * PAGE_SIZE;
    image.bytes.resize(at + pages * PAGE_SIZE, 0);
    let short = |number: usize| u32::try_from(number).unwrap().to_le_bytes();
    let page = &mut image.bytes[at..];
    page[8..10].copy_from_slice(&2_u16.to_le_bytes());
    page[10..12].copy_from_slice(&short(BUCKETS)[..2]);
    page[12..16].copy_from_slice(&short(pages - 1));
    for element in (HEADER..).step_by(16).take(BUCKETS) {
        let numbers = [short(1), short(data - element), short(8), short(value_len)];
        page[element..element + 16].copy_from_slice(numbers.as_flattened());
    }
    let inline = &mut page[data + 8 + 16..];
    inline[8..10].copy_from_slice(&2_u16.to_le_bytes());
    inline[10..12].copy_from_slice(&short(BUCKETS)[..2]);
    image.set_meta(META_HIGH_WATER, ROOT + pages as u64);
    assert!(matches!(open(&disk_with(&image.bytes), &options()), Err(OpenError::Corrupt(_))));
    let db = read_only(&image);
    assert_eq!(
        db.snapshot().check().len(),
        1,
        "the check does not follow the overlapping elements"
    );
    assert!(db.snapshot().root().stats().is_err());
}

/// A key and a value whose total size exceeds `u32`.
#[test]
fn an_oversized_pair_is_refused_by_the_writer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE);
    let (disk, clock): (Arc<dyn Disk>, _) = (Arc::new(OsDisk), OsClock::default());
    drop(Db::open(Arc::clone(&disk), &clock, &path, options()).unwrap());
    let mut image = Image::new(std::fs::read(&path).unwrap());
    let pages = (1_u64 << 20) + 2;
    let page = &mut image.bytes[usize::try_from(ROOT).unwrap() * 4096..];
    page[10..12].copy_from_slice(&1_u16.to_le_bytes());
    page[12..16].copy_from_slice(&u32::try_from(pages - 1).unwrap().to_le_bytes());
    for (at, number) in [(16, 0_u32), (20, 16), (24, 1 << 31), (28, 1 << 31)] {
        page[at..at + 4].copy_from_slice(&number.to_le_bytes());
    }
    image.set_meta(META_HIGH_WATER, ROOT + pages);
    std::fs::write(&path, &image.bytes).unwrap();
    // The rest of the file is sparse.
    disk.open(&path, env::Open::write()).unwrap().set_len((ROOT + pages) * 4096).unwrap();
    let db = Db::open(disk, &clock, &path, options()).unwrap();
    let mut tx = db.write().unwrap();
    let refused = tx.create_bucket_if_missing(b"x").map(drop);
    assert!(matches!(refused, Err(Error::Corrupt(_))), "{refused:?}");
}
