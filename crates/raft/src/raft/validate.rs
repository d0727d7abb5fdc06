//! Validation of messages from peers.
//!
//! A peer may run another version, be damaged, or not be a member at all. Where etcd panics because
//! a message is impossible between correct members, this module refuses the message before any
//! state changes. It never refuses a message that a correct member could send, except beyond limits
//! that no cluster comes near.

use types::{Index, MemberId, Term};

use crate::conf::ConfChangeSingle;
use crate::confchange;
use crate::entry::Entry;
use crate::message::{Message, MessageType, is_local_thread};
use crate::snapshot::Snapshot;
use crate::storage::Storage;
use crate::wire;

use super::step::StepError;
use super::{Raft, Role};

/// The highest accepted term and index, so that the next one always exists. At a million entries
/// per second the log takes 300,000 years to get there; a term gets there only through a faulty
/// peer.
const MAX_POSITION: u64 = u64::MAX >> 1;

impl<S: Storage> Raft<S> {
    /// Checks a message from the network.
    pub(crate) fn check_from_peer(&self, message: &Message) -> Result<(), StepError> {
        if message.kind.is_local() {
            return Err(StepError::LocalMessage);
        }
        self.check_sender(message)?;
        self.check(message).map_err(|reason| StepError::Malformed {
            kind: message.kind,
            from: message.from,
            reason,
        })?;
        self.check_log_reaches(message)
    }

    /// Checks a message that the local storage delivers.
    pub(crate) fn check_from_storage(&self, message: &Message) -> Result<(), StepError> {
        use MessageType::{MsgStorageAppendResp, MsgStorageApplyResp};
        let stored = matches!(message.kind, MsgStorageAppendResp | MsgStorageApplyResp);
        let from_storage = stored && is_local_thread(message.from);
        let acknowledges_itself = message.kind.waits_for_storage() && message.from == self.id();
        if message.to != self.id() || !(from_storage || acknowledges_itself) {
            return Err(StepError::NotFromStorage);
        }
        self.check_sender(message)
    }

    fn check_sender(&self, message: &Message) -> Result<(), StepError> {
        let unknown = message.kind.is_response()
            && !is_local_thread(message.from)
            && !self.tracker.progress.contains(message.from);
        if unknown { Err(StepError::PeerNotFound) } else { Ok(()) }
    }

    fn check(&self, message: &Message) -> Result<(), &'static str> {
        check_addresses(message, self.id())?;
        check_positions(message)?;
        match message.kind {
            MessageType::MsgApp => check_append(message),
            MessageType::MsgAppResp => self.check_append_response(message),
            MessageType::MsgSnap => self.check_snapshot(message),
            MessageType::MsgProp => check_proposal(message),
            MessageType::MsgReadIndex | MessageType::MsgReadIndexResp => check_read(message),
            _ => Ok(()),
        }
    }

    /// Reports whether this member is the leader of `term`.
    fn leads_in(&self, term: Term) -> bool {
        term == self.term && matches!(self.role, Role::Leader(_))
    }

    /// Checks that a follower acknowledges no more entries than the leader has.
    fn check_append_response(&self, message: &Message) -> Result<(), &'static str> {
        let is_past_log = message.index > self.log.last_index();
        if self.leads_in(message.term) && !message.reject && is_past_log {
            return Err("acknowledges entries beyond the leader's log");
        }
        Ok(())
    }

    /// Checks that the commit index of a heartbeat is within the log: this member has acknowledged
    /// it.
    fn check_log_reaches(&self, message: &Message) -> Result<(), StepError> {
        let (commit, last) = (message.commit, self.log.last_index());
        let is_current = message.term >= self.term && !self.leads_in(message.term);
        if message.kind == MessageType::MsgHeartbeat && is_current && commit > last {
            return Err(StepError::LogLost { commit, last });
        }
        Ok(())
    }

    fn check_snapshot(&self, message: &Message) -> Result<(), &'static str> {
        let Some(snapshot) = &message.snapshot else {
            return Ok(());
        };
        if message.term < self.term || !self.would_restore(snapshot) {
            return Ok(());
        }
        check_snapshot_term(message.term, snapshot)?;
        let conf_state = &snapshot.metadata.conf_state;
        // Check the size before restoring the configuration, which takes quadratic time.
        if conf_state.len() > 2 * confchange::MAX_MEMBERS {
            return Err("has too many members");
        }
        confchange::restore(self.empty_tracker(), snapshot.metadata.index, conf_state)
            .map(drop)
            .map_err(|_| "has an inconsistent configuration")
    }
}

fn check_snapshot_term(term: Term, snapshot: &Snapshot) -> Result<(), &'static str> {
    let metadata = &snapshot.metadata;
    if metadata.term == Term::ZERO || metadata.term > term {
        return Err("has a snapshot with an invalid term");
    }
    if metadata.index.0 > MAX_POSITION {
        return Err("has a term or index that is too large");
    }
    Ok(())
}

fn check_addresses(message: &Message, id: MemberId) -> Result<(), &'static str> {
    if message.to != id {
        return Err("is addressed to another member");
    }
    // Messages of a member to itself never leave it. But a transfer names the designated leader as
    // its sender, and a forwarded proposal or read may have originated here.
    let names_another = matches!(
        message.kind,
        MessageType::MsgTransferLeader | MessageType::MsgProp | MessageType::MsgReadIndex
    );
    if message.from == id && !names_another {
        return Err("claims to be from this member");
    }
    if message.from == MemberId(0) || is_local_thread(message.from) {
        return Err("has no sender");
    }
    Ok(())
}

fn check_positions(message: &Message) -> Result<(), &'static str> {
    let forwarded = matches!(message.kind, MessageType::MsgProp | MessageType::MsgReadIndex);
    // A message without a term would count as one of this member's own.
    if (message.term == Term::ZERO) != forwarded {
        return Err("has a missing or unexpected term");
    }
    let positions = [
        message.term.0,
        message.log_term.0,
        message.index.0,
        message.commit.0,
        message.reject_hint.0,
    ];
    if positions.iter().any(|&position| position > MAX_POSITION) {
        return Err("has a term or index that is too large");
    }
    Ok(())
}

/// Checks that entries are consecutive, with non-decreasing terms up to the leader's term.
fn check_append(message: &Message) -> Result<(), &'static str> {
    let (mut term, mut index) = (message.log_term, message.index);
    if (index == Index::ZERO) != (term == Term::ZERO) {
        return Err("names an invalid previous entry");
    }
    for entry in &message.entries {
        index = index.next();
        if entry.index != index || entry.term < term || entry.term == Term::ZERO {
            return Err("has entries that are not consecutive");
        }
        term = entry.term;
    }
    if term > message.term {
        return Err("has entries of a later term");
    }
    if message.entries.iter().any(|entry| !is_readable(entry)) {
        return Err("has an invalid conf change");
    }
    Ok(())
}

fn check_proposal(message: &Message) -> Result<(), &'static str> {
    if message.entries.is_empty() {
        return Err("has no entries");
    }
    if message.entries.iter().any(|entry| !is_readable(entry)) {
        return Err("has an invalid conf change");
    }
    Ok(())
}

fn check_read(message: &Message) -> Result<(), &'static str> {
    if message.entries.len() == 1 { Ok(()) } else { Err("must have exactly one context") }
}

/// Reports whether this version can decode an entry.
fn is_readable(entry: &Entry) -> bool {
    if !entry.kind.is_conf_change() {
        return true;
    }
    wire::decode_conf_change(entry.kind, &entry.data)
        .is_ok_and(|change| !change.changes.iter().any(ConfChangeSingle::targets_local_thread))
}
