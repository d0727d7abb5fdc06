//! The initial log of a new cluster.

use bytes::Bytes;
use thiserror::Error;
use types::{Index, MemberId, Term};

use crate::conf::{ConfChange, ConfChangeType};
use crate::confchange::MAX_MEMBERS;
use crate::entry::Entry;
use crate::message::is_local_thread;
use crate::raft::Raft;
use crate::storage::Storage;
use crate::wire;

/// A member of a new cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The member.
    pub id: MemberId,
    /// Opaque to consensus: the member's name and addresses.
    pub context: Bytes,
}

/// An error while bootstrapping a cluster.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum BootstrapError {
    /// The list of peers is empty.
    #[error("must provide at least one peer to Bootstrap")]
    NoPeers,
    /// Storage already contains a log.
    #[error("can't bootstrap a nonempty Storage")]
    NotEmpty,
    /// A peer id is zero, reserved for a local thread or used twice, or there are more than
    /// [`MAX_MEMBERS`] peers.
    #[error("peer ids must be valid and unique, and at most {MAX_MEMBERS}")]
    BadPeers,
}

impl<S: Storage> Raft<S> {
    /// Starts the log with one committed conf change entry per member. Every member of the new
    /// cluster does the same, so that their logs agree before they exchange a message.
    ///
    /// The configuration takes effect immediately, so that an election can be held. Applying the
    /// entries later adds the same members again and changes nothing.
    pub(crate) fn bootstrap(&mut self, peers: &[Peer]) -> Result<(), BootstrapError> {
        if peers.is_empty() {
            return Err(BootstrapError::NoPeers);
        }
        if self.log.last_index() != Index::ZERO {
            return Err(BootstrapError::NotEmpty);
        }
        let ids: std::collections::BTreeSet<_> = peers.iter().map(|peer| peer.id).collect();
        let reserved = |id: &MemberId| *id == MemberId(0) || is_local_thread(*id);
        if ids.len() != peers.len() || ids.len() > MAX_MEMBERS || ids.iter().any(reserved) {
            return Err(BootstrapError::BadPeers);
        }
        let changes: Vec<ConfChange> = peers.iter().map(added).collect();
        let entries: Vec<Entry> = (1..).zip(&changes).map(first_entry).collect();
        self.start_from(entries);
        for change in changes {
            self.change_config(&change.into()).expect("unique members can be added one by one");
        }
        Ok(())
    }
}

fn added(peer: &Peer) -> ConfChange {
    let context = peer.context.clone();
    ConfChange { kind: ConfChangeType::AddNode, node_id: peer.id, context, id: 0 }
}

fn first_entry((index, change): (u64, &ConfChange)) -> Entry {
    let entry = wire::encode_conf_change(change.clone().into());
    Entry { term: Term(1), index: Index(index), ..entry }
}
