//! Linearizable reads from memory: `--experimental-leasing-prefix`.
//!
//! A proxy that owns a key answers reads of it alone, because every other writer revokes the key
//! first. The owner is named by a leasing key: the prefix and the key, attached to a lease of the
//! proxy. With the prefix `l/`:
//!
//! ```text
//!   proxy A                          member                              proxy B
//!   get k   if l/k is absent:
//!           get k, put l/k ────────► l/k = ""        lease of A
//!   get k   from memory
//!   get k   from memory                                                  put k
//!                                    l/k = "REVOKE"  ◄─── if l/k is absent: put k;
//!           forget k  ◄───────────── event                else revoke it
//!           delete l/k ────────────► l/k is deleted ────► event
//!                                    k is put       ◄──── if l/k is absent: put k
//! ```
//!
//! A write of the owner is conditional on its own leasing key, and its result replaces the copy in
//! memory; reads meanwhile go to a member. A transaction that only reads owned keys is evaluated
//! in memory.
//!
//! | module | contents |
//! | --- | --- |
//! | [`keys`] | the state of every key: acquiring, owned, releasing. Decides, and does no I/O |
//! | [`evaluate`] | ranges and transactions from memory |
//! | [`requests`] | the transactions of the protocol, which etcd's leasing clients speak too |
//! | [`session`] | the lease of this proxy, the watch of leasing keys, the release of keys |
//! | [`write`](mod@write), [`revoke`] | writes, and revoking the keys of other owners |
//!
//! Invariants: a key is answered from memory only while its leasing key exists, which the lease
//! guarantees until a time that is computed from the moment its last renewal was *sent*; a copy is
//! never kept across a write whose result is unknown; keys attached to a lease are not owned,
//! since they disappear without a write; the number of keys and their bytes are bounded.
//!
//! Writes that do not follow the protocol are not noticed, as in etcd: those of clients that talk
//! to a member directly, and those that a member makes for the services Lock and Election.

mod evaluate;
mod keys;
mod requests;
mod revoke;
mod session;
mod watching;
mod write;

use std::sync::Arc;

use bytes::Bytes;
use grpc::Status;
use http::HeaderMap;
use proto::etcdserverpb::response_op::Response;
use proto::etcdserverpb::{
    RangeRequest, RangeResponse, ResponseHeader, ResponseOp, TxnRequest, TxnResponse,
};
use proto::mvccpb::KeyValue;
use proto::nested::NestedTxn;

use crate::namespace::Namespace;
use crate::upstream::{Upstream, from_tonic};
use crate::watch::Watches;

use keys::{AcquireTicket, Lookup, OwnedKeys};
use requests::{LeasingKeys, REVOKE};

/// The part of a proxy that owns keys. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Leasing {
    shared: Arc<LeasingState>,
}

#[derive(Debug)]
struct LeasingState {
    leasing_keys: LeasingKeys,
    keys: Arc<OwnedKeys>,
    members: Members,
    watches: Watches,
}

/// Requests to members, with keys as clients of the proxy name them.
#[derive(Debug)]
struct Members {
    upstream: Upstream,
    namespace: Namespace,
}

impl Leasing {
    /// Starts the task that keeps a session.
    pub(crate) fn start(
        prefix: &str,
        upstream: Upstream,
        namespace: Namespace,
        watches: Watches,
    ) -> Leasing {
        let shared = Arc::new(LeasingState {
            leasing_keys: LeasingKeys::new(prefix),
            keys: Arc::default(),
            members: Members { upstream, namespace },
            watches,
        });
        tokio::spawn(session::keep(Arc::clone(&shared)));
        Leasing { shared }
    }

    /// Reads a key from memory, or from a member while acquiring it. Returns none if the request
    /// has to be passed on.
    pub(crate) async fn range(
        &self,
        metadata: &HeaderMap,
        request: &RangeRequest,
    ) -> Option<RangeResponse> {
        let LeasingState { keys, leasing_keys, .. } = &*self.shared;
        if !evaluate::is_answerable(request) || leasing_keys.contain(&request.key) {
            return None;
        }
        match keys.lookup(&request.key, !request.serializable) {
            Lookup::Owned(kv, header) => Some(evaluate::answer(kv.as_ref(), request, header)),
            Lookup::Free(ticket) => self.shared.acquire(metadata, request, ticket).await,
            Lookup::PassOn => None,
        }
    }

    /// Evaluates a transaction in memory. Returns none if it has to be sent to a member.
    pub(crate) fn evaluate(&self, request: &TxnRequest) -> Option<TxnResponse> {
        self.shared.keys.view(|view| evaluate::transaction(request, view))
    }

    /// Records the revision in a member's response header. Answers from memory are not older.
    pub(crate) fn record_revision(&self, header: &ResponseHeader) {
        self.shared.keys.record_revision(header);
    }

    /// Forgets all keys, because they may be readable by fewer users from now on.
    pub(crate) fn forget(&self) {
        self.shared.keys.end_session();
    }
}

impl LeasingState {
    /// Acquires a key and reads it, in one transaction. Returns none if that fails: the plain read
    /// that follows has the answer for the client.
    async fn acquire(
        &self,
        metadata: &HeaderMap,
        request: &RangeRequest,
        ticket: AcquireTicket,
    ) -> Option<RangeResponse> {
        let acquire = self.leasing_keys.acquire(&request.key, ticket.lease());
        let response = match self.members.txn(metadata, acquire).await {
            Ok(response) => response,
            Err(status) => {
                tracing::debug!(%status, "failed to acquire a leasing key");
                // Dropping the ticket releases the key, which may have been acquired.
                return None;
            }
        };
        let (kv, header) = settle(ticket, response);
        self.keys.record_revision(&header);
        Some(evaluate::answer(kv.as_ref(), request, header))
    }
}

/// Ends an attempt to acquire a key. Returns the key that was read, and the header.
fn settle(ticket: AcquireTicket, response: TxnResponse) -> (Option<KeyValue>, ResponseHeader) {
    let header = response.header.unwrap_or_default();
    let mut results = response.responses.into_iter();
    let kv = results.next().and_then(only_key);
    if response.succeeded {
        ticket.acquired(header.revision, kv.clone(), header.revision);
        return (kv, header);
    }
    let leasing_key = results.next().and_then(only_key);
    match leasing_key.filter(|leasing_key| leasing_key.lease == ticket.lease()) {
        // An earlier attempt has acquired it, and its answer was lost.
        Some(own) if own.value != REVOKE => {
            ticket.acquired(own.create_revision, kv.clone(), header.revision);
        }
        // Dropping the ticket releases the key.
        Some(_) => {}
        None => ticket.refused(),
    }
    (kv, header)
}

impl Members {
    async fn txn(&self, metadata: &HeaderMap, mut txn: TxnRequest) -> Result<TxnResponse, Status> {
        self.namespace.txn(&mut txn);
        let sent = self.upstream.request(NestedTxn(txn), metadata).map_err(from_tonic)?;
        let mut response = self.upstream.txn(sent).await.map_err(from_tonic)?;
        self.namespace.txn_response(&mut response);
        Ok(response)
    }

    async fn range(
        &self,
        metadata: &HeaderMap,
        mut request: RangeRequest,
    ) -> Result<RangeResponse, Status> {
        self.namespace.range(&mut request);
        let read = async || {
            let sent = self.upstream.request(request.clone(), metadata).map_err(from_tonic)?;
            self.upstream.kv().range(sent).await.map_err(from_tonic)
        };
        let mut response = self.upstream.retry_read(read).await?.into_inner();
        self.namespace.range_response(&mut response);
        Ok(response)
    }
}

/// Returns the key that an operation of a transaction has read.
fn only_key(op: ResponseOp) -> Option<KeyValue> {
    match op.response {
        Some(Response::ResponseRange(range)) => range.kvs.into_iter().next(),
        _ => None,
    }
}

/// A key, or the range from a key to an end, as in requests.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyRange {
    key: Bytes,
    end: Bytes,
}

#[cfg(test)]
mod tests;
