//! What a leader knows of the others: the configuration in force and each member's progress.

mod config;
mod inflights;
mod progress;
mod progress_map;

pub use config::Config;
pub use inflights::Inflights;
pub use progress::{Progress, ProgressState};
pub use progress_map::ProgressMap;

use types::{Index, MemberId};

use crate::conf::ConfState;
use crate::quorum::VoteResult;

/// The configuration in force with the progress of its members.
///
/// Followers keep one too, so that a new leader knows whom it leads; only a leader's figures mean
/// something.
#[derive(Clone, Debug)]
pub struct ProgressTracker {
    /// Who votes and who learns.
    pub config: Config,
    /// How far each of them is. Holds exactly the members of `config`.
    pub progress: ProgressMap,
    /// Messages that may be in flight to each member.
    pub max_inflight_messages: usize,
    /// Payload bytes that may be in flight to each member.
    pub max_inflight_bytes: u64,
}

impl ProgressTracker {
    /// Tracks nobody yet.
    #[must_use]
    pub fn new(max_inflight_messages: usize, max_inflight_bytes: u64) -> ProgressTracker {
        ProgressTracker {
            config: Config::default(),
            progress: ProgressMap::default(),
            max_inflight_messages,
            max_inflight_bytes,
        }
    }

    /// An empty window with this tracker's limits.
    #[must_use]
    pub fn new_inflights(&self) -> Inflights {
        Inflights::new(self.max_inflight_messages, self.max_inflight_bytes)
    }

    /// The configuration in force, as lists.
    #[must_use]
    pub fn conf_state(&self) -> ConfState {
        self.config.to_conf_state()
    }

    /// Whether this member is the only voter, and so decides everything alone.
    ///
    /// etcd asks only whether there is one voter. A leader that was removed and left one other behind
    /// would then answer reads alone, while that one leads the cluster.
    #[must_use]
    pub fn is_singleton(&self, id: MemberId) -> bool {
        let voters = &self.config.voters;
        voters.incoming.len() == 1 && voters.incoming.contains(id) && !voters.is_joint()
    }

    /// The largest index a quorum is known to hold.
    #[must_use]
    pub fn committed(&self) -> Index {
        self.config
            .voters
            .committed_index(|id| self.progress.get(id).map(|progress| progress.matched))
    }

    /// Whether a quorum was heard from since this was last asked and reset.
    #[must_use]
    pub fn is_quorum_active(&self) -> bool {
        let active = |id| {
            let progress = self.progress.get(id)?;
            (!progress.is_learner).then_some(progress.recent_active)
        };
        self.config.voters.vote_result(active) == VoteResult::Won
    }

    /// The number of granted and refused votes among the voters, and what they decide.
    #[must_use]
    pub fn tally(
        &self,
        votes: &std::collections::BTreeMap<MemberId, bool>,
    ) -> (usize, usize, VoteResult) {
        // Votes of members that have left meanwhile count for nothing.
        let of_voters = |granted| {
            let counts = |(&id, &vote): (&MemberId, &bool)| {
                vote == granted && self.progress.get(id).is_some_and(|p| !p.is_learner)
            };
            votes.iter().filter(|&vote| counts(vote)).count()
        };
        let result = self.config.voters.vote_result(|id| votes.get(&id).copied());
        (of_voters(true), of_voters(false), result)
    }
}
