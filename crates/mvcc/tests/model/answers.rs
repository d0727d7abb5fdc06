//! Requests executed by the model.

use std::cmp::Ordering;

use bytes::Bytes;
use mvcc::Error;
use proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use proto::etcdserverpb::range_request::{SortOrder, SortTarget};
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::response_op::Response;
use proto::etcdserverpb::{
    Compare, DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse, RangeRequest,
    RangeResponse, RequestOp, ResponseHeader, ResponseOp, TxnRequest, TxnResponse,
};
use proto::mvccpb::KeyValue;
use types::Revision;

use crate::state::{Change, Keys, Model};

/// Returns whether a key is in a range.
pub(crate) fn contains(key: &[u8], end: &[u8], one: &[u8]) -> bool {
    match end {
        [] => one == key,
        [0] => one >= key,
        end => one >= key && one < end,
    }
}

/// Returns a header with the revision alone.
pub(crate) fn header(revision: i64) -> Option<ResponseHeader> {
    Some(ResponseHeader { revision, ..ResponseHeader::default() })
}

fn within(keys: &Keys, key: &[u8], end: &[u8]) -> Vec<KeyValue> {
    keys.values().filter(|kv| contains(key, end, &kv.key)).cloned().collect()
}

impl Model {
    /// Executes a range.
    pub(crate) fn range(&self, request: &RangeRequest) -> Result<RangeResponse, Error> {
        let keys = self.keys_at(self.readable(request.revision)?);
        Ok(range_of(&keys, request, self.current()))
    }

    /// Executes a read-only transaction.
    pub(crate) fn read_txn(&self, request: &TxnRequest) -> Result<TxnResponse, Error> {
        Write::new(self).txn(request, false)
    }

    /// Executes a write at the next revision, or fails and changes nothing.
    pub(crate) fn write<T>(
        &mut self,
        f: impl FnOnce(&mut Write<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut write = Write::new(self);
        let result = f(&mut write)?;
        let Write { keys, changes, .. } = write;
        self.add(keys, changes);
        Ok(result)
    }
}

/// Builds a response from the keys at the requested revision.
fn range_of(keys: &Keys, request: &RangeRequest, current: i64) -> RangeResponse {
    let mut kvs = within(keys, &request.key, &request.range_end);
    let count = i64::try_from(kvs.len()).unwrap();
    let answer = RangeResponse { header: header(current), count, ..RangeResponse::default() };
    if request.count_only {
        return answer;
    }
    let limit = usize::try_from(request.limit).ok().filter(|limit| *limit > 0);
    // Compat: as in etcd, a target without an order sorts only the first keys.
    if let (Some(limit), true) = (limit, is_cut_first(request)) {
        kvs.truncate(limit.saturating_add(1));
    }
    kvs.retain(|kv| passes(request, kv));
    sort(&mut kvs, request);
    let more = limit.is_some_and(|limit| kvs.len() > limit);
    kvs.truncate(limit.unwrap_or(usize::MAX));
    if request.keys_only {
        kvs.iter_mut().for_each(|kv| strip(kv, request.sort_target()));
    }
    RangeResponse { kvs, more, ..answer }
}

fn is_cut_first(request: &RangeRequest) -> bool {
    let by_key = request.sort_target() == SortTarget::Key;
    let ordered = match request.sort_order() {
        SortOrder::None => true,
        SortOrder::Ascend => by_key,
        SortOrder::Descend => false,
    };
    ordered
        && request.min_mod_revision == 0
        && request.max_mod_revision == 0
        && request.min_create_revision == 0
        && request.max_create_revision == 0
}

fn passes(request: &RangeRequest, kv: &KeyValue) -> bool {
    let at_least = |min: i64, revision: i64| min == 0 || revision >= min;
    let at_most = |max: i64, revision: i64| max == 0 || revision <= max;
    at_least(request.min_mod_revision, kv.mod_revision)
        && at_most(request.max_mod_revision, kv.mod_revision)
        && at_least(request.min_create_revision, kv.create_revision)
        && at_most(request.max_create_revision, kv.create_revision)
}

/// Sorts stably in both directions: ties stay in key order.
fn sort(kvs: &mut [KeyValue], request: &RangeRequest) {
    let target = request.sort_target();
    let compare = |a: &KeyValue, b: &KeyValue| match target {
        SortTarget::Key => a.key.cmp(&b.key),
        SortTarget::Version => a.version.cmp(&b.version),
        SortTarget::Create => a.create_revision.cmp(&b.create_revision),
        SortTarget::Mod => a.mod_revision.cmp(&b.mod_revision),
        SortTarget::Value => a.value.cmp(&b.value),
    };
    match request.sort_order() {
        SortOrder::Descend => kvs.sort_by(|a, b| compare(b, a)),
        SortOrder::None | SortOrder::Ascend => kvs.sort_by(compare),
    }
}

/// Builds a keys-only item. It has a lease only if the sort needed the value.
fn strip(kv: &mut KeyValue, target: SortTarget) {
    kv.value = Bytes::new();
    if target != SortTarget::Value {
        kv.lease = 0;
    }
}

/// A write in progress.
pub(crate) struct Write<'m> {
    model: &'m Model,
    keys: Keys,
    changes: Vec<Change>,
}

impl<'m> Write<'m> {
    fn new(model: &'m Model) -> Write<'m> {
        Write { model, keys: model.keys().clone(), changes: Vec::new() }
    }

    fn revision(&self) -> i64 {
        self.model.current() + i64::from(!self.changes.is_empty())
    }

    fn next(&self) -> Revision {
        let sub = i64::try_from(self.changes.len()).unwrap();
        Revision::new(self.model.current() + 1, sub)
    }

    pub(crate) fn put(&mut self, request: &PutRequest) -> Result<PutResponse, Error> {
        self.check_put(request)?;
        Ok(self.do_put(request))
    }

    pub(crate) fn delete_range(&mut self, request: &DeleteRangeRequest) -> DeleteRangeResponse {
        let gone = within(&self.keys, &request.key, &request.range_end);
        for kv in &gone {
            self.delete(&kv.key);
        }
        DeleteRangeResponse {
            header: header(self.revision()),
            deleted: i64::try_from(gone.len()).unwrap(),
            prev_kvs: if request.prev_kv { gone } else { Vec::new() },
        }
    }

    /// Deletes the keys attached to a lease.
    pub(crate) fn revoke(&mut self, lease: i64) {
        let attached: Vec<_> = self.keys.values().filter(|kv| kv.lease == lease).cloned().collect();
        attached.iter().for_each(|kv| self.delete(&kv.key));
    }

    pub(crate) fn txn(
        &mut self,
        request: &TxnRequest,
        skip_ranges: bool,
    ) -> Result<TxnResponse, Error> {
        self.check_txn(request)?;
        let mut response = self.do_txn(request, skip_ranges);
        response.header = header(self.revision());
        Ok(response)
    }

    /// Checks a plan against the state before the transaction.
    fn check_put(&self, request: &PutRequest) -> Result<(), Error> {
        if request.lease != 0 && !self.model.leases.contains(&request.lease) {
            return Err(Error::LeaseNotFound);
        }
        let needed = request.ignore_value || request.ignore_lease;
        if needed && !self.model.keys().contains_key(&request.key) {
            return Err(Error::KeyNotFound);
        }
        Ok(())
    }

    fn check_txn(&self, request: &TxnRequest) -> Result<(), Error> {
        for op in self.taken(request).1 {
            match op.request.as_ref() {
                Some(Request::RequestRange(range)) => self.check_range(range.revision)?,
                Some(Request::RequestPut(put)) => self.check_put(put)?,
                Some(Request::RequestTxn(nested)) => self.check_txn(nested)?,
                Some(Request::RequestDeleteRange(_)) | None => {}
            }
        }
        Ok(())
    }

    /// Inside a transaction, a negative revision is a compacted one.
    fn check_range(&self, revision: i64) -> Result<(), Error> {
        if revision > self.model.current() {
            return Err(Error::FutureRevision);
        }
        let compacted = revision != 0 && revision < self.model.compacted;
        if compacted { Err(Error::Compacted) } else { Ok(()) }
    }

    /// Evaluates the comparisons. Returns the result and the selected operations.
    fn taken<'r>(&self, request: &'r TxnRequest) -> (bool, &'r [RequestOp]) {
        let holds = request.compare.iter().all(|compare| compares(self.model.keys(), compare));
        (holds, if holds { &request.success } else { &request.failure })
    }

    fn do_txn(&mut self, request: &TxnRequest, skip_ranges: bool) -> TxnResponse {
        let (succeeded, ops) = self.taken(request);
        let responses = ops.iter().map(|op| ResponseOp {
            response: op.request.as_ref().map(|request| self.do_op(request, skip_ranges)),
        });
        let responses = responses.collect();
        TxnResponse { header: header(0), succeeded, responses }
    }

    fn do_op(&mut self, request: &Request, skip_ranges: bool) -> Response {
        match request {
            Request::RequestRange(_) if skip_ranges => Response::ResponseRange(RangeResponse {
                header: header(self.revision()),
                ..RangeResponse::default()
            }),
            Request::RequestRange(range) => Response::ResponseRange(self.range(range)),
            Request::RequestPut(put) => Response::ResponsePut(self.do_put(put)),
            Request::RequestDeleteRange(delete) => {
                Response::ResponseDeleteRange(self.delete_range(delete))
            }
            Request::RequestTxn(nested) => Response::ResponseTxn(self.do_txn(nested, skip_ranges)),
        }
    }

    fn range(&self, request: &RangeRequest) -> RangeResponse {
        if request.revision <= 0 {
            return range_of(&self.keys, request, self.revision());
        }
        range_of(&self.model.keys_at(request.revision), request, self.revision())
    }

    fn do_put(&mut self, request: &PutRequest) -> PutResponse {
        let before = self.keys.get(&request.key).cloned();
        let revision = self.next();
        let mut kv = KeyValue {
            key: request.key.clone(),
            create_revision: before.as_ref().map_or(revision.main, |kv| kv.create_revision),
            mod_revision: revision.main,
            version: before.as_ref().map_or(1, |kv| kv.version + 1),
            value: request.value.clone(),
            lease: request.lease,
        };
        // The key existed before the transaction. If the transaction deleted it, there is nothing
        // to keep.
        let left = before.clone().unwrap_or_default();
        if request.ignore_value {
            kv.value = left.value;
        }
        if request.ignore_lease {
            kv.lease = left.lease;
        }
        self.keys.insert(kv.key.clone(), kv.clone());
        self.changes.push(Change { revision, key: kv.key.clone(), kv: Some(kv) });
        let prev_kv = before.filter(|_| request.prev_kv);
        PutResponse { header: header(self.revision()), prev_kv }
    }

    fn delete(&mut self, key: &Bytes) {
        self.keys.remove(key);
        let (revision, key) = (self.next(), key.clone());
        self.changes.push(Change { revision, key, kv: None });
    }
}

/// Evaluates a comparison for every key of the range. Without keys, a value comparison fails and
/// all else is zero.
fn compares(keys: &Keys, compare: &Compare) -> bool {
    let kvs = within(keys, &compare.key, &compare.range_end);
    if kvs.is_empty() {
        let value = compare.target == CompareTarget::Value as i32;
        return !value && compares_with(compare, &KeyValue::default());
    }
    kvs.iter().all(|kv| compares_with(compare, kv))
}

fn compares_with(compare: &Compare, kv: &KeyValue) -> bool {
    use CompareResult as R;
    let ordering = ordering(compare, kv);
    match R::try_from(compare.result) {
        Ok(R::Equal) => ordering == Ordering::Equal,
        Ok(R::Greater) => ordering == Ordering::Greater,
        Ok(R::Less) => ordering == Ordering::Less,
        Ok(R::NotEqual) => ordering != Ordering::Equal,
        Err(_) => true,
    }
}

/// Returns the operand, or zero if it is missing or of another type than the target.
fn ordering(compare: &Compare, kv: &KeyValue) -> Ordering {
    use CompareTarget as T;
    let (mut version, mut create, mut modified, mut lease) = (0, 0, 0, 0);
    let mut value = Bytes::new();
    match compare.target_union.clone() {
        Some(TargetUnion::Version(given)) => version = given,
        Some(TargetUnion::CreateRevision(given)) => create = given,
        Some(TargetUnion::ModRevision(given)) => modified = given,
        Some(TargetUnion::Lease(given)) => lease = given,
        Some(TargetUnion::Value(given)) => value = given,
        None => {}
    }
    match T::try_from(compare.target) {
        Ok(T::Version) => kv.version.cmp(&version),
        Ok(T::Create) => kv.create_revision.cmp(&create),
        Ok(T::Mod) => kv.mod_revision.cmp(&modified),
        Ok(T::Lease) => kv.lease.cmp(&lease),
        Ok(T::Value) => kv.value.cmp(&value),
        Err(_) => Ordering::Equal,
    }
}
