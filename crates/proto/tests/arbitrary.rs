//! Arbitrary bytes: decoders may fail but never panic, and what they accept can be re-encoded.

use std::fmt::Debug;

use proptest::prelude::*;
use prost::Message;
use proto::{
    etcdserverpb::InternalRaftRequest,
    raftpb::{self, ConfState, Entry, Snapshot, SnapshotMetadata},
    walpb::{self, Record},
};

/// Checks that a decoded message encodes to bytes of the announced length that decode to an equal
/// message.
fn check_reencoding<M: Message + Default + PartialEq + Debug>(
    bytes: &[u8],
) -> Result<(), TestCaseError> {
    let Ok(message) = M::decode(bytes) else { return Ok(()) };
    let again = message.encode_to_vec();
    prop_assert_eq!(again.len(), message.encoded_len());
    prop_assert_eq!(M::decode(&again[..]), Ok(message));
    Ok(())
}

fn check_all_reencodings(bytes: &[u8]) -> Result<(), TestCaseError> {
    check_reencoding::<raftpb::Message>(bytes)?;
    check_reencoding::<Record>(bytes)?;
    check_reencoding::<walpb::Snapshot>(bytes)?;
    check_reencoding::<InternalRaftRequest>(bytes)
}

/// Returns bytes that look like a field: pure noise rarely passes the first tag.
fn field() -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![1_u64..20, 98_u64..102, 998_u64..1014, 1098_u64..1310, Just(9900)];
    let varint = any::<u64>().prop_map(|value| (0, varint(value)));
    let payload = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..24),
        (1_u64..16, any::<u64>())
            .prop_map(|(n, value)| [varint_tag(n, 0), self::varint(value)].concat()),
    ];
    let bytes = payload.prop_map(|bytes| (2, [varint_len(&bytes), bytes].concat()));
    (number, prop_oneof![varint, bytes])
        .prop_map(|(number, (kind, value))| [varint_tag(number, kind), value].concat())
}

fn varint(value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    prost::encoding::encode_varint(value, &mut out);
    out
}

fn varint_tag(number: u64, kind: u64) -> Vec<u8> {
    varint(number << 3 | kind)
}

fn varint_len(bytes: &[u8]) -> Vec<u8> {
    varint(bytes.len() as u64)
}

/// Any consensus message, with fields absent, zero and set.
fn message() -> impl Strategy<Value = raftpb::Message> {
    let number = || prop::option::of(prop_oneof![Just(0), any::<u64>()]);
    let data = || prop::option::of(prop::collection::vec(any::<u8>(), 0..8).prop_map(Into::into));
    let entry = (number(), number(), prop::option::of(0..3), data())
        .prop_map(|(term, index, r#type, data)| Entry { r#type, term, index, data });
    let conf_state = prop::option::of((
        prop::collection::vec(any::<u64>(), 0..4),
        prop::option::of(any::<bool>()),
    ))
    .prop_map(|state| {
        state.map(|(voters, auto_leave)| ConfState { voters, auto_leave, ..Default::default() })
    });
    let snapshot = (data(), conf_state, number()).prop_map(|(data, conf_state, index)| Snapshot {
        data,
        metadata: Some(SnapshotMetadata { conf_state, index, term: index }),
    });
    let entries = prop::collection::vec(entry, 0..4);
    (prop::option::of(0..24), number(), entries, prop::option::of(snapshot), data()).prop_map(
        |(r#type, commit, entries, snapshot, context)| raftpb::Message {
            r#type,
            commit,
            entries,
            snapshot,
            context,
            ..Default::default()
        },
    )
}

proptest! {
    #[test]
    fn noise_reencodes(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        check_all_reencodings(&bytes)?;
    }

    #[test]
    fn plausible_fields_reencode(fields in prop::collection::vec(field(), 0..6)) {
        check_all_reencodings(&fields.concat())?;
    }

    #[test]
    fn a_truncated_or_damaged_message_reencodes(
        message in message(),
        cut in any::<prop::sample::Index>(),
        damage in any::<u8>(),
    ) {
        let mut bytes = message.encode_to_vec();
        let at = cut.index(bytes.len() + 1);
        check_all_reencodings(&bytes[..at])?;
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= damage;
        }
        check_all_reencodings(&bytes)?;
    }

    #[test]
    fn absent_fields_stay_absent(message in message()) {
        let bytes = message.encode_to_vec();
        prop_assert_eq!(raftpb::Message::decode(&bytes[..]), Ok(message));
    }
}
