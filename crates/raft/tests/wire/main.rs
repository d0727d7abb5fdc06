//! Conversions between the core's types and etcd's bytes: nothing is lost, and the bytes equal
//! etcd's.

#[path = "../arbitrary/mod.rs"]
mod arbitrary;
mod captured;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use prost::Message as _;
use proto::raftpb;
use raft::wire::{DecodeError, decode_conf_change};
use raft::{
    ConfChange, ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2, ConfState,
    Entry, EntryType, HardState, Message, MessageType, Snapshot,
};
use types::{Index, MemberId, Term};

fn encode<W: prost::Message>(value: impl Into<W>) -> Bytes {
    value.into().encode_to_vec().into()
}

fn decode_message(bytes: Bytes) -> Result<Message, DecodeError> {
    raftpb::Message::decode(bytes)?.try_into()
}

fn hard_state() -> impl Strategy<Value = HardState> {
    (arbitrary::term(), arbitrary::member(), arbitrary::index()).prop_map(|(term, vote, commit)| {
        HardState { term, vote: MemberId::from_wire(vote.0), commit }
    })
}

fn single() -> impl Strategy<Value = ConfChangeSingle> {
    use ConfChangeType::{AddLearnerNode, AddNode, RemoveNode, UpdateNode};
    (select(&[AddNode, AddLearnerNode, RemoveNode, UpdateNode]), arbitrary::member())
        .prop_map(|(kind, node_id)| ConfChangeSingle { kind, node_id })
}

fn conf_change() -> impl Strategy<Value = ConfChange> {
    (any::<u64>(), single(), arbitrary::bytes(0..9)).prop_map(|(id, single, context)| ConfChange {
        id,
        kind: single.kind,
        node_id: single.node_id,
        context,
    })
}

fn conf_change_v2() -> impl Strategy<Value = ConfChangeV2> {
    use ConfChangeTransition::{Auto, JointExplicit, JointImplicit};
    let transition = select(&[Auto, JointImplicit, JointExplicit]);
    (transition, vec(single(), 0..4), arbitrary::bytes(0..9))
        .prop_map(|(transition, changes, context)| ConfChangeV2 { transition, changes, context })
}

proptest! {
    #[test]
    fn messages_round_trip(message in arbitrary::message()) {
        let bytes = encode::<raftpb::Message>(message.clone());
        prop_assert_eq!(decode_message(bytes), Ok(message));
    }

    #[test]
    fn entries_round_trip(entry in arbitrary::entry()) {
        let bytes = encode::<raftpb::Entry>(entry.clone());
        let read = Entry::try_from(raftpb::Entry::decode(bytes).unwrap());
        prop_assert_eq!(read, Ok(entry));
    }

    #[test]
    fn hard_states_round_trip(state in hard_state()) {
        let bytes = encode::<raftpb::HardState>(state);
        prop_assert_eq!(HardState::from(raftpb::HardState::decode(bytes).unwrap()), state);
    }

    #[test]
    fn snapshots_round_trip(snapshot in arbitrary::snapshot()) {
        let bytes = encode::<raftpb::Snapshot>(snapshot.clone());
        prop_assert_eq!(Snapshot::from(raftpb::Snapshot::decode(bytes).unwrap()), snapshot);
    }

    #[test]
    fn configurations_round_trip(state in arbitrary::conf_state()) {
        let bytes = encode::<raftpb::ConfState>(state.clone());
        prop_assert_eq!(ConfState::from(raftpb::ConfState::decode(bytes).unwrap()), state);
    }

    #[test]
    fn conf_changes_round_trip(change in conf_change(), change_v2 in conf_change_v2()) {
        let bytes = encode::<raftpb::ConfChange>(change.clone());
        let read = ConfChange::try_from(raftpb::ConfChange::decode(bytes.clone()).unwrap());
        prop_assert_eq!(read, Ok(change.clone()));
        prop_assert_eq!(decode_conf_change(EntryType::ConfChange, &bytes), Ok(change.into()));
        let bytes = encode::<raftpb::ConfChangeV2>(change_v2.clone());
        prop_assert_eq!(decode_conf_change(EntryType::ConfChangeV2, &bytes), Ok(change_v2));
    }

    /// Limits compute the size of an entry without encoding it.
    #[test]
    fn the_computed_size_of_an_entry_equals_its_encoded_size(entry in arbitrary::entry()) {
        // An entry without a position is a forwarded proposal, not part of a log.
        let (term, index) = (entry.term.max(Term(1)), entry.index.max(Index(1)));
        let entry = Entry { term, index, ..entry };
        let wire: raftpb::Entry = entry.clone().into();
        prop_assert_eq!(entry.encoded_bytes(), wire.encoded_len() as u64);
    }
}

#[test]
fn message_types_have_etcds_names_and_numbers() {
    for kind in MessageType::ALL {
        let wire = raftpb::MessageType::try_from(kind.to_wire()).unwrap();
        assert_eq!(kind.as_str(), wire.as_str_name());
    }
    for (kind, wire) in [
        (EntryType::Normal, raftpb::EntryType::EntryNormal),
        (EntryType::ConfChange, raftpb::EntryType::EntryConfChange),
        (EntryType::ConfChangeV2, raftpb::EntryType::EntryConfChangeV2),
    ] {
        let entry: raftpb::Entry = Entry { kind, ..Entry::default() }.into();
        assert_eq!((entry.r#type(), kind.as_str()), (wire, wire.as_str_name()));
    }
    for kind in [
        ConfChangeType::AddNode,
        ConfChangeType::RemoveNode,
        ConfChangeType::UpdateNode,
        ConfChangeType::AddLearnerNode,
    ] {
        let wire: raftpb::ConfChange = ConfChange { kind, ..ConfChange::default() }.into();
        assert_eq!(wire.r#type().as_str_name(), kind.as_str());
    }
    for transition in [
        ConfChangeTransition::Auto,
        ConfChangeTransition::JointImplicit,
        ConfChangeTransition::JointExplicit,
    ] {
        let change = ConfChangeV2 { transition, ..ConfChangeV2::default() };
        let wire: raftpb::ConfChangeV2 = change.into();
        assert_eq!(wire.transition().as_str_name(), transition.as_str());
    }
}
