//! Comparing what is read with the model, by every way to read.

use bolt::{Bucket, Cursor, Item, Snapshot};
use env::SeededRandom;

use super::contents::{Contents, Thing};
use super::image::Image;

/// Reads a bucket, and those inside it, in all ways.
pub(crate) fn verify(bucket: &Bucket<'_>, model: &Contents, random: &mut SeededRandom) {
    let items = model.items();
    assert_eq!(bucket.sequence(), model.sequence);
    assert_eq!(bucket.is_empty().unwrap(), items.is_empty());
    forward_and_back(bucket, &items);
    wander(bucket.cursor(), &items, random);
    point(bucket, &items, random);
    for (key, thing) in &model.things {
        match thing {
            Thing::Value(value) => {
                assert_eq!(bucket.get(key).unwrap(), Some(value.as_slice()));
                assert!(bucket.bucket(key).unwrap().is_none(), "a value is no bucket");
            }
            Thing::Bucket(inner) => {
                assert_eq!(bucket.get(key).unwrap(), None, "a bucket is no value");
                verify(&bucket.bucket(key).unwrap().unwrap(), inner, random);
            }
        }
    }
    for absent in [&b""[..], b"!", b"00003!", b"zzz"] {
        if !model.things.contains_key(absent) {
            assert_eq!(bucket.get(absent).unwrap(), None);
        }
    }
}

fn forward_and_back(bucket: &Bucket<'_>, items: &[Item<'_>]) {
    let mut cursor = bucket.cursor();
    let forward: Vec<Item<'_>> = cursor.rest().map(|item| item.unwrap()).collect();
    assert!(forward == items, "forward: {} items, not {}", forward.len(), items.len());
    let mut backward = Vec::new();
    let mut item = cursor.last().unwrap();
    while let Some(found) = item {
        backward.push(found);
        item = cursor.prev().unwrap();
    }
    backward.reverse();
    assert!(backward == items, "backward: {} items, not {}", backward.len(), items.len());
}

/// Moves a cursor at random. `place` is the index of the item it stands on, plus one: zero is before the first.
fn wander(mut cursor: Cursor<'_>, items: &[Item<'_>], random: &mut SeededRandom) {
    let mut place = 0;
    for _ in 0..40.min(4 * items.len() + 8) {
        let found = match random.below(12) {
            0 => {
                place = 1;
                cursor.first()
            }
            1 => {
                place = items.len();
                cursor.last()
            }
            2..4 => {
                let key = near(items, random);
                place = items.partition_point(|item| item.key < key.as_slice()) + 1;
                cursor.seek(&key)
            }
            4..8 => {
                place = (place + 1).min(items.len() + 1);
                cursor.next()
            }
            _ => {
                place = place.saturating_sub(1);
                cursor.prev()
            }
        };
        let expected = place.checked_sub(1).and_then(|index| items.get(index).copied());
        assert_eq!(found.unwrap().map(short), expected.map(short), "at {place} of {}", items.len());
    }
}

/// Looks keys up with a finger: one after the other, some on, some back, or wherever.
fn point(bucket: &Bucket<'_>, items: &[Item<'_>], random: &mut SeededRandom) {
    let mut finger = bucket.finger();
    let mut place = 0;
    for _ in 0..80.min(4 * items.len() + 8) {
        place = match random.below(8) {
            0..4 => place + 1,
            4 => place + usize::try_from(random.below(20)).unwrap(),
            5 => place.saturating_sub(usize::try_from(random.below(20)).unwrap()),
            _ => usize::try_from(random.below(items.len() as u64 + 1)).unwrap(),
        };
        let key = match items.get(place) {
            Some(item) if random.below(8) > 0 => item.key.to_vec(),
            _ => near(items, random),
        };
        let found = items.binary_search_by_key(&key.as_slice(), |item| item.key);
        let expected = found.ok().and_then(|index| items[index].value);
        assert_eq!(finger.get(&key).unwrap(), expected, "{} of {}", place, items.len());
    }
}

/// A key that is there, or one just beside it.
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

/// Enough of an item to tell it from others, and to read in a message.
fn short(item: Item<'_>) -> (String, Option<usize>) {
    (
        String::from_utf8_lossy(&item.key[..item.key.len().min(12)]).into(),
        item.value.map(<[u8]>::len),
    )
}

/// Compares what a state says about its size with a count of everything it reaches. `file` is the file as it is right after
/// the commit of that state.
pub(crate) fn verify_size(snapshot: &Snapshot, model: &Contents, file: &[u8]) {
    let stats = snapshot.root().stats().unwrap();
    let count = model.count();
    assert_eq!(stats.keys, count.pairs + count.buckets);
    assert_eq!(stats.buckets, count.buckets + 1, "the root is one more");
    let pages = stats.branch_pages + stats.leaf_pages + stats.overflow_pages;
    let page_size = snapshot.page_size() as u64;
    assert_eq!(stats.allocated_bytes, pages * page_size);
    let apart = 2 + Image::new(file.to_vec()).freelist_pages();
    assert_eq!(snapshot.size_in_use(), (pages + apart) * page_size);
    assert!(snapshot.size() <= file.len() as u64);
}
