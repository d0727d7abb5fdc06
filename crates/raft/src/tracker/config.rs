//! The configuration in force.

use std::collections::BTreeSet;
use std::fmt;

use types::MemberId;

use crate::conf::ConfState;
use crate::quorum::{JointConfig, write_ids};

/// The voters and learners of a configuration.
///
/// Invariants: no member is both a voter (in either half) and a learner. A voter of the outgoing
/// half that is to become a learner therefore waits in `learners_next` and remains a full voter
/// until the joint configuration is left:
///
/// ```text
/// 7 replaces 5, which remains as a learner:
///    voters=(4 5 6)
/// →  voters=(4 6 7)&&(4 5 6) learners_next=(5)
/// →  voters=(4 6 7) learners=(5)
/// ```
///
/// Outside a joint configuration `learners_next` is empty and `auto_leave` is false.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The voters.
    pub voters: JointConfig,
    /// Whether the leader leaves the joint configuration automatically.
    pub auto_leave: bool,
    /// Members that receive the log and do not vote.
    pub learners: BTreeSet<MemberId>,
    /// Outgoing voters that become learners when the joint configuration is left.
    pub learners_next: BTreeSet<MemberId>,
}

impl Config {
    /// Returns the configuration as lists.
    #[must_use]
    pub fn to_conf_state(&self) -> ConfState {
        ConfState {
            voters: self.voters.incoming.iter().collect(),
            learners: self.learners.iter().copied().collect(),
            voters_outgoing: self.voters.outgoing.iter().collect(),
            learners_next: self.learners_next.iter().copied().collect(),
            auto_leave: self.auto_leave,
        }
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "voters={}", self.voters)?;
        for (name, ids) in [("learners", &self.learners), ("learners_next", &self.learners_next)] {
            if !ids.is_empty() {
                write!(f, " {name}=")?;
                write_ids(f, ids.iter().copied())?;
            }
        }
        if self.auto_leave {
            f.write_str(" autoleave")?;
        }
        Ok(())
    }
}
