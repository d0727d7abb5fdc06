//! What is refused before it gets to the store: the limit of operations, the depth, keys that are changed twice.
//!
//! The rules are stated here over pairs of changes, each with the way that leads to it; the crate collects sets level by level.

use bytes::Bytes;
use mvcc::check::{self, Refused, TXN_DEPTH_MAX, TXN_OPS_MAX_DEFAULT};
use proptest::collection::vec;
use proptest::prelude::*;
use proto::etcdserverpb::range_request::{SortOrder, SortTarget};
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
};

use crate::requests;

fn refused(request: &TxnRequest, ops_max: usize) -> Result<(), Refused> {
    refused_at(request, ops_max, 1)?;
    let twice = changes_twice(&request.success) || changes_twice(&request.failure);
    if twice { Err(Refused::DuplicateKey) } else { Ok(()) }
}

fn refused_at(request: &TxnRequest, ops_max: usize, level: usize) -> Result<(), Refused> {
    let lists = [request.compare.len(), request.success.len(), request.failure.len()];
    let longest = lists.into_iter().max().unwrap();
    if longest > ops_max || level > TXN_DEPTH_MAX {
        return Err(Refused::TooManyOps);
    }
    if request.compare.iter().any(|compare| compare.key.is_empty()) {
        return Err(Refused::EmptyKey);
    }
    for op in request.success.iter().chain(&request.failure) {
        match op.request.as_ref().ok_or(Refused::EmptyOp)? {
            Request::RequestRange(range) => refused_range(range)?,
            Request::RequestPut(put) => refused_put(put)?,
            Request::RequestDeleteRange(delete) if delete.key.is_empty() => {
                return Err(Refused::EmptyKey);
            }
            Request::RequestDeleteRange(_) => {}
            Request::RequestTxn(nested) => refused_at(nested, ops_max - longest, level + 1)?,
        }
    }
    Ok(())
}

fn refused_range(range: &RangeRequest) -> Result<(), Refused> {
    match range {
        RangeRequest { key, .. } if key.is_empty() => Err(Refused::EmptyKey),
        RangeRequest { sort_order: 0..=2, sort_target: 0..=4, .. } => Ok(()),
        _ => Err(Refused::InvalidSortOption),
    }
}

fn refused_put(put: &PutRequest) -> Result<(), Refused> {
    match put {
        PutRequest { key, .. } if key.is_empty() => Err(Refused::EmptyKey),
        PutRequest { ignore_value: true, value, .. } if !value.is_empty() => {
            Err(Refused::ValueProvided)
        }
        PutRequest { ignore_lease: true, lease: 1.., .. } => Err(Refused::LeaseProvided),
        _ => Ok(()),
    }
}

/// A change, and the way to it: which operation of which list, and for a nested transaction, which of its lists then.
struct Change<'a> {
    way: Vec<(usize, Option<bool>)>,
    what: What<'a>,
}

enum What<'a> {
    Put(&'a [u8]),
    Delete(&'a DeleteRangeRequest),
}

fn changes<'a>(ops: &'a [RequestOp], way: &[(usize, Option<bool>)], all: &mut Vec<Change<'a>>) {
    let step = |at: usize, list: Option<bool>| [way, &[(at, list)]].concat();
    for (at, op) in ops.iter().enumerate() {
        match op.request.as_ref() {
            Some(Request::RequestPut(put)) => {
                all.push(Change { way: step(at, None), what: What::Put(&put.key) });
            }
            Some(Request::RequestDeleteRange(delete)) => {
                all.push(Change { way: step(at, None), what: What::Delete(delete) });
            }
            Some(Request::RequestTxn(nested)) => {
                changes(&nested.success, &step(at, Some(true)), all);
                changes(&nested.failure, &step(at, Some(false)), all);
            }
            Some(Request::RequestRange(_)) | None => {}
        }
    }
}

fn changes_twice(ops: &[RequestOp]) -> bool {
    let mut all = Vec::new();
    changes(ops, &[], &mut all);
    let conflicts = |at: usize, one: &Change<'_>| {
        all.iter().enumerate().any(|(other, change)| at != other && conflict(one, change))
    };
    all.iter().enumerate().any(|(at, one)| conflicts(at, one))
}

/// Whether a put, with another change, changes a key twice. Of two nested transactions it matters which one deletes, and which one puts later.
fn conflict(put: &Change<'_>, other: &Change<'_>) -> bool {
    let What::Put(key) = put.what else { return false };
    let mut parting = put.way.iter().zip(&other.way).skip_while(|(a, b)| a == b);
    let (&(put_at, put_in), &(other_at, other_in)) = parting.next().unwrap();
    if put_at == other_at {
        // One of them is done, or the other.
        return false;
    }
    match other.what {
        What::Put(other) => key == other,
        What::Delete(delete) => {
            let earlier = put_in.is_none() || other_in.is_none() || other_at < put_at;
            earlier && deletes(delete, key)
        }
    }
}

/// An end that means all keys is taken as it is written, and so lies before every key.
fn deletes(delete: &DeleteRangeRequest, key: &[u8]) -> bool {
    if delete.range_end.is_empty() {
        return delete.key == key;
    }
    key >= &delete.key[..] && key < &delete.range_end[..]
}

const LETTERS: &[u8] = b"bcdefghijklmnopqrstuvwxyza";

/// A letter; seldom nothing.
fn key() -> impl Strategy<Value = Bytes> + Clone {
    (0..400_usize).prop_map(|at| match at {
        399 => Bytes::new(),
        at => Bytes::from_static(&LETTERS[at % 26..=at % 26]),
    })
}

fn end() -> impl Strategy<Value = Bytes> + Clone {
    (0..60_usize).prop_map(|at| match at {
        0..30 => Bytes::new(),
        30..34 => Bytes::from_static(b"\0"),
        at => Bytes::from_static(&LETTERS[at % 26..=at % 26]),
    })
}

fn seldom() -> impl Strategy<Value = bool> + Clone {
    prop::bool::weighted(0.01)
}

fn put() -> impl Strategy<Value = PutRequest> {
    (key(), seldom(), seldom(), 0..2_i64, requests::value()).prop_map(
        |(key, ignore_value, ignore_lease, lease, value)| PutRequest {
            key,
            value,
            lease,
            ignore_value,
            ignore_lease,
            ..PutRequest::default()
        },
    )
}

fn range() -> impl Strategy<Value = RangeRequest> {
    let sort =
        |known: i32| (0..100_i32).prop_map(move |at| if at == 99 { known } else { at % known });
    let filter = || (0..10_i64).prop_map(|at| at / 9);
    (key(), sort(3), sort(5), filter(), filter(), filter(), filter()).prop_map(
        |(key, sort_order, sort_target, min_mod, max_mod, min_create, max_create)| RangeRequest {
            key,
            sort_order,
            sort_target,
            min_mod_revision: min_mod,
            max_mod_revision: max_mod,
            min_create_revision: min_create,
            max_create_revision: max_create,
            ..RangeRequest::default()
        },
    )
}

fn delete() -> impl Strategy<Value = DeleteRangeRequest> {
    (key(), end()).prop_map(|(key, range_end)| DeleteRangeRequest {
        key,
        range_end,
        prev_kv: false,
    })
}

fn op(depth: u32) -> BoxedStrategy<RequestOp> {
    let wrap = |request| RequestOp { request: Some(request) };
    let flat = prop_oneof![
        30 => put().prop_map(Request::RequestPut).prop_map(wrap),
        15 => delete().prop_map(Request::RequestDeleteRange).prop_map(wrap),
        5 => range().prop_map(Request::RequestRange).prop_map(wrap),
    ];
    let flat = (flat, seldom())
        .prop_map(|(op, empty)| if empty { RequestOp { request: None } } else { op })
        .boxed();
    if depth == 0 {
        return flat;
    }
    let nested = txn(depth - 1).prop_map(Request::RequestTxn).prop_map(wrap);
    prop_oneof![2 => flat, 1 => nested].boxed()
}

fn txn(depth: u32) -> BoxedStrategy<TxnRequest> {
    let compare = key().prop_map(|key| Compare { key, ..Compare::default() });
    (vec(compare, 0..3), vec(op(depth), 0..4), vec(op(depth), 0..4))
        .prop_map(|(compare, success, failure)| TxnRequest { compare, success, failure })
        .boxed()
}

proptest! {
    #[test]
    fn transactions_are_refused_by_the_rules(request in txn(3), ops_max in 3..14_usize) {
        prop_assert_eq!(check::txn(&request, ops_max), refused(&request, ops_max));
        let default = TXN_OPS_MAX_DEFAULT;
        prop_assert_eq!(check::txn(&request, default), refused(&request, default));
    }

    #[test]
    fn single_requests_are_refused_by_the_rules(put in put(), range in range(), delete in delete()) {
        prop_assert_eq!(check::put(&put), refused_put(&put));
        prop_assert_eq!(check::range(&range), refused_range(&range));
        let empty = if delete.key.is_empty() { Err(Refused::EmptyKey) } else { Ok(()) };
        prop_assert_eq!(check::delete_range(&delete), empty);
        prop_assert_eq!(check::range_stream(&range), refused_stream(&range));
    }

    #[test]
    fn nested_transactions_are_refused_by_depth_and_by_operations(
        depth in 1..60_usize,
        wide in 1..4_usize,
        ops_max in 1..160_usize,
    ) {
        let request = chain(depth, wide);
        prop_assert_eq!(check::txn(&request, ops_max), refused(&request, ops_max));
    }
}

fn refused_stream(range: &RangeRequest) -> Result<(), Refused> {
    refused_range(range)?;
    let by_key = range.sort_target() == SortTarget::Key;
    match range.sort_order() {
        SortOrder::None => {}
        SortOrder::Ascend if by_key => {}
        SortOrder::Ascend | SortOrder::Descend => return Err(Refused::StreamOrder),
    }
    let RangeRequest { min_mod_revision, max_mod_revision, .. } = *range;
    let RangeRequest { min_create_revision, max_create_revision, .. } = *range;
    let filters = [min_mod_revision, max_mod_revision, min_create_revision, max_create_revision];
    if filters == [0; 4] { Ok(()) } else { Err(Refused::StreamFilters) }
}

/// Transactions nested so deep, each with so many operations.
fn chain(depth: usize, wide: usize) -> TxnRequest {
    let range = RangeRequest { key: Bytes::from_static(b"a"), ..RangeRequest::default() };
    let range = RequestOp { request: Some(Request::RequestRange(range)) };
    let mut success = vec![range.clone(); wide];
    if depth > 1 {
        success[0] = RequestOp { request: Some(Request::RequestTxn(chain(depth - 1, wide))) };
    }
    TxnRequest { success, ..TxnRequest::default() }
}

/// The rules as one would tell them, so that the random cases are known to be about something.
#[test]
fn a_key_is_not_changed_twice() {
    let op = |request| RequestOp { request: Some(request) };
    let put = |key: &'static str| {
        op(Request::RequestPut(PutRequest { key: key.into(), ..PutRequest::default() }))
    };
    let delete = |key: &'static str, end: &'static str| {
        let (key, range_end) = (key.into(), end.into());
        op(Request::RequestDeleteRange(DeleteRangeRequest { key, range_end, prev_kv: false }))
    };
    let nested = |success: &[RequestOp], failure: &[RequestOp]| {
        let (success, failure) = (success.to_vec(), failure.to_vec());
        op(Request::RequestTxn(TxnRequest { success, failure, ..TxnRequest::default() }))
    };
    let check = |ops: &[RequestOp]| {
        let request = TxnRequest { failure: ops.to_vec(), ..TxnRequest::default() };
        let result = check::txn(&request, TXN_OPS_MAX_DEFAULT);
        assert_eq!(result, refused(&request, TXN_OPS_MAX_DEFAULT));
        result.is_ok()
    };
    assert!(check(&[put("a"), put("b"), delete("c", ""), delete("c", "d")]));
    assert!(!check(&[put("a"), put("a")]));
    assert!(!check(&[put("a"), delete("a", "b")]));
    assert!(!check(&[nested(&[put("a")], &[]), delete("a", "")]), "whichever comes first");
    assert!(check(&[put("a"), delete("a", "\0")]), "an end that means all is not understood");
    assert!(check(&[nested(&[put("a")], &[put("a"), delete("b", "")])]), "one or the other");
    assert!(check(&[nested(&[put("a")], &[delete("a", "")])]), "one or the other");
    assert!(!check(&[nested(&[put("a")], &[]), nested(&[], &[put("a")])]));
    assert!(!check(&[nested(&[delete("a", "")], &[]), nested(&[put("a")], &[])]));
    assert!(check(&[nested(&[put("a")], &[]), nested(&[delete("a", "")], &[])]), "put comes first");
}
