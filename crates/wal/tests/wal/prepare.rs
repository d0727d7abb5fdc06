//! Segments prepared ahead of time.

use std::sync::Arc;

use env::{Disk, Fault, OsDisk};
use testkit::waiting::step_until;
use wal::{PrepareTurn, Preparer, Wal};

use crate::common::*;

const SEGMENT: u64 = 3 << 20;

/// Saves until the log cuts a segment.
fn cut(wal: &mut Wal) {
    let seq = wal.written().seq;
    step_until("the log has cut a segment", || {
        let next = wal.last_index() + 1;
        wal.save(&state(1, 0), &entries(1, next..=next, 500_000), true).unwrap();
        wal.written().seq != seq
    });
}

/// Prepares a segment. Returns the number of turns that had work.
fn prepare(preparer: &mut Preparer) -> usize {
    let mut turns = 0;
    step_until("a segment is prepared", || {
        let is_prepared = preparer.turn() != PrepareTurn::Busy;
        turns += usize::from(!is_prepared);
        is_prepared
    });
    turns
}

#[test]
fn a_segment_is_prepared_in_small_steps_and_used() {
    let disk = disk(1);
    let mut wal = create(&disk, SEGMENT);
    let mut preparer = wal.preparer();
    let turns = prepare(&mut preparer);
    assert_eq!(turns, 4, "created, and filled in three steps");
    assert_eq!(names(&disk)[0], "0.tmp");
    assert_eq!(disk.contents(path("0.tmp")).unwrap(), vec![0; 3 << 20]);
    assert_eq!(preparer.turn(), PrepareTurn::Idle);

    let before = disk.calls();
    cut(&mut wal);
    let after = disk.calls();
    assert_eq!(after.creates, before.creates, "the prepared segment is used");
    assert_eq!((after.renames - before.renames, after.dir_syncs - before.dir_syncs), (1, 1));
    assert_eq!(names(&disk).len(), 2, "{:?}", names(&disk));
    assert_eq!(preparer.turn(), PrepareTurn::Busy, "another one is needed");
}

#[test]
fn a_cut_does_not_wait_for_a_segment_in_preparation() {
    let disk = disk(1);
    let mut wal = create(&disk, SEGMENT);
    let mut preparer = wal.preparer();
    assert_eq!((preparer.turn(), preparer.turn()), (PrepareTurn::Busy, PrepareTurn::Busy));
    cut(&mut wal);
    assert_eq!(names(&disk).len(), 3, "two segments, and one in preparation: {:?}", names(&disk));
    prepare(&mut preparer);
    let creates = disk.calls().creates;
    cut(&mut wal);
    assert_eq!(disk.calls().creates, creates, "the next cut uses it");
    wal.close().unwrap();
    assert_eq!(preparer.turn(), PrepareTurn::Done);
    assert_eq!(reopen(&disk, SEGMENT, &snapshot(0, 0)).1.entries.len(), 14);
}

#[test]
fn closing_the_log_removes_prepared_segments() {
    for turns in 0..6 {
        let disk = disk(1);
        let wal = create(&disk, SEGMENT);
        let mut preparer = wal.preparer();
        for _ in 0..turns {
            preparer.turn();
        }
        wal.close().unwrap();
        assert_eq!(preparer.turn(), PrepareTurn::Done);
        assert_eq!(names(&disk).len(), 1, "after {turns} turns: {:?}", names(&disk));
    }
}

#[test]
fn a_preparer_of_a_closed_log_does_not_touch_the_next_log() {
    let disk = disk(1);
    let wal = create(&disk, SEGMENT);
    let mut old = wal.preparer();
    old.turn();
    drop(wal);
    let (wal, _) = reopen(&disk, SEGMENT, &snapshot(0, 0));
    let mut new = wal.preparer();
    prepare(&mut new);
    assert_eq!(old.turn(), PrepareTurn::Done);
    assert_eq!(names(&disk)[0], "0.tmp", "the file of the new log");
}

#[test]
fn the_log_creates_a_segment_when_preparation_failed() {
    let disk = disk(1);
    let mut wal = create(&disk, SEGMENT);
    let mut preparer = wal.preparer();
    disk.fail_change(2, Fault::Enospc);
    assert_eq!(preparer.turn(), PrepareTurn::Busy);
    assert_eq!(preparer.turn(), PrepareTurn::Idle, "preparation failed");
    assert_eq!(preparer.turn(), PrepareTurn::Idle, "it is not retried immediately");
    assert_eq!(names(&disk).len(), 1);
    cut(&mut wal);
    assert_eq!(preparer.turn(), PrepareTurn::Busy, "it is retried after the cut");
}

#[test]
fn a_background_thread_prepares_segments() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("wal");
    let disk: Arc<dyn Disk> = Arc::new(OsDisk);
    let mut wal = Wal::create(Arc::clone(&disk), &dir, METADATA, segments_of(SEGMENT)).unwrap();
    wal.prepare_in_background().unwrap();
    wal.prepare_in_background().unwrap();
    for _ in 0..3 {
        cut(&mut wal);
    }
    let last = wal.last_index();
    wal.close().unwrap();
    let names = disk.read_dir(&dir).unwrap();
    assert!(names.iter().all(|name| name.ends_with(".wal")), "{names:?}");
    assert_eq!(names.len(), 4);
    let read = wal::read_all(&*disk, &dir, &snapshot(0, 0)).unwrap();
    assert_eq!(read.entries.len() as u64, last);
}
