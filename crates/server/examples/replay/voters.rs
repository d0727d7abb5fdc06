//! Who votes, without consensus: each change is of one member.

use std::collections::BTreeSet;

use proto::raftpb::{ConfChange, ConfChangeType, ConfState};
use server::ConfChanges;
use types::Index;

/// The configuration so far.
#[derive(Default)]
pub(crate) struct Voters {
    voters: BTreeSet<u64>,
    learners: BTreeSet<u64>,
}

impl Voters {
    /// The same, as raft says it.
    pub(crate) fn conf_state(&self) -> ConfState {
        ConfState {
            voters: self.voters.iter().copied().collect(),
            learners: self.learners.iter().copied().collect(),
            auto_leave: Some(false),
            ..ConfState::default()
        }
    }
}

impl From<ConfState> for Voters {
    fn from(conf: ConfState) -> Voters {
        let ConfState { voters, learners, .. } = conf;
        Voters { voters: voters.into_iter().collect(), learners: learners.into_iter().collect() }
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
