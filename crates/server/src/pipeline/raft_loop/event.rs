//! The events of the raft loop.

use std::time::Duration;

use bytes::Bytes;
use proto::raftpb;
use raft::{ConfChangeV2, Message};
use sync::oneshot;
use types::{Index, MemberId, Term};

use crate::pipeline::peer_inbox::PeerInboxPermit;
use crate::read::read_index::ReadRequest;

/// The causes for the raft loop to act, other than the passing of time.
#[derive(Debug)]
pub(crate) enum Event {
    /// A request to append to the log. With a leader term, it is dropped unless the local member
    /// leads in that term.
    Propose { id: u64, data: Bytes, since: Duration, leader_term: Option<Term> },
    /// A conf change to append to the log.
    ProposeConfChange { id: u64, change: raftpb::ConfChange, since: Duration },
    /// A linearizable read asks for a read index.
    ReadIndex(ReadRequest),
    /// A message from a peer. The permit bounds the queued messages and is returned on drop.
    PeerMessage { message: Box<Message>, permit: PeerInboxPermit },
    /// A message to a peer could not be delivered.
    PeerUnreachable(MemberId),
    /// The transfer of a snapshot to a peer ended.
    SnapshotSent { to: MemberId, arrived: bool },
    /// The log writer has made the content of this append message durable.
    Appended(Box<Message>),
    /// The state machine has applied entries. Waiters of conf changes complete after consensus got
    /// the responses: only then does it accept the next conf change.
    Applied { responses: Vec<Message>, conf_changes: Vec<(u64, ConfChangeResult)> },
    /// The state machine has applied a conf change and computed the resulting configuration.
    ConfChanged { index: Index, change: ConfChangeV2, conf_state: raft::ConfState },
    /// The in-memory log may be compacted up to `applied`, where `conf_state` is in force.
    CompactLog { applied: Index, conf_state: raft::ConfState },
    /// A request to transfer leadership to a peer.
    TransferLeader(MemberId),
    /// Skips election ticks: potential leaders had the time to make themselves known.
    AdvanceTicks(u32),
    /// A request for the raft status.
    Status(oneshot::Sender<raft::Status>),
    /// Shuts the loop down.
    Stop,
}

/// Whether a conf change was applied or refused.
pub(crate) type ConfChangeResult = Result<(), membership::ConfChangeRefusal>;
