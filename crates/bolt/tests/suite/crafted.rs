//! Files made by hand to lead in circles, to overlap and to lie.
//!
//! All have small pages, and a root bucket on page 3. Opened to be written, most are refused, because the walk that finds the free pages
//! meets the lie; opened to be read, it is met on the way.

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

/// A file with these pages, whose freelist is not saved.
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

/// A root with one bucket, `b`, on page 4.
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
        Err(OpenError::Damaged(damaged)) => (damaged.page(), damaged.reason().to_owned()),
        other => panic!("{other:?}"),
    }
}

/// Refused where it would be written, and met without a panic where it is read. Returns the page and the reason.
fn assert_refused(image: &Image) -> (u64, String) {
    assert_eq!(open_and_use(&image.bytes), Outcome::Refused);
    assert_ne!(read_only(image).snapshot().check(), [], "a check finds it");
    refusal(image)
}

#[test]
fn what_is_made_by_hand_is_sound_if_it_does_not_lie() {
    let image = file_of_bucket(&[
        (4, vec![child(b"a", 5), child(b"m", 6)]),
        (5, vec![pair(b"a"), pair(b"b")]),
        (6, vec![pair(b"m"), Element::Bucket { key: b"n", root: 7 }]),
        (7, vec![Element::Pair { key: b"large", value: vec![1; 3000] }]),
    ]);
    assert_eq!(open_and_use(&image.bytes), Outcome::Sound);
}

#[test]
fn a_branch_that_leads_to_itself() {
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
fn a_branch_that_leads_to_the_root() {
    let image =
        file_of_bucket(&[(4, vec![child(b"a", 5), child(b"b", ROOT)]), (5, vec![pair(b"a")])]);
    assert_eq!(assert_refused(&image).1, "reached twice");
}

#[test]
fn two_branch_elements_that_lead_to_one_page() {
    let image = file_of_bucket(&[(4, vec![child(b"a", 5), child(b"b", 5)]), (5, vec![pair(b"a")])]);
    assert_eq!(assert_refused(&image), (5, "reached twice".into()));
}

#[test]
fn a_tree_that_doubles_at_each_level() {
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
fn a_bucket_whose_root_is_around_it() {
    let itself = file(&[(ROOT, vec![Element::Bucket { key: b"b", root: ROOT }])]);
    assert_eq!(assert_refused(&itself), (ROOT, "reached twice".into()));
    let above = file_of_bucket(&[(4, vec![pair(b"a"), Element::Bucket { key: b"b", root: ROOT }])]);
    assert_eq!(assert_refused(&above), (ROOT, "reached twice".into()));
    assert!(read_only(&above).snapshot().root().stats().is_err());
}

#[test]
fn two_buckets_with_one_root() {
    let bucket = |key| Element::Bucket { key, root: 4 };
    let image = file(&[(ROOT, vec![bucket(b"a"), bucket(b"b")]), (4, vec![pair(b"a")])]);
    assert_eq!(assert_refused(&image), (4, "reached twice".into()));
}

#[test]
fn an_inline_bucket_that_holds_a_bucket() {
    for inside in [
        Element::Bucket { key: b"in", root: 4 },
        Element::InlineBucket { key: b"in", page: encode_page(0, &[pair(b"a")], PAGE_SIZE) },
    ] {
        let page = encode_page(0, &[inside], PAGE_SIZE);
        let root = vec![Element::InlineBucket { key: b"b", page }];
        let image = file(&[(ROOT, root), (4, vec![pair(b"a")])]);
        assert_eq!(assert_refused(&image).1, "a bucket inside an inline bucket");
    }
}

#[test]
fn an_inline_bucket_that_is_no_leaf_or_no_page() {
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
fn a_bucket_without_a_header() {
    let mut image = file_of_bucket(&[(4, vec![pair(b"a")])]);
    // The value's length, the last number of the first element.
    let at = image.page(ROOT) + HEADER + 12;
    image.bytes[at] = 15;
    assert_eq!(assert_refused(&image), (ROOT, "a bucket without a header".into()));
}

/// Changes bytes of the header of page 4, which a bucket has as its root.
fn with_header(at: usize, bytes: &[u8]) -> Image {
    let mut image = file_of_bucket(&[(4, vec![pair(b"a"), pair(b"b")])]);
    let start = image.page(4) + at;
    image.bytes[start..start + bytes.len()].copy_from_slice(bytes);
    image
}

#[test]
fn headers_that_lie() {
    for (at, lie, reason) in [
        (0, &[5_u8][..], "the page says that it is another one"),
        (8, &[0, 0], "neither a branch nor a leaf"),
        (8, &[4, 0], "neither a branch nor a leaf"),
        (8, &[3, 0], "neither a branch nor a leaf"),
        (10, &[64, 0], "more elements than fit"),
        (10, &[255, 255], "more elements than fit"),
        (12, &[1, 0, 0, 0], "overflows the used pages"),
        (12, &[255, 255, 255, 255], "overflows the used pages"),
    ] {
        assert_eq!(assert_refused(&with_header(at, lie)), (4, reason.into()));
    }
}

#[test]
fn a_branch_without_children_and_children_beyond_the_file() {
    let mut empty = file_of_bucket(&[(4, vec![child(b"a", 5)]), (5, vec![pair(b"a")])]);
    let at = empty.page(4) + 10;
    empty.bytes[at] = 0;
    assert_eq!(assert_refused(&empty).0, 4);
    for page in [0, 1, 6, 1 << 40, u64::MAX] {
        let image =
            file_of_bucket(&[(4, vec![child(b"a", 5), child(b"b", page)]), (5, vec![pair(b"a")])]);
        assert_eq!(assert_refused(&image), (page, "beyond the used pages".into()));
    }
}

#[test]
fn more_used_pages_than_the_file_has() {
    for pages in [6, 1 << 20, 1 << 54, 1 << 60, u64::MAX] {
        let mut image = file_of_bucket(&[(4, vec![pair(b"a")])]);
        image.set_meta(META_HIGH_WATER, pages);
        assert_eq!(open_and_use(&image.bytes), Outcome::Refused);
        let (_, reason) = refusal(&image);
        assert!(reason.starts_with("the file ends before"), "{reason}");
    }
}

#[test]
fn a_freelist_of_garbage() {
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
    // A list is not believed, so a wrong one does no harm; the check tells of it.
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
            Outcome::Damaged,
            "{count} {ids:?}"
        );
    }
    // Where there is none, the file is not what it says.
    for (id, flags) in [(5, 2), (4, FREELIST), (1, FREELIST), (7, FREELIST), (1 << 60, FREELIST)] {
        assert_eq!(open_and_use(&list(id, flags, 2, &[2, 6]).bytes), Outcome::Refused, "{id}");
    }
}

#[test]
fn keys_out_of_order_are_an_error_to_the_writer() {
    for keys in [
        &[&b"b"[..], b"c", b"a"][..],
        &[b"b", b"a", b"c"],
        &[b"a", b"a", b"b"],
        &[b"a", b"b", b"b"],
    ] {
        let elements: Vec<_> = keys.iter().map(|key| pair(key)).collect();
        let image = file_of_bucket(&[(4, elements)]);
        assert_eq!(open_and_use(&image.bytes), Outcome::Damaged);
        let db = open(&disk_with(&image.bytes), &options()).unwrap();
        let mut tx = db.write().unwrap();
        let mut bucket = tx.bucket(b"b").unwrap();
        for key in [b"a", b"b", b"c"] {
            if bucket.get(key).unwrap().is_some() {
                let error = bucket.delete(key).unwrap_err();
                assert!(
                    matches!(error, Error::Damaged(ref damaged) if damaged.page() == 4),
                    "{error}"
                );
            }
        }
    }
}

#[test]
fn a_pair_and_a_bucket_of_one_name() {
    let bucket = || Element::Bucket { key: b"x", root: 5 };
    for elements in [
        vec![pair(b"x"), bucket()],
        vec![bucket(), pair(b"x")],
        vec![bucket(), pair(b"x"), pair(b"y")],
    ] {
        let image = file_of_bucket(&[(4, elements), (5, vec![pair(b"a")])]);
        assert_eq!(open_and_use(&image.bytes), Outcome::Damaged);
    }
}

#[test]
fn elements_that_overlap_do_not_multiply_when_they_are_written() {
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

/// As many levels as are allowed, in as many buckets inside each other as are allowed.
#[test]
fn the_deepest_file_that_is_read_does_not_exhaust_the_stack() {
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
    // With the stack that a thread of an asynchronous runtime has.
    let used = std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(move || open_and_use(&image.bytes))
        .unwrap()
        .join();
    assert!(used.is_ok());
}

#[test]
fn buckets_are_nested_no_deeper_than_can_be_read_again() {
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
fn a_cursor_that_met_damage_shows_nothing_that_is_not_there() {
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

/// A leaf whose elements are all buckets, and all the same bytes: an inline bucket with as many elements. Following each of them would take
/// the square of the file's size.
#[test]
fn buckets_that_share_their_bytes_are_not_followed() {
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
    assert!(matches!(open(&disk_with(&image.bytes), &options()), Err(OpenError::Damaged(_))));
    let db = read_only(&image);
    assert_eq!(db.snapshot().check().len(), 1, "and what is behind it is not looked at");
    assert!(db.snapshot().root().stats().is_err());
}

/// A key and a value that together are longer than a number can tell.
#[test]
fn a_pair_longer_than_there_can_be_is_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
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
    // The rest is zeros that take no space.
    disk.open(&path, env::Open::write()).unwrap().set_len((ROOT + pages) * 4096).unwrap();
    let db = Db::open(disk, &clock, &path, options()).unwrap();
    let mut tx = db.write().unwrap();
    let refused = tx.create_bucket_if_missing(b"x").map(drop);
    assert!(matches!(refused, Err(Error::Damaged(_))), "{refused:?}");
}
