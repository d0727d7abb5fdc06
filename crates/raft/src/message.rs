//! Messages between members, and between a member and its storage threads.
//!
//! There is one flat message type, as on the wire. The meaning of the fields depends on the kind:
//!
//! ```text
//! kind             log_term, index            commit          entries        other
//! MsgApp           entry before the new ones  leader's commit new entries
//! MsgAppResp       index acknowledged         -               -              reject, reject_hint
//! MsgVote          candidate's last entry     -               -              context: transfer?
//! MsgHeartbeat     -                          min(match, c.)  -              context: reads
//! MsgSnap          -                          -               -              snapshot
//! MsgReadIndex     -                          -               one: context
//! MsgStorageAppend -                          hard state      to write       vote, responses
//! MsgStorageApply  -                          -               to apply       responses
//! ```

use bytes::Bytes;
use types::{Index, MemberId, Term};

use crate::entry::Entry;
use crate::snapshot::Snapshot;
use crate::state::HardState;

/// The id of the local thread that makes entries, hard state and snapshots durable.
pub const LOCAL_APPEND_THREAD: MemberId = MemberId(u64::MAX);
/// The id of the local thread that applies committed entries.
pub const LOCAL_APPLY_THREAD: MemberId = MemberId(u64::MAX - 1);

/// Reports whether the id belongs to a local thread instead of a member.
#[must_use]
pub fn is_local_thread(id: MemberId) -> bool {
    id == LOCAL_APPEND_THREAD || id == LOCAL_APPLY_THREAD
}

/// A message between members, or between a member and its storage threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The kind of message.
    pub kind: MessageType,
    /// The receiver.
    pub to: MemberId,
    /// The sender; in `MsgTransferLeader` the designated leader.
    pub from: MemberId,
    /// The term of the sender; zero in forwarded proposals and reads, which belong to no term.
    pub term: Term,
    /// The term of the entry at `index`.
    pub log_term: Term,
    /// A log position; see the table of this module.
    pub index: Index,
    /// The entries.
    pub entries: Vec<Entry>,
    /// A commit index.
    pub commit: Index,
    /// The vote to make durable.
    pub vote: Option<MemberId>,
    /// The snapshot.
    pub snapshot: Option<Box<Snapshot>>,
    /// Whether a response is a rejection.
    pub reject: bool,
    /// The index at which a rejected append may match instead.
    pub reject_hint: Index,
    /// Opaque bytes: the read position in heartbeats, the campaign type in vote requests.
    pub context: Bytes,
    /// Messages to deliver after the storage work of this message is done.
    pub responses: Vec<Message>,
}

impl Message {
    /// Returns a message of a kind to a member, with all other fields empty.
    #[must_use]
    pub fn new(kind: MessageType, to: MemberId) -> Message {
        Message { kind, to, ..Message::default() }
    }

    /// Returns the hard state that a `MsgStorageAppend` makes durable, if it carries one.
    #[must_use]
    pub fn hard_state(&self) -> Option<HardState> {
        let state = HardState { term: self.term, vote: self.vote, commit: self.commit };
        (state != HardState::default()).then_some(state)
    }
}

/// Declares the kinds with etcd's names and wire numbers.
macro_rules! message_types {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
        /// The kinds of message, with etcd's names and numbers.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum MessageType {
            $($(#[$doc])* $name = $number,)*
        }

        impl MessageType {
            /// All kinds, by wire number.
            pub const ALL: &[MessageType] = &[$(MessageType::$name,)*];

            /// Returns etcd's name of the kind.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(MessageType::$name => stringify!($name),)*
                }
            }
        }
    };
}

message_types! {
    /// Local: start a campaign.
    #[default]
    MsgHup = 0,
    /// Local: send a heartbeat.
    MsgBeat = 1,
    /// Proposal: append these entries. Followers forward it to the leader.
    MsgProp = 2,
    /// Leader to follower: append entries.
    MsgApp = 3,
    /// Follower to leader: acknowledgement or rejection of an append.
    MsgAppResp = 4,
    /// Candidate to voter: request a vote.
    MsgVote = 5,
    /// Voter to candidate: the vote.
    MsgVoteResp = 6,
    /// Leader to follower: install this snapshot.
    MsgSnap = 7,
    /// Leader to follower: heartbeat.
    MsgHeartbeat = 8,
    /// Follower to leader: heartbeat response.
    MsgHeartbeatResp = 9,
    /// Local: the transport could not reach a member.
    MsgUnreachable = 10,
    /// Local: the result of sending a snapshot.
    MsgSnapStatus = 11,
    /// Local: check whether a quorum is active.
    MsgCheckQuorum = 12,
    /// Transfer leadership to a member. Followers forward it to the leader.
    MsgTransferLeader = 13,
    /// Leader to transferee: campaign now.
    MsgTimeoutNow = 14,
    /// Request a read index. Followers forward it to the leader.
    MsgReadIndex = 15,
    /// Leader to follower: the read index.
    MsgReadIndexResp = 16,
    /// Pre-candidate to voter: request a pre-vote, before a term is started.
    MsgPreVote = 17,
    /// Voter to pre-candidate: the pre-vote.
    MsgPreVoteResp = 18,
    /// To the append thread: make entries, hard state and snapshot durable.
    MsgStorageAppend = 19,
    /// Sent by the append thread: durable.
    MsgStorageAppendResp = 20,
    /// To the apply thread: apply entries.
    MsgStorageApply = 21,
    /// Sent by the apply thread: applied.
    MsgStorageApplyResp = 22,
    /// Local: a follower forgets its leader.
    MsgForgetLeader = 23,
}

impl MessageType {
    /// Returns the kind with this wire number.
    #[must_use]
    pub fn from_wire(number: i32) -> Option<MessageType> {
        usize::try_from(number).ok().and_then(|at| MessageType::ALL.get(at).copied())
    }

    /// Returns the wire number.
    #[must_use]
    pub fn to_wire(self) -> i32 {
        self as i32
    }

    /// Reports whether the kind never travels between members.
    #[must_use]
    pub fn is_local(self) -> bool {
        use MessageType::*;
        matches!(
            self,
            MsgHup
                | MsgBeat
                | MsgUnreachable
                | MsgSnapStatus
                | MsgCheckQuorum
                | MsgStorageAppend
                | MsgStorageAppendResp
                | MsgStorageApply
                | MsgStorageApplyResp
                | MsgForgetLeader
        )
    }

    /// Reports whether the kind is a response, which is valid only from a known member.
    #[must_use]
    pub fn is_response(self) -> bool {
        use MessageType::*;
        matches!(
            self,
            MsgAppResp
                | MsgVoteResp
                | MsgHeartbeatResp
                | MsgUnreachable
                | MsgReadIndexResp
                | MsgPreVoteResp
                | MsgStorageAppendResp
                | MsgStorageApplyResp
        )
    }

    /// Reports whether the kind promises something durable, and so must wait for the local disk.
    #[must_use]
    pub fn waits_for_storage(self) -> bool {
        use MessageType::*;
        matches!(self, MsgAppResp | MsgVoteResp | MsgPreVoteResp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_kinds_convert_both_ways() {
        for (number, kind) in MessageType::ALL.iter().enumerate() {
            let number = i32::try_from(number).unwrap();
            assert_eq!(kind.to_wire(), number);
            assert_eq!(MessageType::from_wire(number), Some(*kind));
        }
        assert_eq!(MessageType::from_wire(24), None);
        assert_eq!(MessageType::from_wire(-1), None);
    }

    #[test]
    fn a_storage_append_carries_a_hard_state_only_if_one_is_set() {
        let mut message = Message::new(MessageType::MsgStorageAppend, LOCAL_APPEND_THREAD);
        assert_eq!(message.hard_state(), None);
        message.commit = Index(3);
        assert_eq!(message.hard_state().map(|state| state.commit), Some(Index(3)));
    }
}
