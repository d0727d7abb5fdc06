//! What can be said against a request before anything is asked of the store.
//!
//! These are the checks that the member makes which receives a request. Applying does not rely on them: what is in the log may have come in through another
//! member, with other limits.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use proto::etcdserverpb::range_request::{SortOrder, SortTarget};
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest};

use crate::range::{has_filters, is_default_order};

/// Most operations of a transaction, as `--max-txn-ops` has it if it does not say otherwise.
pub const TXN_OPS_MAX_DEFAULT: usize = 128;

/// How deep transactions may be nested. The log could not be read back from beyond fifty; etcd is bounded by the number of operations alone.
pub const TXN_DEPTH_MAX: usize = 45;

/// Why a request is refused. The texts are those that etcd answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A key has at least one byte.
    #[error("etcdserver: key is not provided")]
    EmptyKey,
    /// An operation that says nothing.
    #[error("etcdserver: key not found")]
    EmptyOp,
    /// The value is to stay as it is, and yet there is one.
    #[error("etcdserver: value is provided")]
    ValueProvided,
    /// The lease is to stay as it is, and yet there is one.
    #[error("etcdserver: lease is provided")]
    LeaseProvided,
    /// More operations than one transaction may have, or nested too deeply.
    #[error("etcdserver: too many operations in txn request")]
    TooManyOps,
    /// A key would be changed twice.
    #[error("etcdserver: duplicate key given in txn request")]
    DuplicateKey,
    /// No such order, or nothing that can be sorted by.
    #[error("etcdserver: invalid sort option")]
    InvalidSortOption,
    /// A stream is in the order of the keys.
    #[error("RangeStream does not support custom sort orders")]
    StreamOrder,
    /// A stream leaves out nothing.
    #[error("RangeStream does not support revision filters")]
    StreamFilters,
}

/// Checks a range.
pub fn range(request: &RangeRequest) -> Result<(), Refused> {
    check_key(&request.key)?;
    let order = SortOrder::try_from(request.sort_order);
    let target = SortTarget::try_from(request.sort_target);
    if order.is_err() || target.is_err() { Err(Refused::InvalidSortOption) } else { Ok(()) }
}

/// Checks a range whose answer is to come in pieces.
pub fn range_stream(request: &RangeRequest) -> Result<(), Refused> {
    range(request)?;
    if !is_default_order(request) {
        return Err(Refused::StreamOrder);
    }
    if has_filters(request) { Err(Refused::StreamFilters) } else { Ok(()) }
}

/// Checks a put.
pub fn put(request: &PutRequest) -> Result<(), Refused> {
    check_key(&request.key)?;
    if request.ignore_value && !request.value.is_empty() {
        return Err(Refused::ValueProvided);
    }
    if request.ignore_lease && request.lease != 0 {
        return Err(Refused::LeaseProvided);
    }
    Ok(())
}

/// Checks the deletion of a range.
pub fn delete_range(request: &DeleteRangeRequest) -> Result<(), Refused> {
    check_key(&request.key)
}

/// Checks a transaction, with all that is nested in it.
pub fn txn(request: &TxnRequest, ops_max: usize) -> Result<(), Refused> {
    check_txn(request, ops_max, TXN_DEPTH_MAX)?;
    touched(&request.success)?;
    touched(&request.failure)?;
    Ok(())
}

fn check_key(key: &[u8]) -> Result<(), Refused> {
    if key.is_empty() { Err(Refused::EmptyKey) } else { Ok(()) }
}

/// The longest of its lists counts against the limit, and what is nested has what that leaves.
fn check_txn(request: &TxnRequest, ops_max: usize, depth_max: usize) -> Result<(), Refused> {
    let TxnRequest { compare, success, failure } = request;
    let ops = compare.len().max(success.len()).max(failure.len());
    let left = ops_max.checked_sub(ops).ok_or(Refused::TooManyOps)?;
    let deeper = depth_max.checked_sub(1).ok_or(Refused::TooManyOps)?;
    compare.iter().try_for_each(|compare| check_key(&compare.key))?;
    success.iter().chain(failure).try_for_each(|op| check_op(op, left, deeper))
}

fn check_op(op: &RequestOp, ops_max: usize, depth_max: usize) -> Result<(), Refused> {
    match &op.request {
        Some(Request::RequestRange(request)) => range(request),
        Some(Request::RequestPut(request)) => put(request),
        Some(Request::RequestDeleteRange(request)) => delete_range(request),
        Some(Request::RequestTxn(request)) => check_txn(request, ops_max, depth_max),
        None => Err(Refused::EmptyOp),
    }
}

/// The keys that a list of operations changes.
#[derive(Default)]
struct Touched<'a> {
    puts: BTreeSet<&'a [u8]>,
    deletes: Intervals,
}

/// Finds out which keys operations change, and that none is changed twice.
///
/// Compat: in etcd's order, which decides what passes: deletions of this level, then nested transactions one after the other, each against what
/// came before it, then puts of this level. So a nested put may come before another nested transaction that deletes the key.
fn touched(ops: &[RequestOp]) -> Result<Touched<'_>, Refused> {
    let mut all = Touched::default();
    for op in ops {
        if let Some(Request::RequestDeleteRange(delete)) = &op.request {
            all.deletes.add_range(delete);
        }
    }
    for op in ops {
        if let Some(Request::RequestTxn(nested)) = &op.request {
            all.add_nested(touched(&nested.success)?, touched(&nested.failure)?)?;
        }
    }
    for op in ops {
        if let Some(Request::RequestPut(put)) = &op.request {
            all.add_put(&put.key)?;
        }
    }
    Ok(all)
}

impl<'a> Touched<'a> {
    /// One or the other is done: a key may be in both.
    fn add_nested(&mut self, then: Touched<'a>, other: Touched<'a>) -> Result<(), Refused> {
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

    fn add_put(&mut self, key: &'a [u8]) -> Result<(), Refused> {
        let deleted = self.deletes.contains(key);
        if deleted || !self.puts.insert(key) { Err(Refused::DuplicateKey) } else { Ok(()) }
    }
}

/// Keys that are deleted, as intervals that do not touch: where each begins, and where it ends. However many there are, asking for one takes no longer.
#[derive(Default)]
struct Intervals(BTreeMap<Vec<u8>, Vec<u8>>);

impl Intervals {
    /// Compat: an end of one zero byte means all keys from the first on, but not here: as in etcd, such a deletion passes beside puts.
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
        // Those that begin no later than this one ends, and end no sooner than it begins, become one with it.
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(0..4_u8, 1..4)
    }

    proptest! {
        /// Whatever is deleted in whatever order: within each other, overlapping, touching, upside down.
        #[test]
        fn intervals_are_like_a_list_of_them(
            deletes in proptest::collection::vec((key(), proptest::option::of(key())), 0..12),
            keys in proptest::collection::vec(key(), 30),
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
                prop_assert!(to < from, "those that touch are one");
            }
        }
    }
}
