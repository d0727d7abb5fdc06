//! `v3electionpb.Election`: whoever has the oldest key below a name leads, and its value is what the leader proclaims.
//!
//! ```text
//!   Campaign "scheduler" "m1"   put scheduler/<lease> = m1 unless it is there, then wait until all before it are gone
//!   Leader   "scheduler"        the oldest key
//!   Proclaim key "m1 v2"        put, if the key is still the one that was created at `rev`
//!   Resign   key                delete, likewise
//!   Observe  "scheduler"        the oldest key; each value it takes; when it is deleted, the next oldest; ...
//! ```

use std::collections::VecDeque;

use bytes::Bytes;
use http::Response;
use mvcc::watch::{self, WatchedEvent};
use mvcc::{Event, EventKind};
use prost::Message as _;
use proto::etcdserverpb as pb;
use proto::etcdserverpb::request_op::Request;
use proto::mvccpb::KeyValue;
use proto::v3electionpb as epb;

use super::call::{Call, Context, Replies};
use super::message::RequestBody;
use super::recipe::{self, Client, Watching};
use super::rpc::Election;
use super::status::{Code, Status};
use crate::body::Body;

pub(super) async fn serve<B: RequestBody>(rpc: Election, call: Call<'_, B>) -> Response<Body> {
    match rpc {
        Election::Campaign => call.unary(campaign).await,
        Election::Proclaim => call.unary(proclaim).await,
        Election::Leader => call.unary(leader).await,
        Election::Observe => call.server_stream(false, observe).await,
        Election::Resign => call.unary(resign).await,
    }
}

/// Waits until the campaign is won.
async fn campaign(
    cx: Context,
    request: epb::CampaignRequest,
) -> Result<epb::CampaignResponse, Status> {
    let client = Client::new(&cx);
    let lease = client.lease(request.lease).await?;
    let prefix = recipe::prefix(&request.name);
    let key = recipe::key_of(&prefix, lease);
    let joined = client.txn(join(&key, &request.value, lease)).await?;
    let before = if joined.succeeded { None } else { recipe::found(&joined, 0) };
    let rev = before.as_ref().map_or(joined.revision, |kv| kv.create_revision);
    let mut candidacy = Candidacy { client: client.clone(), key: Some((key.clone(), rev)) };
    if before.is_some_and(|kv| kv.value != request.value) {
        let change = change(&key, rev, recipe::put(&key, request.value, lease));
        if !client.txn(change).await?.succeeded {
            return Err(not_leader());
        }
    }
    // Compat: as in etcd, what goes wrong while waiting leaves the key there; only whoever gives up takes it away.
    client.wait_deletes(&prefix, rev - 1).await.inspect_err(|_| candidacy.stays())?;
    candidacy.stays();
    let leader = Some(epb::LeaderKey { name: request.name, key, rev, lease });
    Ok(epb::CampaignResponse { header: client.header(joined.revision), leader })
}

/// Gives the leader's key another value.
async fn proclaim(
    cx: Context,
    request: epb::ProclaimRequest,
) -> Result<epb::ProclaimResponse, Status> {
    let epb::LeaderKey { key, rev, lease, .. } = request.leader.ok_or_else(missing_leader)?;
    let client = Client::new(&cx);
    let lease = client.lease(lease).await?;
    let change = change(&key, rev, recipe::put(&key, request.value, lease));
    let result = client.txn(change).await?;
    if !result.succeeded {
        return Err(not_leader());
    }
    Ok(epb::ProclaimResponse { header: client.header(result.revision) })
}

/// Who leads.
async fn leader(cx: Context, request: epb::LeaderRequest) -> Result<epb::LeaderResponse, Status> {
    let client = Client::new(&cx);
    let first = recipe::first_by_creation(&recipe::prefix(&request.name));
    let found = client.range(&first).await?;
    let kv = recipe::key_values(&found).next();
    let kv = kv.ok_or_else(|| Status::new(Code::Unknown, "election: no leader"))?;
    Ok(epb::LeaderResponse { header: client.header(found.revision), kv: Some(kv) })
}

/// Gives leadership, or the wish for it, up.
async fn resign(cx: Context, request: epb::ResignRequest) -> Result<epb::ResignResponse, Status> {
    let epb::LeaderKey { key, rev, lease, .. } = request.leader.ok_or_else(missing_leader)?;
    let client = Client::new(&cx);
    client.lease(lease).await?;
    let result = client.txn(withdrawal(&key, rev)).await?;
    Ok(epb::ResignResponse { header: client.header(result.revision) })
}

/// Takes part with a key and a value, unless this lease does already.
fn join(key: &Bytes, value: &Bytes, lease: i64) -> pb::TxnRequest {
    pb::TxnRequest {
        compare: vec![recipe::created_at(key, 0)],
        success: vec![recipe::put(key, value.clone(), lease)],
        failure: vec![recipe::get_key(key)],
    }
}

/// Does something if the key is still the one that was created at a revision.
fn change(key: &Bytes, rev: i64, operation: pb::RequestOp) -> pb::TxnRequest {
    pb::TxnRequest {
        compare: vec![recipe::created_at(key, rev)],
        success: vec![operation],
        failure: Vec::new(),
    }
}

fn withdrawal(key: &Bytes, rev: i64) -> pb::TxnRequest {
    let delete = pb::DeleteRangeRequest { key: key.clone(), ..pb::DeleteRangeRequest::default() };
    change(key, rev, pb::RequestOp { request: Some(Request::RequestDeleteRange(delete)) })
}

fn missing_leader() -> Status {
    Status::new(Code::Unknown, "\"leader\" field must be provided")
}

fn not_leader() -> Status {
    Status::new(Code::Unknown, "election: not leader")
}

/// A key that takes part, and is withdrawn when this is dropped: because nobody waits for the outcome any more.
struct Candidacy {
    client: Client,
    key: Option<(Bytes, i64)>,
}

impl Candidacy {
    fn stays(&mut self) {
        self.key = None;
    }
}

impl Drop for Candidacy {
    fn drop(&mut self) {
        let Some((key, rev)) = self.key.take() else { return };
        let client = self.client.clone();
        self.client.afterwards(async move {
            if let Err(error) = client.txn(withdrawal(&key, rev)).await {
                tracing::warn!(%error, "failed to withdraw a candidacy that nobody waits for");
            }
        });
    }
}

async fn observe(cx: Context, request: epb::LeaderRequest, replies: Replies) -> Result<(), Status> {
    let mut leaders = Observation::new(&cx, &request);
    while let Some(response) = leaders.next().await {
        replies.send(&response).await?;
    }
    Ok(())
}

/// The leaders of an election, one after the other, with each value that they proclaim.
struct Observation {
    client: Client,
    prefix: Bytes,
    /// The key of the leader, being watched.
    leader: Option<Watching>,
    /// What was heard and not yet told: at most what one response of a watch holds.
    heard: VecDeque<epb::LeaderResponse>,
}

impl Observation {
    fn new(cx: &Context, request: &epb::LeaderRequest) -> Observation {
        let client = Client::new(cx);
        let prefix = recipe::prefix(&request.name);
        Observation { client, prefix, leader: None, heard: VecDeque::new() }
    }

    /// The next leader, or the next thing that the leader says. None if it cannot be known: as in etcd, a stream then ends as if all were well.
    async fn next(&mut self) -> Option<epb::LeaderResponse> {
        while self.heard.is_empty() {
            match self.leader.as_mut() {
                Some(leader) => {
                    let heard = leader.next().await.ok()?;
                    self.listen(&heard);
                }
                None => self.look().await.ok()?,
            }
        }
        self.heard.pop_front()
    }

    /// Whatever the leader's key becomes is told, until it is deleted.
    fn listen(&mut self, heard: &watch::Response) {
        for WatchedEvent { event, .. } in &heard.events {
            if event.kind == EventKind::Delete {
                self.leader = None;
                return;
            }
            self.tell(heard.revision, key_value(event));
        }
    }

    /// Finds the leader, or waits for one.
    async fn look(&mut self) -> Result<(), Status> {
        let found = self.client.range(&recipe::first_by_creation(&self.prefix)).await?;
        let (revision, kv) = match recipe::key_values(&found).next() {
            Some(kv) => (found.revision, kv),
            None => self.first_put(found.revision).await?,
        };
        self.leader = Some(self.client.watch(kv.key.clone(), Bytes::new(), revision + 1));
        self.tell(revision, kv);
        Ok(())
    }

    /// The first key that is put below the prefix, and when.
    async fn first_put(&mut self, from: i64) -> Result<(i64, KeyValue), Status> {
        let mut all = self.client.watch(self.prefix.clone(), recipe::end_of(&self.prefix), from);
        loop {
            let heard = all.next().await?;
            let mut events = heard.events.iter().map(|event| &event.event);
            if let Some(put) = events.find(|event| event.kind == EventKind::Put) {
                return Ok((put.revision.main, key_value(put)));
            }
        }
    }

    fn tell(&mut self, revision: i64, kv: KeyValue) {
        let header = self.client.header(revision);
        self.heard.push_back(epb::LeaderResponse { header, kv: Some(kv) });
    }
}

/// What is stored can be read, or there would be no event of it.
fn key_value(event: &Event) -> KeyValue {
    KeyValue::decode(&event.kv[..]).unwrap_or_default()
}
