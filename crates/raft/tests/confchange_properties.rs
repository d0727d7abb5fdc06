//! Property tests of conf changes in any order.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use raft::confchange::{ChangedConfig, Changer, ConfChangeError, restore};
use raft::tracker::{Config, ProgressMap, ProgressTracker};
use raft::{ConfChangeSingle, ConfChangeType, ConfState};
use types::{Index, MemberId};

/// The last index of the leader.
const LAST_INDEX: Index = Index(10);

fn single() -> impl Strategy<Value = ConfChangeSingle> {
    use ConfChangeType::{AddLearnerNode, AddNode, RemoveNode, UpdateNode};
    let kind = prop_oneof![
        4 => Just(AddNode), 3 => Just(AddLearnerNode), 3 => Just(RemoveNode), 1 => Just(UpdateNode)
    ];
    // Zero: a change that was canceled after the commit.
    (kind, 0..7u64).prop_map(|(kind, id)| ConfChangeSingle { kind, node_id: MemberId(id) })
}

/// A committed conf change.
#[derive(Clone, Debug)]
enum Change {
    Simple(Vec<ConfChangeSingle>),
    EnterJoint { auto_leave: bool, changes: Vec<ConfChangeSingle> },
    LeaveJoint,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => vec(single(), 0..3).prop_map(Change::Simple),
        3 => (any::<bool>(), vec(single(), 0..6))
            .prop_map(|(auto_leave, changes)| Change::EnterJoint { auto_leave, changes }),
        3 => Just(Change::LeaveJoint),
    ]
}

fn empty_tracker() -> ProgressTracker {
    ProgressTracker::new(8, 0)
}

/// Returns a tracker with the voters one and two.
fn pair() -> ProgressTracker {
    let state = ConfState::of_voters([MemberId(1), MemberId(2)]);
    with(restore(empty_tracker(), LAST_INDEX, &state).expect("two voters"))
}

fn with((config, progress): ChangedConfig) -> ProgressTracker {
    ProgressTracker { config, progress, ..empty_tracker() }
}

fn apply(tracker: &ProgressTracker, change: &Change) -> Result<ChangedConfig, ConfChangeError> {
    let changer = Changer { tracker, last_index: LAST_INDEX };
    match change {
        Change::Simple(changes) => changer.simple(changes),
        Change::EnterJoint { auto_leave, changes } => changer.enter_joint(*auto_leave, changes),
        Change::LeaveJoint => changer.leave_joint(),
    }
}

/// Checks the documented invariants of a configuration.
fn check_invariants(config: &Config, progress: &ProgressMap) -> Result<(), TestCaseError> {
    let voters = config.voters.ids();
    let joint = config.voters.is_joint();
    prop_assert!(!config.voters.incoming.is_empty(), "no voters");
    prop_assert!(config.learners.is_disjoint(&voters), "{config}");
    let waiting = &config.learners_next;
    prop_assert!(waiting.iter().all(|id| config.voters.outgoing.contains(*id)), "{config}");
    prop_assert!(waiting.iter().all(|id| !config.voters.incoming.contains(*id)), "{config}");
    prop_assert!(joint || (waiting.is_empty() && !config.auto_leave), "{config}");
    let members: BTreeSet<MemberId> = voters.union(&config.learners).copied().collect();
    let tracked: BTreeSet<MemberId> = progress.iter().map(|(id, _)| id).collect();
    prop_assert_eq!(members, tracked, "tracked members differ from the configuration");
    for (id, progress) in progress.iter() {
        prop_assert_eq!(progress.is_learner, config.learners.contains(&id));
        prop_assert!(progress.matched < progress.next);
    }
    Ok(())
}

/// Returns the number of voters in only one of the two configurations.
fn difference(one: &Config, other: &Config) -> usize {
    let voters = |config: &Config| config.voters.incoming.iter().collect::<BTreeSet<_>>();
    voters(one).symmetric_difference(&voters(other)).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn every_change_preserves_the_invariants(changes in vec(change(), 0..20)) {
        let mut tracker = pair();
        for change in changes {
            let Ok((config, progress)) = apply(&tracker, &change) else {
                continue;
            };
            check_invariants(&config, &progress)?;
            match change {
                Change::Simple(_) => prop_assert!(difference(&tracker.config, &config) <= 1),
                Change::EnterJoint { auto_leave, .. } => {
                    prop_assert_eq!(&config.voters.outgoing, &tracker.config.voters.incoming);
                    prop_assert_eq!(config.auto_leave, auto_leave);
                }
                Change::LeaveJoint => {
                    prop_assert!(!config.voters.is_joint());
                    prop_assert_eq!(&config.voters.incoming, &tracker.config.voters.incoming);
                    prop_assert!(tracker.config.learners_next.is_subset(&config.learners));
                }
            }
            tracker = with((config, progress));
        }
    }

    /// Acknowledged entries stay acknowledged: a change only drops the progress of removed members.
    #[test]
    fn remaining_voters_keep_their_progress(changes in vec(change(), 0..20)) {
        let mut tracker = pair();
        for (round, change) in (1..).zip(changes) {
            for (_, progress) in tracker.progress.iter_mut() {
                progress.maybe_update(Index(round));
            }
            let Ok((config, progress)) = apply(&tracker, &change) else {
                continue;
            };
            for (id, kept) in progress.iter() {
                // A learner that is removed and added again in one change starts over.
                let was_voter = tracker.config.voters.contains(id);
                if was_voter && config.voters.is_joint() {
                    prop_assert_eq!(kept.matched, Index(round), "{}", id);
                }
            }
            tracker = with((config, progress));
        }
    }

    #[test]
    fn a_configuration_is_restored_from_its_conf_state(changes in vec(change(), 0..20)) {
        let mut tracker = pair();
        for change in changes {
            if let Ok(changed) = apply(&tracker, &change) {
                tracker = with(changed);
            }
            let state = tracker.conf_state();
            let (config, progress) = restore(empty_tracker(), LAST_INDEX, &state).unwrap();
            prop_assert_eq!(&config, &tracker.config);
            prop_assert!(config.to_conf_state().is_equivalent(&state));
            check_invariants(&config, &progress)?;
        }
    }

    /// Inconsistent lists are refused; consistent lists are restored unchanged.
    #[test]
    fn a_restored_configuration_equals_its_conf_state(
        voters in ids(), learners in ids(), voters_outgoing in ids(), learners_next in ids(),
        auto_leave: bool,
    ) {
        let state = ConfState { voters, learners, voters_outgoing, learners_next, auto_leave };
        // A log starts without members before its cluster is known.
        prop_assume!(state != ConfState::default());
        if let Ok((config, progress)) = restore(empty_tracker(), LAST_INDEX, &state) {
            prop_assert!(config.to_conf_state().is_equivalent(&state));
            check_invariants(&config, &progress)?;
        }
    }

    /// A joint change leads to the same result as single steps, if those are possible.
    #[test]
    fn a_joint_change_equals_its_single_steps(
        before in vec(single(), 0..6), auto_leave: bool, changes in vec(single(), 0..6)
    ) {
        let tracker = one_by_one(pair(), &before).unwrap_or_else(|_| pair());
        let Ok(stepped) = one_by_one(tracker.clone(), &changes) else {
            return Ok(());
        };
        let joint = with(apply(&tracker, &Change::EnterJoint { auto_leave, changes }).unwrap());
        let left = with(apply(&joint, &Change::LeaveJoint).unwrap());
        prop_assert_eq!(&left.config, &stepped.config);
        check_invariants(&left.config, &left.progress)?;
    }
}

/// A few ids, possibly duplicated or none.
fn ids() -> impl Strategy<Value = Vec<MemberId>> {
    vec((0..6u64).prop_map(MemberId), 0..4)
}

fn one_by_one(
    mut tracker: ProgressTracker,
    changes: &[ConfChangeSingle],
) -> Result<ProgressTracker, ConfChangeError> {
    for change in changes {
        tracker = with(apply(&tracker, &Change::Simple(vec![*change]))?);
    }
    Ok(tracker)
}

#[test]
fn refused_changes_return_the_reason() {
    use ConfChangeType::{AddNode, RemoveNode};
    let one = |kind, id| ConfChangeSingle { kind, node_id: MemberId(id) };
    let enter = |changes| Change::EnterJoint { auto_leave: false, changes };
    let plain = pair();
    let joint = with(apply(&plain, &enter(vec![one(AddNode, 3)])).unwrap());
    let both_voters = vec![one(RemoveNode, 1), one(RemoveNode, 2)];
    for (tracker, change, error) in [
        (&plain, Change::LeaveJoint, ConfChangeError::NotJoint),
        (&joint, enter(Vec::new()), ConfChangeError::AlreadyJoint),
        (&joint, Change::Simple(Vec::new()), ConfChangeError::SimpleWhileJoint),
        (&plain, enter(both_voters.clone()), ConfChangeError::NoVotersLeft),
        (&plain, Change::Simple(both_voters), ConfChangeError::NoVotersLeft),
        (
            &plain,
            Change::Simple(vec![one(AddNode, 3), one(AddNode, 4)]),
            ConfChangeError::TooManyVoters,
        ),
        (&empty_tracker(), enter(vec![one(AddNode, 1)]), ConfChangeError::NoVotersToJoin),
    ] {
        assert_eq!(apply(tracker, &change).unwrap_err(), error, "{change:?}");
    }
}
