//! The roles, with what belongs to each. A role that is left takes its data with it.

use std::collections::BTreeMap;

use types::{Index, MemberId};

use crate::state::RoleKind;

use super::read_index::ReadOnly;

/// What a member is at the moment.
pub(crate) enum Role {
    /// Takes what a leader sends.
    Follower {
        /// The leader, once heard of.
        lead: Option<MemberId>,
    },
    /// Asks whether it would be elected.
    PreCandidate(Candidate),
    /// Asks to be elected.
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

/// A candidate's ballot.
#[derive(Default)]
pub(crate) struct Candidate {
    /// Who said what. The first answer of a member counts.
    pub(crate) votes: BTreeMap<MemberId, bool>,
}

/// What only a leader keeps.
pub(crate) struct Leader {
    /// Ticks since the last heartbeat.
    pub(crate) heartbeat_elapsed: u32,
    /// The member that leadership is being handed to. No proposals are taken meanwhile.
    pub(crate) transferee: Option<MemberId>,
    /// No change of membership lies unapplied behind this index. One at a time: the next is refused
    /// until this much is applied.
    pub(crate) pending_conf_index: Index,
    /// Payload bytes accepted and not known to be applied: an estimate that never exceeds the truth.
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
