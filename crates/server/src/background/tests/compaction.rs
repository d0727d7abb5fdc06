//! Old revisions are compacted when the flags say so.

use super::super::BackgroundTask;
use super::super::compaction::auto_compaction;
use super::*;
use crate::config::AutoCompaction;

const MINUTE: Duration = Duration::from_secs(60);

fn rig(mode: AutoCompaction) -> (Rig, Box<dyn BackgroundTask>) {
    let mut rig = Rig::with(|config| config.auto_compaction = mode);
    rig.lead();
    let chore = auto_compaction(&rig.server).unwrap();
    (rig, chore)
}

/// Lets time pass in steps, with a put in each, and tells what was compacted to, after how many.
fn run(
    rig: &mut Rig,
    chore: &mut dyn BackgroundTask,
    steps: u32,
    step: Duration,
) -> Vec<(u32, i64)> {
    let mut compacted = Vec::new();
    for number in 1..=steps {
        rig.put("a");
        let now = rig.advance(step);
        chore.turn(now);
        let requests = rig.complete_all();
        compacted.extend(requests.iter().map(|it| (number, it.compaction.unwrap().revision)));
        chore.turn(now);
    }
    compacted
}

#[test]
fn a_member_that_is_not_asked_to_compacts_nothing() {
    for mode in
        [AutoCompaction::Off, AutoCompaction::Periodic(Duration::ZERO), AutoCompaction::Revision(0)]
    {
        let rig = Rig::with(|config| config.auto_compaction = mode);
        assert!(auto_compaction(&rig.server).is_none(), "{mode:?}");
    }
}

/// The revision is 1 at the start and one more in each step.
#[test]
fn an_hour_is_compacted_to_what_was_current_an_hour_ago() {
    let (mut rig, mut chore) = rig(AutoCompaction::Periodic(60 * MINUTE));
    let compacted = run(&mut rig, &mut *chore, 31, 6 * MINUTE);
    assert_eq!(compacted, [(10, 1), (20, 10), (30, 20)]);
    assert_eq!(rig.server.state().store.compacted(), 20);
}

#[test]
fn a_long_period_is_compacted_every_hour() {
    let (mut rig, mut chore) = rig(AutoCompaction::Periodic(120 * MINUTE));
    let compacted = run(&mut rig, &mut *chore, 41, 6 * MINUTE);
    assert_eq!(compacted, [(20, 1), (30, 10), (40, 20)]);
}

#[test]
fn a_short_period_is_compacted_as_often() {
    let (mut rig, mut chore) = rig(AutoCompaction::Periodic(5 * SECOND));
    let compacted = run(&mut rig, &mut *chore, 21, SECOND / 2);
    assert_eq!(compacted, [(10, 1), (20, 10)]);
}

#[test]
fn a_revision_that_did_not_change_is_not_compacted_again() {
    let (mut rig, mut chore) = rig(AutoCompaction::Periodic(10 * MINUTE));
    let mut compacted = Vec::new();
    for _ in 0..40 {
        let now = rig.advance(MINUTE);
        chore.turn(now);
        compacted.extend(rig.complete_all().iter().map(|it| it.compaction.unwrap().revision));
        chore.turn(now);
    }
    assert_eq!(compacted, [1]);
}

#[test]
fn a_compaction_that_fails_is_tried_again_at_the_next_note() {
    let (mut rig, mut chore) = rig(AutoCompaction::Periodic(60 * MINUTE));
    assert!(run(&mut rig, &mut *chore, 9, 6 * MINUTE).is_empty());
    let now = rig.advance(6 * MINUTE);
    let next = chore.turn(now);
    assert!(next < now + SECOND, "the answer is waited for");
    rig.fail_all(&Error::Timeout);
    assert_eq!(chore.turn(now), now + 6 * MINUTE);
    rig.put("a");
    let now = rig.advance(6 * MINUTE);
    chore.turn(now);
    let requests = rig.complete_all();
    assert_eq!(requests[0].compaction.unwrap().revision, 1, "the same again");
}

#[test]
fn a_follower_notes_revisions_and_compacts_nothing() {
    let (mut rig, mut chore) = rig(AutoCompaction::Periodic(60 * MINUTE));
    rig.follow();
    assert!(run(&mut rig, &mut *chore, 15, 6 * MINUTE).is_empty());
    rig.lead();
    let compacted = run(&mut rig, &mut *chore, 1, 6 * MINUTE);
    assert_eq!(compacted, [(1, 6)], "what was current an hour ago, noted as a follower");
}

#[test]
fn a_compaction_that_somebody_else_made_is_as_good() {
    let (mut rig, mut chore) = rig(AutoCompaction::Periodic(60 * MINUTE));
    assert!(run(&mut rig, &mut *chore, 9, 6 * MINUTE).is_empty());
    let compaction = Some(pb::CompactionRequest { revision: 5, physical: false });
    rig.done(&InternalRaftRequest { compaction, ..header() });
    let compacted = run(&mut rig, &mut *chore, 11, 6 * MINUTE);
    assert_eq!(compacted, [(1, 1), (11, 10)], "refused as compacted, and an hour until the next");
}

#[test]
fn so_many_revisions_are_kept() {
    let (mut rig, mut chore) = rig(AutoCompaction::Revision(3));
    assert!(run(&mut rig, &mut *chore, 4, MINUTE).is_empty());
    assert_eq!(run(&mut rig, &mut *chore, 1, MINUTE), [(1, 3)], "6 - 3");
    let now = rig.advance(5 * MINUTE);
    chore.turn(now);
    assert!(rig.take_proposed().is_empty(), "nothing has changed");
    assert_eq!(run(&mut rig, &mut *chore, 1, 5 * MINUTE), [(1, 4)]);
}

#[test]
fn fewer_revisions_than_are_kept_are_all_kept() {
    let (mut rig, mut chore) = rig(AutoCompaction::Revision(100));
    assert!(run(&mut rig, &mut *chore, 10, 5 * MINUTE).is_empty());
}
