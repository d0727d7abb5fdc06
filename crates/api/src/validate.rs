//! Validation of requests before they reach the store.
//!
//! The member that receives a request runs these checks. Applying does not rely on them: an entry
//! of the log may come from another member, with other limits.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use mvcc::{has_filters, is_default_order};
use proto::etcdserverpb::range_request::{SortOrder, SortTarget};
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest};

/// The reason why a request is invalid. The texts are etcd's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidRequest {
    /// A key is empty.
    #[error("etcdserver: key is not provided")]
    EmptyKey,
    /// An operation is empty.
    #[error("etcdserver: key not found")]
    EmptyOp,
    /// `ignore_value` is set together with a value.
    #[error("etcdserver: value is provided")]
    ValueProvided,
    /// `ignore_lease` is set together with a lease.
    #[error("etcdserver: lease is provided")]
    LeaseProvided,
    /// A transaction has too many operations.
    #[error("etcdserver: too many operations in txn request")]
    TooManyOps,
    /// A transaction changes a key twice.
    #[error("etcdserver: duplicate key given in txn request")]
    DuplicateKey,
    /// The sort order or target is unknown.
    #[error("etcdserver: invalid sort option")]
    InvalidSortOption,
    /// A range stream has another order than that of the keys.
    #[error("RangeStream does not support custom sort orders")]
    StreamOrder,
    /// A range stream filters by revision.
    #[error("RangeStream does not support revision filters")]
    StreamFilters,
}

/// Validates a range.
pub(crate) fn range(request: &RangeRequest) -> Result<(), InvalidRequest> {
    check_key(&request.key)?;
    let order = SortOrder::try_from(request.sort_order);
    let target = SortTarget::try_from(request.sort_target);
    if order.is_err() || target.is_err() { Err(InvalidRequest::InvalidSortOption) } else { Ok(()) }
}

/// Validates a range stream.
pub(crate) fn range_stream(request: &RangeRequest) -> Result<(), InvalidRequest> {
    range(request)?;
    if !is_default_order(request) {
        return Err(InvalidRequest::StreamOrder);
    }
    if has_filters(request) { Err(InvalidRequest::StreamFilters) } else { Ok(()) }
}

/// Validates a put.
pub(crate) fn put(request: &PutRequest) -> Result<(), InvalidRequest> {
    check_key(&request.key)?;
    if request.ignore_value && !request.value.is_empty() {
        return Err(InvalidRequest::ValueProvided);
    }
    if request.ignore_lease && request.lease != 0 {
        return Err(InvalidRequest::LeaseProvided);
    }
    Ok(())
}

/// Validates the deletion of a range.
pub(crate) fn delete_range(request: &DeleteRangeRequest) -> Result<(), InvalidRequest> {
    check_key(&request.key)
}

/// Validates a transaction with all nested ones.
pub(crate) fn txn(request: &TxnRequest, ops_max: usize) -> Result<(), InvalidRequest> {
    check_txn(request, ops_max)?;
    changed_keys(&request.success)?;
    changed_keys(&request.failure)?;
    Ok(())
}

fn check_key(key: &[u8]) -> Result<(), InvalidRequest> {
    if key.is_empty() { Err(InvalidRequest::EmptyKey) } else { Ok(()) }
}

/// The longest list of operations counts against the limit; nested transactions share the rest.
/// Recursion is safe: see [`proto::nested`].
fn check_txn(request: &TxnRequest, ops_max: usize) -> Result<(), InvalidRequest> {
    let TxnRequest { compare, success, failure } = request;
    let ops = compare.len().max(success.len()).max(failure.len());
    let left = ops_max.checked_sub(ops).ok_or(InvalidRequest::TooManyOps)?;
    compare.iter().try_for_each(|compare| check_key(&compare.key))?;
    success.iter().chain(failure).try_for_each(|op| check_op(op, left))
}

fn check_op(op: &RequestOp, ops_max: usize) -> Result<(), InvalidRequest> {
    match &op.request {
        Some(Request::RequestRange(request)) => range(request),
        Some(Request::RequestPut(request)) => put(request),
        Some(Request::RequestDeleteRange(request)) => delete_range(request),
        Some(Request::RequestTxn(request)) => check_txn(request, ops_max),
        None => Err(InvalidRequest::EmptyOp),
    }
}

/// The keys that a list of operations changes.
#[derive(Default)]
struct ChangedKeys<'a> {
    puts: BTreeSet<&'a [u8]>,
    deletes: Intervals,
}

/// Collects the changed keys of a list of operations, and checks that none is changed twice.
///
/// Compat: the order is that of etcd, and decides which requests pass: deletions of this level,
/// then nested transactions one after the other, then puts of this level. So a nested put may
/// precede another nested transaction that deletes the key.
fn changed_keys(ops: &[RequestOp]) -> Result<ChangedKeys<'_>, InvalidRequest> {
    let mut all = ChangedKeys::default();
    for op in ops {
        if let Some(Request::RequestDeleteRange(delete)) = &op.request {
            all.deletes.add_range(delete);
        }
    }
    for op in ops {
        if let Some(Request::RequestTxn(nested)) = &op.request {
            all.add_nested(changed_keys(&nested.success)?, changed_keys(&nested.failure)?)?;
        }
    }
    for op in ops {
        if let Some(Request::RequestPut(put)) = &op.request {
            all.add_put(&put.key)?;
        }
    }
    Ok(all)
}

impl<'a> ChangedKeys<'a> {
    /// Adds the changes of a nested transaction. Only one branch is executed, so a key may be in
    /// both.
    fn add_nested(
        &mut self,
        then: ChangedKeys<'a>,
        other: ChangedKeys<'a>,
    ) -> Result<(), InvalidRequest> {
        for key in &then.puts {
            self.add_put(key)?;
        }
        for key in other.puts.difference(&then.puts) {
            self.add_put(key)?;
        }
        for deletes in [then.deletes, other.deletes] {
            deletes.0.into_iter().for_each(|(from, to)| self.deletes.add(from, to));
        }
        Ok(())
    }

    fn add_put(&mut self, key: &'a [u8]) -> Result<(), InvalidRequest> {
        let deleted = self.deletes.contains(key);
        if deleted || !self.puts.insert(key) { Err(InvalidRequest::DuplicateKey) } else { Ok(()) }
    }
}

/// Deleted keys as disjoint intervals: start → end. A lookup takes logarithmic time.
#[derive(Default)]
struct Intervals(BTreeMap<Vec<u8>, Vec<u8>>);

impl Intervals {
    /// Compat: as in etcd, an end of one zero byte is not treated as "all keys" here, so such a
    /// deletion is accepted beside puts.
    fn add_range(&mut self, delete: &DeleteRangeRequest) {
        let (from, to) = (delete.key.to_vec(), delete.range_end.to_vec());
        match to.is_empty() {
            true => self.add(from, [&delete.key[..], &[0]].concat()),
            false => self.add(from, to),
        }
    }

    fn add(&mut self, mut from: Vec<u8>, mut to: Vec<u8>) {
        if to <= from {
            return;
        }
        // Merge all intervals that overlap or touch this one.
        while let Some((first, last)) = self.0.range(..=to.clone()).next_back() {
            if *last < from {
                break;
            }
            let (first, last) = (first.clone(), last.clone());
            self.0.remove(&first);
            (from, to) = (from.min(first), to.max(last));
        }
        self.0.insert(from, to);
    }

    fn contains(&self, key: &[u8]) -> bool {
        let before = (Bound::Unbounded, Bound::Included(key));
        self.0.range::<[u8], _>(before).next_back().is_some_and(|(_, to)| key < &to[..])
    }
}

#[cfg(test)]
mod tests;
