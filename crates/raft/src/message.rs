//! What members say to each other, and to their own storage.
//!
//! One flat message type, as on the wire. Which fields mean something depends on the kind:
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

/// Addresses the local thread that makes entries, hard state and snapshots durable.
pub const LOCAL_APPEND_THREAD: MemberId = MemberId(u64::MAX);
/// Addresses the local thread that applies committed entries.
pub const LOCAL_APPLY_THREAD: MemberId = MemberId(u64::MAX - 1);

/// Whether the id is one of the two local threads rather than a member.
#[must_use]
pub fn is_local_thread(id: MemberId) -> bool {
    id == LOCAL_APPEND_THREAD || id == LOCAL_APPLY_THREAD
}

/// A message between members, or between a member and its storage threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// What the message is about.
    pub kind: MessageType,
    /// The receiver.
    pub to: MemberId,
    /// The sender; in a leader transfer, the member that shall lead.
    pub from: MemberId,
    /// The sender's term. Zero in forwarded proposals and reads, which belong to no term.
    pub term: Term,
    /// The term of the entry at `index`.
    pub log_term: Term,
    /// A log position; see the table above.
    pub index: Index,
    /// Entries carried.
    pub entries: Vec<Entry>,
    /// A commit index.
    pub commit: Index,
    /// The vote to make durable.
    pub vote: Option<MemberId>,
    /// A snapshot carried.
    pub snapshot: Option<Box<Snapshot>>,
    /// Whether a response is a refusal.
    pub reject: bool,
    /// Where a refused append could match instead.
    pub reject_hint: Index,
    /// Opaque bytes: the read position on heartbeats, the reason of a campaign on votes.
    pub context: Bytes,
    /// To be delivered once the storage work of this message is done.
    pub responses: Vec<Message>,
}

impl Message {
    /// A message of a kind to a member, everything else empty.
    #[must_use]
    pub fn new(kind: MessageType, to: MemberId) -> Message {
        Message { kind, to, ..Message::default() }
    }

    /// The hard state to make durable with a `MsgStorageAppend`, if it carries one.
    #[must_use]
    pub fn hard_state(&self) -> Option<HardState> {
        let state = HardState { term: self.term, vote: self.vote, commit: self.commit };
        (state != HardState::default()).then_some(state)
    }
}

/// Declares the kinds with their wire numbers and etcd's names for them.
macro_rules! message_types {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
        /// The kinds of message, with etcd's names and numbers.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum MessageType {
            $($(#[$doc])* $name = $number,)*
        }

        impl MessageType {
            /// Every kind, by wire number.
            pub const ALL: &[MessageType] = &[$(MessageType::$name,)*];

            /// etcd's name for the kind.
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
    /// Local: start an election.
    #[default]
    MsgHup = 0,
    /// Local: a leader's heartbeat is due.
    MsgBeat = 1,
    /// Append these entries; forwarded to the leader by followers.
    MsgProp = 2,
    /// Leader to follower: replicate.
    MsgApp = 3,
    /// Follower to leader: replicated, or why not.
    MsgAppResp = 4,
    /// Candidate asks for a vote.
    MsgVote = 5,
    /// The answer.
    MsgVoteResp = 6,
    /// Leader to follower: start over from this snapshot.
    MsgSnap = 7,
    /// Leader to follower: still here.
    MsgHeartbeat = 8,
    /// The answer.
    MsgHeartbeatResp = 9,
    /// Local: the transport could not reach a member.
    MsgUnreachable = 10,
    /// Local: how the sending of a snapshot ended.
    MsgSnapStatus = 11,
    /// Local: a leader asks itself whether a quorum still answers.
    MsgCheckQuorum = 12,
    /// Make this member the leader; forwarded to the leader by followers.
    MsgTransferLeader = 13,
    /// Leader to its chosen successor: campaign now.
    MsgTimeoutNow = 14,
    /// Ask for an index from which a read is linearizable.
    MsgReadIndex = 15,
    /// The answer.
    MsgReadIndexResp = 16,
    /// Would you vote for me? Asked before a term is spent on it.
    MsgPreVote = 17,
    /// The answer.
    MsgPreVoteResp = 18,
    /// To the append thread: make durable.
    MsgStorageAppend = 19,
    /// From the append thread: durable.
    MsgStorageAppendResp = 20,
    /// To the apply thread: apply.
    MsgStorageApply = 21,
    /// From the apply thread: applied.
    MsgStorageApplyResp = 22,
    /// Local: a follower shall forget who leads.
    MsgForgetLeader = 23,
}

impl MessageType {
    /// The kind with this wire number.
    #[must_use]
    pub fn from_wire(number: i32) -> Option<MessageType> {
        usize::try_from(number).ok().and_then(|at| MessageType::ALL.get(at).copied())
    }

    /// The wire number.
    #[must_use]
    pub fn to_wire(self) -> i32 {
        self as i32
    }

    /// Kinds that never travel between members.
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

    /// Kinds that answer something, and so make sense only from a known member.
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

    /// Kinds that promise something durable: they wait until this member's own disk has it.
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
    fn a_storage_append_without_hard_state_has_none() {
        let mut message = Message::new(MessageType::MsgStorageAppend, LOCAL_APPEND_THREAD);
        assert_eq!(message.hard_state(), None);
        message.commit = Index(3);
        assert_eq!(message.hard_state().map(|state| state.commit), Some(Index(3)));
    }
}
