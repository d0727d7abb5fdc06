//! Somebody wants entries appended.

use thiserror::Error;
use types::{Index, MemberId};

use crate::entry::{Entry, payload_bytes};
use crate::message::{Message, MessageType};
use crate::storage::Storage;
use crate::wire;

use super::{Raft, Role};

/// A proposal was not taken, and will not be: whoever made it may try again.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("raft proposal dropped")]
pub struct ProposeError {
    /// Why.
    pub reason: DropReason,
}

/// Why a proposal was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// Nobody leads that this member knows of.
    NoLeader,
    /// This member follows, and is configured not to forward.
    ForwardingDisabled,
    /// This leader has been removed.
    NotAMember,
    /// Leadership is being handed over.
    TransferInProgress,
    /// Too much has been accepted that is not committed yet.
    TooMuchUncommitted,
    /// A change of membership names an id that stands for one of a member's own threads.
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
    /// Entries that change the membership have been checked to be readable.
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
                match self.why_not_now(entry, pending) {
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

    /// An empty entry takes the place of a change that may not be made now, so that other entries of
    /// the same proposal keep theirs.
    fn refuse_conf_change(&self, entry: &mut Entry, reason: &'static str) {
        let config = &self.tracker.config;
        tracing::info!(member = %self.id(), %config, reason, "ignored a change of membership");
        *entry = Entry::in_place_of_refused();
    }

    /// Why a change of membership may not be made now. One at a time: all behind `pending` are applied.
    fn why_not_now(&self, entry: &Entry, pending: Index) -> Option<&'static str> {
        let change = wire::decode_conf_change(entry.kind, &entry.data)
            .expect("changes of membership are decoded before they are proposed");
        if self.config.disable_conf_change_validation {
            return None;
        }
        let joint = self.tracker.config.voters.is_joint();
        let leaves_joint = change.changes.is_empty();
        if pending > self.log.applied() {
            Some("another one may not be applied yet")
        } else if joint && !leaves_joint {
            Some("must transition out of joint config first")
        } else if !joint && leaves_joint {
            Some("not in joint state; refusing empty conf change")
        } else {
            None
        }
    }

    /// Gives entries their positions and appends them to this leader's log.
    pub(super) fn append_entries(&mut self, mut entries: Vec<Entry>) -> Result<(), ProposeError> {
        let mut index = self.log.last_index();
        for entry in &mut entries {
            index = index.next();
            (entry.term, entry.index) = (self.term, index);
        }
        if !self.maybe_account_for(&entries) {
            return Err(DropReason::TooMuchUncommitted.into_error());
        }
        let last = self.log.append(entries);
        // A leader acknowledges its own entries like a follower does: once they are durable.
        let own = Message { index: last, ..Message::new(MessageType::MsgAppResp, self.id()) };
        self.send(own);
        Ok(())
    }

    /// Counts entries as uncommitted, unless that exceeds the limit. The first ones are always let
    /// through, however large, and so are empty ones: a leader's own entries have no payload.
    fn maybe_account_for(&mut self, entries: &[Entry]) -> bool {
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
