//! Ticks.

use crate::storage::Storage;

use super::{Raft, Role};

impl<S: Storage> Raft<S> {
    /// Handles one tick: election timeouts on followers and candidates, heartbeats on leaders.
    pub(crate) fn tick(&mut self) {
        match &mut self.role {
            Role::Leader(leader) => {
                leader.heartbeat_elapsed += 1;
                self.tick_leader();
            }
            Role::Follower { .. } | Role::PreCandidate(_) | Role::Candidate(_) => {
                self.tick_election();
            }
        }
    }

    fn tick_election(&mut self) {
        // Saturating: a member that may not campaign counts as long as it hears from no leader.
        self.election_elapsed = self.election_elapsed.saturating_add(1);
        if self.is_promotable() && self.election_elapsed >= self.randomized_election_ticks {
            self.election_elapsed = 0;
            self.campaign();
        }
    }

    fn tick_leader(&mut self) {
        self.election_elapsed += 1;
        if self.election_elapsed >= self.config.election_ticks {
            self.election_elapsed = 0;
            if self.config.check_quorum {
                self.check_quorum();
            }
            // A transfer that takes longer than an election timeout is aborted.
            self.abort_transfer();
        }
        let Role::Leader(leader) = &mut self.role else {
            return;
        };
        if leader.heartbeat_elapsed >= self.config.heartbeat_ticks {
            leader.heartbeat_elapsed = 0;
            self.broadcast_heartbeat();
        }
    }

    /// Steps down unless a quorum has responded since the last check.
    fn check_quorum(&mut self) {
        if !self.tracker.is_quorum_active() {
            tracing::warn!(
                member = %self.id(), term = %self.term,
                "stepped down: no response from a quorum within an election timeout"
            );
            self.become_follower(self.term, None);
        }
        let id = self.id();
        for (member, progress) in self.tracker.progress.iter_mut() {
            if member != id {
                progress.recent_active = false;
            }
        }
    }
}
