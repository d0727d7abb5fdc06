//! Automatic compaction follows its flags.

use super::super::BackgroundTask;
use super::super::compaction::auto_compaction;
use super::*;
use crate::config::AutoCompaction;

const MINUTE: Duration = Duration::from_secs(60);

fn rig(mode: AutoCompaction) -> (Rig, Box<dyn BackgroundTask>) {
    let mut rig = Rig::with(|config| config.auto_compaction = mode);
    rig.lead();
    let task = auto_compaction(&rig.server).unwrap();
    (rig, task)
}

/// Advances time in steps with one put each. Returns the compacted revisions with their steps.
fn run(
    rig: &mut Rig,
    task: &mut dyn BackgroundTask,
    steps: u32,
    step: Duration,
) -> Vec<(u32, i64)> {
    let mut compacted = Vec::new();
    for number in 1..=steps {
        rig.put("a");
        let now = rig.advance(step);
        task.turn(now);
        let requests = rig.complete_all();
        compacted.extend(requests.iter().map(|it| (number, it.compaction.unwrap().revision)));
        task.turn(now);
    }
    compacted
}

#[test]
fn compaction_is_off_without_a_retention() {
    for mode in
        [AutoCompaction::Off, AutoCompaction::Periodic(Duration::ZERO), AutoCompaction::Revision(0)]
    {
        let rig = Rig::with(|config| config.auto_compaction = mode);
        assert!(auto_compaction(&rig.server).is_none(), "{mode:?}");
    }
}

/// The revision is 1 at the start and grows by one per step.
#[test]
fn a_period_of_an_hour_compacts_to_the_revision_of_an_hour_ago() {
    let (mut rig, mut task) = rig(AutoCompaction::Periodic(60 * MINUTE));
    let compacted = run(&mut rig, &mut *task, 31, 6 * MINUTE);
    assert_eq!(compacted, [(10, 1), (20, 10), (30, 20)]);
    assert_eq!(rig.server.state().store.compacted(), 20);
}

#[test]
fn a_long_period_is_compacted_every_hour() {
    let (mut rig, mut task) = rig(AutoCompaction::Periodic(120 * MINUTE));
    let compacted = run(&mut rig, &mut *task, 41, 6 * MINUTE);
    assert_eq!(compacted, [(20, 1), (30, 10), (40, 20)]);
}

#[test]
fn a_short_period_is_compacted_once_per_period() {
    let (mut rig, mut task) = rig(AutoCompaction::Periodic(5 * SECOND));
    let compacted = run(&mut rig, &mut *task, 21, SECOND / 2);
    assert_eq!(compacted, [(10, 1), (20, 10)]);
}

#[test]
fn an_unchanged_revision_is_not_compacted_again() {
    let (mut rig, mut task) = rig(AutoCompaction::Periodic(10 * MINUTE));
    let mut compacted = Vec::new();
    for _ in 0..40 {
        let now = rig.advance(MINUTE);
        task.turn(now);
        compacted.extend(rig.complete_all().iter().map(|it| it.compaction.unwrap().revision));
        task.turn(now);
    }
    assert_eq!(compacted, [1]);
}

#[test]
fn a_failed_compaction_is_retried_at_the_next_note() {
    let (mut rig, mut task) = rig(AutoCompaction::Periodic(60 * MINUTE));
    assert!(run(&mut rig, &mut *task, 9, 6 * MINUTE).is_empty());
    let now = rig.advance(6 * MINUTE);
    let next = task.turn(now);
    assert!(next < now + SECOND, "polls for the reply");
    rig.fail_all(&Error::Timeout);
    assert_eq!(task.turn(now), now + 6 * MINUTE);
    rig.put("a");
    let now = rig.advance(6 * MINUTE);
    task.turn(now);
    let requests = rig.complete_all();
    assert_eq!(requests[0].compaction.unwrap().revision, 1, "retries the same revision");
}

#[test]
fn a_follower_notes_revisions_and_compacts_nothing() {
    let (mut rig, mut task) = rig(AutoCompaction::Periodic(60 * MINUTE));
    rig.follow();
    assert!(run(&mut rig, &mut *task, 15, 6 * MINUTE).is_empty());
    rig.lead();
    let compacted = run(&mut rig, &mut *task, 1, 6 * MINUTE);
    assert_eq!(compacted, [(1, 6)], "the revision noted an hour ago as a follower");
}

#[test]
fn a_revision_that_a_client_compacted_counts_as_success() {
    let (mut rig, mut task) = rig(AutoCompaction::Periodic(60 * MINUTE));
    assert!(run(&mut rig, &mut *task, 9, 6 * MINUTE).is_empty());
    let compaction = Some(pb::CompactionRequest { revision: 5, physical: false });
    rig.apply_ok(&InternalRaftRequest { compaction, ..header() });
    let compacted = run(&mut rig, &mut *task, 11, 6 * MINUTE);
    assert_eq!(compacted, [(1, 1), (11, 10)], "refused as compacted; next after an hour");
}

#[test]
fn the_configured_number_of_revisions_is_kept() {
    let (mut rig, mut task) = rig(AutoCompaction::Revision(3));
    assert!(run(&mut rig, &mut *task, 4, MINUTE).is_empty());
    assert_eq!(run(&mut rig, &mut *task, 1, MINUTE), [(1, 3)], "6 - 3");
    let now = rig.advance(5 * MINUTE);
    task.turn(now);
    assert!(rig.take_proposed().is_empty(), "no new revisions");
    assert_eq!(run(&mut rig, &mut *task, 1, 5 * MINUTE), [(1, 4)]);
}

#[test]
fn fewer_revisions_than_the_retention_are_all_kept() {
    let (mut rig, mut task) = rig(AutoCompaction::Revision(100));
    assert!(run(&mut rig, &mut *task, 10, 5 * MINUTE).is_empty());
}
