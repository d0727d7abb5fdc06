//! The status of a member, for callers.

use std::fmt;

use types::{Index, MemberId};

use crate::raft::Raft;
use crate::state::{HardState, RoleKind, SoftState};
use crate::storage::Storage;
use crate::tracker::{Config, ProgressMap, ProgressState};

/// The status of a member, without progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicStatus {
    /// The member.
    pub id: MemberId,
    /// Term, vote and commit index.
    pub hard_state: HardState,
    /// Leader and role.
    pub soft_state: SoftState,
    /// The applied index.
    pub applied: Index,
    /// The transferee, while this member transfers its leadership.
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

/// The status of a member with the progress of all members.
#[derive(Clone, Debug)]
pub struct Status {
    /// The status of this member.
    pub basic: BasicStatus,
    /// The configuration in force.
    pub config: Config,
    /// The progress of every member; empty unless this member is the leader.
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
        let none = MemberId(0);
        let (vote, lead) = (vote.unwrap_or(none), soft_state.lead.unwrap_or(none));
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
        let transferee = lead_transferee.unwrap_or(none);
        write!(f, r#"}},"leadtransferee":"{transferee}"}}"#)
    }
}
