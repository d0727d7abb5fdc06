//! Segments may be removed unless the next start needs them.

use env::SimDisk;
use proto::walpb::Snapshot;
use wal::Wal;

use crate::common::*;

const SMALL: u64 = 2048;

#[test]
fn segments_before_a_snapshot_are_unlocked_and_purged() {
    let disk = disk(1);
    let mut wal = create(&disk, SMALL);
    for index in 1..=17 {
        wal.save(&state(1, index), &[entry(1, index, 500)], true).unwrap();
    }
    wal.save_snapshot(&snapshot(12, 1)).unwrap();
    let all = names(&disk);
    assert_eq!(all.len(), 5, "{all:?}");
    let purge = |keep| wal::purge(&disk, dir(), keep, u64::MAX).unwrap();
    assert!(purge(2).is_empty(), "all are locked");
    wal.release_to(0);
    wal.release_to(1);
    assert!(purge(2).is_empty());
    // Segments start at 0, 5, 9, 13 and 17: entry 12 is in the third.
    wal.release_to(12);
    assert!(purge(5).is_empty(), "not more than the limit");
    assert_eq!(purge(4), all[..1]);
    assert_eq!(purge(2), all[1..2], "the third is still locked");
    assert_eq!(wal.first_needed(), 2);
    wal.save_snapshot(&snapshot(13, 1)).unwrap();
    wal.release_to(13);
    assert!(purge(2).is_empty(), "the third is the last that begins before 13");
    wal.save(&state(1, 18), &[entry(1, 18, 10)], true).unwrap();
    wal.save_snapshot(&snapshot(18, 1)).unwrap();
    wal.release_to(18);
    assert!(purge(0).is_empty(), "no limit");
    assert_eq!(purge(2), all[2..3]);
    assert_eq!(purge(1), all[3..4]);
    wal.save(&state(1, 18), &[entry(1, 19, 10)], true).unwrap();
}

/// The indexes from which the log can be replayed.
fn starts(disk: &SimDisk) -> Vec<u64> {
    wal::valid_snapshots(disk, dir()).unwrap().iter().map(Snapshot::index).collect()
}

/// Saves entries 1 to 20 over several segments, with commit index 5.
fn twenty(disk: &SimDisk) -> Wal {
    let mut wal = create(disk, SMALL);
    for index in 1..=20 {
        wal.save(&state(1, index.min(5)), &[entry(1, index, 500)], true).unwrap();
    }
    wal
}

#[test]
fn a_snapshot_ahead_of_the_commit_index_releases_nothing() {
    let disk = disk(1);
    let mut wal = twenty(&disk);
    let purge = || wal::purge(&disk, dir(), 1, u64::MAX).unwrap().len();
    wal.save_snapshot(&snapshot(18, 1)).unwrap();
    wal.release_to(18);
    assert_eq!((purge(), starts(&disk)), (0, vec![0]));
    wal.save(&state(1, 17), &[], true).unwrap();
    wal.release_to(18);
    assert_eq!((purge(), starts(&disk)), (0, vec![0]));
    wal.save(&state(1, 18), &[], true).unwrap();
    wal.release_to(u64::MAX);
    assert_eq!((purge(), starts(&disk)), (4, vec![18]));
}

/// The commit index is not always synced: if a power cut loses it, the snapshot it covered is not
/// valid.
#[test]
fn segments_are_released_once_the_commit_index_is_durable() {
    let disk = disk(1);
    let mut wal = twenty(&disk);
    let purge = || wal::purge(&disk, dir(), 1, u64::MAX).unwrap().len();
    wal.save_snapshot(&snapshot(18, 1)).unwrap();
    wal.save(&state(1, 18), &[], false).unwrap();
    wal.release_to(18);
    assert_eq!(purge(), 0);
    wal.sync().unwrap();
    wal.release_to(18);
    assert_eq!(purge(), 4);
    // Removed files may come back.
    (0..50)
        .for_each(|seed| assert_eq!(starts(&disk.power_cut(seed)).pop(), Some(18), "seed {seed}"));
}

#[test]
fn a_reopened_log_keeps_the_segments_of_its_next_start() {
    let disk = disk(1);
    let mut wal = twenty(&disk);
    wal.save(&state(1, 10), &[], true).unwrap();
    for index in [7, 10, 18] {
        wal.save_snapshot(&snapshot(index, 1)).unwrap();
    }
    wal.close().unwrap();
    let (mut wal, _) = reopen(&disk, SMALL, &snapshot(7, 1));
    let purge = || wal::purge(&disk, dir(), 1, u64::MAX).unwrap().len();
    // Segments start at 0, 5, 9, 13 and 17.
    assert_eq!(purge(), 1, "segments that were not read are not locked");
    wal.release_to(18);
    assert_eq!(purge(), 1, "10 is committed too, and lies in the third segment");
    wal.close().unwrap();
    assert_eq!(starts(&disk), [7, 10]);
    let (_, contents) = reopen(&disk, SMALL, &snapshot(10, 1));
    assert_eq!(contents.entries, entries(1, 11..=20, 500));
}
