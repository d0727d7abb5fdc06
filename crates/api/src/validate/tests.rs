//! Validation against a model: number of operations, and keys that are changed twice.
//!
//! The model compares all pairs of changes, each with its path; the code under test collects sets
//! level by level.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use proto::etcdserverpb::Compare;

use super::*;

/// The default of `--max-txn-ops`.
const TXN_OPS_MAX: usize = 128;

fn expected(request: &TxnRequest, ops_max: usize) -> Result<(), InvalidRequest> {
    expected_ops(request, ops_max)?;
    let twice = changes_twice(&request.success) || changes_twice(&request.failure);
    if twice { Err(InvalidRequest::DuplicateKey) } else { Ok(()) }
}

fn expected_ops(request: &TxnRequest, ops_max: usize) -> Result<(), InvalidRequest> {
    let lists = [request.compare.len(), request.success.len(), request.failure.len()];
    let longest = lists.into_iter().max().unwrap();
    if longest > ops_max {
        return Err(InvalidRequest::TooManyOps);
    }
    if request.compare.iter().any(|compare| compare.key.is_empty()) {
        return Err(InvalidRequest::EmptyKey);
    }
    for op in request.success.iter().chain(&request.failure) {
        match op.request.as_ref().ok_or(InvalidRequest::EmptyOp)? {
            Request::RequestRange(range) => expected_range(range)?,
            Request::RequestPut(put) => expected_put(put)?,
            Request::RequestDeleteRange(delete) if delete.key.is_empty() => {
                return Err(InvalidRequest::EmptyKey);
            }
            Request::RequestDeleteRange(_) => {}
            Request::RequestTxn(nested) => expected_ops(nested, ops_max - longest)?,
        }
    }
    Ok(())
}

fn expected_range(range: &RangeRequest) -> Result<(), InvalidRequest> {
    match range {
        RangeRequest { key, .. } if key.is_empty() => Err(InvalidRequest::EmptyKey),
        RangeRequest { sort_order: 0..=2, sort_target: 0..=4, .. } => Ok(()),
        _ => Err(InvalidRequest::InvalidSortOption),
    }
}

fn expected_put(put: &PutRequest) -> Result<(), InvalidRequest> {
    match put {
        PutRequest { key, .. } if key.is_empty() => Err(InvalidRequest::EmptyKey),
        PutRequest { ignore_value: true, value, .. } if !value.is_empty() => {
            Err(InvalidRequest::ValueProvided)
        }
        PutRequest { ignore_lease: true, lease: 1.., .. } => Err(InvalidRequest::LeaseProvided),
        _ => Ok(()),
    }
}

/// A change with its path: the position of each operation and, for a nested transaction, its
/// branch.
struct Change<'a> {
    path: Vec<(usize, Option<bool>)>,
    kind: ChangeKind<'a>,
}

enum ChangeKind<'a> {
    Put(&'a [u8]),
    Delete(&'a DeleteRangeRequest),
}

fn changes<'a>(ops: &'a [RequestOp], path: &[(usize, Option<bool>)], all: &mut Vec<Change<'a>>) {
    let step = |at: usize, list: Option<bool>| [path, &[(at, list)]].concat();
    for (at, op) in ops.iter().enumerate() {
        match op.request.as_ref() {
            Some(Request::RequestPut(put)) => {
                all.push(Change { path: step(at, None), kind: ChangeKind::Put(&put.key) });
            }
            Some(Request::RequestDeleteRange(delete)) => {
                all.push(Change { path: step(at, None), kind: ChangeKind::Delete(delete) });
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

/// Reports whether a put and another change conflict. Of two nested transactions, a deletion
/// conflicts only with a later put.
fn conflict(put: &Change<'_>, other: &Change<'_>) -> bool {
    let ChangeKind::Put(key) = put.kind else { return false };
    let mut parting = put.path.iter().zip(&other.path).skip_while(|(a, b)| a == b);
    let (&(put_at, put_in), &(other_at, other_in)) = parting.next().unwrap();
    if put_at == other_at {
        // Only one of the two branches is executed.
        return false;
    }
    match other.kind {
        ChangeKind::Put(other) => key == other,
        ChangeKind::Delete(delete) => {
            let earlier = put_in.is_none() || other_in.is_none() || other_at < put_at;
            earlier && deletes(delete, key)
        }
    }
}

/// An end of one zero byte is taken literally, and so lies before every key.
fn deletes(delete: &DeleteRangeRequest, key: &[u8]) -> bool {
    if delete.range_end.is_empty() {
        return delete.key == key;
    }
    key >= &delete.key[..] && key < &delete.range_end[..]
}

const LETTERS: &[u8] = b"bcdefghijklmnopqrstuvwxyza";

/// A letter, or rarely an empty key.
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

fn value() -> impl Strategy<Value = Bytes> + Clone {
    (0..2_usize).prop_map(|length| Bytes::from(vec![b'x'; length]))
}

fn seldom() -> impl Strategy<Value = bool> + Clone {
    prop::bool::weighted(0.01)
}

fn put() -> impl Strategy<Value = PutRequest> {
    (key(), seldom(), seldom(), 0..2_i64, value()).prop_map(
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
    fn transactions_are_validated_like_the_model(request in txn(3), ops_max in 3..14_usize) {
        prop_assert_eq!(super::txn(&request, ops_max), expected(&request, ops_max));
        let default = TXN_OPS_MAX;
        prop_assert_eq!(super::txn(&request, default), expected(&request, default));
    }

    #[test]
    fn single_requests_are_validated_like_the_model(put in put(), range in range(), delete in delete()) {
        prop_assert_eq!(super::put(&put), expected_put(&put));
        prop_assert_eq!(super::range(&range), expected_range(&range));
        let empty = if delete.key.is_empty() { Err(InvalidRequest::EmptyKey) } else { Ok(()) };
        prop_assert_eq!(super::delete_range(&delete), empty);
        prop_assert_eq!(super::range_stream(&range), expected_stream(&range));
    }

    #[test]
    fn nested_transactions_are_bounded_by_operations(
        depth in 1..160_usize,
        wide in 1..4_usize,
        ops_max in 1..160_usize,
    ) {
        let request = chain(depth, wide);
        prop_assert_eq!(super::txn(&request, ops_max), expected(&request, ops_max));
    }
}

fn expected_stream(range: &RangeRequest) -> Result<(), InvalidRequest> {
    expected_range(range)?;
    let by_key = range.sort_target() == SortTarget::Key;
    match range.sort_order() {
        SortOrder::None => {}
        SortOrder::Ascend if by_key => {}
        SortOrder::Ascend | SortOrder::Descend => return Err(InvalidRequest::StreamOrder),
    }
    let RangeRequest { min_mod_revision, max_mod_revision, .. } = *range;
    let RangeRequest { min_create_revision, max_create_revision, .. } = *range;
    let filters = [min_mod_revision, max_mod_revision, min_create_revision, max_create_revision];
    if filters == [0; 4] { Ok(()) } else { Err(InvalidRequest::StreamFilters) }
}

/// Nested transactions with `wide` operations each.
fn chain(depth: usize, wide: usize) -> TxnRequest {
    let range = RangeRequest { key: Bytes::from_static(b"a"), ..RangeRequest::default() };
    let range = RequestOp { request: Some(Request::RequestRange(range)) };
    let mut success = vec![range.clone(); wide];
    if depth > 1 {
        success[0] = RequestOp { request: Some(Request::RequestTxn(chain(depth - 1, wide))) };
    }
    TxnRequest { success, ..TxnRequest::default() }
}

/// Examples of the rules that the random cases check.
#[test]
fn a_transaction_must_not_change_a_key_twice() {
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
        let result = super::txn(&request, TXN_OPS_MAX);
        assert_eq!(result, expected(&request, TXN_OPS_MAX));
        result.is_ok()
    };
    assert!(check(&[put("a"), put("b"), delete("c", ""), delete("c", "d")]));
    assert!(!check(&[put("a"), put("a")]));
    assert!(!check(&[put("a"), delete("a", "b")]));
    assert!(!check(&[nested(&[put("a")], &[]), delete("a", "")]), "in either order");
    assert!(check(&[put("a"), delete("a", "\0")]), "an open end is taken literally");
    assert!(
        check(&[nested(&[put("a")], &[put("a"), delete("b", "")])]),
        "only one branch is executed"
    );
    assert!(check(&[nested(&[put("a")], &[delete("a", "")])]), "only one branch is executed");
    assert!(!check(&[nested(&[put("a")], &[]), nested(&[], &[put("a")])]));
    assert!(!check(&[nested(&[delete("a", "")], &[]), nested(&[put("a")], &[])]));
    assert!(
        check(&[nested(&[put("a")], &[]), nested(&[delete("a", "")], &[])]),
        "the put comes first"
    );
}

fn short_key() -> impl Strategy<Value = Vec<u8>> {
    vec(0..4_u8, 1..4)
}

proptest! {
    /// Nested, overlapping, touching and empty intervals, in any order.
    #[test]
    fn merged_intervals_equal_a_list_of_intervals(
        deletes in vec((short_key(), proptest::option::of(short_key())), 0..12),
        keys in vec(short_key(), 30),
    ) {
        let (mut intervals, mut list) = (Intervals::default(), Vec::new());
        for (key, range_end) in deletes {
            let end = range_end.clone().unwrap_or_default();
            intervals.add_range(&DeleteRangeRequest {
                key: key.clone().into(),
                range_end: end.into(),
                ..DeleteRangeRequest::default()
            });
            list.push((key, range_end));
        }
        for key in keys {
            let deleted = list.iter().any(|(from, end)| match end {
                None => *from == key,
                Some(end) => *from <= key && key < *end,
            });
            prop_assert_eq!(intervals.contains(&key), deleted, "{:?}", key);
        }
        let apart = intervals.0.iter().zip(intervals.0.iter().skip(1));
        for ((_, to), (from, _)) in apart {
            prop_assert!(to < from, "touching intervals are merged");
        }
    }
}
