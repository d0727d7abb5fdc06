//! Conf changes on a member.

use types::Index;

use crate::conf::{ConfChangeV2, ConfState, Procedure};
use crate::confchange::{ChangedConfig, Changer, ConfChangeError};
use crate::storage::Storage;

use super::{Raft, Role};

impl<S: Storage> Raft<S> {
    /// Reports whether this member may campaign: it is a voter and no snapshot is waiting to be
    /// written.
    pub(super) fn is_promotable(&self) -> bool {
        let voter =
            self.tracker.progress.get(self.id()).is_some_and(|progress| !progress.is_learner);
        voter && self.log.unstable().snapshot().is_none()
    }

    /// Applies the committed conf change at `index` and returns the new configuration; `None` if
    /// the current configuration already includes the change.
    pub(crate) fn apply_conf_change(
        &mut self,
        index: Index,
        change: &ConfChangeV2,
    ) -> Result<Option<ConfState>, ConfChangeError> {
        if index <= self.conf_index {
            return Ok(None);
        }
        let conf_state = self.change_config(change)?;
        self.conf_index = index;
        Ok(Some(conf_state))
    }

    /// Applies a conf change to the current configuration.
    pub(crate) fn change_config(
        &mut self,
        change: &ConfChangeV2,
    ) -> Result<ConfState, ConfChangeError> {
        let changer = Changer { tracker: &self.tracker, last_index: self.log.last_index() };
        let changed = match change.procedure() {
            Procedure::Simple => changer.simple(&change.changes),
            Procedure::EnterJoint { auto_leave } => {
                changer.enter_joint(auto_leave, &change.changes)
            }
            Procedure::LeaveJoint => changer.leave_joint(),
        }?;
        Ok(self.switch_to_config(changed))
    }

    /// Puts a configuration in force.
    pub(super) fn switch_to_config(&mut self, changed: ChangedConfig) -> ConfState {
        (self.tracker.config, self.tracker.progress) = changed;
        tracing::info!(member = %self.id(), config = %self.tracker.config, "switched configuration");
        let conf_state = self.tracker.conf_state();
        if !self.is_leader() {
            return conf_state;
        }
        let local_progress = self.tracker.progress.get(self.id());
        if local_progress.is_none_or(|local_progress| local_progress.is_learner) {
            // It continues to replicate the change that removes it, unless configured to step down.
            if self.config.step_down_on_removal {
                self.become_follower(self.term, None);
            }
            return conf_state;
        }
        self.act_on_new_quorum();
        conf_state
    }

    /// Reacts to a new set of voters: fewer voters may have committed more entries, and new members
    /// receive the log without waiting for a heartbeat.
    fn act_on_new_quorum(&mut self) {
        if self.maybe_commit() {
            self.broadcast_append();
        } else {
            self.for_each_peer(|raft, to| {
                raft.maybe_send_append(to, false);
            });
        }
        let is_voter = |id| self.tracker.config.voters.contains(id);
        if let Role::Leader(leader) = &mut self.role
            && leader.transferee.is_some_and(|to| !is_voter(to))
        {
            leader.transferee = None;
        }
    }
}
