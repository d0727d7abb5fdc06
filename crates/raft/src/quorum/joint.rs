//! Two majorities that must both agree.

use std::collections::BTreeSet;
use std::fmt;

use types::{Index, MemberId};

use super::{MajorityConfig, VoteResult};

/// The voters while membership changes: those of the configuration being moved to, and of the one
/// being left. Nothing is decided by one half alone, so the two can never decide differently.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JointConfig {
    /// The half being moved to; the only one outside of a change.
    pub incoming: MajorityConfig,
    /// The half being left; empty outside of a change.
    pub outgoing: MajorityConfig,
}

impl JointConfig {
    /// Whether both halves are in force.
    #[must_use]
    pub fn is_joint(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Whether the member votes in either half.
    #[must_use]
    pub fn contains(&self, id: MemberId) -> bool {
        self.incoming.contains(id) || self.outgoing.contains(id)
    }

    /// The voters of both halves.
    #[must_use]
    pub fn ids(&self) -> BTreeSet<MemberId> {
        self.incoming.iter().chain(self.outgoing.iter()).collect()
    }

    /// The largest index that both halves have acknowledged.
    #[must_use]
    pub fn committed_index(&self, acked: impl Fn(MemberId) -> Option<Index>) -> Index {
        self.incoming.committed_index(&acked).min(self.outgoing.committed_index(&acked))
    }

    /// Counts votes in both halves: lost in one is lost, won in both is won.
    #[must_use]
    pub fn vote_result(&self, vote: impl Fn(MemberId) -> Option<bool>) -> VoteResult {
        use VoteResult::{Lost, Pending, Won};
        match (self.incoming.vote_result(&vote), self.outgoing.vote_result(&vote)) {
            (Won, Won) => Won,
            (Lost, _) | (_, Lost) => Lost,
            (Pending, _) | (_, Pending) => Pending,
        }
    }

    /// Draws what each voter of either half has acknowledged; see [`MajorityConfig::describe`].
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
