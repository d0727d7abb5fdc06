//! Who votes, as the state machine follows it: each change in the log is of one member.
//!
//! Consensus computes the same when it hears of the change; the two are compared there. So applying need not wait for the raft loop.

use std::collections::BTreeSet;

use proto::raftpb::{ConfChange, ConfChangeType, ConfState};
use types::{Index, MemberId};

use crate::apply::ConfChanges;

/// The configuration so far.
#[derive(Clone, Debug, Default)]
pub struct Voters {
    voters: BTreeSet<u64>,
    learners: BTreeSet<u64>,
}

impl Voters {
    /// How many vote, unless nobody does but this member.
    pub(crate) fn besides(&self, local: MemberId) -> Option<usize> {
        let others = self.voters.iter().any(|voter| *voter != local.0);
        others.then_some(self.voters.len())
    }

    /// Whether this member votes.
    pub(crate) fn has(&self, member: MemberId) -> bool {
        self.voters.contains(&member.0)
    }

    /// The configuration as raft says it.
    pub fn conf_state(&self) -> ConfState {
        ConfState {
            voters: self.voters.iter().copied().collect(),
            learners: self.learners.iter().copied().collect(),
            auto_leave: Some(false),
            ..ConfState::default()
        }
    }
}

/// Without consensus, this is all there is to tell.
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

/// The configuration in the words of consensus.
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
