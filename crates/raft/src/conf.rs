//! Configurations and changes to them, as they stand in the log and in snapshots.
//!
//! ```text
//! voters=(1 2 3)                      the ordinary case: a majority of the voters decides
//! voters=(1 2 4)&&(1 2 3)             joint: a majority of both halves decides
//! learners=(5)                        gets the log, decides nothing
//! learners_next=(3)                   becomes a learner when the joint configuration is left
//! ```

use bytes::Bytes;
use types::MemberId;

use crate::message::is_local_thread;

/// A configuration written out as lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfState {
    /// The voters; in a joint configuration, those of the half being moved to.
    pub voters: Vec<MemberId>,
    /// Members that get the log without a vote.
    pub learners: Vec<MemberId>,
    /// The voters of the half being moved away from; empty unless joint.
    pub voters_outgoing: Vec<MemberId>,
    /// Voters of the outgoing half that become learners when it is left.
    pub learners_next: Vec<MemberId>,
    /// Whether the leader leaves the joint configuration by itself.
    pub auto_leave: bool,
}

impl ConfState {
    /// A plain configuration of voters.
    #[must_use]
    pub fn of_voters(voters: impl IntoIterator<Item = MemberId>) -> ConfState {
        ConfState { voters: voters.into_iter().collect(), ..ConfState::default() }
    }

    /// The number of ids in all lists together.
    pub(crate) fn len(&self) -> usize {
        let lists = [&self.voters, &self.learners, &self.voters_outgoing, &self.learners_next];
        lists.iter().map(|ids| ids.len()).sum()
    }

    /// Whether the member has any part in this configuration.
    #[must_use]
    pub fn contains(&self, id: MemberId) -> bool {
        // `learners_next` is a part of `voters_outgoing`.
        [&self.voters, &self.learners, &self.voters_outgoing].iter().any(|ids| ids.contains(&id))
    }

    /// Whether two configurations are the same, whatever the order of their lists.
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

/// What happens to one member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConfChangeType {
    /// Becomes a voter, whatever it was before.
    #[default]
    AddNode,
    /// Leaves.
    RemoveNode,
    /// Keeps its part; something outside consensus changed.
    UpdateNode,
    /// Becomes a learner, whatever it was before.
    AddLearnerNode,
}

impl ConfChangeType {
    /// etcd's name for the change.
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

/// One step of a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConfChangeSingle {
    /// What happens.
    pub kind: ConfChangeType,
    /// To whom. Zero means that the change was called off after it entered the log.
    pub node_id: MemberId,
}

/// A change of one member, in the older encoding: the one etcd's server proposes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfChange {
    /// The id of the request, for whoever waits for it.
    pub id: u64,
    /// What happens.
    pub kind: ConfChangeType,
    /// To whom.
    pub node_id: MemberId,
    /// Opaque to consensus: the member's addresses.
    pub context: Bytes,
}

/// How several changes take effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConfChangeTransition {
    /// At once if there is one change; otherwise through a joint configuration, left by itself.
    #[default]
    Auto,
    /// Through a joint configuration, left by itself.
    JointImplicit,
    /// Through a joint configuration, left when somebody proposes so.
    JointExplicit,
}

impl ConfChangeTransition {
    /// etcd's name for the transition.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ConfChangeTransition::Auto => "ConfChangeTransitionAuto",
            ConfChangeTransition::JointImplicit => "ConfChangeTransitionJointImplicit",
            ConfChangeTransition::JointExplicit => "ConfChangeTransitionJointExplicit",
        }
    }
}

/// Any change of membership.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfChangeV2 {
    /// How the changes take effect.
    pub transition: ConfChangeTransition,
    /// The changes, in order.
    pub changes: Vec<ConfChangeSingle>,
    /// Opaque to consensus.
    pub context: Bytes,
}

/// How a change is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Procedure {
    /// Switch at once.
    Simple,
    /// Enter a joint configuration.
    EnterJoint {
        /// And leave it without being told.
        auto_leave: bool,
    },
    /// Leave the joint configuration.
    LeaveJoint,
}

impl ConfChangeSingle {
    /// Whether the change is about one of a member's own threads, which is no member.
    pub(crate) fn names_a_thread(&self) -> bool {
        is_local_thread(self.node_id)
    }
}

impl ConfChangeV2 {
    /// Which procedure this change asks for.
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

/// A change in the encoding it shall have in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnyConfChange {
    /// The older encoding.
    V1(ConfChange),
    /// The newer one.
    V2(ConfChangeV2),
}

impl AnyConfChange {
    /// Whether any part is about one of a member's own threads.
    pub(crate) fn names_a_thread(&self) -> bool {
        match self {
            AnyConfChange::V1(change) => is_local_thread(change.node_id),
            AnyConfChange::V2(change) => {
                change.changes.iter().any(ConfChangeSingle::names_a_thread)
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
    fn several_changes_go_through_a_joint_configuration() {
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
    fn order_does_not_make_a_different_configuration() {
        let one = ConfState::of_voters([MemberId(1), MemberId(2)]);
        let other = ConfState::of_voters([MemberId(2), MemberId(1)]);
        assert_ne!(one, other);
        assert!(one.is_equivalent(&other));
        assert!(!one.is_equivalent(&ConfState::of_voters([MemberId(1)])));
    }
}
