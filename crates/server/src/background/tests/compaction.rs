//! Automatic compaction follows its flags.

use super::super::BackgroundTask;
use super::super::compaction::auto_compaction;
use super::*;
use crate::config::AutoCompaction;

const MINUTE: Duration = Duration::from_secs(60);

fn member(mode: AutoCompaction) -> (ManualMember, Box<dyn BackgroundTask>) {
    let mut member = ManualMember::with(|config| config.auto_compaction = mode);
    member.lead();
    let task = auto_compaction(&member.server).unwrap();
    (member, task)
}

/// Advances time in steps with one put each. Returns the compacted revisions with their steps.
fn run(
    member: &mut ManualMember,
    task: &mut dyn BackgroundTask,
    steps: u32,
    step: Duration,
) -> Vec<(u32, i64)> {
    let mut compacted = Vec::new();
    for number in 1..=steps {
        member.put("a");
        let now = member.advance(step);
        task.turn(now);
        let requests = member.complete_all();
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
        let member = ManualMember::with(|config| config.auto_compaction = mode);
        assert!(auto_compaction(&member.server).is_none(), "{mode:?}");
    }
}

/// The revision is 1 at the start and grows by one per step.
#[test]
fn a_period_of_an_hour_compacts_to_the_revision_of_an_hour_ago() {
    let (mut member, mut task) = member(AutoCompaction::Periodic(60 * MINUTE));
    let compacted = run(&mut member, &mut *task, 31, 6 * MINUTE);
    assert_eq!(compacted, [(10, 1), (20, 10), (30, 20)]);
    assert_eq!(member.server.state().store.compacted(), 20);
}

#[test]
fn a_long_period_is_compacted_every_hour() {
    let (mut member, mut task) = member(AutoCompaction::Periodic(120 * MINUTE));
    let compacted = run(&mut member, &mut *task, 41, 6 * MINUTE);
    assert_eq!(compacted, [(20, 1), (30, 10), (40, 20)]);
}

#[test]
fn a_short_period_is_compacted_once_per_period() {
    let (mut member, mut task) = member(AutoCompaction::Periodic(5 * SECOND));
    let compacted = run(&mut member, &mut *task, 21, SECOND / 2);
    assert_eq!(compacted, [(10, 1), (20, 10)]);
}

#[test]
fn an_unchanged_revision_is_not_compacted_again() {
    let (mut member, mut task) = member(AutoCompaction::Periodic(10 * MINUTE));
    let mut compacted = Vec::new();
    for _ in 0..40 {
        let now = member.advance(MINUTE);
        task.turn(now);
        compacted.extend(member.complete_all().iter().map(|it| it.compaction.unwrap().revision));
        task.turn(now);
    }
    assert_eq!(compacted, [1]);
}

#[test]
fn a_failed_compaction_is_retried_at_the_next_sample() {
    let (mut member, mut task) = member(AutoCompaction::Periodic(60 * MINUTE));
    assert!(run(&mut member, &mut *task, 9, 6 * MINUTE).is_empty());
    let now = member.advance(6 * MINUTE);
    let next = task.turn(now);
    assert!(next < now + SECOND, "polls for the reply");
    member.fail_all(&Error::Timeout);
    assert_eq!(task.turn(now), now + 6 * MINUTE);
    member.put("a");
    let now = member.advance(6 * MINUTE);
    task.turn(now);
    let requests = member.complete_all();
    assert_eq!(requests[0].compaction.unwrap().revision, 1, "retries the same revision");
}

#[test]
fn a_follower_samples_revisions_and_compacts_nothing() {
    let (mut member, mut task) = member(AutoCompaction::Periodic(60 * MINUTE));
    member.follow();
    assert!(run(&mut member, &mut *task, 15, 6 * MINUTE).is_empty());
    member.lead();
    let compacted = run(&mut member, &mut *task, 1, 6 * MINUTE);
    assert_eq!(compacted, [(1, 6)], "the revision sampled an hour ago as a follower");
}

#[test]
fn a_revision_that_a_client_compacted_counts_as_success() {
    let (mut member, mut task) = member(AutoCompaction::Periodic(60 * MINUTE));
    assert!(run(&mut member, &mut *task, 9, 6 * MINUTE).is_empty());
    let compaction = Some(pb::CompactionRequest { revision: 5, physical: false });
    member.apply_ok(&InternalRaftRequest { compaction, ..header() });
    let compacted = run(&mut member, &mut *task, 11, 6 * MINUTE);
    assert_eq!(compacted, [(1, 1), (11, 10)], "refused as compacted; next after an hour");
}

#[test]
fn the_configured_number_of_revisions_is_kept() {
    let (mut member, mut task) = member(AutoCompaction::Revision(3));
    assert!(run(&mut member, &mut *task, 4, MINUTE).is_empty());
    assert_eq!(run(&mut member, &mut *task, 1, MINUTE), [(1, 3)], "6 - 3");
    let now = member.advance(5 * MINUTE);
    task.turn(now);
    assert!(member.take_proposed().is_empty(), "no new revisions");
    assert_eq!(run(&mut member, &mut *task, 1, 5 * MINUTE), [(1, 4)]);
}

#[test]
fn fewer_revisions_than_the_retention_are_all_kept() {
    let (mut member, mut task) = member(AutoCompaction::Revision(100));
    assert!(run(&mut member, &mut *task, 10, 5 * MINUTE).is_empty());
}
