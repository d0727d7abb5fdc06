//! The output of the core: work for the caller.

use crate::entry::Entry;
use crate::message::Message;
use crate::raft::ReadState;
use crate::snapshot::Snapshot;
use crate::state::{HardState, SoftState};

/// A batch of work for the caller, returned by [`crate::RawNode::ready`].
///
/// With synchronous storage the caller, in this order, saves `snapshot`, `entries` and
/// `hard_state`; sends `messages`; applies `snapshot` and `committed_entries`; and calls
/// [`crate::RawNode::advance`]. If `must_sync` is set, entries and hard state must be durable
/// before the next step; a snapshot always must. The hard state is written after the entries: if it
/// were written first and a crash lost the entries, its commit index would commit the old entries
/// in their place.
///
/// With asynchronous storage writes, all fields except `messages` are empty. Two messages are
/// addressed to the storage threads and carry the work, together with the responses to deliver when
/// it is done. The content of an append message must be durable before its responses are delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// The new role and leader, if they changed. Need not be saved.
    pub soft_state: Option<SoftState>,
    /// The hard state to save.
    pub hard_state: Option<HardState>,
    /// Reads that may be served once their index is applied.
    pub read_states: Vec<ReadState>,
    /// Entries to save before `messages` are sent. May replace entries saved earlier.
    pub entries: Vec<Entry>,
    /// The snapshot to save, which also replaces the state machine.
    pub snapshot: Option<Snapshot>,
    /// Committed entries to apply; all of them were saved before.
    pub committed_entries: Vec<Entry>,
    /// Messages to send, in order.
    pub messages: Vec<Message>,
    /// Whether entries and hard state must be durable at once. If not, only the commit index
    /// changed, which the leader sends again after a crash.
    pub must_sync: bool,
}
