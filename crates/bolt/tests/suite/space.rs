//! Unneeded pages are reused.

use std::sync::Arc;

use bolt::{Db, Options};
use env::{OsClock, OsDisk, SeededRandom, SimDisk};

use crate::support::{assert_consistent, open, options};

/// Overwrites a few of many keys.
fn overwrite(db: &Db, round: u64) {
    let mut tx = db.write().unwrap();
    let mut bucket = tx.create_bucket_if_missing(b"key").unwrap();
    for at in 0..20 {
        let key = (round * 37 + at * 11) % 500;
        bucket.put(format!("{key:04}").as_bytes(), &[round.to_le_bytes()[0]; 200]).unwrap();
    }
    tx.commit().unwrap();
}

fn fill(db: &Db) {
    (0..100).for_each(|round| overwrite(db, round));
}

fn each_way(test: impl Fn(&SimDisk, Options)) {
    for sync_freelist in [false, true] {
        test(&SimDisk::new(0), Options { sync_freelist, ..options() });
    }
}

#[test]
fn a_steady_load_does_not_grow_the_file() {
    each_way(|disk, options| {
        let db = open(disk, &options).unwrap();
        (0..500).for_each(|round| overwrite(&db, round));
        let settled = db.snapshot().size();
        (500..2000).for_each(|round| overwrite(&db, round));
        assert_eq!(db.snapshot().size(), settled);
        assert_consistent(&db.snapshot());
    });
}

#[test]
fn pages_of_a_held_state_are_reused_only_after_it_is_dropped() {
    each_way(|disk, options| {
        let db = open(disk, &options).unwrap();
        fill(&db);
        let settled = db.snapshot().size();
        let held = db.snapshot();
        let before: Vec<_> = read_all(&held);
        (100..300).for_each(|round| overwrite(&db, round));
        let grown = db.snapshot().size();
        // Its pages and the newest ones, but not those of every version in between.
        assert!((settled * 5 / 4..settled * 9 / 4).contains(&grown), "{settled}, then {grown}");
        assert!(
            db.snapshot().size_in_use() <= settled,
            "pages that only a held state needs do not count as used"
        );
        assert_eq!(read_all(&held), before);
        drop(held);
        (300..1000).for_each(|round| overwrite(&db, round));
        assert_eq!(db.snapshot().size(), grown);
        assert_consistent(&db.snapshot());
    });
}

fn read_all(snapshot: &bolt::Snapshot) -> Vec<(Vec<u8>, Vec<u8>)> {
    let bucket = snapshot.bucket(b"key").unwrap().unwrap();
    let mut cursor = bucket.cursor();
    let pair = |item: bolt::Item<'_>| (item.key.to_vec(), item.value.unwrap().to_vec());
    cursor.rest().map(|item| pair(item.unwrap())).collect()
}

#[test]
fn a_held_state_in_the_middle_is_pinned_like_the_oldest() {
    each_way(|disk, options| {
        let db = open(disk, &options).unwrap();
        fill(&db);
        let (first, mut held) = (db.snapshot(), Vec::new());
        for round in 100..140 {
            overwrite(&db, round);
            let snapshot = db.snapshot();
            let contents = read_all(&snapshot);
            held.push((snapshot, contents));
        }
        drop(first);
        // Drops states from the oldest on, never the newest: if a page were freed too soon, one of
        // the rest would change.
        for (round, (snapshot, contents)) in (140..).zip(held) {
            assert_eq!(read_all(&snapshot), contents);
            drop(snapshot);
            overwrite(&db, round);
        }
        assert_consistent(&db.snapshot());
    });
}

#[test]
fn deleting_a_bucket_frees_its_pages() {
    each_way(|disk, options| {
        let db = open(disk, &options).unwrap();
        fill(&db);
        let full = db.snapshot().size_in_use();
        let mut tx = db.write().unwrap();
        tx.root().delete_bucket(b"key").unwrap();
        tx.commit().unwrap();
        let snapshot = db.snapshot();
        assert!(snapshot.size_in_use() <= 4 * 4096, "{} of {full}", snapshot.size_in_use());
        assert_consistent(&snapshot);
        fill(&db);
        let again = db.snapshot().size_in_use();
        assert!(again < full + full / 4, "{full}, then {again}");
    });
}

#[test]
fn pages_freed_before_a_restart_are_reused_after_it() {
    each_way(|disk, options| {
        let db = open(disk, &options).unwrap();
        fill(&db);
        let settled = db.snapshot().size();
        drop(db);
        for round in 100..200 {
            let db = open(disk, &options).unwrap();
            overwrite(&db, round);
            assert_consistent(&db.snapshot());
            assert!(db.snapshot().size() <= settled, "no larger than without a restart");
        }
    });
}

#[test]
fn a_bucket_is_inline_up_to_a_quarter_page_and_without_nested_buckets() {
    let db = open(&SimDisk::new(0), &options()).unwrap();
    let inline = |value: usize, inside: bool| {
        let mut tx = db.write().unwrap();
        let mut bucket = tx.create_bucket_if_missing(b"bucket").unwrap();
        bucket.put(b"k", &vec![1; value]).unwrap();
        if inside {
            bucket.create_bucket_if_missing(b"inside").unwrap();
        }
        tx.commit().unwrap();
        assert_consistent(&db.snapshot());
        db.snapshot().root().stats().unwrap().inline_buckets
    };
    // Page header, element, and a key of one byte.
    let most = 4096 / 4 - 16 - 16 - 1;
    assert_eq!(inline(0, false), 1);
    assert_eq!(inline(most, false), 1);
    assert_eq!(inline(most + 1, false), 0);
    assert_eq!(inline(3 * 4096, false), 0);
    assert_eq!(inline(most, false), 1, "inline again after shrinking");
    assert_eq!(inline(1, true), 1, "only the empty nested bucket is inline");
}

/// Uses a real disk, where a map shows later writes to the file: a page that is reused too soon
/// would be seen.
#[test]
fn held_states_are_unchanged_on_a_real_disk() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, clock) = (Arc::new(OsDisk), OsClock::default());
    let db = Db::open(disk, &clock, &dir.path().join("db"), options()).unwrap();
    fill(&db);
    let mut random = SeededRandom::new(1);
    let mut held = Vec::new();
    for round in 100..400 {
        overwrite(&db, round);
        if random.chance(1, 3) {
            let snapshot = db.snapshot();
            let contents = read_all(&snapshot);
            held.push((snapshot, contents));
        }
        // Any of them may be dropped: the oldest, the newest or one between.
        if held.len() > 4 {
            let gone = usize::try_from(random.below(held.len() as u64)).unwrap();
            held.swap_remove(gone);
        }
        for (snapshot, contents) in &held {
            assert!(read_all(snapshot) == *contents, "state {} in round {round}", snapshot.txid());
        }
    }
    assert_consistent(&db.snapshot());
}
