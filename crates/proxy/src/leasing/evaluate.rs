//! Answers from memory: ranges of a single key, and transactions that only read owned keys.
//!
//! ```text
//!   owned    a = "1" version 3      b absent
//!
//!   if a = "1" then get b            succeeded, no keys
//!   if b = "" then …  else get a     failed: an absent key has no value
//!   if a = "1", c > …                unknown, since c is not owned: for a member
//!   if a = "2", c > …  else get a    failed, whatever c is
//! ```
//!
//! Requests that a member might refuse are left to it.

use std::cmp::Ordering;

use bytes::Bytes;
use proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use proto::etcdserverpb::range_request::{SortOrder, SortTarget};
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::response_op::Response;
use proto::etcdserverpb::{
    Compare, RangeRequest, RangeResponse, RequestOp, ResponseHeader, ResponseOp, TxnRequest,
    TxnResponse,
};
use proto::mvccpb::KeyValue;

use super::keys::KeysView;

/// The most operations of a list of a transaction that is evaluated in memory: the default of
/// members, which refuse more.
const OPERATIONS_MAX: usize = 128;

/// The longest key that is owned. Keys that are being acquired or released, or are left alone for a
/// while, are bounded by their number; with this, so are their bytes.
const OWNED_KEY_BYTES_MAX: usize = 4 << 10;

/// Returns whether a range can be answered from the current state of its key, if that is owned.
pub(super) fn is_answerable(request: &RangeRequest) -> bool {
    !request.key.is_empty()
        && request.key.len() <= OWNED_KEY_BYTES_MAX
        && request.range_end.is_empty()
        && request.revision <= 0
        && request.limit >= 0
        && SortOrder::try_from(request.sort_order).is_ok()
        && SortTarget::try_from(request.sort_target).is_ok()
}

/// Answers a range from the current state of its key.
pub(super) fn answer(
    kv: Option<&KeyValue>,
    request: &RangeRequest,
    header: ResponseHeader,
) -> RangeResponse {
    let wanted = kv.filter(|kv| !request.count_only && is_selected(kv, request));
    let kvs = wanted.map(|kv| KeyValue {
        value: if request.keys_only { Bytes::new() } else { kv.value.clone() },
        ..kv.clone()
    });
    RangeResponse {
        header: Some(header),
        kvs: kvs.into_iter().collect(),
        more: false,
        // Compat: as in etcd, a key that is left out by its revision counts.
        count: i64::from(kv.is_some()),
    }
}

fn is_selected(kv: &KeyValue, request: &RangeRequest) -> bool {
    let within = |revision: i64, min: i64, max: i64| {
        (min == 0 || revision >= min) && (max == 0 || revision <= max)
    };
    within(kv.mod_revision, request.min_mod_revision, request.max_mod_revision)
        && within(kv.create_revision, request.min_create_revision, request.max_create_revision)
}

/// Evaluates a transaction; none if a member has to.
pub(super) fn transaction(request: &TxnRequest, view: &KeysView<'_>) -> Option<TxnResponse> {
    let lists = [request.compare.len(), request.success.len(), request.failure.len()];
    if lists.iter().any(|length| *length > OPERATIONS_MAX) {
        return None;
    }
    let succeeded = all_hold(&request.compare, view)?;
    let ops = if succeeded { &request.success } else { &request.failure };
    // Nothing is known without a key.
    if request.compare.is_empty() && ops.is_empty() {
        return None;
    }
    let responses = ops.iter().map(|op| read(op, view)).collect::<Option<Vec<_>>>()?;
    Some(TxnResponse { header: Some(view.header()), succeeded, responses })
}

/// Returns whether all comparisons hold; none if that depends on a key that is not owned.
fn all_hold(compares: &[Compare], view: &KeysView<'_>) -> Option<bool> {
    let results: Vec<Option<bool>> = compares.iter().map(|compare| holds(compare, view)).collect();
    if results.contains(&Some(false)) {
        return Some(false);
    }
    (!results.contains(&None)).then_some(true)
}

/// Evaluates a comparison; none if its key is not owned, or if it is not one of this version.
fn holds(compare: &Compare, view: &KeysView<'_>) -> Option<bool> {
    if !compare.range_end.is_empty() {
        return None;
    }
    let result = CompareResult::try_from(compare.result).ok()?;
    let target = CompareTarget::try_from(compare.target).ok()?;
    let found = view.get(&compare.key)?;
    // Compat: as in etcd, an absent key has no value, not even an empty one.
    if found.is_none() && target == CompareTarget::Value {
        return Some(false);
    }
    let absent = KeyValue::default();
    let ordering = compare_with(found.unwrap_or(&absent), target, compare.target_union.as_ref()?)?;
    Some(match result {
        CompareResult::Equal => ordering.is_eq(),
        CompareResult::NotEqual => ordering.is_ne(),
        CompareResult::Greater => ordering.is_gt(),
        CompareResult::Less => ordering.is_lt(),
    })
}

/// Compares a property of a key with an operand; none if the operand has another type.
fn compare_with(kv: &KeyValue, target: CompareTarget, with: &TargetUnion) -> Option<Ordering> {
    match (target, with) {
        (CompareTarget::Version, TargetUnion::Version(with)) => Some(kv.version.cmp(with)),
        (CompareTarget::Create, TargetUnion::CreateRevision(with)) => {
            Some(kv.create_revision.cmp(with))
        }
        (CompareTarget::Mod, TargetUnion::ModRevision(with)) => Some(kv.mod_revision.cmp(with)),
        (CompareTarget::Value, TargetUnion::Value(with)) => Some(kv.value.cmp(with)),
        (CompareTarget::Lease, TargetUnion::Lease(with)) => Some(kv.lease.cmp(with)),
        _ => None,
    }
}

/// Evaluates an operation; none if it writes, or reads a key that is not owned.
fn read(op: &RequestOp, view: &KeysView<'_>) -> Option<ResponseOp> {
    let Some(Request::RequestRange(range)) = &op.request else { return None };
    if !is_answerable(range) {
        return None;
    }
    let kv = view.get(&range.key)?;
    // Compat: as in etcd, the header of an operation has only a revision.
    let header = ResponseHeader { revision: view.header().revision, ..ResponseHeader::default() };
    let answer = answer(kv, range, header);
    Some(ResponseOp { response: Some(Response::ResponseRange(answer)) })
}

#[cfg(test)]
mod tests;
