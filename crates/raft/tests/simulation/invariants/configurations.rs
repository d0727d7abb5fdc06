//! All members apply the same configurations, and each one follows safely from the previous one.
//!
//! A step is safe if every quorum of the new configuration overlaps every quorum of the old one:
//! one voter more or less, entering a joint configuration, or leaving one.

use std::collections::{BTreeMap, BTreeSet};

use raft::ConfState;
use types::{Index, MemberId};

use super::{Check, Invariant, ensure};

/// The configurations of a run.
#[derive(Default)]
pub(crate) struct Configurations {
    genesis: ConfState,
    /// The result of the conf change at each index; `None` if it was refused.
    changes: BTreeMap<Index, Option<ConfState>>,
    /// All members that have ever been in a configuration.
    members: BTreeSet<MemberId>,
}

impl Configurations {
    pub(crate) fn begin_with(&mut self, genesis: ConfState) {
        self.record_members(&genesis);
        self.genesis = genesis;
    }

    fn record_members(&mut self, conf: &ConfState) {
        self.members.extend(conf.voters.iter().chain(&conf.learners));
    }

    pub(crate) fn was_member(&self, id: MemberId) -> bool {
        self.members.contains(&id)
    }

    /// Returns the newest configuration that any member has applied, and its index.
    pub(crate) fn newest(&self) -> (Index, &ConfState) {
        self.at(Index::MAX)
    }

    /// Returns the configuration in force at an index, and the index of its change.
    pub(crate) fn at(&self, index: Index) -> (Index, &ConfState) {
        let in_force = |(&index, conf)| Option::as_ref(conf).map(|conf| (index, conf));
        let newest = self.changes.range(..=index).rev().find_map(in_force);
        newest.unwrap_or((Index::ZERO, &self.genesis))
    }

    /// Checks a conf change that a member has applied; `after` is `None` if it was refused. Returns
    /// true if the member is the first to apply it.
    pub(crate) fn applied(
        &mut self,
        member: MemberId,
        index: Index,
        before: &ConfState,
        after: Option<&ConfState>,
    ) -> Check<bool> {
        if let Some(after) = after {
            ensure(is_safe_step(before, after), Invariant::ConfigurationSafety, || {
                format!("{member} changes from {before:?} to {after:?} at {index}")
            })?;
            self.record_members(after);
        }
        let new = !self.changes.contains_key(&index);
        let first = self.changes.entry(index).or_insert_with(|| after.cloned());
        ensure(first.as_ref() == after, Invariant::ConfigurationSafety, || {
            format!("{member} changes to {after:?} at {index}, another to {first:?}")
        })?;
        Ok(new)
    }

    /// Checks the configuration of a restored snapshot.
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
