//! The roles with their data, which is dropped when the role changes.

use std::collections::BTreeMap;

use types::{Index, MemberId};

use crate::state::RoleKind;

use super::read_index::ReadOnly;

/// The role of a member.
pub(crate) enum Role {
    /// Accepts entries from a leader.
    Follower {
        /// The leader, if known.
        lead: Option<MemberId>,
    },
    /// Requests pre-votes.
    PreCandidate(Candidate),
    /// Requests votes.
    Candidate(Candidate),
    /// Replicates its log.
    Leader(Box<Leader>),
}

impl Role {
    pub(crate) fn kind(&self) -> RoleKind {
        match self {
            Role::Follower { .. } => RoleKind::Follower,
            Role::PreCandidate(_) => RoleKind::PreCandidate,
            Role::Candidate(_) => RoleKind::Candidate,
            Role::Leader(_) => RoleKind::Leader,
        }
    }
}

/// The data of a candidate.
#[derive(Default)]
pub(crate) struct Candidate {
    /// The votes by member. The first response of a member counts.
    pub(crate) votes: BTreeMap<MemberId, bool>,
}

/// The data of a leader.
pub(crate) struct Leader {
    /// Ticks since the last heartbeat.
    pub(crate) heartbeat_elapsed: u32,
    /// The transferee during a leader transfer; proposals are dropped meanwhile.
    pub(crate) transferee: Option<MemberId>,
    /// No unapplied conf change is after this index. A new conf change is refused until this index
    /// is applied, so that only one is pending at a time.
    pub(crate) pending_conf_index: Index,
    /// Payload bytes accepted and not yet applied: an estimate that never exceeds the actual value.
    pub(crate) uncommitted_bytes: u64,
    /// Reads that wait for a quorum to confirm this leader.
    pub(crate) reads: ReadOnly,
}

impl Leader {
    pub(crate) fn new(pending_conf_index: Index) -> Leader {
        Leader {
            heartbeat_elapsed: 0,
            transferee: None,
            pending_conf_index,
            uncommitted_bytes: 0,
            reads: ReadOnly::default(),
        }
    }
}
