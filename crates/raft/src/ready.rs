//! What the outside must do now.

use crate::entry::Entry;
use crate::message::Message;
use crate::raft::ReadState;
use crate::snapshot::Snapshot;
use crate::state::{HardState, SoftState};

/// What the outside must do now, from [`crate::RawNode::ready`].
///
/// With synchronous storage: save `entries`, `hard_state` and `snapshot` (durably if `must_sync`), then send
/// `messages`, apply `snapshot` and `committed_entries`, then call [`crate::RawNode::advance`].
///
/// With asynchronous storage writes the first three and the committed entries are empty: they are inside of
/// `messages`, addressed to the storage threads, with the responses to deliver when the work is done.
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
    /// Whether saving must be durable, or may wait for the next time.
    pub must_sync: bool,
}
