//! Every member goes through the same configurations, and each follows safely from the one before.
//!
//! Safe is a step after which any quorum of the new configuration overlaps any quorum of the old: one voter
//! more or less, into a joint configuration, or out of one.

use std::collections::{BTreeMap, BTreeSet};

use raft::ConfState;
use types::{Index, MemberId};

use super::{Check, Invariant, ensure};

/// The configurations of a run.
#[derive(Default)]
pub(crate) struct Configurations {
    genesis: ConfState,
    /// What the change at each index led to; nothing if it was refused.
    changes: BTreeMap<Index, Option<ConfState>>,
    /// Everybody who was ever part of a configuration.
    members: BTreeSet<MemberId>,
}

impl Configurations {
    pub(crate) fn begin_with(&mut self, genesis: ConfState) {
        self.note_members(&genesis);
        self.genesis = genesis;
    }

    fn note_members(&mut self, conf: &ConfState) {
        self.members.extend(conf.voters.iter().chain(&conf.learners));
    }

    pub(crate) fn was_member(&self, id: MemberId) -> bool {
        self.members.contains(&id)
    }

    /// The newest configuration that anybody has applied, and where.
    pub(crate) fn newest(&self) -> (Index, &ConfState) {
        self.at(Index::MAX)
    }

    /// The configuration in force at an index, and where it came into force.
    pub(crate) fn at(&self, index: Index) -> (Index, &ConfState) {
        let in_force = |(&index, conf)| Option::as_ref(conf).map(|conf| (index, conf));
        let newest = self.changes.range(..=index).rev().find_map(in_force);
        newest.unwrap_or((Index::ZERO, &self.genesis))
    }

    /// A member has applied the change at an index: from one configuration to another, or to none
    /// because it was refused. True if it is the first to do so.
    pub(crate) fn applied(
        &mut self,
        member: MemberId,
        index: Index,
        before: &ConfState,
        after: Option<&ConfState>,
    ) -> Check<bool> {
        if let Some(after) = after {
            ensure(is_safe_step(before, after), Invariant::ConfigurationSafety, || {
                format!("{member} goes from {before:?} to {after:?} at {index}")
            })?;
            self.note_members(after);
        }
        let new = !self.changes.contains_key(&index);
        let first = self.changes.entry(index).or_insert_with(|| after.cloned());
        ensure(first.as_ref() == after, Invariant::ConfigurationSafety, || {
            format!("{member} goes to {after:?} at {index}, another to {first:?}")
        })?;
        Ok(new)
    }

    /// A member has taken over the configuration of a snapshot.
    pub(crate) fn restored(&self, member: MemberId, index: Index, conf: &ConfState) -> Check {
        let (_, expected) = self.at(index);
        ensure(conf.is_equivalent(expected), Invariant::ConfigurationSafety, || {
            format!("{member} restores {conf:?} at {index}, where {expected:?} is in force")
        })
    }
}

fn is_safe_step(before: &ConfState, after: &ConfState) -> bool {
    let set = |ids: &[MemberId]| ids.iter().copied().collect::<BTreeSet<_>>();
    let (old, new) = (set(&before.voters), set(&after.voters));
    let was_joint = !before.voters_outgoing.is_empty();
    let is_joint = !after.voters_outgoing.is_empty();
    let disjoint = |conf: &ConfState| {
        let voters = &set(&conf.voters) | &set(&conf.voters_outgoing);
        voters.is_disjoint(&set(&conf.learners))
    };
    let step = match (was_joint, is_joint) {
        (false, false) => old.symmetric_difference(&new).count() <= 1,
        (false, true) => set(&after.voters_outgoing) == old,
        (true, false) => new == old,
        (true, true) => before == after,
    };
    step && disjoint(after) && !new.is_empty()
}
