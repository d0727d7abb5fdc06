//! What locks and elections are made of: a client of this very member, in the name of whoever asks.
//!
//! etcd runs its client library inside the server for these two services. So do we, in what it amounts to: transactions, ranges, leases and watches of
//! the member itself, by the same ways and under the same checks as if they had come over the network.
//!
//! ```text
//!   lock "jobs"      jobs/6b93a1e07271ba05   created at 12    holds it
//!                    jobs/6b93a1e07271ba0b   created at 15    waits until the one before it, created last, is deleted
//!                         lease, in hexadecimal
//! ```
//!
//! Compat: as in etcd, what is refused comes back as `Unknown` with etcd's text, whatever its code would be elsewhere; only deadlines keep theirs.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use membership::quota;
use mvcc::{RangeResult, TxnResult, watch};
use net::SendBudget;
use prost::Message as _;
use proto::etcdserverpb as pb;
use proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use proto::etcdserverpb::range_request::{SortOrder, SortTarget};
use proto::etcdserverpb::request_op::Request;
use proto::mvccpb::KeyValue;
use server::{Credentials, Server};

use super::Shared;
use super::bell::Bell;
use super::call::Context;
use super::errors::Canonical;
use super::kv;
use super::status::{Code, Status};

/// How long a lease lives that was made because none was given. Nobody renews it but the client.
const SESSION_TTL: i64 = 60;

/// A client of this member.
#[derive(Clone, Debug)]
pub(super) struct Client {
    shared: Arc<Shared>,
    who: Credentials,
    unsent: Arc<SendBudget>,
}

impl Client {
    pub(super) fn new(cx: &Context) -> Client {
        let (shared, unsent) = (Arc::clone(cx.shared()), Arc::clone(&cx.unsent));
        Client { shared, who: cx.who.clone(), unsent }
    }

    fn server(&self) -> &Server {
        &self.shared.server
    }

    /// The header of an answer that was made at a revision.
    pub(super) fn header(&self, revision: i64) -> Option<pb::ResponseHeader> {
        Some(self.server().header(revision))
    }

    /// The lease that was given, or a new one.
    pub(super) async fn lease(&self, given: i64) -> Result<i64, Status> {
        if given != 0 {
            return Ok(given);
        }
        self.server().check_quota(quota::LEASE_GRANT).await.map_err(unknown)?;
        let request = pb::LeaseGrantRequest { ttl: SESSION_TTL, id: 0 };
        let granted = self.server().lease_grant(&self.who, request).await.map_err(unknown)?;
        Ok(granted.id)
    }

    /// A transaction that writes.
    pub(super) async fn txn(&self, request: pb::TxnRequest) -> Result<TxnResult, Status> {
        self.server().check_quota(quota::txn(&request)).await.map_err(unknown)?;
        mvcc::check::txn(&request, self.server().config().max_txn_ops).map_err(unknown)?;
        self.server().txn(&self.who, request).await.map_err(unknown)
    }

    /// A linearizable range. What is asked for is one key, but all below a name may have to be looked at to find it.
    pub(super) async fn range(&self, request: &pb::RangeRequest) -> Result<RangeResult, Status> {
        mvcc::check::range(request).map_err(unknown)?;
        let reading = self.server().read_range(&self.who, request).await.map_err(unknown)?;
        if kv::is_short(self.server(), request) {
            return reading.range(request).map_err(unknown);
        }
        let request = request.clone();
        let aside = move || reading.range(&request).map_err(unknown);
        self.shared.heavy.run(&self.unsent, aside).await
    }

    /// Deletes a key. Returns the revision after that.
    pub(super) async fn delete(&self, key: Bytes) -> Result<i64, Status> {
        let request = pb::DeleteRangeRequest { key, ..pb::DeleteRangeRequest::default() };
        mvcc::check::delete_range(&request).map_err(unknown)?;
        let deleted = self.server().delete_range(&self.who, request).await.map_err(unknown)?;
        Ok(deleted.revision)
    }

    /// Returns once there is no key below the prefix any more that was created at the revision or before.
    pub(super) async fn wait_deletes(
        &self,
        prefix: &Bytes,
        created_max: i64,
    ) -> Result<(), Status> {
        let mut last = first_by_creation(prefix);
        last.set_sort_order(SortOrder::Descend);
        last.max_create_revision = created_max;
        loop {
            let found = self.range(&last).await?;
            let Some(kv) = key_values(&found).next() else { return Ok(()) };
            self.wait_delete(kv.key, found.revision).await?;
        }
    }

    /// Returns once a key was deleted at the revision or behind it.
    async fn wait_delete(&self, key: Bytes, revision: i64) -> Result<(), Status> {
        let mut watching = self.watch(key, Bytes::new(), revision);
        loop {
            let heard = watching.next().await?;
            if heard.events.iter().any(|event| event.event.kind == mvcc::EventKind::Delete) {
                return Ok(());
            }
        }
    }

    /// Watches keys that the caller has just read: so whether they may, has been asked.
    pub(super) fn watch(&self, key: Bytes, range_end: Bytes, revision: i64) -> Watching {
        Watching::new(&self.shared, key, range_end, revision)
    }

    /// Does something even if whoever asked has gone.
    pub(super) fn afterwards(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(work);
        }
    }
}

/// A refusal, as the client library within etcd passes it on.
pub(super) fn unknown(error: impl Into<Status>) -> Status {
    let status = error.into();
    match status.code {
        Code::DeadlineExceeded | Code::Canceled => status,
        // In etcd the connection is cut first, and that is unavailable too: the client asks another member.
        Code::Unavailable if status == Canonical::Stopped.into() => status,
        _ => Status::new(Code::Unknown, status.message),
    }
}

/// A watcher of its own.
pub(super) struct Watching {
    shared: Arc<Shared>,
    stream: watch::Stream,
    bell: Bell,
    stopped: Pin<Box<dyn Future<Output = Status> + Send>>,
}

impl Watching {
    fn new(shared: &Arc<Shared>, key: Bytes, range_end: Bytes, start_revision: i64) -> Watching {
        let (stream, bell) = Bell::hang(&shared.server, Duration::ZERO);
        let request = watch::CreateRequest {
            key,
            range_end,
            start_revision,
            ..watch::CreateRequest::default()
        };
        // The first request of a stream is always taken.
        let _ = stream.create(&request);
        let stopped = Box::pin(shared.ends.wait());
        Watching { shared: Arc::clone(shared), stream, bell, stopped }
    }

    /// What happened next: responses with events.
    ///
    /// # Errors
    /// What would come next is compacted, or the member stops.
    pub(super) async fn next(&mut self) -> Result<watch::Response, Status> {
        loop {
            let state = self.shared.server.state();
            match self.stream.next(&state.store) {
                Ok(Some(response)) if !response.events.is_empty() => return Ok(response),
                Ok(Some(response)) if response.canceled => return Err(compacted()),
                Ok(Some(_)) => continue,
                Ok(None) => drop(state),
                Err(error) => return Err(Status::unknown(&error)),
            }
            self.rung().await?;
        }
    }

    /// Returns when there may be something to read.
    async fn rung(&mut self) -> Result<(), Status> {
        tokio::select! {
            biased;
            () = self.bell.rung() => Ok(()),
            status = self.stopped.as_mut() => Err(unknown(status)),
        }
    }
}

fn compacted() -> Status {
    unknown(Canonical::Compacted)
}

/// `jobs/`: what all keys of a lock or an election begin with.
pub(super) fn prefix(name: &[u8]) -> Bytes {
    [name, b"/"].concat().into()
}

/// `jobs/6b93a1e07271ba05`: the key of one who takes part.
pub(super) fn key_of(prefix: &[u8], lease: i64) -> Bytes {
    let sign = if lease < 0 { "-" } else { "" };
    let number = format!("{sign}{:x}", lease.unsigned_abs());
    [prefix, number.as_bytes()].concat().into()
}

/// The key below a prefix that was created first.
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

/// The first key behind all that begin with a prefix. It ends with a slash, so there is one.
pub(super) fn end_of(prefix: &Bytes) -> Bytes {
    let mut end = prefix.to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end.into()
}

/// Keys as messages.
pub(super) fn key_values(result: &RangeResult) -> impl Iterator<Item = KeyValue> {
    // What is stored can be read, or it would not have been found.
    result.kvs.iter().filter_map(|kv| KeyValue::decode(kv).ok())
}

/// Whether a key was created at a revision; at none for zero.
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

/// The first key that an operation of a transaction found.
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
    fn keys_are_named_by_their_lease() {
        assert_eq!(key_of(&prefix(b"jobs"), 0x6b93_a1e0_7271_ba05), "jobs/6b93a1e07271ba05");
        assert_eq!(key_of(&prefix(b""), -1), "/-1");
        assert_eq!(end_of(&prefix(b"jobs")), "jobs0");
    }

    #[test]
    fn refusals_keep_their_text_alone() {
        let refused = unknown(Canonical::LeaseNotFound);
        assert_eq!(refused.code, Code::Unknown);
        assert_eq!(refused.message, "etcdserver: requested lease not found");
        assert_eq!(unknown(Status::DEADLINE_EXCEEDED), Status::DEADLINE_EXCEEDED);
    }
}
