//! What the outside must do now.

use crate::entry::Entry;
use crate::message::Message;
use crate::raft::ReadState;
use crate::snapshot::Snapshot;
use crate::state::{HardState, SoftState};

/// What the outside must do now, from [`crate::RawNode::ready`].
///
/// With synchronous storage, in this order: save `snapshot`, `entries` and `hard_state`; send `messages`; apply
/// `snapshot` and `committed_entries`; call [`crate::RawNode::advance`]. Entries and hard state must be durable before
/// the next step if `must_sync` says so, a snapshot always. The hard state goes behind the entries: were it written
/// first and the rest lost in a crash, its commit index would commit whatever stood in their place before.
///
/// With asynchronous storage writes these are empty, except for the messages: two of them are addressed to the storage
/// threads, with the work and the responses to deliver when it is done. What an append message with responses carries
/// must be durable before they are delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// The role or the leader changed. Need not be saved.
    pub soft_state: Option<SoftState>,
    /// To be saved.
    pub hard_state: Option<HardState>,
    /// Reads that may be served once their index is applied.
    pub read_states: Vec<ReadState>,
    /// To be saved before `messages` are sent. May replace entries saved earlier.
    pub entries: Vec<Entry>,
    /// To be saved, and to take the place of the state machine.
    pub snapshot: Option<Snapshot>,
    /// To be applied. All of them have been saved.
    pub committed_entries: Vec<Entry>,
    /// To be sent, in order.
    pub messages: Vec<Message>,
    /// Whether entries and hard state must be durable at once. If not, only a commit index changed, which
    /// is learned anew after a crash.
    pub must_sync: bool,
}
