//! The cases of etcd's own test, and some more.

use proto::etcdserverpb::compare::{CompareResult, TargetUnion};
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{
    Compare, DowngradeVersionTestRequest, InternalRaftRequest, LeaseCheckpointRequest, PutRequest,
    RequestHeader, RequestOp, TxnRequest,
};
use proto::membershippb::DowngradeInfoSetRequest;
use proto::raftpb::{ConfChangeTransition, ConfChangeType};

use super::*;

fn entry(kind: EntryType, data: &impl Message) -> Entry {
    Entry {
        r#type: Some(kind as i32),
        term: Some(1),
        index: Some(2),
        data: Some(Bytes::from(data.encode_to_vec())),
    }
}

fn of_request(request: &InternalRaftRequest) -> String {
    let entry = entry(EntryType::EntryNormal, request);
    minimal_etcd_version([&entry]).unwrap().unwrap().to_string()
}

fn of_message(name: &str, message: &impl Message) -> String {
    let newest =
        VersionAnnotations::get().newest(&format!("etcdserverpb.{name}"), &message.encode_to_vec());
    newest.unwrap().unwrap().to_string()
}

#[test]
fn a_request_requires_the_version_of_its_newest_field() {
    let header = |header| InternalRaftRequest { header: Some(header), ..Default::default() };
    assert_eq!(of_request(&InternalRaftRequest::default()), "3.0.0", "a leader's first entry");
    assert_eq!(of_request(&header(RequestHeader::default())), "3.0.0");
    let named = RequestHeader { username: "Alice".into(), ..Default::default() };
    assert_eq!(of_request(&header(named)), "3.0.0");
    let authorized = RequestHeader { auth_revision: 1, ..Default::default() };
    assert_eq!(of_request(&header(authorized)), "3.1.0");

    let put = |put| InternalRaftRequest { put: Some(put), ..Default::default() };
    assert_eq!(of_request(&put(PutRequest::default())), "3.0.0");
    assert_eq!(of_request(&put(PutRequest { prev_kv: true, ..Default::default() })), "3.1.0");
    assert_eq!(of_request(&put(PutRequest { ignore_value: true, ..Default::default() })), "3.2.0");

    let checkpoint = LeaseCheckpointRequest::default();
    let checkpoint =
        InternalRaftRequest { lease_checkpoint: Some(checkpoint), ..Default::default() };
    assert_eq!(of_request(&checkpoint), "3.4.0");
    let downgrade = DowngradeInfoSetRequest::default();
    let downgrade =
        InternalRaftRequest { downgrade_info_set: Some(downgrade), ..Default::default() };
    assert_eq!(of_request(&downgrade), "3.5.0");
}

#[test]
fn a_downgrade_test_requires_the_version_it_names() {
    let test = |ver: &str| InternalRaftRequest {
        downgrade_version_test: Some(DowngradeVersionTestRequest { ver: ver.into() }),
        ..Default::default()
    };
    assert_eq!(of_request(&test("3.6.0")), "3.6.0");
    assert_eq!(of_request(&test("3.7.0")), "3.7.0");
    let nonsense = entry(EntryType::EntryNormal, &test("soon"));
    let text = minimal_etcd_version([&nonsense]).unwrap_err().to_string();
    assert_eq!(text, "entry 2: \"soon\" is not a version");
}

#[test]
fn enum_values_and_oneofs_count() {
    let result = |result: CompareResult| Compare { result: result as i32, ..Default::default() };
    assert_eq!(of_message("Compare", &result(CompareResult::Equal)), "3.0.0");
    assert_eq!(of_message("Compare", &result(CompareResult::NotEqual)), "3.1.0");
    let union = |union| Compare { target_union: Some(union), ..Default::default() };
    assert_eq!(of_message("Compare", &union(TargetUnion::Version(0))), "3.0.0");
    assert_eq!(
        of_message("Compare", &union(TargetUnion::Lease(0))),
        "3.3.0",
        "present although zero"
    );
    let unknown = Compare { result: 9, ..Default::default() };
    assert!(
        VersionAnnotations::get().newest("etcdserverpb.Compare", &unknown.encode_to_vec()).is_err()
    );
}

#[test]
fn repeated_fields_are_not_inspected() {
    let compare = Compare { target_union: Some(TargetUnion::Lease(7)), ..Default::default() };
    let txn = TxnRequest { compare: vec![compare], ..Default::default() };
    let request = InternalRaftRequest { txn: Some(txn), ..Default::default() };
    assert_eq!(of_request(&request), "3.0.0");
}

#[test]
fn a_deeply_nested_transaction_is_not_decoded() {
    let mut txn = TxnRequest::default();
    for _ in 0..100 {
        let op = RequestOp { request: Some(Request::RequestTxn(txn)) };
        txn = TxnRequest { success: vec![op], ..TxnRequest::default() };
    }
    let request = InternalRaftRequest { txn: Some(txn), ..Default::default() };
    assert!(InternalRaftRequest::decode(&request.encode_to_vec()[..]).is_err(), "prost's bound");
    assert_eq!(of_request(&request), "3.0.0");
}

#[test]
fn conf_changes_count_by_their_form() {
    let learner = ConfChange {
        r#type: Some(ConfChangeType::ConfChangeAddLearnerNode as i32),
        ..Default::default()
    };
    let joint = ConfChangeV2 {
        transition: Some(ConfChangeTransition::JointExplicit as i32),
        ..Default::default()
    };
    let entries =
        [entry(EntryType::EntryConfChange, &learner), entry(EntryType::EntryConfChangeV2, &joint)];
    let newest = |entries: &[Entry]| minimal_etcd_version(entries).unwrap().unwrap();
    assert_eq!(newest(&entries[..1]), Version::V3_0);
    assert_eq!(newest(&entries), Version::V3_4);
    assert_eq!(minimal_etcd_version([]).unwrap(), None);
}

#[test]
fn undecodable_entries_are_an_error() {
    let mut broken = entry(EntryType::EntryNormal, &InternalRaftRequest::default());
    broken.data = Some(Bytes::from_static(&[0xff]));
    assert!(matches!(minimal_etcd_version([&broken]), Err(VersionError::Decode { index: 2, .. })));
    broken.r#type = Some(3);
    assert!(matches!(minimal_etcd_version([&broken]), Err(VersionError::UnknownType { .. })));
}
