//! Changes of membership, in any order, against what they promise.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use raft::confchange::{ChangedConfig, Changer, ConfChangeError, restore};
use raft::tracker::{Config, ProgressMap, ProgressTracker};
use raft::{ConfChangeSingle, ConfChangeType, ConfState};
use types::{Index, MemberId};

/// Where the leader's log ends.
const LAST_INDEX: Index = Index(10);

fn single() -> impl Strategy<Value = ConfChangeSingle> {
    use ConfChangeType::{AddLearnerNode, AddNode, RemoveNode, UpdateNode};
    let kind = prop_oneof![
        4 => Just(AddNode), 3 => Just(AddLearnerNode), 3 => Just(RemoveNode), 1 => Just(UpdateNode)
    ];
    // Zero: a change that was called off after it was committed.
    (kind, 0..7u64).prop_map(|(kind, id)| ConfChangeSingle { kind, node_id: MemberId(id) })
}

/// A committed change, as its entry would ask for it.
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

/// A tracker of the voters one and two.
fn pair() -> ProgressTracker {
    let state = ConfState::of_voters([MemberId(1), MemberId(2)]);
    with(restore(empty_tracker(), LAST_INDEX, &state).expect("two voters"))
}

fn with((config, progress): ChangedConfig) -> ProgressTracker {
    ProgressTracker { config, progress, ..empty_tracker() }
}

fn make(tracker: &ProgressTracker, change: &Change) -> Result<ChangedConfig, ConfChangeError> {
    let changer = Changer { tracker, last_index: LAST_INDEX };
    match change {
        Change::Simple(changes) => changer.simple(changes),
        Change::EnterJoint { auto_leave, changes } => changer.enter_joint(*auto_leave, changes),
        Change::LeaveJoint => changer.leave_joint(),
    }
}

/// Everything the documentation of a configuration promises.
fn check_invariants(config: &Config, progress: &ProgressMap) -> Result<(), TestCaseError> {
    let voters = config.voters.ids();
    let joint = config.voters.is_joint();
    prop_assert!(!config.voters.incoming.is_empty(), "somebody must decide");
    prop_assert!(config.learners.is_disjoint(&voters), "{config}");
    let waiting = &config.learners_next;
    prop_assert!(waiting.iter().all(|id| config.voters.outgoing.contains(*id)), "{config}");
    prop_assert!(waiting.iter().all(|id| !config.voters.incoming.contains(*id)), "{config}");
    prop_assert!(joint || (waiting.is_empty() && !config.auto_leave), "{config}");
    let members: BTreeSet<MemberId> = voters.union(&config.learners).copied().collect();
    let tracked: BTreeSet<MemberId> = progress.iter().map(|(id, _)| id).collect();
    prop_assert_eq!(members, tracked, "exactly the members are tracked");
    for (id, progress) in progress.iter() {
        prop_assert_eq!(progress.is_learner, config.learners.contains(&id));
        prop_assert!(progress.matched < progress.next);
    }
    Ok(())
}

/// How many members of one set are missing from the other, both ways.
fn difference(one: &Config, other: &Config) -> usize {
    let voters = |config: &Config| config.voters.incoming.iter().collect::<BTreeSet<_>>();
    voters(one).symmetric_difference(&voters(other)).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn every_change_keeps_the_promises(changes in vec(change(), 0..20)) {
        let mut tracker = pair();
        for change in changes {
            let Ok((config, progress)) = make(&tracker, &change) else {
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

    /// Whatever was acknowledged stays acknowledged: a change forgets only those who leave.
    #[test]
    fn those_who_stay_keep_their_progress(changes in vec(change(), 0..20)) {
        let mut tracker = pair();
        for (round, change) in (1..).zip(changes) {
            for (_, progress) in tracker.progress.iter_mut() {
                progress.maybe_update(Index(round));
            }
            let Ok((config, progress)) = make(&tracker, &change) else {
                continue;
            };
            for (id, kept) in progress.iter() {
                // A learner that is removed and added again in one change starts anew.
                let was_voter = tracker.config.voters.contains(id);
                if was_voter && config.voters.is_joint() {
                    prop_assert_eq!(kept.matched, Index(round), "{}", id);
                }
            }
            tracker = with((config, progress));
        }
    }

    #[test]
    fn a_configuration_survives_being_written_out(changes in vec(change(), 0..20)) {
        let mut tracker = pair();
        for change in changes {
            if let Ok(changed) = make(&tracker, &change) {
                tracker = with(changed);
            }
            let state = tracker.conf_state();
            let (config, progress) = restore(empty_tracker(), LAST_INDEX, &state).unwrap();
            prop_assert_eq!(&config, &tracker.config);
            prop_assert!(config.to_conf_state().is_equivalent(&state));
            check_invariants(&config, &progress)?;
        }
    }

    /// Lists that contradict themselves are refused; lists that do not are taken as they are.
    #[test]
    fn whatever_is_restored_is_what_was_written(
        voters in ids(), learners in ids(), voters_outgoing in ids(), learners_next in ids(),
        auto_leave: bool,
    ) {
        let state = ConfState { voters, learners, voters_outgoing, learners_next, auto_leave };
        // Nobody at all is how a log begins before its cluster is known.
        prop_assume!(state != ConfState::default());
        if let Ok((config, progress)) = restore(empty_tracker(), LAST_INDEX, &state) {
            prop_assert!(config.to_conf_state().is_equivalent(&state));
            check_invariants(&config, &progress)?;
        }
    }

    /// The way through a joint configuration leads where single steps lead, if those are possible.
    #[test]
    fn a_joint_change_leads_where_single_steps_lead(
        before in vec(single(), 0..6), auto_leave: bool, changes in vec(single(), 0..6)
    ) {
        let tracker = one_by_one(pair(), &before).unwrap_or_else(|_| pair());
        let Ok(stepped) = one_by_one(tracker.clone(), &changes) else {
            return Ok(());
        };
        let joint = with(make(&tracker, &Change::EnterJoint { auto_leave, changes }).unwrap());
        let left = with(make(&joint, &Change::LeaveJoint).unwrap());
        prop_assert_eq!(&left.config, &stepped.config);
        check_invariants(&left.config, &left.progress)?;
    }
}

/// A few ids, some of them twice, and perhaps nobody.
fn ids() -> impl Strategy<Value = Vec<MemberId>> {
    vec((0..6u64).prop_map(MemberId), 0..4)
}

fn one_by_one(
    mut tracker: ProgressTracker,
    changes: &[ConfChangeSingle],
) -> Result<ProgressTracker, ConfChangeError> {
    for change in changes {
        tracker = with(make(&tracker, &Change::Simple(vec![*change]))?);
    }
    Ok(tracker)
}

#[test]
fn refusals_name_their_reason() {
    use ConfChangeType::{AddNode, RemoveNode};
    let one = |kind, id| ConfChangeSingle { kind, node_id: MemberId(id) };
    let enter = |changes| Change::EnterJoint { auto_leave: false, changes };
    let plain = pair();
    let joint = with(make(&plain, &enter(vec![one(AddNode, 3)])).unwrap());
    let everybody = vec![one(RemoveNode, 1), one(RemoveNode, 2)];
    for (tracker, change, error) in [
        (&plain, Change::LeaveJoint, ConfChangeError::NotJoint),
        (&joint, enter(Vec::new()), ConfChangeError::AlreadyJoint),
        (&joint, Change::Simple(Vec::new()), ConfChangeError::SimpleWhileJoint),
        (&plain, enter(everybody.clone()), ConfChangeError::NoVotersLeft),
        (&plain, Change::Simple(everybody), ConfChangeError::NoVotersLeft),
        (
            &plain,
            Change::Simple(vec![one(AddNode, 3), one(AddNode, 4)]),
            ConfChangeError::TooManyVoters,
        ),
        (&empty_tracker(), enter(vec![one(AddNode, 1)]), ConfChangeError::NoVotersToJoin),
    ] {
        assert_eq!(make(tracker, &change).unwrap_err(), error, "{change:?}");
    }
}
