//! Proposals.

use thiserror::Error;
use types::{Index, MemberId};

use crate::entry::{Entry, payload_bytes};
use crate::message::{Message, MessageType};
use crate::storage::Storage;
use crate::wire;

use super::{Raft, Role};

/// The proposal was dropped; the caller may retry.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("raft proposal dropped")]
pub struct ProposeError {
    /// The reason.
    pub reason: DropReason,
}

/// The reason why a proposal was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// No leader is known.
    NoLeader,
    /// This member is a follower and must not forward proposals.
    ForwardingDisabled,
    /// This leader was removed from the cluster.
    NotAMember,
    /// Leadership is being transferred.
    TransferInProgress,
    /// The uncommitted entries exceed their limit.
    TooMuchUncommitted,
    /// A conf change names an id that is reserved for a local thread.
    ReservedId,
}

impl DropReason {
    fn into_error(self) -> ProposeError {
        ProposeError { reason: self }
    }
}

impl<S: Storage> Raft<S> {
    /// Appends entries on behalf of `from`, or forwards them to the leader.
    ///
    /// The caller has checked that conf change entries can be decoded.
    pub(crate) fn propose(
        &mut self,
        from: MemberId,
        entries: Vec<Entry>,
    ) -> Result<(), ProposeError> {
        match &self.role {
            Role::Follower { lead: None } | Role::PreCandidate(_) | Role::Candidate(_) => {
                Err(DropReason::NoLeader.into_error())
            }
            Role::Follower { .. } if self.config.disable_proposal_forwarding => {
                Err(DropReason::ForwardingDisabled.into_error())
            }
            Role::Follower { lead: Some(lead) } => {
                self.send(Message { from, entries, ..Message::new(MessageType::MsgProp, *lead) });
                Ok(())
            }
            Role::Leader(leader) => {
                if !self.tracker.progress.contains(self.id()) {
                    return Err(DropReason::NotAMember.into_error());
                }
                if leader.transferee.is_some() {
                    return Err(DropReason::TransferInProgress.into_error());
                }
                self.propose_as_leader(entries)
            }
        }
    }

    fn propose_as_leader(&mut self, mut entries: Vec<Entry>) -> Result<(), ProposeError> {
        let Role::Leader(leader) = &self.role else {
            return Err(DropReason::NoLeader.into_error());
        };
        let mut pending = leader.pending_conf_index;
        let mut index = self.log.last_index();
        for entry in &mut entries {
            index = index.next();
            if entry.kind.is_conf_change() {
                match self.conf_change_refusal(entry, pending) {
                    None => pending = index,
                    Some(reason) => self.refuse_conf_change(entry, reason),
                }
            }
        }
        self.append_entries(entries)?;
        if let Role::Leader(leader) = &mut self.role {
            leader.pending_conf_index = pending;
        }
        self.broadcast_append();
        Ok(())
    }

    /// Replaces a refused conf change with an empty entry, so that the other entries of the
    /// proposal keep their positions.
    fn refuse_conf_change(&self, entry: &mut Entry, reason: &'static str) {
        let config = &self.tracker.config;
        tracing::info!(member = %self.id(), %config, reason, "refused a conf change");
        *entry = Entry::refused_conf_change();
    }

    /// Returns why a conf change must be refused now. Only one may be pending: all entries after
    /// `pending` are applied.
    fn conf_change_refusal(&self, entry: &Entry, pending: Index) -> Option<&'static str> {
        let change = wire::decode_conf_change(entry.kind, &entry.data)
            .expect("conf changes are decoded before they are proposed");
        if self.config.disable_conf_change_validation {
            return None;
        }
        let joint = self.tracker.config.voters.is_joint();
        let leaves_joint = change.changes.is_empty();
        if pending > self.log.applied() {
            Some("an earlier conf change may not be applied yet")
        } else if joint && !leaves_joint {
            Some("must transition out of joint config first")
        } else if !joint && leaves_joint {
            Some("not in joint state; refusing empty conf change")
        } else {
            None
        }
    }

    /// Assigns positions to entries and appends them to the log of this leader.
    pub(super) fn append_entries(&mut self, mut entries: Vec<Entry>) -> Result<(), ProposeError> {
        let mut index = self.log.last_index();
        for entry in &mut entries {
            index = index.next();
            (entry.term, entry.index) = (self.term, index);
        }
        if !self.maybe_increase_uncommitted(&entries) {
            return Err(DropReason::TooMuchUncommitted.into_error());
        }
        let last = self.log.append(entries);
        // A leader acknowledges its own entries like a follower: once they are durable.
        let acknowledgement =
            Message { index: last, ..Message::new(MessageType::MsgAppResp, self.id()) };
        self.send(acknowledgement);
        Ok(())
    }

    /// Counts entries as uncommitted, unless that exceeds the limit; returns whether it did. The
    /// first entries are accepted whatever their size, and so are entries without payload, which
    /// leaders append on their own.
    fn maybe_increase_uncommitted(&mut self, entries: &[Entry]) -> bool {
        let Role::Leader(leader) = &mut self.role else {
            return true;
        };
        let bytes = payload_bytes(entries);
        let total = leader.uncommitted_bytes.saturating_add(bytes);
        if leader.uncommitted_bytes > 0 && bytes > 0 && total > self.config.max_uncommitted_bytes {
            return false;
        }
        leader.uncommitted_bytes = total;
        true
    }
}
