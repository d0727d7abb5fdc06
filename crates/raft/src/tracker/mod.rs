//! The configuration in force with the progress of each member, as the leader tracks it.

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
/// Followers keep a tracker too, for the configuration; the progress is meaningful only on a
/// leader.
#[derive(Clone, Debug)]
pub struct ProgressTracker {
    /// The voters and learners.
    pub config: Config,
    /// The progress of each member; contains exactly the members of `config`.
    pub progress: ProgressMap,
    /// The maximum number of messages in flight to each member.
    pub max_inflight_messages: usize,
    /// The maximum payload bytes in flight to each member.
    pub max_inflight_bytes: u64,
}

impl ProgressTracker {
    /// Creates a tracker without members.
    #[must_use]
    pub fn new(max_inflight_messages: usize, max_inflight_bytes: u64) -> ProgressTracker {
        ProgressTracker {
            config: Config::default(),
            progress: ProgressMap::default(),
            max_inflight_messages,
            max_inflight_bytes,
        }
    }

    /// Returns an empty window with the limits of this tracker.
    #[must_use]
    pub fn new_inflights(&self) -> Inflights {
        Inflights::new(self.max_inflight_messages, self.max_inflight_bytes)
    }

    /// Returns the configuration as lists.
    #[must_use]
    pub fn conf_state(&self) -> ConfState {
        self.config.to_conf_state()
    }

    /// Reports whether this member is the only voter and so decides alone.
    ///
    /// etcd only checks that there is one voter. A removed leader that leaves a single other voter
    /// would then answer reads alone, while that voter leads the cluster.
    #[must_use]
    pub fn is_singleton(&self, id: MemberId) -> bool {
        let voters = &self.config.voters;
        voters.incoming.len() == 1 && voters.incoming.contains(id) && !voters.is_joint()
    }

    /// Returns the largest index that a quorum is known to hold.
    #[must_use]
    pub fn committed(&self) -> Index {
        self.config
            .voters
            .committed_index(|id| self.progress.get(id).map(|progress| progress.matched))
    }

    /// Reports whether a quorum was active since the last reset of `recent_active`.
    #[must_use]
    pub fn is_quorum_active(&self) -> bool {
        let active = |id| {
            let progress = self.progress.get(id)?;
            (!progress.is_learner).then_some(progress.recent_active)
        };
        self.config.voters.vote_result(active) == VoteResult::Won
    }

    /// Returns the number of granted and rejected votes among the voters, and the result.
    #[must_use]
    pub fn tally(
        &self,
        votes: &std::collections::BTreeMap<MemberId, bool>,
    ) -> (usize, usize, VoteResult) {
        // Votes of members that have been removed do not count.
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
