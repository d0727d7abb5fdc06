//! The two halves of a member's state: what must survive a crash, and what need not.

use types::{Index, MemberId, Term};

/// What must be durable before anything is promised on the strength of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardState {
    /// The newest term this member has seen.
    pub term: Term,
    /// Whom it voted for in that term.
    pub vote: Option<MemberId>,
    /// How far the log is known to be committed. May lag behind after a crash.
    pub commit: Index,
}

/// What is useful to know but is learned anew after a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoftState {
    /// The leader this member follows, or itself.
    pub lead: Option<MemberId>,
    /// Its own role.
    pub role: RoleKind,
}

/// A member's role, without the data that goes with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RoleKind {
    /// Follows a leader, or waits for one.
    #[default]
    Follower,
    /// Asks for votes.
    Candidate,
    /// Replicates its log to the others.
    Leader,
    /// Asks whether it would get votes.
    PreCandidate,
}

impl RoleKind {
    /// etcd's name for the role.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            RoleKind::Follower => "StateFollower",
            RoleKind::Candidate => "StateCandidate",
            RoleKind::Leader => "StateLeader",
            RoleKind::PreCandidate => "StatePreCandidate",
        }
    }
}

/// Whether a step from one hard state to another, with some new entries, must be durable before its
/// messages go out. A commit index alone need not be: it is learned anew from the leader.
#[must_use]
pub(crate) fn must_sync(new: &HardState, old: &HardState, entries: usize) -> bool {
    entries != 0 || new.term != old.term || new.vote != old.vote
}
