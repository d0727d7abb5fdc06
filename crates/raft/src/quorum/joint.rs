//! A joint configuration: two majorities that must both agree.

use std::collections::BTreeSet;
use std::fmt;

use types::{Index, MemberId};

use super::{MajorityConfig, VoteResult};

/// The voters during a conf change, in an incoming and an outgoing half. No half decides alone, so
/// the two halves cannot decide differently.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JointConfig {
    /// The incoming half; the only one outside of a joint conf change.
    pub incoming: MajorityConfig,
    /// The outgoing half; empty outside of a joint conf change.
    pub outgoing: MajorityConfig,
}

impl JointConfig {
    /// Reports whether both halves are in force.
    #[must_use]
    pub fn is_joint(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Reports whether the member votes in either half.
    #[must_use]
    pub fn contains(&self, id: MemberId) -> bool {
        self.incoming.contains(id) || self.outgoing.contains(id)
    }

    /// Returns the voters of both halves.
    #[must_use]
    pub fn ids(&self) -> BTreeSet<MemberId> {
        self.incoming.iter().chain(self.outgoing.iter()).collect()
    }

    /// Returns the largest index that a majority of each half has acknowledged.
    #[must_use]
    pub fn committed_index(&self, acked: impl Fn(MemberId) -> Option<Index>) -> Index {
        self.incoming.committed_index(&acked).min(self.outgoing.committed_index(&acked))
    }

    /// Counts votes in both halves: a loss in one half is a loss, a win needs both.
    #[must_use]
    pub fn vote_result(&self, vote: impl Fn(MemberId) -> Option<bool>) -> VoteResult {
        use VoteResult::{Lost, Pending, Won};
        match (self.incoming.vote_result(&vote), self.outgoing.vote_result(&vote)) {
            (Won, Won) => Won,
            (Lost, _) | (_, Lost) => Lost,
            (Pending, _) | (_, Pending) => Pending,
        }
    }

    /// Draws the acknowledged index of each voter; see [`MajorityConfig::describe`].
    #[must_use]
    pub fn describe(&self, acked: impl Fn(MemberId) -> Option<Index>) -> String {
        self.ids().into_iter().collect::<MajorityConfig>().describe(acked)
    }
}

impl fmt::Display for JointConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.incoming)?;
        if self.is_joint() {
            write!(f, "&&{}", self.outgoing)?;
        }
        Ok(())
    }
}
