//! What a message from a peer must be like before it is looked at.
//!
//! A peer may be of another version, damaged, or not a peer at all. What etcd answers with a panic, because it
//! cannot happen between correct members, is refused here before anything has changed. What a
//! correct member could have sent is never refused, short of bounds that no cluster comes near.

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

/// Terms and indexes beyond this are refused, so that the next one always exists. At a million entries a
/// second the log gets there in three hundred thousand years; a term, only by a peer that lies.
const MAX_POSITION: u64 = u64::MAX >> 1;

impl<S: Storage> Raft<S> {
    /// Checks a message that came over the network.
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

    /// Checks a message that this member's own storage sent on its behalf.
    pub(crate) fn check_from_storage(&self, message: &Message) -> Result<(), StepError> {
        use MessageType::{MsgStorageAppendResp, MsgStorageApplyResp};
        let stored = matches!(message.kind, MsgStorageAppendResp | MsgStorageApplyResp);
        let from_storage = stored && is_local_thread(message.from);
        let own = message.kind.waits_for_storage() && message.from == self.id();
        if message.to != self.id() || !(from_storage || own) {
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

    /// Whether a message of this term is handled by the leader of this very term.
    fn leads_in(&self, term: Term) -> bool {
        term == self.term && matches!(self.role, Role::Leader(_))
    }

    /// Nobody can hold more of a leader's log than the leader.
    fn check_append_response(&self, message: &Message) -> Result<(), &'static str> {
        let beyond = message.index > self.log.last_index();
        if self.leads_in(message.term) && !message.reject && beyond {
            return Err("acknowledges entries that the leader does not have");
        }
        Ok(())
    }

    /// The commit index of a heartbeat is one this member has acknowledged.
    fn check_log_reaches(&self, message: &Message) -> Result<(), StepError> {
        let (commit, last) = (message.commit, self.log.last_index());
        let heeded = message.term >= self.term && !self.leads_in(message.term);
        if message.kind == MessageType::MsgHeartbeat && heeded && commit > last {
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
        // Before it is restored to see whether it can be: that takes time that grows with the square.
        if conf_state.len() > 2 * confchange::MAX_MEMBERS {
            return Err("has too many members");
        }
        confchange::restore(self.empty_tracker(), snapshot.metadata.index, conf_state)
            .map(drop)
            .map_err(|_| "has a configuration that contradicts itself")
    }
}

fn check_snapshot_term(term: Term, snapshot: &Snapshot) -> Result<(), &'static str> {
    let metadata = &snapshot.metadata;
    if metadata.term == Term::ZERO || metadata.term > term {
        return Err("has a snapshot of an impossible term");
    }
    if metadata.index.0 > MAX_POSITION {
        return Err("has an impossible position");
    }
    Ok(())
}

fn check_addresses(message: &Message, id: MemberId) -> Result<(), &'static str> {
    if message.to != id {
        return Err("is addressed to another member");
    }
    // What a member says to itself never leaves it. A transfer names the member that shall lead, and
    // a forwarded proposal or read may have come from here.
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
    // Without a term a message would pass for one of this member's own.
    if (message.term == Term::ZERO) != forwarded {
        return Err("must have a term, or must not");
    }
    let positions = [
        message.term.0,
        message.log_term.0,
        message.index.0,
        message.commit.0,
        message.reject_hint.0,
    ];
    if positions.iter().any(|&position| position > MAX_POSITION) {
        return Err("has an impossible position");
    }
    Ok(())
}

/// Entries follow one another without a hole, in terms that do not decrease and belong to the leader.
fn check_append(message: &Message) -> Result<(), &'static str> {
    let (mut term, mut index) = (message.log_term, message.index);
    if (index == Index::ZERO) != (term == Term::ZERO) {
        return Err("names an entry that cannot exist");
    }
    for entry in &message.entries {
        index = index.next();
        if entry.index != index || entry.term < term || entry.term == Term::ZERO {
            return Err("has entries that do not follow one another");
        }
        term = entry.term;
    }
    if term > message.term {
        return Err("has entries of a later term");
    }
    if message.entries.iter().any(|entry| !is_readable(entry)) {
        return Err("has a change of membership that cannot be read");
    }
    Ok(())
}

fn check_proposal(message: &Message) -> Result<(), &'static str> {
    if message.entries.is_empty() {
        return Err("proposes nothing");
    }
    if message.entries.iter().any(|entry| !is_readable(entry)) {
        return Err("has a change of membership that cannot be read");
    }
    Ok(())
}

fn check_read(message: &Message) -> Result<(), &'static str> {
    if message.entries.len() == 1 { Ok(()) } else { Err("must have exactly one context") }
}

/// Whether an entry means something to this version.
fn is_readable(entry: &Entry) -> bool {
    if !entry.kind.is_conf_change() {
        return true;
    }
    wire::decode_conf_change(entry.kind, &entry.data)
        .is_ok_and(|change| !change.changes.iter().any(ConfChangeSingle::names_a_thread))
}
