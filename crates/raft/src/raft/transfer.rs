//! Leader transfer, and forgetting the leader.

use types::MemberId;

use crate::config::ReadOnlyOption;
use crate::message::{Message, MessageType};
use crate::storage::Storage;

use super::{Raft, Role};

impl<S: Storage> Raft<S> {
    /// Transfers leadership to a member, or forwards the request to the leader. The transferee
    /// first receives the missing entries and then campaigns without waiting for its election
    /// timeout (thesis 3.10).
    pub(crate) fn transfer_leader(&mut self, to: MemberId) {
        match &self.role {
            Role::Follower { lead: Some(lead) } => {
                // The sender field names the designated leader.
                let request = Message::new(MessageType::MsgTransferLeader, *lead);
                self.send(Message { from: to, ..request });
            }
            Role::Follower { lead: None } | Role::PreCandidate(_) | Role::Candidate(_) => {}
            Role::Leader(_) => self.start_transfer(to),
        }
    }

    fn start_transfer(&mut self, to: MemberId) {
        let (id, last) = (self.id(), self.log.last_index());
        let Role::Leader(leader) = &mut self.role else {
            return;
        };
        let Some(progress) = self.tracker.progress.get(to) else {
            return;
        };
        if progress.is_learner || leader.transferee == Some(to) {
            return;
        }
        // Compat: as in etcd, a transfer to the leader itself aborts the one in progress.
        leader.transferee = None;
        if to == id {
            return;
        }
        tracing::info!(member = %id, %to, "transferring leadership");
        leader.transferee = Some(to);
        // The transfer must finish within one election timeout.
        self.election_elapsed = 0;
        if progress.matched == last {
            self.send(Message::new(MessageType::MsgTimeoutNow, to));
        } else {
            self.maybe_send_append(to, true);
        }
    }

    /// Tells the transferee to campaign once it has the whole log.
    pub(super) fn maybe_finish_transfer(&mut self, from: MemberId) {
        let caught_up = self
            .tracker
            .progress
            .get(from)
            .is_some_and(|progress| progress.matched == self.log.last_index());
        if self.transferee() == Some(from) && caught_up {
            self.send(Message::new(MessageType::MsgTimeoutNow, from));
        }
    }

    pub(crate) fn transferee(&self) -> Option<MemberId> {
        match &self.role {
            Role::Leader(leader) => leader.transferee,
            Role::Follower { .. } | Role::PreCandidate(_) | Role::Candidate(_) => None,
        }
    }

    pub(super) fn abort_transfer(&mut self) {
        if let Role::Leader(leader) = &mut self.role {
            leader.transferee = None;
        }
    }

    /// Makes a follower forget its leader, so that it votes for another member at once. Does
    /// nothing if reads rely on the leader lease, which is the promise not to vote.
    pub(crate) fn forget_leader(&mut self) {
        if self.config.read_only_option == ReadOnlyOption::LeaseBased {
            return;
        }
        if let Role::Follower { lead } = &mut self.role {
            *lead = None;
        }
    }
}
