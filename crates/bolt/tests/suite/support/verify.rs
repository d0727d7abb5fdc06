//! Compares a bucket with its model in every way of reading.

use bolt::{Bucket, Cursor, Item, Snapshot};
use env::SeededRandom;

use super::contents::{Contents, ModelValue};
use super::image::Image;

/// Reads a bucket and its nested buckets in all ways.
pub(crate) fn verify(bucket: &Bucket<'_>, model: &Contents, random: &mut SeededRandom) {
    let items = model.items();
    assert_eq!(bucket.sequence(), model.sequence);
    assert_eq!(bucket.is_empty().unwrap(), items.is_empty());
    forward_and_back(bucket, &items);
    random_moves(bucket.cursor(), &items, random);
    random_lookups(bucket, &items, random);
    for (key, entry) in &model.entries {
        match entry {
            ModelValue::Value(value) => {
                assert_eq!(bucket.get(key).unwrap(), Some(value.as_slice()));
                assert!(bucket.bucket(key).unwrap().is_none(), "a value is not a bucket");
            }
            ModelValue::Bucket(inner) => {
                assert_eq!(bucket.get(key).unwrap(), None, "a bucket is not a value");
                verify(&bucket.bucket(key).unwrap().unwrap(), inner, random);
            }
        }
    }
    for absent in [&b""[..], b"!", b"00003!", b"zzz"] {
        if !model.entries.contains_key(absent) {
            assert_eq!(bucket.get(absent).unwrap(), None);
        }
    }
}

fn forward_and_back(bucket: &Bucket<'_>, items: &[Item<'_>]) {
    let mut cursor = bucket.cursor();
    let forward: Vec<Item<'_>> = cursor.rest().map(|item| item.unwrap()).collect();
    assert!(forward == items, "forward: {} items, expected {}", forward.len(), items.len());
    let mut backward = Vec::new();
    let mut item = cursor.last().unwrap();
    while let Some(found) = item {
        backward.push(found);
        item = cursor.prev().unwrap();
    }
    backward.reverse();
    assert!(backward == items, "backward: {} items, expected {}", backward.len(), items.len());
}

/// Moves a cursor at random. `position` is the index of its item plus one; 0 is before the first.
fn random_moves(mut cursor: Cursor<'_>, items: &[Item<'_>], random: &mut SeededRandom) {
    let mut position = 0;
    for _ in 0..40.min(4 * items.len() + 8) {
        let found = match random.below(12) {
            0 => {
                position = 1;
                cursor.first()
            }
            1 => {
                position = items.len();
                cursor.last()
            }
            2..4 => {
                let key = near(items, random);
                position = items.partition_point(|item| item.key < key.as_slice()) + 1;
                cursor.seek(&key)
            }
            4..8 => {
                position = (position + 1).min(items.len() + 1);
                cursor.next()
            }
            _ => {
                position = position.saturating_sub(1);
                cursor.prev()
            }
        };
        let expected = position.checked_sub(1).and_then(|index| items.get(index).copied());
        assert_eq!(
            found.unwrap().map(short),
            expected.map(short),
            "at {position} of {}",
            items.len()
        );
    }
}

/// Looks keys up with a finger: consecutive, a little ahead, a little back, or random.
fn random_lookups(bucket: &Bucket<'_>, items: &[Item<'_>], random: &mut SeededRandom) {
    let mut finger = bucket.finger();
    let mut position = 0;
    for _ in 0..80.min(4 * items.len() + 8) {
        position = match random.below(8) {
            0..4 => position + 1,
            4 => position + usize::try_from(random.below(20)).unwrap(),
            5 => position.saturating_sub(usize::try_from(random.below(20)).unwrap()),
            _ => usize::try_from(random.below(items.len() as u64 + 1)).unwrap(),
        };
        let key = match items.get(position) {
            Some(item) if random.below(8) > 0 => item.key.to_vec(),
            _ => near(items, random),
        };
        let found = items.binary_search_by_key(&key.as_slice(), |item| item.key);
        let expected = found.ok().and_then(|index| items[index].value);
        assert_eq!(finger.get(&key).unwrap(), expected, "{} of {}", position, items.len());
    }
}

/// Returns an existing key, or one close to it.
fn near(items: &[Item<'_>], random: &mut SeededRandom) -> Vec<u8> {
    let Some(bound) = std::num::NonZeroU64::new(items.len() as u64) else { return b"k".to_vec() };
    let mut key = items[usize::try_from(random.below(bound.get())).unwrap()].key.to_vec();
    match random.below(3) {
        0 => key.push(0),
        1 => {
            key.pop();
        }
        _ => {}
    }
    key
}

/// Returns a short form of an item for assertion messages.
fn short(item: Item<'_>) -> (String, Option<usize>) {
    (
        String::from_utf8_lossy(&item.key[..item.key.len().min(12)]).into(),
        item.value.map(<[u8]>::len),
    )
}

/// Compares the size that a state reports with a count of everything it reaches. `file` holds the
/// bytes of the file right after the commit of that state.
pub(crate) fn verify_size(snapshot: &Snapshot, model: &Contents, file: &[u8]) {
    let stats = snapshot.root().stats().unwrap();
    let count = model.count();
    assert_eq!(stats.keys, count.pairs + count.buckets);
    assert_eq!(stats.buckets, count.buckets + 1, "including the root");
    let pages = stats.branch_pages + stats.leaf_pages + stats.overflow_pages;
    let page_size = snapshot.page_size() as u64;
    assert_eq!(stats.allocated_bytes, pages * page_size);
    let apart = 2 + Image::new(file.to_vec()).freelist_pages();
    assert_eq!(snapshot.size_in_use(), (pages + apart) * page_size);
    assert!(snapshot.size() <= file.len() as u64);
}
