//! Quorums: the sets of voters that decide.
//!
//! A *majority* needs more than half of its voters. A *joint* configuration consists of two
//! majorities that must both agree; with an empty second half it is an ordinary majority, and the
//! core always uses this form. This module only computes with sets of ids; it knows neither logs
//! nor messages.

mod joint;
mod majority;

pub use joint::JointConfig;
pub use majority::MajorityConfig;
pub(crate) use majority::write_ids;

/// The outcome of a vote so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VoteResult {
    /// Missing votes decide.
    Pending,
    /// A quorum can no longer be reached.
    Lost,
    /// A quorum granted its votes.
    Won,
}

impl VoteResult {
    /// Returns etcd's name of the outcome.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            VoteResult::Pending => "VotePending",
            VoteResult::Lost => "VoteLost",
            VoteResult::Won => "VoteWon",
        }
    }
}
