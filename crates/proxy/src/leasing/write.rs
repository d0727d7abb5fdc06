//! Writes: a put, a deletion, or a transaction, guarded by the leasing keys of all keys that it may
//! write.
//!
//! ```text
//!   delete [a, c) ─► have all leasing keys in [l/a, l/c) released ──┐
//!   put k ──────────────────────────────────────────────────────────┴─► if all keys are owned
//!        ▲                                                              as expected: write
//!        │                                                                │           │
//!        └── have the keys of other owners released ◄── nothing written ──┘           ▼
//!                                                          keep the new state of owned keys
//! ```
//!
//! A write is sent once: only one that was certainly not executed is repeated. One whose response
//! may be long takes a permit to receive it when no other owner is in its way: owners may take up
//! to the TTL of their lease to release a key, and permits are few.

use std::collections::BTreeSet;

use bytes::Bytes;
use grpc::{Code, Status};
use http::HeaderMap;
use net::SendBudget;
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::response_op::Response;
use proto::etcdserverpb::{
    DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse, RequestOp, ResponseHeader,
    TxnRequest, TxnResponse,
};
use proto::mvccpb::KeyValue;

use super::keys::WriteTicket;
use super::requests::{GuardedKey, LeasingKeys};
use super::{KeyRange, Leasing, LeasingState, only_key};
use crate::context::has_token;

/// The most owned keys that are read back after a write. Further ones are released.
const READ_BACK_MAX: usize = 16;

impl Leasing {
    /// Puts a key.
    pub(crate) async fn put(
        &self,
        metadata: &HeaderMap,
        request: PutRequest,
    ) -> Result<PutResponse, Status> {
        match self.write(metadata, Request::RequestPut(request), None).await? {
            (header, Response::ResponsePut(put)) => Ok(PutResponse { header: Some(header), ..put }),
            _ => Err(unexpected()),
        }
    }

    /// Deletes a range. `long_response` is the budget of the client if the response may be long.
    pub(crate) async fn delete_range(
        &self,
        metadata: &HeaderMap,
        request: DeleteRangeRequest,
        long_response: Option<&SendBudget>,
    ) -> Result<DeleteRangeResponse, Status> {
        let request = Request::RequestDeleteRange(request);
        match self.write(metadata, request, long_response).await? {
            (header, Response::ResponseDeleteRange(deleted)) => {
                Ok(DeleteRangeResponse { header: Some(header), ..deleted })
            }
            _ => Err(unexpected()),
        }
    }

    /// Runs a transaction at a member. `long_response` is the budget of the client if the response
    /// may be long.
    pub(crate) async fn txn(
        &self,
        metadata: &HeaderMap,
        request: TxnRequest,
        long_response: Option<&SendBudget>,
    ) -> Result<TxnResponse, Status> {
        let request = Request::RequestTxn(request);
        match self.write(metadata, request, long_response).await? {
            (header, Response::ResponseTxn(txn)) => Ok(TxnResponse { header: Some(header), ..txn }),
            _ => Err(unexpected()),
        }
    }

    async fn write(
        &self,
        metadata: &HeaderMap,
        write: Request,
        long_response: Option<&SendBudget>,
    ) -> Result<(ResponseHeader, Response), Status> {
        let targets = WriteTargets::of(&write);
        let write = RequestOp { request: Some(write) };
        self.shared.write(metadata, write, &targets, long_response).await
    }
}

impl LeasingState {
    async fn write(
        &self,
        metadata: &HeaderMap,
        write: RequestOp,
        targets: &WriteTargets,
        long_response: Option<&SendBudget>,
    ) -> Result<(ResponseHeader, Response), Status> {
        loop {
            for range in &targets.ranges {
                self.revoke_range(metadata, range).await?;
            }
            // A user may be allowed to write a key, and not to read it back. Such a write
            // revokes the key from this proxy as from any other owner.
            let owned = if has_token(metadata) { &[] } else { &targets.keys[..] };
            let send = async {
                let ticket = self.keys.begin_write(owned);
                let txn = guarded(&self.leasing_keys, write.clone(), targets, &ticket);
                // An error drops the ticket, and so the keys that it names.
                Ok((self.members.txn(metadata, txn).await?, ticket))
            };
            let (response, ticket) = self.members.upstream.send_once(long_response, send).await?;
            let header = response.header.unwrap_or_default();
            self.keys.record_revision(&header);
            if response.succeeded {
                return finish(response, header, ticket);
            }
            let others = refuse(&self.leasing_keys, response, ticket);
            self.revoke_all(metadata, &others, header.revision).await?;
        }
    }
}

/// Returns the transaction of a write.
pub(super) fn guarded(
    leasing_keys: &LeasingKeys,
    write: RequestOp,
    targets: &WriteTargets,
    ticket: &WriteTicket,
) -> TxnRequest {
    let guard = |key: &Bytes| GuardedKey { key: key.clone(), owned_since: ticket.owned_since(key) };
    let keys: Vec<GuardedKey> = targets.keys.iter().map(guard).collect();
    let owned = ticket.owned().iter().take(READ_BACK_MAX);
    let read_back: Vec<Bytes> = owned.map(|(key, _)| key.clone()).collect();
    leasing_keys.guarded(write, &keys, &targets.ranges, &read_back)
}

/// Ends a write that was not executed. Returns the leasing keys that were in its way.
pub(super) fn refuse(
    leasing_keys: &LeasingKeys,
    response: TxnResponse,
    ticket: WriteTicket,
) -> Vec<KeyValue> {
    let found: Vec<KeyValue> = response.responses.into_iter().filter_map(only_key).collect();
    let is_own = |kv: &KeyValue| {
        let key = leasing_keys.owned_by(&kv.key).unwrap_or_default();
        ticket.owned_since(&key) == kv.create_revision
    };
    let others = found.iter().filter(|kv| !is_own(kv)).cloned().collect();
    ticket.refused(|key, since| {
        let key = leasing_keys.of(key);
        found.iter().any(|kv| kv.key == key && kv.create_revision == since)
    });
    others
}

/// Ends a write that was executed. Returns its own response.
pub(super) fn finish(
    response: TxnResponse,
    header: ResponseHeader,
    ticket: WriteTicket,
) -> Result<(ResponseHeader, Response), Status> {
    let mut responses = response.responses.into_iter();
    let written = responses.next().and_then(|op| op.response);
    ticket.written(responses.map(only_key), header.revision);
    written.map(|written| (header, written)).ok_or_else(unexpected)
}

fn unexpected() -> Status {
    Status::new(Code::Internal, "a member has answered with a response of another kind")
}

/// The keys that a request may write.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WriteTargets {
    /// Single keys, each once.
    keys: Vec<Bytes>,
    ranges: Vec<KeyRange>,
}

impl WriteTargets {
    /// Collects the keys of a request, of both branches of transactions at every depth.
    pub(super) fn of(request: &Request) -> WriteTargets {
        let (mut keys, mut ranges) = (BTreeSet::new(), Vec::new());
        // A stack of our own: transactions may be nested deeper than the stack of a thread allows.
        let mut pending = vec![request];
        while let Some(request) = pending.pop() {
            match request {
                Request::RequestPut(put) => {
                    keys.insert(put.key.clone());
                }
                Request::RequestDeleteRange(delete) if delete.range_end.is_empty() => {
                    keys.insert(delete.key.clone());
                }
                Request::RequestDeleteRange(delete) => {
                    ranges
                        .push(KeyRange { key: delete.key.clone(), end: delete.range_end.clone() });
                }
                Request::RequestTxn(txn) => {
                    let ops = txn.success.iter().chain(&txn.failure);
                    pending.extend(ops.filter_map(|op| op.request.as_ref()));
                }
                Request::RequestRange(_) => {}
            }
        }
        WriteTargets { keys: keys.into_iter().collect(), ranges }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(request: Request) -> RequestOp {
        RequestOp { request: Some(request) }
    }

    fn put(key: &'static str) -> Request {
        Request::RequestPut(PutRequest { key: key.into(), ..PutRequest::default() })
    }

    fn delete(key: &'static str, range_end: &'static str) -> Request {
        let (key, range_end) = (key.into(), range_end.into());
        Request::RequestDeleteRange(DeleteRangeRequest { key, range_end, prev_kv: false })
    }

    #[test]
    fn the_keys_of_both_branches_are_guarded_at_every_depth() {
        let inner = TxnRequest {
            success: vec![op(put("c"))],
            failure: vec![op(delete("x", "z"))],
            ..TxnRequest::default()
        };
        let txn = Request::RequestTxn(TxnRequest {
            success: vec![op(put("a")), op(Request::RequestTxn(inner))],
            failure: vec![op(put("a")), op(delete("b", ""))],
            ..TxnRequest::default()
        });
        let targets = WriteTargets::of(&txn);
        assert_eq!(targets.keys, ["a", "b", "c"]);
        assert_eq!(targets.ranges, [KeyRange { key: "x".into(), end: "z".into() }]);
    }
}
