//! The state of a member: the hard state survives a crash, the soft state does not.

use types::{Index, MemberId, Term};

/// The durable state. It must be saved before any message that depends on it is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardState {
    /// The latest term that this member has seen.
    pub term: Term,
    /// The vote of this member in that term.
    pub vote: Option<MemberId>,
    /// The highest known commit index. May lag behind after a crash.
    pub commit: Index,
}

/// The volatile state, which is learned again after a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoftState {
    /// The leader, which may be this member.
    pub lead: Option<MemberId>,
    /// The role of this member.
    pub role: RoleKind,
}

/// The role of a member, without its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RoleKind {
    /// Follows a leader or waits for one.
    #[default]
    Follower,
    /// Requests votes.
    Candidate,
    /// Replicates its log to the peers.
    Leader,
    /// Requests pre-votes.
    PreCandidate,
}

impl RoleKind {
    /// Returns etcd's name of the role.
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

/// Reports whether a change from one hard state to another, with some new entries, must be durable
/// before its messages are sent. A new commit index alone need not be: the leader sends it again.
#[must_use]
pub(crate) fn must_sync(new: &HardState, old: &HardState, entries: usize) -> bool {
    entries != 0 || new.term != old.term || new.vote != old.vote
}
