//! `v3electionpb.Election`: the lease with the oldest key of a prefix leads; its value is
//! proclaimed.
//!
//! ```text
//!   Campaign "scheduler" "m1"   put scheduler/<lease> = m1 unless it exists, then wait until all
//!                               older keys are deleted
//!   Leader   "scheduler"        read the oldest key
//!   Proclaim key "m1 v2"        put, if the key was created at `rev`
//!   Resign   key                delete, if the key was created at `rev`
//!   Observe  "scheduler"        send each value of the oldest key; after its deletion, of the next
//! ```

use std::collections::VecDeque;

use bytes::Bytes;
use grpc::{Code, RequestBody};
use mvcc::watch::{self, WatchedEvent};
use mvcc::{Event, EventKind};
use prost::Message as _;
use proto::etcdserverpb as pb;
use proto::etcdserverpb::request_op::Request;
use proto::mvccpb::KeyValue;
use proto::v3electionpb as epb;

use super::recipes::{self, LocalClient, LocalWatcher};
use crate::body::GrpcResponse;
use crate::context::{Call, Context, Replies};
use crate::errors::CallError;
use crate::interceptor;
use crate::methods::Election;

pub(super) fn serve<B: RequestBody>(rpc: Election, call: Call<'_, B>) -> GrpcResponse<'_> {
    match rpc {
        Election::Campaign => call.unary(interceptor::unary, campaign),
        Election::Proclaim => call.unary(interceptor::unary, proclaim),
        Election::Leader => call.unary(interceptor::unary, leader),
        Election::Observe => call.server_stream(interceptor::stream, observe),
        Election::Resign => call.unary(interceptor::unary, resign),
    }
}

/// Waits until the caller is elected.
async fn campaign(
    cx: Context,
    request: epb::CampaignRequest,
) -> Result<epb::CampaignResponse, CallError> {
    let client = LocalClient::new(&cx);
    let lease = client.lease(request.lease).await?;
    let prefix = recipes::prefix(&request.name);
    let key = recipes::key_of(&prefix, lease);
    let joined = client.txn(join(&key, &request.value, lease)).await?;
    let before = if joined.succeeded { None } else { recipes::found(&joined, 0) };
    let rev = before.as_ref().map_or(joined.revision, |kv| kv.create_revision);
    let mut candidacy = Candidacy { client: client.clone(), key: Some((key.clone(), rev)) };
    if before.is_some_and(|kv| kv.value != request.value) {
        let change = change(&key, rev, recipes::put(&key, request.value, lease));
        if !client.txn(change).await?.succeeded {
            return Err(not_leader());
        }
    }
    // Compat: as in etcd, a failure while waiting leaves the key in place; only a cancellation
    // deletes it.
    client.wait_deletes(&prefix, rev - 1).await.inspect_err(|_| candidacy.keep())?;
    candidacy.keep();
    let leader = Some(epb::LeaderKey { name: request.name, key, rev, lease });
    Ok(epb::CampaignResponse { header: client.header(joined.revision), leader })
}

/// Changes the value of the leader's key.
async fn proclaim(
    cx: Context,
    request: epb::ProclaimRequest,
) -> Result<epb::ProclaimResponse, CallError> {
    let epb::LeaderKey { key, rev, lease, .. } = request.leader.ok_or_else(missing_leader)?;
    let client = LocalClient::new(&cx);
    let lease = client.lease(lease).await?;
    let change = change(&key, rev, recipes::put(&key, request.value, lease));
    let result = client.txn(change).await?;
    if !result.succeeded {
        return Err(not_leader());
    }
    Ok(epb::ProclaimResponse { header: client.header(result.revision) })
}

/// Returns the key of the leader.
async fn leader(
    cx: Context,
    request: epb::LeaderRequest,
) -> Result<epb::LeaderResponse, CallError> {
    let client = LocalClient::new(&cx);
    let first = recipes::first_by_creation(&recipes::prefix(&request.name));
    let found = client.range(&first).await?;
    let kv = recipes::key_values(&found).next();
    let kv = kv.ok_or_else(|| CallError::new(Code::Unknown, "election: no leader"))?;
    Ok(epb::LeaderResponse { header: client.header(found.revision), kv: Some(kv) })
}

/// Gives up leadership, or a candidacy.
async fn resign(
    cx: Context,
    request: epb::ResignRequest,
) -> Result<epb::ResignResponse, CallError> {
    let epb::LeaderKey { key, rev, lease, .. } = request.leader.ok_or_else(missing_leader)?;
    let client = LocalClient::new(&cx);
    client.lease(lease).await?;
    let result = client.txn(withdrawal(&key, rev)).await?;
    Ok(epb::ResignResponse { header: client.header(result.revision) })
}

/// Creates a transaction that puts the key of a candidate, unless it exists.
fn join(key: &Bytes, value: &Bytes, lease: i64) -> pb::TxnRequest {
    pb::TxnRequest {
        compare: vec![recipes::created_at(key, 0)],
        success: vec![recipes::put(key, value.clone(), lease)],
        failure: vec![recipes::get_key(key)],
    }
}

/// Creates a transaction with one operation, if the key was created at a revision.
fn change(key: &Bytes, rev: i64, operation: pb::RequestOp) -> pb::TxnRequest {
    pb::TxnRequest {
        compare: vec![recipes::created_at(key, rev)],
        success: vec![operation],
        failure: Vec::new(),
    }
}

fn withdrawal(key: &Bytes, rev: i64) -> pb::TxnRequest {
    let delete = pb::DeleteRangeRequest { key: key.clone(), ..pb::DeleteRangeRequest::default() };
    change(key, rev, pb::RequestOp { request: Some(Request::RequestDeleteRange(delete)) })
}

fn missing_leader() -> CallError {
    CallError::new(Code::Unknown, "\"leader\" field must be provided")
}

fn not_leader() -> CallError {
    CallError::new(Code::Unknown, "election: not leader")
}

/// The key of a candidate, deleted on drop: when the call was canceled.
struct Candidacy {
    client: LocalClient,
    key: Option<(Bytes, i64)>,
}

impl Candidacy {
    fn keep(&mut self) {
        self.key = None;
    }
}

impl Drop for Candidacy {
    fn drop(&mut self) {
        let Some((key, rev)) = self.key.take() else { return };
        let client = self.client.clone();
        self.client.spawn(async move {
            if let Err(CallError(error)) = client.txn(withdrawal(&key, rev)).await {
                tracing::warn!(%error, "failed to delete the key of a canceled campaign");
            }
        });
    }
}

async fn observe(
    cx: Context,
    request: epb::LeaderRequest,
    replies: Replies,
) -> Result<(), CallError> {
    let mut leaders = LeaderObserver::new(&cx, &request);
    while let Some(response) = leaders.next().await {
        replies.send(&response).await?;
    }
    Ok(())
}

/// Follows the leaders of an election, with each value that they proclaim.
struct LeaderObserver {
    client: LocalClient,
    prefix: Bytes,
    /// A watcher of the leader's key.
    leader: Option<LocalWatcher>,
    /// Responses that are not yet sent: at most those of one watch response.
    pending: VecDeque<epb::LeaderResponse>,
}

impl LeaderObserver {
    fn new(cx: &Context, request: &epb::LeaderRequest) -> LeaderObserver {
        let client = LocalClient::new(cx);
        let prefix = recipes::prefix(&request.name);
        LeaderObserver { client, prefix, leader: None, pending: VecDeque::new() }
    }

    /// Returns the next leader, or its next value; none after an error. Compat: as in etcd, the
    /// stream then ends without an error.
    async fn next(&mut self) -> Option<epb::LeaderResponse> {
        while self.pending.is_empty() {
            match self.leader.as_mut() {
                Some(leader) => {
                    let response = leader.next().await.ok()?;
                    self.add_events(&response);
                }
                None => self.find_leader().await.ok()?,
            }
        }
        self.pending.pop_front()
    }

    /// Adds the values of the leader's key, until it is deleted.
    fn add_events(&mut self, response: &watch::Response) {
        for WatchedEvent { event, .. } in &response.events {
            if event.kind == EventKind::Delete {
                self.leader = None;
                return;
            }
            self.add(response.revision, key_value(event));
        }
    }

    /// Finds the leader, or waits for one.
    async fn find_leader(&mut self) -> Result<(), CallError> {
        let found = self.client.range(&recipes::first_by_creation(&self.prefix)).await?;
        let (revision, kv) = match recipes::key_values(&found).next() {
            Some(kv) => (found.revision, kv),
            None => self.first_put(found.revision).await?,
        };
        self.leader = Some(self.client.watch(kv.key.clone(), Bytes::new(), revision + 1));
        self.add(revision, kv);
        Ok(())
    }

    /// Waits for the first put below the prefix. Returns its revision and key.
    async fn first_put(&mut self, from: i64) -> Result<(i64, KeyValue), CallError> {
        let mut all = self.client.watch(self.prefix.clone(), recipes::end_of(&self.prefix), from);
        loop {
            let response = all.next().await?;
            let mut events = response.events.iter().map(|event| &event.event);
            if let Some(put) = events.find(|event| event.kind == EventKind::Put) {
                return Ok((put.revision.main, key_value(put)));
            }
        }
    }

    fn add(&mut self, revision: i64, kv: KeyValue) {
        let header = self.client.header(revision);
        self.pending.push_back(epb::LeaderResponse { header, kv: Some(kv) });
    }
}

/// Decodes the key of an event, which is well-formed.
fn key_value(event: &Event) -> KeyValue {
    KeyValue::decode(&event.kv[..]).unwrap_or_default()
}
