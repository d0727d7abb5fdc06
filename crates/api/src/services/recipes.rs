//! Building blocks of locks and elections: a client of the local member, acting for the caller.
//!
//! etcd runs its client library inside the server for these two services. We do the equivalent:
//! transactions, ranges, leases and watches on the local member, through the same methods and
//! checks as requests from the network.
//!
//! ```text
//!   lock "jobs"      jobs/6b93a1e07271ba05   created at 12    holds the lock
//!                    jobs/6b93a1e07271ba0b   created at 15    waits for the deletion of the other
//!                         lease, in hexadecimal
//! ```
//!
//! Compat: as in etcd, refusals have the code `Unknown` with etcd's text, whatever their code is
//! elsewhere; only cancellations and deadlines keep theirs.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use grpc::{Code, Status};
use mvcc::{RangeResult, TxnResult, watch};
use net::SendBudget;
use prost::Message as _;
use proto::etcdserverpb as pb;
use proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use proto::etcdserverpb::range_request::{SortOrder, SortTarget};
use proto::etcdserverpb::request_op::Request;
use proto::mvccpb::KeyValue;
use server::{Credentials, Server};

use super::notify::StreamNotify;
use super::{Shared, kv};
use crate::context::Context;
use crate::errors::{CallError, Canonical};
use crate::validate;

/// The TTL in seconds of a lease that is created because the request has none. Only the client
/// renews it.
const SESSION_TTL: i64 = 60;

/// A client of the local member, acting for the caller.
#[derive(Clone, Debug)]
pub(super) struct LocalClient {
    shared: Arc<Shared>,
    credentials: Credentials,
    send_budget: Arc<SendBudget>,
}

impl LocalClient {
    pub(super) fn new(cx: &Context) -> LocalClient {
        let (shared, send_budget) = (Arc::clone(cx.shared()), Arc::clone(&cx.send_budget));
        LocalClient { shared, credentials: cx.credentials.clone(), send_budget }
    }

    fn server(&self) -> &Server {
        &self.shared.server
    }

    /// Creates the header of a response at a revision.
    pub(super) fn header(&self, revision: i64) -> Option<pb::ResponseHeader> {
        Some(self.server().header(revision))
    }

    /// Returns the given lease, or grants a new one.
    pub(super) async fn lease(&self, requested: i64) -> Result<i64, CallError> {
        if requested != 0 {
            return Ok(requested);
        }
        let request = pb::LeaseGrantRequest { ttl: SESSION_TTL, id: 0 };
        self.server().check_quota(&request).await.map_err(unknown)?;
        let granted =
            self.server().lease_grant(&self.credentials, request).await.map_err(unknown)?;
        Ok(granted.id)
    }

    /// Executes a transaction that writes.
    pub(super) async fn txn(&self, request: pb::TxnRequest) -> Result<TxnResult, CallError> {
        self.server().check_quota(&request).await.map_err(unknown)?;
        validate::txn(&request, self.server().config().max_txn_ops).map_err(unknown)?;
        self.server().txn(&self.credentials, request).await.map_err(unknown)
    }

    /// Reads a range, linearizably. The result is one key, but all keys of the prefix may be
    /// visited.
    pub(super) async fn range(&self, request: &pb::RangeRequest) -> Result<RangeResult, CallError> {
        validate::range(request).map_err(unknown)?;
        let reading =
            self.server().read_range(&self.credentials, request).await.map_err(unknown)?;
        if kv::is_short(self.server(), request) {
            return reading.range(request).map_err(unknown);
        }
        let (request, bytes) = (request.clone(), request.encoded_len());
        let read = move || reading.range(&request).map_err(unknown);
        self.shared.transport.blocking().run(&self.send_budget, bytes, read).await
    }

    /// Deletes a key. Returns the revision of the deletion.
    pub(super) async fn delete(&self, key: Bytes) -> Result<i64, CallError> {
        let request = pb::DeleteRangeRequest { key, ..pb::DeleteRangeRequest::default() };
        validate::delete_range(&request).map_err(unknown)?;
        let deleted =
            self.server().delete_range(&self.credentials, request).await.map_err(unknown)?;
        Ok(deleted.revision)
    }

    /// Waits until no key of the prefix is left that was created at or before the revision.
    pub(super) async fn wait_deletes(
        &self,
        prefix: &Bytes,
        created_max: i64,
    ) -> Result<(), CallError> {
        let mut last = first_by_creation(prefix);
        last.set_sort_order(SortOrder::Descend);
        last.max_create_revision = created_max;
        loop {
            let found = self.range(&last).await?;
            let Some(kv) = key_values(&found).next() else { return Ok(()) };
            self.wait_delete(kv.key, found.revision).await?;
        }
    }

    /// Waits until a key is deleted at or after the revision.
    async fn wait_delete(&self, key: Bytes, revision: i64) -> Result<(), CallError> {
        let mut watcher = self.watch(key, Bytes::new(), revision);
        loop {
            let response = watcher.next().await?;
            if response.events.iter().any(|event| event.event.kind == mvcc::EventKind::Delete) {
                return Ok(());
            }
        }
    }

    /// Watches keys that the caller has just read, so its permission was checked.
    pub(super) fn watch(&self, key: Bytes, range_end: Bytes, revision: i64) -> LocalWatcher {
        LocalWatcher::new(&self.shared, key, range_end, revision)
    }

    /// Spawns work that continues after the client has disconnected.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(work);
        }
    }
}

/// Converts a refusal as etcd's inner client library does.
pub(super) fn unknown(error: impl Into<CallError>) -> CallError {
    let CallError(status) = error.into();
    match status.code {
        Code::DeadlineExceeded | Code::Canceled => CallError(status),
        // etcd closes the connection first, which clients see as unavailable, too: they use another
        // member.
        Code::Unavailable if status == Canonical::Stopped.into() => CallError(status),
        _ => CallError::new(Code::Unknown, status.message),
    }
}

/// A watch stream with one watcher.
pub(super) struct LocalWatcher {
    shared: Arc<Shared>,
    stream: watch::Stream,
    notify: StreamNotify,
    stopped: Pin<Box<dyn Future<Output = Status> + Send>>,
}

impl LocalWatcher {
    fn new(
        shared: &Arc<Shared>,
        key: Bytes,
        range_end: Bytes,
        start_revision: i64,
    ) -> LocalWatcher {
        let (stream, notify) = StreamNotify::open(&shared.server, Duration::ZERO);
        let request = watch::CreateRequest {
            key,
            range_end,
            start_revision,
            ..watch::CreateRequest::default()
        };
        // A new stream is never busy.
        let _ = stream.create(&request);
        let stopped = Box::pin(shared.transport.streams().stopped());
        LocalWatcher { shared: Arc::clone(shared), stream, notify, stopped }
    }

    /// Receives the next response with events.
    ///
    /// # Errors
    /// The next revision is compacted, or the member stops.
    pub(super) async fn next(&mut self) -> Result<watch::Response, CallError> {
        loop {
            match self.shared.server.next_watch_response(&mut self.stream) {
                Ok(Some(response)) if !response.events.is_empty() => return Ok(response),
                Ok(Some(response)) if response.canceled => return Err(compacted()),
                Ok(Some(_)) => continue,
                Ok(None) => {}
                Err(error) => return Err(CallError::unknown(&error)),
            }
            self.notified().await?;
        }
    }

    /// Waits until the stream may have a response.
    async fn notified(&mut self) -> Result<(), CallError> {
        tokio::select! {
            biased;
            () = self.notify.notified() => Ok(()),
            status = self.stopped.as_mut() => Err(unknown(status)),
        }
    }
}

fn compacted() -> CallError {
    unknown(Canonical::Compacted)
}

/// Returns the prefix of all keys of a lock or an election: `jobs/`.
pub(super) fn prefix(name: &[u8]) -> Bytes {
    [name, b"/"].concat().into()
}

/// Returns the key of a participant: `jobs/6b93a1e07271ba05`.
pub(super) fn key_of(prefix: &[u8], lease: i64) -> Bytes {
    let sign = if lease < 0 { "-" } else { "" };
    let number = format!("{sign}{:x}", lease.unsigned_abs());
    [prefix, number.as_bytes()].concat().into()
}

/// Creates a request for the key of the prefix that was created first.
pub(super) fn first_by_creation(prefix: &Bytes) -> pb::RangeRequest {
    pb::RangeRequest {
        key: prefix.clone(),
        range_end: end_of(prefix),
        limit: 1,
        sort_order: SortOrder::Ascend.into(),
        sort_target: SortTarget::Create.into(),
        ..pb::RangeRequest::default()
    }
}

/// Returns the end of the range of a prefix, which ends with a slash.
pub(super) fn end_of(prefix: &Bytes) -> Bytes {
    let mut end = prefix.to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end.into()
}

/// Decodes the keys of a range.
pub(super) fn key_values(result: &RangeResult) -> impl Iterator<Item = KeyValue> {
    // Stored keys are well-formed.
    result.kvs.iter().filter_map(|kv| KeyValue::decode(kv).ok())
}

/// Creates a comparison that a key was created at a revision; zero if it does not exist.
pub(super) fn created_at(key: &Bytes, revision: i64) -> pb::Compare {
    pb::Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Create.into(),
        key: key.clone(),
        target_union: Some(TargetUnion::CreateRevision(revision)),
        ..pb::Compare::default()
    }
}

pub(super) fn put(key: &Bytes, value: Bytes, lease: i64) -> pb::RequestOp {
    let put = pb::PutRequest { key: key.clone(), value, lease, ..pb::PutRequest::default() };
    pb::RequestOp { request: Some(Request::RequestPut(put)) }
}

pub(super) fn get(range: pb::RangeRequest) -> pb::RequestOp {
    pb::RequestOp { request: Some(Request::RequestRange(range)) }
}

pub(super) fn get_key(key: &Bytes) -> pb::RequestOp {
    get(pb::RangeRequest { key: key.clone(), ..pb::RangeRequest::default() })
}

/// Returns the first key in the result of an operation of a transaction.
pub(super) fn found(result: &TxnResult, operation: usize) -> Option<KeyValue> {
    match result.responses.get(operation)? {
        mvcc::OpResult::Range(range) => key_values(range).next(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_named_after_their_lease() {
        assert_eq!(key_of(&prefix(b"jobs"), 0x6b93_a1e0_7271_ba05), "jobs/6b93a1e07271ba05");
        assert_eq!(key_of(&prefix(b""), -1), "/-1");
        assert_eq!(end_of(&prefix(b"jobs")), "jobs0");
    }

    #[test]
    fn refusals_keep_their_text_but_not_their_code() {
        let CallError(refused) = unknown(Canonical::LeaseNotFound);
        assert_eq!(refused.code, Code::Unknown);
        assert_eq!(refused.message, "etcdserver: requested lease not found");
        let late = CallError(Status::DEADLINE_EXCEEDED);
        assert_eq!(unknown(late.clone()), late);
    }
}
