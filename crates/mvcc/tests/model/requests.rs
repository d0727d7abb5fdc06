//! Random requests over a few keys.
//!
//! A request is generated before the revision of the store is known, so its revisions are
//! distances: 3 is the latest revision, 4 the one before, 2 and 1 are in the future, and 0 and
//! below stay as they are. [`Resolve`] replaces distances by revisions.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use proto::etcdserverpb::compare::TargetUnion;
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
};

use crate::state::{Keys, LEASES, UNKNOWN_LEASE};

/// Keys: some are prefixes of others, some are the smallest and largest.
pub(crate) const KEYS: [&[u8]; 10] =
    [b"\0", b"a", b"a\0", b"aa", b"ab", b"b", b"ba", b"c", b"\xff", b"\xff\xff"];

/// Values: one is too long for a one-byte length.
const VALUES: [&[u8]; 4] = [b"", b"x", b"y", &[b'z'; 200]];

/// The distance that means the latest revision.
const NEWEST: i64 = 3;

/// Range ends: a single key, open, up to another key, or before the first key.
const ENDS: [&[u8]; 17] = [
    b"",
    b"",
    b"",
    b"",
    b"",
    b"\0",
    b"\0",
    b"\0",
    b"a",
    b"a\0",
    b"aa",
    b"ab",
    b"b",
    b"ba",
    b"c",
    b"\xff",
    b"\xff\xff",
];

/// Revisions as distances, likely ones repeated.
const REVISIONS: [i64; 32] = [
    0, 0, 0, 0, 0, 0, 0, 0, 3, 4, 4, 5, 5, 6, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 28, 32, 40, 2, 1,
    -1, -2, -3,
];

/// Revisions as distances, mostly readable ones.
const NEAR_REVISIONS: [i64; 40] = [
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 3, 3, 3, 4, 4, 4,
    5, 5, 6, 7, 8, 12, 2, -1,
];

const FILTERS: [i64; 24] =
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 4, 5, 7, 10, -2];
const LIMITS: [i64; 10] = [0, 0, 0, 1, 1, 2, 3, 4, -1, i64::MAX];
const PUT_LEASES: [i64; 13] = [
    0,
    0,
    0,
    0,
    0,
    0,
    LEASES[0],
    LEASES[0],
    LEASES[1],
    LEASES[1],
    LEASES[2],
    LEASES[2],
    UNKNOWN_LEASE,
];
/// Targets, the last one unknown.
const RESULTS: [i32; 9] = [0, 0, 0, 0, 0, 1, 2, 3, 4];
/// Distances from the property of the key.
const OFFSETS: [i64; 6] = [0, 0, 0, 0, -1, 1];

/// Selects from a list; shrinks to the first.
fn one_of<T: Copy + std::fmt::Debug>(list: &'static [T]) -> impl Strategy<Value = T> + Clone {
    (0..list.len()).prop_map(|at| list[at])
}

pub(crate) fn key() -> impl Strategy<Value = Bytes> + Clone {
    one_of(&KEYS).prop_map(Bytes::from_static)
}

pub(crate) fn end() -> impl Strategy<Value = Bytes> + Clone {
    one_of(&ENDS).prop_map(Bytes::from_static)
}

pub(crate) fn value() -> impl Strategy<Value = Bytes> + Clone {
    one_of(&VALUES).prop_map(Bytes::from_static)
}

pub(crate) fn known_lease() -> impl Strategy<Value = i64> + Clone {
    one_of(&LEASES)
}

/// A revision as a distance.
pub(crate) fn revision() -> impl Strategy<Value = i64> + Clone {
    one_of(&REVISIONS)
}

pub(crate) fn put() -> BoxedStrategy<PutRequest> {
    let ignore = || prop::bool::weighted(0.1);
    (key(), value(), one_of(&PUT_LEASES), any::<bool>(), ignore(), ignore())
        .prop_map(|(key, value, lease, prev_kv, ignore_value, ignore_lease)| PutRequest {
            key,
            value,
            lease,
            prev_kv,
            ignore_value,
            ignore_lease,
        })
        .boxed()
}

pub(crate) fn delete() -> BoxedStrategy<DeleteRangeRequest> {
    (key(), end(), any::<bool>())
        .prop_map(|(key, range_end, prev_kv)| DeleteRangeRequest { key, range_end, prev_kv })
        .boxed()
}

pub(crate) fn range(revision: impl Strategy<Value = i64> + 'static) -> BoxedStrategy<RangeRequest> {
    let filter = || one_of(&FILTERS);
    let filters = (filter(), filter(), filter(), filter());
    let flags = (any::<bool>(), prop::bool::weighted(0.3), prop::bool::weighted(0.2));
    (key(), end(), one_of(&LIMITS), revision, 0..3, 0..5, flags, filters)
        .prop_map(|(key, range_end, limit, revision, sort_order, sort_target, flags, filters)| {
            RangeRequest {
                key,
                range_end,
                limit,
                revision,
                sort_order,
                sort_target,
                serializable: flags.0,
                keys_only: flags.1,
                count_only: flags.2,
                min_mod_revision: filters.0,
                max_mod_revision: filters.1,
                min_create_revision: filters.2,
                max_create_revision: filters.3,
            }
        })
        .boxed()
}

/// A comparison. Its operand is a distance from the property of the key, or zero, missing, or of
/// another type.
fn compare() -> BoxedStrategy<Compare> {
    let own = (0..6, one_of(&OFFSETS), value()).prop_map(|(kind, own, value)| match kind {
        0 => Some(TargetUnion::Version(own)),
        1 => Some(TargetUnion::CreateRevision(own)),
        2 => Some(TargetUnion::ModRevision(own)),
        3 => Some(TargetUnion::Lease(own)),
        4 => Some(TargetUnion::Value(value)),
        _ => None,
    });
    let (single, matching) = (prop::bool::weighted(0.7), prop::bool::weighted(0.9));
    (key(), end(), single, one_of(&RESULTS), 0..6, own, matching)
        .prop_map(|(key, end, single, result, target, target_union, matching)| {
            let own = target_union.as_ref().filter(|_| matching).map(target_of);
            let range_end = if single { Bytes::new() } else { end };
            Compare { result, target: own.unwrap_or(target), key, target_union, range_end }
        })
        .boxed()
}

/// Returns the target of an operand.
fn target_of(union: &TargetUnion) -> i32 {
    use proto::etcdserverpb::compare::CompareTarget as T;
    let target = match union {
        TargetUnion::Version(_) => T::Version,
        TargetUnion::CreateRevision(_) => T::Create,
        TargetUnion::ModRevision(_) => T::Mod,
        TargetUnion::Value(_) => T::Value,
        TargetUnion::Lease(_) => T::Lease,
    };
    target as i32
}

/// An operation, with transactions nested up to a depth.
fn op(depth: u32) -> BoxedStrategy<RequestOp> {
    let wrap = |request| RequestOp { request: Some(request) };
    let range = range(one_of(&NEAR_REVISIONS)).prop_map(Request::RequestRange).prop_map(wrap);
    let put = put().prop_map(Request::RequestPut).prop_map(wrap);
    let delete = delete().prop_map(Request::RequestDeleteRange).prop_map(wrap);
    let nothing = Just(RequestOp { request: None });
    if depth == 0 {
        return prop_oneof![20 => range, 30 => put, 12 => delete, 1 => nothing].boxed();
    }
    let nested = txn(depth - 1).prop_map(Request::RequestTxn).prop_map(wrap);
    prop_oneof![20 => range, 30 => put, 12 => delete, 1 => nothing, 20 => nested].boxed()
}

/// A transaction, with others nested up to a depth.
pub(crate) fn txn(depth: u32) -> BoxedStrategy<TxnRequest> {
    (vec(compare(), 0..3), vec(op(depth), 0..5), vec(op(depth), 0..4))
        .prop_map(|(compare, success, failure)| TxnRequest { compare, success, failure })
        .boxed()
}

/// A read-only transaction.
pub(crate) fn read_txn() -> BoxedStrategy<TxnRequest> {
    let wrap = |range| RequestOp { request: Some(Request::RequestRange(range)) };
    let ranges = || vec(range(one_of(&NEAR_REVISIONS)).prop_map(wrap), 0..4);
    (vec(compare(), 0..3), ranges(), ranges())
        .prop_map(|(compare, success, failure)| TxnRequest { compare, success, failure })
        .boxed()
}

/// The numbers that distances refer to.
pub(crate) struct Resolve<'a> {
    pub(crate) current: i64,
    pub(crate) keys: &'a Keys,
}

impl Resolve<'_> {
    pub(crate) fn revision(&self, distance: i64) -> i64 {
        if distance <= 0 { distance } else { self.current + NEWEST - distance }
    }

    pub(crate) fn range(&self, mut request: RangeRequest) -> RangeRequest {
        let revisions = [
            &mut request.revision,
            &mut request.min_mod_revision,
            &mut request.max_mod_revision,
            &mut request.min_create_revision,
            &mut request.max_create_revision,
        ];
        revisions.into_iter().for_each(|revision| *revision = self.revision(*revision));
        request
    }

    pub(crate) fn txn(&self, request: TxnRequest) -> TxnRequest {
        let TxnRequest { compare, success, failure } = request;
        TxnRequest {
            compare: compare.into_iter().map(|compare| self.compare(compare)).collect(),
            success: success.into_iter().map(|op| self.op(op)).collect(),
            failure: failure.into_iter().map(|op| self.op(op)).collect(),
        }
    }

    fn op(&self, op: RequestOp) -> RequestOp {
        let request = op.request.map(|request| match request {
            Request::RequestRange(range) => Request::RequestRange(self.range(range)),
            Request::RequestTxn(txn) => Request::RequestTxn(self.txn(txn)),
            other => other,
        });
        RequestOp { request }
    }

    fn compare(&self, mut compare: Compare) -> Compare {
        let own = self.keys.get(&compare.key).cloned().unwrap_or_default();
        match &mut compare.target_union {
            Some(TargetUnion::Version(number)) => *number += own.version,
            Some(TargetUnion::CreateRevision(number)) => *number += own.create_revision,
            Some(TargetUnion::ModRevision(number)) => *number += own.mod_revision,
            Some(TargetUnion::Lease(number)) => *number += own.lease,
            Some(TargetUnion::Value(_)) | None => {}
        }
        compare
    }
}
