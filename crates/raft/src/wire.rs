//! Conversion between the core's types and etcd's protobuf messages.
//!
//! The wire types distinguish absent fields from zeros; the core's types do not. Decoding treats
//! absent as zero, as etcd does, and refuses unknown enum numbers: an unknown message kind treated
//! as zero would start a campaign. Compat: encoding follows etcd 3.7, which writes the fields that
//! its code sets, even if they are zero:
//!
//! | message | fields written even if zero |
//! | --- | --- |
//! | all | type, to, from; term, except in `MsgProp` and `MsgReadIndex` |
//! | `MsgApp` | log term, index, commit |
//! | `MsgVote`, `MsgPreVote` | log term, index |
//! | `MsgHeartbeat` | commit |
//! | `MsgReadIndexResp` | index |
//! | `MsgAppResp` with a rejection | log term, index, hint |
//! | hard state | term, vote, commit |
//! | entry | type, if it was present before or the entry replaces a refused conf change |
//! | configuration | auto leave |
//! | conf change | type, node id; transition |

use bytes::Bytes;
use prost::Message as _;
use proto::raftpb;
use thiserror::Error;
use types::{Index, MemberId, Term};

use crate::conf::{
    AnyConfChange, ConfChange, ConfChangeSingle, ConfChangeTransition, ConfChangeType,
    ConfChangeV2, ConfState,
};
use crate::entry::{Entry, EntryType};
use crate::message::{Message, MessageType};
use crate::snapshot::{Snapshot, SnapshotMetadata};
use crate::state::HardState;

/// An error while decoding a message.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DecodeError {
    /// An enum number that this version does not know.
    #[error("unknown {what} {number}")]
    Unknown {
        /// The name of the enum.
        what: &'static str,
        /// The number.
        number: i32,
    },
    /// The bytes are no valid protobuf message of the expected type.
    #[error("not a valid protobuf message: {0}")]
    Protobuf(#[from] prost::DecodeError),
}

impl TryFrom<raftpb::Message> for Message {
    type Error = DecodeError;

    fn try_from(wire: raftpb::Message) -> Result<Message, DecodeError> {
        let number = wire.r#type.unwrap_or_default();
        let kind = MessageType::from_wire(number)
            .ok_or(DecodeError::Unknown { what: "message type", number })?;
        Ok(Message {
            kind,
            to: MemberId(wire.to()),
            from: MemberId(wire.from()),
            term: Term(wire.term()),
            log_term: Term(wire.log_term()),
            index: Index(wire.index()),
            commit: Index(wire.commit()),
            vote: MemberId::from_wire(wire.vote()),
            reject: wire.reject(),
            reject_hint: Index(wire.reject_hint()),
            entries: wire.entries.into_iter().map(Entry::try_from).collect::<Result<_, _>>()?,
            snapshot: wire.snapshot.map(|snapshot| Box::new(snapshot.into())),
            context: wire.context.unwrap_or_default(),
            responses: wire
                .responses
                .into_iter()
                .map(Message::try_from)
                .collect::<Result<_, _>>()?,
        })
    }
}

impl From<Message> for raftpb::Message {
    fn from(message: Message) -> raftpb::Message {
        use MessageType::*;
        let kind = message.kind;
        let refusal = kind == MsgAppResp && message.reject;
        let anchored = matches!(kind, MsgApp | MsgVote | MsgPreVote);
        let written =
            |value: u64, although_zero: bool| (although_zero || value != 0).then_some(value);
        raftpb::Message {
            r#type: Some(kind.to_wire()),
            to: Some(message.to.0),
            from: Some(message.from.0),
            term: written(message.term.0, !matches!(kind, MsgProp | MsgReadIndex)),
            log_term: written(message.log_term.0, anchored || refusal),
            index: written(message.index.0, anchored || refusal || kind == MsgReadIndexResp),
            entries: message.entries.into_iter().map(Into::into).collect(),
            commit: written(message.commit.0, matches!(kind, MsgApp | MsgHeartbeat)),
            vote: written(MemberId::to_wire(message.vote), false),
            snapshot: message.snapshot.map(|snapshot| (*snapshot).into()),
            reject: message.reject.then_some(true),
            reject_hint: written(message.reject_hint.0, refusal),
            context: written_bytes(message.context),
            responses: message.responses.into_iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<raftpb::Entry> for Entry {
    type Error = DecodeError;

    fn try_from(wire: raftpb::Entry) -> Result<Entry, DecodeError> {
        let kind = match wire.r#type.unwrap_or_default() {
            0 => EntryType::Normal,
            1 => EntryType::ConfChange,
            2 => EntryType::ConfChangeV2,
            number => return Err(DecodeError::Unknown { what: "entry type", number }),
        };
        Ok(Entry {
            term: Term(wire.term()),
            index: Index(wire.index()),
            kind,
            type_written: wire.r#type == Some(0),
            data: wire.data.unwrap_or_default(),
        })
    }
}

impl From<Entry> for raftpb::Entry {
    fn from(entry: Entry) -> raftpb::Entry {
        let kind = match entry.kind {
            EntryType::Normal => entry.type_written.then_some(0),
            EntryType::ConfChange => Some(1),
            EntryType::ConfChangeV2 => Some(2),
        };
        raftpb::Entry {
            // A forwarded proposal has no position yet.
            term: (entry.term != Term::ZERO).then_some(entry.term.0),
            index: (entry.index != Index::ZERO).then_some(entry.index.0),
            r#type: kind,
            data: written_bytes(entry.data),
        }
    }
}

impl From<raftpb::HardState> for HardState {
    fn from(wire: raftpb::HardState) -> HardState {
        HardState {
            term: Term(wire.term()),
            vote: MemberId::from_wire(wire.vote()),
            commit: Index(wire.commit()),
        }
    }
}

impl From<HardState> for raftpb::HardState {
    fn from(state: HardState) -> raftpb::HardState {
        raftpb::HardState {
            term: Some(state.term.0),
            vote: Some(MemberId::to_wire(state.vote)),
            commit: Some(state.commit.0),
        }
    }
}

impl From<raftpb::Snapshot> for Snapshot {
    fn from(wire: raftpb::Snapshot) -> Snapshot {
        let metadata = wire.metadata.unwrap_or_default();
        Snapshot {
            data: wire.data.unwrap_or_default(),
            metadata: SnapshotMetadata {
                index: Index(metadata.index()),
                term: Term(metadata.term()),
                conf_state: metadata.conf_state.unwrap_or_default().into(),
            },
        }
    }
}

impl From<Snapshot> for raftpb::Snapshot {
    fn from(snapshot: Snapshot) -> raftpb::Snapshot {
        raftpb::Snapshot {
            data: written_bytes(snapshot.data),
            metadata: Some(raftpb::SnapshotMetadata {
                conf_state: Some(snapshot.metadata.conf_state.into()),
                index: Some(snapshot.metadata.index.0),
                term: Some(snapshot.metadata.term.0),
            }),
        }
    }
}

impl From<raftpb::ConfState> for ConfState {
    fn from(wire: raftpb::ConfState) -> ConfState {
        let ids = |ids: Vec<u64>| ids.into_iter().map(MemberId).collect();
        ConfState {
            auto_leave: wire.auto_leave(),
            voters: ids(wire.voters),
            learners: ids(wire.learners),
            voters_outgoing: ids(wire.voters_outgoing),
            learners_next: ids(wire.learners_next),
        }
    }
}

impl From<ConfState> for raftpb::ConfState {
    fn from(state: ConfState) -> raftpb::ConfState {
        let ids = |ids: Vec<MemberId>| ids.into_iter().map(|id| id.0).collect();
        raftpb::ConfState {
            voters: ids(state.voters),
            learners: ids(state.learners),
            voters_outgoing: ids(state.voters_outgoing),
            learners_next: ids(state.learners_next),
            auto_leave: Some(state.auto_leave),
        }
    }
}

/// Encodes a conf change as a log entry.
pub(crate) fn encode_conf_change(change: AnyConfChange) -> Entry {
    let (kind, data) = match change {
        AnyConfChange::V1(change) => {
            (EntryType::ConfChange, raftpb::ConfChange::from(change).encode_to_vec())
        }
        AnyConfChange::V2(change) => {
            (EntryType::ConfChangeV2, raftpb::ConfChangeV2::from(change).encode_to_vec())
        }
    };
    Entry { kind, data: data.into(), ..Entry::default() }
}

/// Decodes the conf change of an entry.
///
/// # Errors
///
/// Returns an error if the bytes are no conf change of that encoding, or its kind is unknown.
pub fn decode_conf_change(kind: EntryType, data: &Bytes) -> Result<ConfChangeV2, DecodeError> {
    match kind {
        EntryType::ConfChange => {
            let change = ConfChange::try_from(raftpb::ConfChange::decode(data.clone())?)?;
            Ok(change.into())
        }
        EntryType::Normal | EntryType::ConfChangeV2 => {
            raftpb::ConfChangeV2::decode(data.clone())?.try_into()
        }
    }
}

impl TryFrom<raftpb::ConfChange> for ConfChange {
    type Error = DecodeError;

    fn try_from(wire: raftpb::ConfChange) -> Result<ConfChange, DecodeError> {
        Ok(ConfChange {
            id: wire.id(),
            kind: conf_change_type(wire.r#type)?,
            node_id: MemberId(wire.node_id()),
            context: wire.context.unwrap_or_default(),
        })
    }
}

impl From<ConfChange> for raftpb::ConfChange {
    fn from(change: ConfChange) -> raftpb::ConfChange {
        raftpb::ConfChange {
            r#type: Some(conf_change_number(change.kind)),
            node_id: Some(change.node_id.0),
            context: written_bytes(change.context),
            id: (change.id != 0).then_some(change.id),
        }
    }
}

impl TryFrom<raftpb::ConfChangeV2> for ConfChangeV2 {
    type Error = DecodeError;

    fn try_from(wire: raftpb::ConfChangeV2) -> Result<ConfChangeV2, DecodeError> {
        let transition = match wire.transition.unwrap_or_default() {
            0 => ConfChangeTransition::Auto,
            1 => ConfChangeTransition::JointImplicit,
            2 => ConfChangeTransition::JointExplicit,
            number => return Err(DecodeError::Unknown { what: "transition", number }),
        };
        let single = |wire: raftpb::ConfChangeSingle| {
            let node_id = MemberId(wire.node_id());
            Ok(ConfChangeSingle { kind: conf_change_type(wire.r#type)?, node_id })
        };
        let changes = wire.changes.into_iter().map(single).collect::<Result<_, DecodeError>>()?;
        Ok(ConfChangeV2 { transition, changes, context: wire.context.unwrap_or_default() })
    }
}

impl From<ConfChangeV2> for raftpb::ConfChangeV2 {
    fn from(change: ConfChangeV2) -> raftpb::ConfChangeV2 {
        let transition = match change.transition {
            ConfChangeTransition::Auto => 0,
            ConfChangeTransition::JointImplicit => 1,
            ConfChangeTransition::JointExplicit => 2,
        };
        let single = |change: ConfChangeSingle| raftpb::ConfChangeSingle {
            r#type: Some(conf_change_number(change.kind)),
            node_id: Some(change.node_id.0),
        };
        raftpb::ConfChangeV2 {
            transition: Some(transition),
            changes: change.changes.into_iter().map(single).collect(),
            context: written_bytes(change.context),
        }
    }
}

fn conf_change_type(number: Option<i32>) -> Result<ConfChangeType, DecodeError> {
    match number.unwrap_or_default() {
        0 => Ok(ConfChangeType::AddNode),
        1 => Ok(ConfChangeType::RemoveNode),
        2 => Ok(ConfChangeType::UpdateNode),
        3 => Ok(ConfChangeType::AddLearnerNode),
        number => Err(DecodeError::Unknown { what: "membership change", number }),
    }
}

fn conf_change_number(kind: ConfChangeType) -> i32 {
    match kind {
        ConfChangeType::AddNode => 0,
        ConfChangeType::RemoveNode => 1,
        ConfChangeType::UpdateNode => 2,
        ConfChangeType::AddLearnerNode => 3,
    }
}

fn written_bytes(bytes: Bytes) -> Option<Bytes> {
    (!bytes.is_empty()).then_some(bytes)
}
