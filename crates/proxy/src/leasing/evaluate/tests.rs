use std::sync::Arc;
use std::time::Duration;

use proto::etcdserverpb::PutRequest;
use tokio::time::Instant;

use super::super::keys::{Lookup, OwnedKeys};
use super::*;

/// Owns `a` with a value, and `b`, which does not exist.
fn keys() -> Arc<OwnedKeys> {
    let keys = Arc::<OwnedKeys>::default();
    keys.start_session(7, Instant::now() + Duration::from_secs(50));
    for (key, kv) in [("a", Some(a())), ("b", None)] {
        let Lookup::Free(ticket) = keys.lookup(&key.into(), true) else { panic!("{key} is free") };
        ticket.acquired(10, kv, 10);
    }
    keys.record_revision(&ResponseHeader {
        cluster_id: 1,
        revision: 30,
        ..ResponseHeader::default()
    });
    keys
}

fn a() -> KeyValue {
    KeyValue {
        key: "a".into(),
        value: "1".into(),
        create_revision: 3,
        mod_revision: 5,
        version: 2,
        lease: 0,
    }
}

fn range(key: &'static str) -> RangeRequest {
    RangeRequest { key: key.into(), ..RangeRequest::default() }
}

fn get(key: &'static str) -> RequestOp {
    RequestOp { request: Some(Request::RequestRange(range(key))) }
}

fn put(key: &'static str) -> RequestOp {
    let put = PutRequest { key: key.into(), ..PutRequest::default() };
    RequestOp { request: Some(Request::RequestPut(put)) }
}

fn compare(
    key: &'static str,
    target: CompareTarget,
    result: CompareResult,
    with: TargetUnion,
) -> Compare {
    Compare {
        key: key.into(),
        target: target.into(),
        result: result.into(),
        target_union: Some(with),
        ..Compare::default()
    }
}

/// Returns whether a transaction with this comparison succeeds; none if it is for a member.
fn evaluated(compare: Compare) -> Option<bool> {
    let txn =
        TxnRequest { compare: vec![compare], success: vec![get("a")], failure: vec![get("b")] };
    keys().view(|view| transaction(&txn, view)).map(|answer| answer.succeeded)
}

#[test]
fn a_range_is_filtered_as_by_a_member() {
    let kv = a();
    let header = ResponseHeader::default();
    let found = |request: RangeRequest| {
        let answer = answer(Some(&kv), &request, header);
        assert_eq!((answer.count, answer.more), (1, false), "{request:?}");
        answer.kvs.first().map(|kv| kv.value.clone())
    };
    assert_eq!(found(range("a")), Some("1".into()));
    assert_eq!(found(RangeRequest { keys_only: true, ..range("a") }), Some("".into()));
    assert_eq!(found(RangeRequest { count_only: true, ..range("a") }), None);
    assert_eq!(found(RangeRequest { min_mod_revision: 5, ..range("a") }), Some("1".into()));
    assert_eq!(found(RangeRequest { min_mod_revision: 6, ..range("a") }), None);
    assert_eq!(found(RangeRequest { max_mod_revision: 4, ..range("a") }), None);
    assert_eq!(found(RangeRequest { min_create_revision: 4, ..range("a") }), None);
    assert_eq!(found(RangeRequest { max_create_revision: 2, ..range("a") }), None);
    assert_eq!(found(RangeRequest { max_create_revision: 3, ..range("a") }), Some("1".into()));
    let absent = answer(None, &range("a"), header);
    assert_eq!((absent.count, absent.kvs.len()), (0, 0));
}

#[test]
fn a_key_above_the_bound_is_for_a_member() {
    let of_length = |length| RangeRequest { key: vec![b'k'; length].into(), ..range("") };
    assert!(is_answerable(&of_length(OWNED_KEY_BYTES_MAX)));
    assert!(!is_answerable(&of_length(OWNED_KEY_BYTES_MAX + 1)));
}

#[test]
fn ranges_of_the_past_of_several_keys_and_invalid_ones_are_for_a_member() {
    assert!(is_answerable(&range("a")));
    for request in [
        range(""),
        RangeRequest { range_end: "b".into(), ..range("a") },
        RangeRequest { revision: 4, ..range("a") },
        RangeRequest { limit: -1, ..range("a") },
        RangeRequest { sort_order: 9, ..range("a") },
        RangeRequest { sort_target: 9, ..range("a") },
    ] {
        assert!(!is_answerable(&request), "{request:?}");
    }
}

#[test]
fn comparisons_are_evaluated_as_by_a_member() {
    use {CompareResult as Is, CompareTarget as Of, TargetUnion as With};
    let cases = [
        (compare("a", Of::Value, Is::Equal, With::Value("1".into())), true),
        (compare("a", Of::Value, Is::Less, With::Value("2".into())), true),
        (compare("a", Of::Version, Is::Equal, With::Version(2)), true),
        (compare("a", Of::Version, Is::Greater, With::Version(2)), false),
        (compare("a", Of::Create, Is::NotEqual, With::CreateRevision(3)), false),
        (compare("a", Of::Mod, Is::Greater, With::ModRevision(4)), true),
        (compare("a", Of::Lease, Is::Equal, With::Lease(0)), true),
        (compare("a", Of::Lease, Is::Equal, With::Lease(9)), false),
        // etcd's leasing client takes an absent key for equal to everything.
        (compare("b", Of::Create, Is::Equal, With::CreateRevision(3)), false),
        (compare("b", Of::Create, Is::Equal, With::CreateRevision(0)), true),
        (compare("b", Of::Version, Is::Less, With::Version(1)), true),
        (compare("b", Of::Value, Is::Equal, With::Value("".into())), false),
        (compare("b", Of::Value, Is::NotEqual, With::Value("x".into())), false),
    ];
    for (compare, holds) in cases {
        assert_eq!(evaluated(compare.clone()), Some(holds), "{compare:?}");
    }
}

#[test]
fn comparisons_of_other_keys_and_kinds_are_for_a_member() {
    use {CompareResult as Is, CompareTarget as Of, TargetUnion as With};
    let known = compare("a", Of::Version, Is::Equal, With::Version(2));
    for unknown in [
        compare("c", Of::Version, Is::Equal, With::Version(2)),
        compare("a", Of::Version, Is::Equal, With::Lease(2)),
        Compare { range_end: "b".into(), ..known.clone() },
        Compare { target: 9, ..known.clone() },
        Compare { result: 9, ..known.clone() },
        Compare { target_union: None, ..known.clone() },
    ] {
        assert_eq!(evaluated(unknown.clone()), None, "{unknown:?}");
    }
}

#[test]
fn a_comparison_that_fails_decides_whatever_the_others_are() {
    let unknown =
        compare("c", CompareTarget::Mod, CompareResult::Equal, TargetUnion::ModRevision(1));
    let fails = compare("a", CompareTarget::Mod, CompareResult::Equal, TargetUnion::ModRevision(1));
    let txn = TxnRequest {
        compare: vec![unknown, fails],
        success: vec![put("a")],
        failure: vec![get("a"), get("b")],
    };
    let answer = keys().view(|view| transaction(&txn, view)).unwrap();
    let header = answer.header.unwrap();
    assert_eq!((answer.succeeded, header.cluster_id, header.revision), (false, 1, 30));
    let counts: Vec<_> = answer
        .responses
        .iter()
        .map(|op| match &op.response {
            Some(Response::ResponseRange(range)) => (range.count, range.header.unwrap()),
            other => panic!("{other:?}"),
        })
        .collect();
    let header = ResponseHeader { revision: 30, ..ResponseHeader::default() };
    assert_eq!(counts, [(1, header), (0, header)]);
}

#[test]
fn writes_and_reads_of_other_keys_are_for_a_member() {
    let inner = TxnRequest { success: vec![get("a")], ..TxnRequest::default() };
    let nested = RequestOp { request: Some(Request::RequestTxn(inner)) };
    for ops in [vec![put("a")], vec![get("a"), get("c")], vec![nested], vec![]] {
        let txn = TxnRequest { success: ops, ..TxnRequest::default() };
        assert_eq!(keys().view(|view| transaction(&txn, view)), None, "{txn:?}");
    }
    let txn = TxnRequest { success: vec![get("a"); 129], ..TxnRequest::default() };
    assert_eq!(keys().view(|view| transaction(&txn, view)), None, "too many");
    let txn = TxnRequest { success: vec![get("a"); 128], ..TxnRequest::default() };
    assert!(keys().view(|view| transaction(&txn, view)).is_some());
}

#[test]
fn a_key_that_is_written_is_for_a_member() {
    let keys = keys();
    let txn = TxnRequest { success: vec![get("a")], ..TxnRequest::default() };
    let writing = keys.begin_write(&["a".into()]);
    assert_eq!(keys.view(|view| transaction(&txn, view)), None);
    writing.written([Some(a())], 31);
    assert!(keys.view(|view| transaction(&txn, view)).is_some());
}
