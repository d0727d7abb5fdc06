//! The Raft configuration as the applier tracks it: each conf change of the log alters one member.
//!
//! Consensus computes the same configuration when it learns of the change, and the raft loop
//! compares the two. So the applier need not wait for the raft loop.

use std::collections::BTreeSet;

use proto::raftpb::{ConfChange, ConfChangeType, ConfState};
use types::{Index, MemberId};

use crate::apply::ConfChanges;

/// The voters and learners after the last applied conf change.
#[derive(Clone, Debug, Default)]
pub struct Voters {
    voters: BTreeSet<u64>,
    learners: BTreeSet<u64>,
}

impl Voters {
    /// Returns the number of voters if any of them is a peer.
    pub(crate) fn count_if_has_peers(&self, local: MemberId) -> Option<usize> {
        let has_peers = self.voters.iter().any(|voter| *voter != local.0);
        has_peers.then_some(self.voters.len())
    }

    /// Returns whether a member is a voter.
    pub(crate) fn contains(&self, member: MemberId) -> bool {
        self.voters.contains(&member.0)
    }

    /// The configuration as a Raft message.
    pub fn conf_state(&self) -> ConfState {
        ConfState {
            voters: self.voters.iter().copied().collect(),
            learners: self.learners.iter().copied().collect(),
            auto_leave: Some(false),
            ..ConfState::default()
        }
    }
}

impl ConfChanges for Voters {
    fn apply(&mut self, _: Index, change: &ConfChange) -> ConfState {
        let id = change.node_id();
        if id != 0 && change.r#type() != ConfChangeType::ConfChangeUpdateNode {
            self.voters.remove(&id);
            self.learners.remove(&id);
        }
        match change.r#type() {
            _ if id == 0 => {}
            ConfChangeType::ConfChangeAddNode => drop(self.voters.insert(id)),
            ConfChangeType::ConfChangeAddLearnerNode => drop(self.learners.insert(id)),
            ConfChangeType::ConfChangeRemoveNode | ConfChangeType::ConfChangeUpdateNode => {}
        }
        self.conf_state()
    }
}

impl From<ConfState> for Voters {
    fn from(conf: ConfState) -> Voters {
        let ConfState { voters, learners, .. } = conf;
        Voters { voters: voters.into_iter().collect(), learners: learners.into_iter().collect() }
    }
}

/// Converts a configuration from the wire type to that of `raft`.
pub(crate) fn raft_conf_state(conf: ConfState) -> raft::ConfState {
    let members = |ids: Vec<u64>| ids.into_iter().map(MemberId).collect();
    raft::ConfState {
        voters: members(conf.voters),
        learners: members(conf.learners),
        voters_outgoing: members(conf.voters_outgoing),
        learners_next: members(conf.learners_next),
        auto_leave: conf.auto_leave.unwrap_or(false),
    }
}
