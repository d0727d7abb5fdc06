//! Somebody wants a linearizable read.
//!
//! The leader notes its commit index, makes sure that it still led at that moment, and gives the index
//! back: a state machine that has applied that much has seen everything acknowledged before the read.
//!
//! Reads queue in the order they came. A heartbeat carries the position of the newest one, and an answer
//! to it confirms that read and all before it; so any number of reads share one round of heartbeats.
//!
//! ```text
//! confirmed = 7    waiting: 8 9 10 11     heartbeat carries 11
//! acks: leader 11, member two 9           quorum of three has confirmed 9: reads 8 and 9 are answered
//! ```

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use types::{Index, MemberId, Term};

use crate::config::ReadOnlyOption;
use crate::entry::Entry;
use crate::message::{Message, MessageType};
use crate::quorum::JointConfig;
use crate::storage::Storage;

use super::{Raft, Role};

/// Reads that may wait on one leader. More are dropped, and asked for again by whoever wants them.
pub(super) const MAX_WAITING_READS: usize = 1 << 16;

/// The answer to a read: it may be served once this index is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadState {
    /// The index to wait for.
    pub index: Index,
    /// What the asker gave to recognise its read by.
    pub request_context: Bytes,
}

/// One read that waits.
struct Waiting {
    from: MemberId,
    context: Bytes,
    index: Index,
}

/// The queue of reads that wait for a quorum.
#[derive(Default)]
pub(crate) struct ReadOnly {
    waiting: VecDeque<Waiting>,
    /// How many were confirmed and removed from the front; the first in `waiting` is one more.
    confirmed: u64,
    /// The newest position each member has confirmed.
    acks: BTreeMap<MemberId, u64>,
}

impl ReadOnly {
    /// The position of the newest read.
    fn newest(&self) -> u64 {
        self.confirmed + self.waiting.len() as u64
    }

    /// What heartbeats carry: the position in little-endian, or nothing when no read waits.
    pub(super) fn heartbeat_context(&self) -> Bytes {
        if self.waiting.is_empty() {
            Bytes::new()
        } else {
            Bytes::copy_from_slice(&self.newest().to_le_bytes())
        }
    }

    /// Notes that a member has confirmed all reads up to a position.
    fn acknowledge(&mut self, from: MemberId, position: u64) {
        let newest = self.newest();
        let acked = self.acks.entry(from).or_default();
        *acked = position.min(newest).max(*acked);
    }

    /// Takes out the reads that a quorum has confirmed.
    fn take_confirmed(&mut self, voters: &JointConfig) -> impl Iterator<Item = Waiting> + '_ {
        let acked = |id| self.acks.get(&id).map(|&position| Index(position));
        let confirmed = voters.committed_index(acked).0.clamp(self.confirmed, self.newest());
        let count = usize::try_from(confirmed - self.confirmed).unwrap_or(usize::MAX);
        self.confirmed = confirmed;
        self.waiting.drain(..count)
    }
}

impl<S: Storage> Raft<S> {
    /// Asks for a read on behalf of this member's own client.
    pub(crate) fn read_index(&mut self, context: Bytes) {
        let entries = vec![Entry::normal(context)];
        let read = Message { entries, ..Message::new(MessageType::MsgReadIndex, MemberId(0)) };
        self.on_read_index(read);
    }

    pub(super) fn on_read_index(&mut self, mut message: Message) {
        match &self.role {
            Role::Follower { lead: Some(lead) } => {
                message.to = *lead;
                self.send(message);
            }
            // Dropped; whoever asked will ask again.
            Role::Follower { lead: None } | Role::PreCandidate(_) | Role::Candidate(_) => {}
            Role::Leader(_) => self.read_as_leader(message),
        }
    }

    fn read_as_leader(&mut self, message: Message) {
        if self.has_committed_in_term() || self.answers_reads_as_etcd() {
            self.start_read(&message);
        } else if self.pending_reads.len() < MAX_WAITING_READS {
            // Its commit index may still lie behind what the last leader acknowledged; that goes for a
            // member alone too, which need not have saved its commit index before a crash.
            self.pending_reads.push(message);
        }
    }

    /// etcd answers at once where there is one voter.
    fn answers_reads_as_etcd(&self) -> bool {
        let voters = &self.tracker.config.voters;
        self.has_etcd_holes() && voters.incoming.len() == 1 && !voters.is_joint()
    }

    fn has_committed_in_term(&self) -> bool {
        let committed = self.log.term(self.log.committed()).unwrap_or(Term::ZERO);
        committed == self.term
    }

    pub(super) fn release_pending_reads(&mut self) {
        if self.pending_reads.is_empty() || !self.has_committed_in_term() {
            return;
        }
        for message in std::mem::take(&mut self.pending_reads) {
            self.start_read(&message);
        }
    }

    fn start_read(&mut self, message: &Message) {
        let (id, index) = (self.id(), self.log.committed());
        let context = read_context(message);
        // Alone, it needs nobody's confirmation.
        let alone = self.tracker.is_singleton(id) || self.answers_reads_as_etcd();
        if alone || self.config.read_only_option == ReadOnlyOption::LeaseBased {
            return self.answer_read(message.from, context, index);
        }
        let Role::Leader(leader) = &mut self.role else {
            return;
        };
        if leader.reads.waiting.len() >= MAX_WAITING_READS {
            return;
        }
        leader.reads.waiting.push_back(Waiting { from: message.from, context, index });
        let newest = leader.reads.newest();
        leader.reads.acknowledge(id, newest);
        self.broadcast_heartbeat();
    }

    /// A heartbeat with a read position was answered.
    pub(super) fn on_read_confirmed(&mut self, from: MemberId, context: &[u8]) {
        if self.config.read_only_option != ReadOnlyOption::Safe {
            return;
        }
        // Of another length only if it is no position at all: then it confirms nothing.
        let Ok(position) = context.try_into().map(u64::from_le_bytes) else {
            return;
        };
        let Role::Leader(leader) = &mut self.role else {
            return;
        };
        leader.reads.acknowledge(from, position);
        let confirmed: Vec<Waiting> =
            leader.reads.take_confirmed(&self.tracker.config.voters).collect();
        for read in confirmed {
            self.answer_read(read.from, read.context, read.index);
        }
    }

    fn answer_read(&mut self, from: MemberId, context: Bytes, index: Index) {
        if from == MemberId(0) || from == self.id() {
            self.read_states.push(ReadState { index, request_context: context });
            return;
        }
        let entries = vec![Entry::normal(context)];
        let response = Message::new(MessageType::MsgReadIndexResp, from);
        self.send(Message { index, entries, ..response });
    }

    pub(super) fn on_read_index_response(&mut self, message: &Message) {
        let request_context = read_context(message);
        self.read_states.push(ReadState { index: message.index, request_context });
    }
}

/// What the asker gave: the data of the one entry that a read carries.
fn read_context(message: &Message) -> Bytes {
    message.entries.first().map(|entry| entry.data.clone()).unwrap_or_default()
}
