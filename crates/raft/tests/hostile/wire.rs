//! Bytes that are almost messages: from a damaged stream, a newer version or a malicious peer.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index as Place, select};
use prost::Message as _;
use proto::raftpb;
use raft::wire::{DecodeError, decode_conf_change};
use raft::{Entry, EntryType, Message, MessageType};

use super::member::{Member, Setup, Situation};
use super::shaped;

/// Damage to some bytes.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Flip {
        at: Place,
        bit: u8,
    },
    Overwrite {
        at: Place,
        with: u8,
    },
    Insert {
        at: Place,
        byte: u8,
    },
    Cut {
        at: Place,
    },
    /// Repeats a part: repeated fields, of which the last one counts.
    Repeat {
        from: Place,
        to: Place,
    },
}

fn damage() -> impl Strategy<Value = Damage> {
    let place = any::<Place>;
    prop_oneof![
        (place(), 0..8u8).prop_map(|(at, bit)| Damage::Flip { at, bit }),
        (place(), any::<u8>()).prop_map(|(at, with)| Damage::Overwrite { at, with }),
        (place(), any::<u8>()).prop_map(|(at, byte)| Damage::Insert { at, byte }),
        place().prop_map(|at| Damage::Cut { at }),
        (place(), place()).prop_map(|(from, to)| Damage::Repeat { from, to }),
    ]
}

fn apply(damage: Damage, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    let length = bytes.len();
    match damage {
        Damage::Flip { at, bit } => bytes[at.index(length)] ^= 1 << bit,
        Damage::Overwrite { at, with } => bytes[at.index(length)] = with,
        Damage::Insert { at, byte } => bytes.insert(at.index(length), byte),
        Damage::Cut { at } => bytes.truncate(at.index(length)),
        Damage::Repeat { from, to } => {
            let (one, other) = (from.index(length), to.index(length));
            bytes.extend_from_within(one.min(other)..one.max(other));
        }
    }
}

/// Decodes a message as a connection does.
fn decode(bytes: Vec<u8>) -> Result<Message, DecodeError> {
    raftpb::Message::decode(Bytes::from(bytes))?.try_into()
}

fn encode(message: Message) -> Vec<u8> {
    let wire: raftpb::Message = message.into();
    wire.encode_to_vec()
}

/// Steps bytes as a connection would, and checks that the member continues to work.
fn check_harmless(situation: Situation, bytes: Vec<u8>) -> Result<(), TestCaseError> {
    let Ok(message) = decode(bytes) else {
        return Ok(());
    };
    let mut member = Member::new(&Setup::plain(situation));
    let before = member.view();
    if member.step(message).is_err() {
        prop_assert_eq!(member.view(), before);
    }
    member.settle();
    (0..25).for_each(|_| member.node.tick());
    member.settle();
    member.restart();
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn damaged_messages_are_harmless(
        situation in select(Situation::ALL),
        message in shaped::message(),
        damages in vec(damage(), 0..4),
    ) {
        let mut bytes = encode(message);
        for damage in damages {
            apply(damage, &mut bytes);
        }
        check_harmless(situation, bytes)?;
    }

    #[test]
    fn arbitrary_bytes_are_harmless(
        situation in select(Situation::ALL), bytes in vec(any::<u8>(), 0..60)
    ) {
        check_harmless(situation, bytes)?;
    }

    #[test]
    fn arbitrary_bytes_decode_to_a_valid_conf_change_or_fail(
        bytes in vec(any::<u8>(), 0..30), v2: bool
    ) {
        let kind = if v2 { EntryType::ConfChangeV2 } else { EntryType::ConfChange };
        if let Ok(change) = decode_conf_change(kind, &bytes.into()) {
            // A decoded change can be encoded and decoded to the same change.
            let again = raftpb::ConfChangeV2::from(change.clone()).encode_to_vec();
            prop_assert_eq!(decode_conf_change(EntryType::ConfChangeV2, &again.into()), Ok(change));
        }
    }
}

#[test]
fn an_unknown_message_type_is_refused() {
    let beyond = i32::try_from(MessageType::ALL.len()).unwrap();
    for number in [beyond, -1, i32::MAX, i32::MIN] {
        let unknown = raftpb::Message { r#type: Some(number), ..raftpb::Message::default() };
        let error = DecodeError::Unknown { what: "message type", number };
        assert_eq!(decode(unknown.encode_to_vec()), Err(error.clone()));
        let inside = raftpb::Message { responses: vec![unknown], ..raftpb::Message::default() };
        assert_eq!(decode(inside.encode_to_vec()), Err(error));
    }
}

#[test]
fn an_unknown_entry_type_is_refused() {
    for number in [3, -1, i32::MAX] {
        let unknown = raftpb::Entry { r#type: Some(number), ..raftpb::Entry::default() };
        let error = DecodeError::Unknown { what: "entry type", number };
        assert_eq!(Entry::try_from(unknown.clone()), Err(error.clone()));
        let message = raftpb::Message { entries: vec![unknown], ..raftpb::Message::default() };
        assert_eq!(decode(message.encode_to_vec()), Err(error));
    }
}

#[test]
fn an_unknown_conf_change_type_is_refused() {
    let unknown = |what| move |number| DecodeError::Unknown { what, number };
    for number in [4, -1, i32::MAX] {
        let change = raftpb::ConfChange { r#type: Some(number), ..Default::default() };
        let read = decode_conf_change(EntryType::ConfChange, &change.encode_to_vec().into());
        assert_eq!(read, Err(unknown("membership change")(number)));

        let single = raftpb::ConfChangeSingle { r#type: Some(number), ..Default::default() };
        let change = raftpb::ConfChangeV2 { changes: vec![single], ..Default::default() };
        let read = decode_conf_change(EntryType::ConfChangeV2, &change.encode_to_vec().into());
        assert_eq!(read, Err(unknown("membership change")(number)));

        let change = raftpb::ConfChangeV2 { transition: Some(number), ..Default::default() };
        let read = decode_conf_change(EntryType::ConfChangeV2, &change.encode_to_vec().into());
        assert_eq!(read, Err(unknown("transition")(number)));
    }
}

/// Each level could take a stack frame in the decoder, the conversion and the drop.
#[test]
fn deeply_nested_messages_are_refused() {
    let nested = |depth: usize| {
        (0..depth).fold(Vec::new(), |inner: Vec<u8>, _| {
            let mut outer = vec![0x72];
            prost::encoding::encode_varint(inner.len() as u64, &mut outer);
            outer.extend(inner);
            outer
        })
    };
    assert_eq!(depth_of(&decode(nested(50)).unwrap()), 50);
    assert!(matches!(decode(nested(10_000)), Err(DecodeError::Protobuf(_))));
}

fn depth_of(message: &Message) -> usize {
    message.responses.first().map_or(0, |inner| 1 + depth_of(inner))
}
