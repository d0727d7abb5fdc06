//! Bytes computed by hand from the protobuf rules and etcd's field numbers.

use std::fmt::Debug;

use bytes::Bytes;
use prost::Message;
use proto::{etcdserverpb as pb, membershippb, mvccpb, raftpb, walpb};

/// Checks that the message encodes to these bytes and decodes from them.
#[track_caller]
fn same<M: Message + Default + PartialEq + Debug>(message: &M, bytes: &[u8]) {
    assert_eq!(message.encode_to_vec(), bytes);
    assert_eq!(M::decode(bytes).as_ref(), Ok(message));
}

#[test]
fn a_proto2_zero_is_encoded_only_if_set() {
    let set = raftpb::Entry { r#type: Some(0), term: Some(0), index: Some(5), data: None };
    same(&set, &[0x08, 0, 0x10, 0, 0x18, 5]);
    let unset = raftpb::Entry { index: Some(5), ..Default::default() };
    same(&unset, &[0x18, 5]);
    assert_eq!((unset.term(), unset.r#type()), (0, raftpb::EntryType::EntryNormal));

    let state = raftpb::HardState { term: Some(2), vote: Some(0), commit: Some(0) };
    same(&state, &[0x08, 2, 0x10, 0, 0x18, 0]);
    let metadata = pb::Metadata { node_id: Some(0), cluster_id: Some(0) };
    same(&metadata, &[0x08, 0, 0x10, 0]);
    let record = walpb::Record { r#type: Some(4), crc: Some(0), data: None };
    same(&record, &[0x08, 4, 0x10, 0]);
}

#[test]
fn empty_data_and_no_data_are_different_bytes() {
    same(&raftpb::Entry { data: Some(Bytes::new()), ..Default::default() }, &[0x22, 0]);
    same(&raftpb::Entry::default(), &[]);
}

#[test]
fn a_set_but_empty_message_is_encoded() {
    let snapshot = raftpb::Snapshot {
        metadata: Some(raftpb::SnapshotMetadata {
            conf_state: Some(raftpb::ConfState::default()),
            index: Some(0),
            term: Some(0),
        }),
        data: None,
    };
    same(&snapshot, &[0x12, 6, 0x0a, 0, 0x10, 0, 0x18, 0]);
}

#[test]
fn conf_state_ids_are_unpacked() {
    let state = raftpb::ConfState {
        voters: vec![1, 2, 300],
        learners: vec![7],
        auto_leave: Some(false),
        ..Default::default()
    };
    same(&state, &[0x08, 1, 0x08, 2, 0x08, 0xac, 0x02, 0x10, 7, 0x28, 0]);
    let packed = raftpb::ConfState::decode(&[0x0a, 2, 1, 2][..]).unwrap();
    assert_eq!(packed.voters, [1, 2], "packed ids are understood, too");
}

#[test]
fn fields_are_encoded_by_number_not_by_declaration() {
    let change = raftpb::ConfChange {
        r#type: Some(raftpb::ConfChangeType::ConfChangeAddLearnerNode.into()),
        node_id: Some(9),
        context: Some(Bytes::from_static(b"{}")),
        id: Some(1),
    };
    same(&change, &[0x08, 1, 0x10, 3, 0x18, 9, 0x22, 2, b'{', b'}']);
    let message = raftpb::Message { vote: Some(3), commit: Some(4), ..Default::default() };
    same(&message, &[0x40, 4, 0x68, 3]);
}

#[test]
fn a_proto3_zero_is_not_encoded() {
    same(&mvccpb::KeyValue::default(), &[]);
    let tombstone = mvccpb::KeyValue { key: "foo".into(), ..Default::default() };
    same(&tombstone, &[0x0a, 3, b'f', b'o', b'o']);
    let put = mvccpb::KeyValue {
        key: "k".into(),
        create_revision: 2,
        mod_revision: 130,
        version: 3,
        value: "v".into(),
        lease: 0,
    };
    same(&put, &[0x0a, 1, b'k', 0x10, 2, 0x18, 0x82, 0x01, 0x20, 3, 0x2a, 1, b'v']);
}

#[test]
fn a_negative_number_takes_ten_bytes() {
    let unknown_lease = pb::LeaseTimeToLiveResponse { ttl: -1, ..Default::default() };
    let mut bytes = vec![0x18];
    bytes.extend([0xff; 9]);
    bytes.push(0x01);
    same(&unknown_lease, &bytes);
}

#[test]
fn the_range_end_of_a_compare_is_field_64() {
    let compare = pb::Compare {
        target: pb::compare::CompareTarget::Lease.into(),
        key: "a".into(),
        target_union: Some(pb::compare::TargetUnion::Lease(0)),
        range_end: "b".into(),
        ..Default::default()
    };
    // A member of a oneof is encoded even if zero; 64 << 3 | 2 is 0x82 0x04.
    same(&compare, &[0x10, 4, 0x1a, 1, b'a', 0x40, 0, 0x82, 0x04, 1, b'b']);
    // etcd 3.7 encodes a oneof after all other fields, earlier releases by number; only this
    // message shows the difference.
    let of_3_7 = [0x10, 4, 0x1a, 1, b'a', 0x82, 0x04, 1, b'b', 0x40, 0];
    assert_eq!(pb::Compare::decode(&of_3_7[..]), Ok(compare));
}

#[test]
fn the_events_of_a_watch_are_field_11() {
    let response = pb::WatchResponse {
        watch_id: 1,
        events: vec![mvccpb::Event { r#type: 1, ..Default::default() }],
        ..Default::default()
    };
    same(&response, &[0x10, 1, 0x5a, 2, 0x08, 1]);
    let create = pb::WatchCreateRequest { filters: vec![0, 1], ..Default::default() };
    same(&create, &[0x2a, 2, 0, 1]);
}

#[test]
fn a_log_request_has_its_own_field_number_and_precedes_the_header() {
    let header = Some(pb::RequestHeader { id: 7, ..Default::default() });
    let put = pb::InternalRaftRequest {
        header,
        put: Some(pb::PutRequest { key: "k".into(), ..Default::default() }),
        ..Default::default()
    };
    same(&put, &[0x22, 3, 0x0a, 1, b'k', 0xa2, 0x06, 2, 0x08, 7]);

    let enable = pb::InternalRaftRequest {
        auth_enable: Some(pb::AuthEnableRequest {}),
        ..Default::default()
    };
    same(&enable, &[0xc2, 0x3e, 0]);
    let version = pb::InternalRaftRequest {
        cluster_version_set: Some(membershippb::ClusterVersionSetRequest { ver: "3.7.0".into() }),
        ..Default::default()
    };
    same(&version, b"\xa2\x51\x07\x0a\x053.7.0");
    let test = pb::InternalRaftRequest {
        downgrade_version_test: Some(pb::DowngradeVersionTestRequest::default()),
        ..Default::default()
    };
    same(&test, &[0xe2, 0xea, 0x04, 0]);
}

#[test]
fn a_v2_request_round_trips() {
    let old = pb::InternalRaftRequest {
        v2: Some(pb::Request { id: Some(5), dir: Some(false), ..Default::default() }),
        ..Default::default()
    };
    same(&old, &[0x12, 4, 0x08, 5, 0x28, 0]);
}

#[test]
fn enums_have_etcds_names() {
    assert_eq!(raftpb::MessageType::MsgApp.as_str_name(), "MsgApp");
    assert_eq!(raftpb::ConfChangeTransition::Auto.as_str_name(), "ConfChangeTransitionAuto");
    assert_eq!(mvccpb::event::EventType::Delete.as_str_name(), "DELETE");
    assert_eq!(pb::AlarmType::from_str_name("NOSPACE"), Some(pb::AlarmType::Nospace));
}

#[test]
fn unknown_fields_are_dropped() {
    // Field 15, which no etcd version knows.
    let entry = raftpb::Entry::decode(&[0x18, 5, 0x78, 1][..]).unwrap();
    assert_eq!(entry.encode_to_vec(), [0x18, 5]);
}

#[test]
fn bytes_share_the_buffer_they_were_decoded_from() {
    let buffer = Bytes::from_static(&[0x0a, 3, b'f', b'o', b'o']);
    let kv = mvccpb::KeyValue::decode(buffer.clone()).unwrap();
    assert_eq!(kv.key.as_ptr(), buffer[2..].as_ptr());
}

/// Returns this many nested transactions, each the only operation of its parent.
fn nested(count: usize) -> pb::TxnRequest {
    (1..count).fold(pb::TxnRequest::default(), |inner, _| pb::TxnRequest {
        success: vec![pb::RequestOp { request: Some(pb::request_op::Request::RequestTxn(inner)) }],
        ..Default::default()
    })
}

#[test]
fn transactions_decode_51_deep_from_a_client_and_50_deep_from_the_log() {
    let from_client = |count| pb::TxnRequest::decode(&nested(count).encode_to_vec()[..]);
    assert_eq!(from_client(51), Ok(nested(51)));
    assert!(from_client(52).is_err());

    let in_log = |count| pb::InternalRaftRequest { txn: Some(nested(count)), ..Default::default() };
    let from_log = |count| pb::InternalRaftRequest::decode(&in_log(count).encode_to_vec()[..]);
    assert_eq!(from_log(50), Ok(in_log(50)));
    assert!(from_log(51).is_err());
}
