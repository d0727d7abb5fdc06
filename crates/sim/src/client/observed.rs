//! Converts responses and errors to their recorded form.
//!
//! An error counts as *refused* only if the request was certainly not executed and never will be;
//! the verdict of the checker depends on it.

use history::record::{Body, Event, Kv, Refusal, Response, WatchBody};
use mvcc::watch::{Response as WatchResponse, WatchedEvent};
use mvcc::{DeleteRangeResult, EventKind, Kvs, OpResult, PutResult, RangeResult, TxnResult};
use prost::Message as _;
use proto::etcdserverpb as pb;
use proto::mvccpb::KeyValue;
use server::Error;

pub(super) fn revision(header: Option<pb::ResponseHeader>) -> i64 {
    header.unwrap_or_default().revision
}

pub(super) fn put(put: &PutResult) -> Response {
    Response { revision: put.revision, body: put_body(put) }
}

fn put_body(put: &PutResult) -> Body {
    Body::Put { prev: put.prev_kv.as_deref().map(kv) }
}

pub(super) fn delete(deleted: &DeleteRangeResult) -> Response {
    Response { revision: deleted.revision, body: delete_body(deleted) }
}

fn delete_body(deleted: &DeleteRangeResult) -> Body {
    Body::Delete { deleted: deleted.deleted, prevs: kvs(&deleted.prev_kvs) }
}

pub(super) fn range(range: &RangeResult) -> Response {
    Response { revision: range.revision, body: range_body(range) }
}

fn range_body(range: &RangeResult) -> Body {
    Body::Range { kvs: kvs(&range.kvs), count: range.count, more: range.more }
}

pub(super) fn txn(txn: &TxnResult) -> Response {
    Response { revision: txn.revision, body: txn_body(txn) }
}

fn txn_body(txn: &TxnResult) -> Body {
    let result = |it: &OpResult| match it {
        OpResult::Range(range) => range_body(range),
        OpResult::Put(put) => put_body(put),
        OpResult::DeleteRange(deleted) => delete_body(deleted),
        OpResult::Txn(txn) => txn_body(txn),
        // No request of a client has this result, and the checker reports it as malformed.
        OpResult::Nothing => Body::Compact,
    };
    Body::Txn { succeeded: txn.succeeded, results: txn.responses.iter().map(result).collect() }
}

pub(super) fn granted(granted: &pb::LeaseGrantResponse) -> Response {
    let body = Body::Grant { lease: granted.id, ttl_s: granted.ttl };
    Response { revision: revision(granted.header), body }
}

/// Converts all keys of a response.
pub(crate) fn kvs(kvs: &Kvs) -> Vec<Kv> {
    kvs.iter().map(kv).collect()
}

/// Converts a stored key.
fn kv(stored: &[u8]) -> Kv {
    // An undecodable value is recorded as a key that was never put, which the checker reports.
    let decoded = KeyValue::decode(stored).unwrap_or_default();
    Kv {
        key: text(&decoded.key),
        value: text(&decoded.value),
        create: decoded.create_revision,
        modified: decoded.mod_revision,
        version: decoded.version,
        lease: decoded.lease,
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Converts a watch response.
pub(super) fn watch_body(response: &WatchResponse) -> WatchBody {
    if response.canceled {
        return WatchBody::Canceled { compact_revision: response.compact_revision };
    }
    if response.created {
        return WatchBody::Created;
    }
    match response.events.is_empty() {
        true => WatchBody::Progress,
        false => WatchBody::Events(response.events.iter().map(event).collect()),
    }
}

fn event(watched: &WatchedEvent) -> Event {
    Event {
        kv: kv(&watched.event.kv),
        delete: watched.event.kind == EventKind::Delete,
        prev: watched.prev_kv.as_deref().map(kv),
    }
}

/// Returns the refusal of a request that was certainly not executed and never will be; none if it
/// may have been.
pub(super) fn refusal(error: &Error) -> Option<Refusal> {
    use server::Refusal as R;
    match error {
        Error::Refused(R::Keys(mvcc::Error::Compacted)) => Some(Refusal::Compacted),
        Error::Refused(R::Keys(mvcc::Error::FutureRevision)) => Some(Refusal::FutureRevision),
        Error::Refused(R::Keys(mvcc::Error::LeaseNotFound)) => Some(Refusal::LeaseNotFound),
        Error::Refused(R::Revoke(lease::RevokeError::NotFound)) => Some(Refusal::LeaseNotFound),
        Error::Refused(R::Grant(lease::GrantError::Exists)) => Some(Refusal::LeaseExists),
        // A request without space may still have been applied.
        Error::Refused(R::NoSpace) => None,
        Error::Refused(_) | Error::RequestTooLarge | Error::TooManyRequests => {
            Some(Refusal::Other(error.to_string()))
        }
        _ => None,
    }
}
