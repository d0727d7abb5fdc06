//! Linearizable reads.
//!
//! The leader notes its commit index, confirms that it was still the leader at that time, and
//! returns the index. A state machine that has applied this index reflects everything acknowledged
//! before the read began.
//!
//! Reads are queued in order of arrival. A heartbeat carries the position of the last one, and a
//! response confirms this read and all before it. So any number of reads share one round of
//! heartbeats.
//!
//! ```text
//! confirmed = 7    queue: 8 9 10 11       heartbeats carry 11
//! acks: leader 11, member two 9           a quorum of three confirms 9: reads 8 and 9 are answered
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

/// The maximum number of reads that wait on a leader. Further reads are dropped; the caller
/// retries.
pub(super) const MAX_WAITING_READS: usize = 1 << 16;

/// The read index for a read, which may be served once this index is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadState {
    /// The index to wait for.
    pub index: Index,
    /// The context of the request, which identifies the read.
    pub request_context: Bytes,
}

/// A read that waits for a quorum.
struct QueuedRead {
    from: MemberId,
    context: Bytes,
    index: Index,
}

/// The queue of reads that wait for a quorum.
#[derive(Default)]
pub(crate) struct ReadOnly {
    queue: VecDeque<QueuedRead>,
    /// The number of reads confirmed and removed; the first one in `queue` has the next position.
    confirmed: u64,
    /// The highest position that each member has confirmed.
    acks: BTreeMap<MemberId, u64>,
}

impl ReadOnly {
    /// Returns the position of the last read.
    fn last_position(&self) -> u64 {
        self.confirmed + self.queue.len() as u64
    }

    /// Returns the context for heartbeats: the last position in little-endian, or nothing without
    /// waiting reads.
    pub(super) fn heartbeat_context(&self) -> Bytes {
        if self.queue.is_empty() {
            Bytes::new()
        } else {
            Bytes::copy_from_slice(&self.last_position().to_le_bytes())
        }
    }

    /// Records that a member has confirmed all reads up to a position.
    fn acknowledge(&mut self, from: MemberId, position: u64) {
        let last_position = self.last_position();
        let acked = self.acks.entry(from).or_default();
        *acked = position.min(last_position).max(*acked);
    }

    /// Removes and returns the reads that a quorum has confirmed.
    fn take_confirmed(&mut self, voters: &JointConfig) -> impl Iterator<Item = QueuedRead> + '_ {
        let acked = |id| self.acks.get(&id).map(|&position| Index(position));
        let confirmed = voters.committed_index(acked).0.clamp(self.confirmed, self.last_position());
        let count = usize::try_from(confirmed - self.confirmed).unwrap_or(usize::MAX);
        self.confirmed = confirmed;
        self.queue.drain(..count)
    }
}

impl<S: Storage> Raft<S> {
    /// Requests a read index on behalf of a local client.
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
            // Dropped; the caller retries.
            Role::Follower { lead: None } | Role::PreCandidate(_) | Role::Candidate(_) => {}
            Role::Leader(_) => self.read_as_leader(message),
        }
    }

    fn read_as_leader(&mut self, message: Message) {
        if self.has_committed_in_term() || self.answers_reads_as_etcd() {
            self.start_read(&message);
        } else if self.pending_reads.len() < MAX_WAITING_READS {
            // The commit index may still be behind what the previous leader acknowledged. This also
            // holds for a single member, which need not have saved its commit index before a crash.
            self.pending_reads.push(message);
        }
    }

    /// Compat: as in etcd, a cluster with one voter answers at once; only with `keep_etcd_bugs`.
    fn answers_reads_as_etcd(&self) -> bool {
        let voters = &self.tracker.config.voters;
        self.keeps_etcd_bugs() && voters.incoming.len() == 1 && !voters.is_joint()
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
        // The only voter needs no confirmation.
        let alone = self.tracker.is_singleton(id) || self.answers_reads_as_etcd();
        if alone || self.config.read_only_option == ReadOnlyOption::LeaseBased {
            return self.answer_read(message.from, context, index);
        }
        let Role::Leader(leader) = &mut self.role else {
            return;
        };
        if leader.reads.queue.len() >= MAX_WAITING_READS {
            return;
        }
        leader.reads.queue.push_back(QueuedRead { from: message.from, context, index });
        let last_position = leader.reads.last_position();
        leader.reads.acknowledge(id, last_position);
        self.broadcast_heartbeat();
    }

    /// Handles the response to a heartbeat that carries a read position.
    pub(super) fn on_read_confirmed(&mut self, from: MemberId, context: &[u8]) {
        if self.config.read_only_option != ReadOnlyOption::Safe {
            return;
        }
        // A context of another length is no position and confirms nothing.
        let Ok(position) = context.try_into().map(u64::from_le_bytes) else {
            return;
        };
        let Role::Leader(leader) = &mut self.role else {
            return;
        };
        leader.reads.acknowledge(from, position);
        let confirmed: Vec<QueuedRead> =
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

/// Returns the context of a read: the data of its only entry.
fn read_context(message: &Message) -> Bytes {
    message.entries.first().map(|entry| entry.data.clone()).unwrap_or_default()
}
