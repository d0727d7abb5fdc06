//! The state of a member, for the outside.

use std::fmt;

use types::{Index, MemberId};

use crate::raft::Raft;
use crate::state::{HardState, RoleKind, SoftState};
use crate::storage::Storage;
use crate::tracker::{Config, ProgressMap, ProgressState};

/// The state of a member in a few words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicStatus {
    /// The member.
    pub id: MemberId,
    /// Term, vote and commit index.
    pub hard_state: HardState,
    /// Leader and role.
    pub soft_state: SoftState,
    /// How far it has applied.
    pub applied: Index,
    /// Whom it is handing leadership to.
    pub lead_transferee: Option<MemberId>,
}

impl BasicStatus {
    pub(crate) fn of<S: Storage>(raft: &Raft<S>) -> BasicStatus {
        BasicStatus {
            id: raft.id(),
            hard_state: raft.hard_state(),
            soft_state: raft.soft_state(),
            applied: raft.log.applied(),
            lead_transferee: raft.transferee(),
        }
    }
}

/// The state of a member with what it knows of the others.
#[derive(Clone, Debug)]
pub struct Status {
    /// Its own state.
    pub basic: BasicStatus,
    /// The configuration in force.
    pub config: Config,
    /// The progress of every member; empty unless this one leads.
    pub progress: ProgressMap,
}

impl Status {
    pub(crate) fn of<S: Storage>(raft: &Raft<S>) -> Status {
        let basic = BasicStatus::of(raft);
        let leads = basic.soft_state.role == RoleKind::Leader;
        let progress = if leads { raft.tracker.progress.clone() } else { ProgressMap::default() };
        Status { basic, config: raft.tracker.config.clone(), progress }
    }
}

/// The JSON that etcd shows under `raft.status`.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BasicStatus { id, hard_state, soft_state, applied, lead_transferee } = &self.basic;
        let HardState { term, vote, commit } = hard_state;
        let nobody = MemberId(0);
        let (vote, lead) = (vote.unwrap_or(nobody), soft_state.lead.unwrap_or(nobody));
        let role = soft_state.role.as_str();
        write!(
            f,
            r#"{{"id":"{id}","term":{term},"vote":"{vote}","commit":{commit},"lead":"{lead}","#
        )?;
        write!(f, r#""raftState":"{role}","applied":{applied},"progress":{{"#)?;
        for (position, (member, progress)) in self.progress.iter().enumerate() {
            let comma = if position > 0 { "," } else { "" };
            let state = match progress.state {
                ProgressState::Probe => "StateProbe",
                ProgressState::Replicate => "StateReplicate",
                ProgressState::Snapshot { .. } => "StateSnapshot",
            };
            let (matched, next) = (progress.matched, progress.next);
            write!(
                f,
                r#"{comma}"{member}":{{"match":{matched},"next":{next},"state":"{state}"}}"#
            )?;
        }
        let transferee = lead_transferee.unwrap_or(nobody);
        write!(f, r#"}},"leadtransferee":"{transferee}"}}"#)
    }
}
