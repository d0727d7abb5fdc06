//! Who must agree before something is decided.
//!
//! A *majority* decides by more than half of its voters. A *joint* configuration is two majorities
//! that must both agree; with an empty second half it is an ordinary majority, which is how the rest
//! of the core uses it. Everything here is arithmetic over sets of ids: no logs, no messages.

mod joint;
mod majority;

pub use joint::JointConfig;
pub use majority::MajorityConfig;
pub(crate) use majority::write_ids;

/// The outcome of a vote so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VoteResult {
    /// Votes that are still missing decide.
    Pending,
    /// A quorum can no longer be reached.
    Lost,
    /// A quorum said yes.
    Won,
}

impl VoteResult {
    /// etcd's name for the outcome.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            VoteResult::Pending => "VotePending",
            VoteResult::Lost => "VoteLost",
            VoteResult::Won => "VoteWon",
        }
    }
}
