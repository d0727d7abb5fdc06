//! Configurations and conf changes, as encoded in the log and in snapshots.
//!
//! ```text
//! voters=(1 2 3)                      a majority of the voters decides
//! voters=(1 2 4)&&(1 2 3)             joint: a majority of each half is needed
//! learners=(5)                        receives the log, does not vote
//! learners_next=(3)                   becomes a learner when the joint configuration is left
//! ```

use bytes::Bytes;
use types::MemberId;

use crate::message::is_local_thread;

/// A configuration as lists of members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfState {
    /// The voters; in a joint configuration, the voters of the incoming half.
    pub voters: Vec<MemberId>,
    /// Members that receive the log and do not vote.
    pub learners: Vec<MemberId>,
    /// The voters of the outgoing half; empty unless joint.
    pub voters_outgoing: Vec<MemberId>,
    /// Voters of the outgoing half that become learners when the joint configuration is left.
    pub learners_next: Vec<MemberId>,
    /// Whether the leader leaves the joint configuration automatically.
    pub auto_leave: bool,
}

impl ConfState {
    /// Returns a non-joint configuration with these voters.
    #[must_use]
    pub fn of_voters(voters: impl IntoIterator<Item = MemberId>) -> ConfState {
        ConfState { voters: voters.into_iter().collect(), ..ConfState::default() }
    }

    /// Returns the number of ids in all lists together.
    pub(crate) fn len(&self) -> usize {
        let lists = [&self.voters, &self.learners, &self.voters_outgoing, &self.learners_next];
        lists.iter().map(|ids| ids.len()).sum()
    }

    /// Reports whether the member belongs to this configuration.
    #[must_use]
    pub fn contains(&self, id: MemberId) -> bool {
        // `learners_next` is a subset of `voters_outgoing`.
        [&self.voters, &self.learners, &self.voters_outgoing].iter().any(|ids| ids.contains(&id))
    }

    /// Reports whether two configurations are equal apart from the order of their lists.
    #[must_use]
    pub fn is_equivalent(&self, other: &ConfState) -> bool {
        self.sorted() == other.sorted()
    }

    fn sorted(&self) -> ConfState {
        let mut sorted = self.clone();
        sorted.voters.sort_unstable();
        sorted.learners.sort_unstable();
        sorted.voters_outgoing.sort_unstable();
        sorted.learners_next.sort_unstable();
        sorted
    }
}

/// The kind of change of one member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConfChangeType {
    /// The member becomes a voter, whatever it was before.
    #[default]
    AddNode,
    /// The member is removed.
    RemoveNode,
    /// The membership stays the same; the member's metadata changed.
    UpdateNode,
    /// The member becomes a learner, whatever it was before.
    AddLearnerNode,
}

impl ConfChangeType {
    /// Returns etcd's name of the change.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ConfChangeType::AddNode => "ConfChangeAddNode",
            ConfChangeType::RemoveNode => "ConfChangeRemoveNode",
            ConfChangeType::UpdateNode => "ConfChangeUpdateNode",
            ConfChangeType::AddLearnerNode => "ConfChangeAddLearnerNode",
        }
    }
}

/// A change of one member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConfChangeSingle {
    /// The kind of change.
    pub kind: ConfChangeType,
    /// The member. Zero means that the change was canceled after it was committed.
    pub node_id: MemberId,
}

/// A conf change of one member in the older encoding (V1), which etcd's server proposes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfChange {
    /// The request id, by which the proposer finds its waiter.
    pub id: u64,
    /// The kind of change.
    pub kind: ConfChangeType,
    /// The member.
    pub node_id: MemberId,
    /// Opaque to consensus: the member's name and URLs.
    pub context: Bytes,
}

/// The way in which the changes take effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConfChangeTransition {
    /// A single change takes effect at once; several use a joint configuration that is left
    /// automatically.
    #[default]
    Auto,
    /// A joint configuration that is left automatically.
    JointImplicit,
    /// A joint configuration that is left by another proposal.
    JointExplicit,
}

impl ConfChangeTransition {
    /// Returns etcd's name of the transition.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ConfChangeTransition::Auto => "ConfChangeTransitionAuto",
            ConfChangeTransition::JointImplicit => "ConfChangeTransitionJointImplicit",
            ConfChangeTransition::JointExplicit => "ConfChangeTransitionJointExplicit",
        }
    }
}

/// A conf change of any number of members (V2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfChangeV2 {
    /// The way in which the changes take effect.
    pub transition: ConfChangeTransition,
    /// The changes, in order.
    pub changes: Vec<ConfChangeSingle>,
    /// Opaque to consensus.
    pub context: Bytes,
}

/// The procedure that carries out a conf change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Procedure {
    /// Switch to the new configuration at once.
    Simple,
    /// Enter a joint configuration.
    EnterJoint {
        /// Whether the leader leaves it automatically.
        auto_leave: bool,
    },
    /// Leave the joint configuration.
    LeaveJoint,
}

impl ConfChangeSingle {
    /// Reports whether the change names the id of a local thread instead of a member.
    pub(crate) fn targets_local_thread(&self) -> bool {
        is_local_thread(self.node_id)
    }
}

impl ConfChangeV2 {
    /// Returns the procedure that this change needs.
    #[must_use]
    pub fn procedure(&self) -> Procedure {
        use ConfChangeTransition::{Auto, JointExplicit, JointImplicit};
        match (self.transition, self.changes.len()) {
            (Auto, 0) => Procedure::LeaveJoint,
            (Auto, 1) => Procedure::Simple,
            (Auto | JointImplicit, _) => Procedure::EnterJoint { auto_leave: true },
            (JointExplicit, _) => Procedure::EnterJoint { auto_leave: false },
        }
    }
}

impl From<ConfChange> for ConfChangeV2 {
    fn from(change: ConfChange) -> ConfChangeV2 {
        let single = ConfChangeSingle { kind: change.kind, node_id: change.node_id };
        ConfChangeV2 { changes: vec![single], context: change.context, ..ConfChangeV2::default() }
    }
}

/// A conf change in the encoding for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnyConfChange {
    /// The older encoding.
    V1(ConfChange),
    /// The newer encoding.
    V2(ConfChangeV2),
}

impl AnyConfChange {
    /// Reports whether any change names the id of a local thread.
    pub(crate) fn targets_local_thread(&self) -> bool {
        match self {
            AnyConfChange::V1(change) => is_local_thread(change.node_id),
            AnyConfChange::V2(change) => {
                change.changes.iter().any(ConfChangeSingle::targets_local_thread)
            }
        }
    }
}

impl From<ConfChange> for AnyConfChange {
    fn from(change: ConfChange) -> AnyConfChange {
        AnyConfChange::V1(change)
    }
}

impl From<ConfChangeV2> for AnyConfChange {
    fn from(change: ConfChangeV2) -> AnyConfChange {
        AnyConfChange::V2(change)
    }
}

impl From<AnyConfChange> for ConfChangeV2 {
    fn from(change: AnyConfChange) -> ConfChangeV2 {
        match change {
            AnyConfChange::V1(change) => change.into(),
            AnyConfChange::V2(change) => change,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(transition: ConfChangeTransition, count: usize) -> ConfChangeV2 {
        let changes = vec![ConfChangeSingle::default(); count];
        ConfChangeV2 { transition, changes, ..ConfChangeV2::default() }
    }

    #[test]
    fn the_transition_and_the_number_of_changes_select_the_procedure() {
        use ConfChangeTransition::{Auto, JointExplicit, JointImplicit};
        for (transition, count, procedure) in [
            (Auto, 0, Procedure::LeaveJoint),
            (Auto, 1, Procedure::Simple),
            (Auto, 2, Procedure::EnterJoint { auto_leave: true }),
            (JointImplicit, 0, Procedure::EnterJoint { auto_leave: true }),
            (JointImplicit, 1, Procedure::EnterJoint { auto_leave: true }),
            (JointExplicit, 1, Procedure::EnterJoint { auto_leave: false }),
        ] {
            assert_eq!(change(transition, count).procedure(), procedure, "{transition:?} {count}");
        }
    }

    #[test]
    fn configurations_are_equivalent_in_any_order() {
        let one = ConfState::of_voters([MemberId(1), MemberId(2)]);
        let other = ConfState::of_voters([MemberId(2), MemberId(1)]);
        assert_ne!(one, other);
        assert!(one.is_equivalent(&other));
        assert!(!one.is_equivalent(&ConfState::of_voters([MemberId(1)])));
    }
}
