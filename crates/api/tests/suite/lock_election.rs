//! `Lock` and `Election` through the generated clients.

use bytes::Bytes;
use proto::etcdserverpb as pb;
use proto::mvccpb::Event;
use proto::mvccpb::event::EventType;
use proto::v3electionpb as epb;
use proto::v3lockpb::{LockRequest, LockResponse, UnlockRequest};
use rpc::etcdserverpb::kv_client::KvClient;
use rpc::etcdserverpb::lease_client::LeaseClient;
use rpc::etcdserverpb::watch_client::WatchClient;
use rpc::v3electionpb::election_client::ElectionClient;
use rpc::v3lockpb::lock_client::LockClient;
use testkit::waiting::{yield_until, yield_until_async};
use tokio::task::JoinHandle;
use tonic::{Code, Status, Streaming};

use crate::support::{Channel, Fixture, message};

fn status_of(error: &Status) -> (Code, &str) {
    (error.code(), error.message())
}

fn lock_request(name: &str, lease: i64) -> LockRequest {
    LockRequest { name: name.to_owned().into(), lease }
}

/// Requests a lock in a task that waits for it.
fn lock(member: &Fixture, name: &str, lease: i64) -> JoinHandle<Result<LockResponse, Status>> {
    let (mut client, request) = (LockClient::new(member.channel()), lock_request(name, lease));
    tokio::spawn(async move { Ok(client.lock(request).await?.into_inner()) })
}

async fn grant(member: &Fixture, id: i64) {
    let request = pb::LeaseGrantRequest { ttl: 1000, id };
    LeaseClient::new(member.channel()).lease_grant(request).await.unwrap();
}

/// All events below a prefix.
struct PrefixEvents {
    responses: Streaming<pb::WatchResponse>,
    events: std::collections::VecDeque<Event>,
}

impl PrefixEvents {
    async fn open(member: &Fixture, prefix: &str) -> PrefixEvents {
        let create = pb::WatchCreateRequest {
            key: format!("{prefix}/").into(),
            range_end: format!("{prefix}0").into(),
            start_revision: 1,
            ..Default::default()
        };
        let union = pb::watch_request::RequestUnion::CreateRequest(create);
        let request = pb::WatchRequest { request_union: Some(union) };
        let requests = tonic::codegen::tokio_stream::once(request);
        let responses = WatchClient::new(member.channel()).watch(requests).await.unwrap();
        PrefixEvents { responses: responses.into_inner(), events: Default::default() }
    }

    /// Returns the kind and the key of the next event.
    async fn next(&mut self) -> (EventType, Bytes) {
        while self.events.is_empty() {
            let response = message(&mut self.responses).await;
            self.events.extend(response.unwrap().unwrap().events);
        }
        let event = self.events.pop_front().unwrap();
        (event.r#type(), event.kv.unwrap().key)
    }
}

#[tokio::test]
async fn a_free_lock_is_acquired_at_once() {
    let member = Fixture::start();
    grant(&member, 0x1f).await;
    let held = lock(&member, "jobs", 0x1f).await.unwrap().unwrap();
    assert_eq!((held.key, held.header), ("jobs/1f".into(), Some(member.server().header(2))));
    // The holder may request the lock again.
    let again = lock(&member, "jobs", 0x1f).await.unwrap().unwrap();
    assert_eq!(again.header, Some(member.server().header(2)));
}

#[tokio::test]
async fn a_request_without_a_lease_gets_one_of_60_seconds() {
    let member = Fixture::start();
    let held = lock(&member, "jobs", 0).await.unwrap().unwrap();
    let lease = std::str::from_utf8(&held.key).unwrap().strip_prefix("jobs/").unwrap();
    let id = i64::from_str_radix(lease, 16).unwrap();
    let look = pb::LeaseTimeToLiveRequest { id, keys: true };
    let time = LeaseClient::new(member.channel()).lease_time_to_live(look).await.unwrap();
    let time = time.into_inner();
    assert_eq!((time.granted_ttl, &time.keys[..]), (60, &[held.key][..]));
}

#[tokio::test]
async fn a_lock_goes_to_the_oldest_waiter() {
    let member = Fixture::start();
    let mut below = PrefixEvents::open(&member, "jobs").await;
    let mut client = LockClient::new(member.channel());
    let mut waiting = Vec::new();
    for lease in 1..=3 {
        grant(&member, lease).await;
        waiting.push(lock(&member, "jobs", lease));
        assert_eq!(below.next().await, (EventType::Put, format!("jobs/{lease}").into()));
    }
    for (request, lease) in waiting.into_iter().zip(1..) {
        let held = request.await.unwrap().unwrap();
        assert_eq!(held.key, format!("jobs/{lease}"));
        let unlocked = client.unlock(UnlockRequest { key: held.key }).await.unwrap().into_inner();
        // Three keys were put before, and each unlock deletes one.
        assert_eq!(unlocked.header, Some(member.server().header(4 + lease)));
    }
}

#[tokio::test]
async fn a_canceled_lock_request_leaves_no_key() {
    let member = Fixture::start();
    let mut below = PrefixEvents::open(&member, "jobs").await;
    for lease in [1, 2] {
        grant(&member, lease).await;
    }
    let first = lock(&member, "jobs", 1);
    assert_eq!(below.next().await, (EventType::Put, "jobs/1".into()));
    let second = lock(&member, "jobs", 2);
    assert_eq!(below.next().await, (EventType::Put, "jobs/2".into()));
    // A request that is canceled during its put leaves the key to its lease, so it must wait first.
    let waits = || member.server().state().store().watchers() >= 2;
    yield_until("the second request waits", waits).await;
    second.abort();
    assert_eq!(below.next().await, (EventType::Delete, "jobs/2".into()));
    assert!(first.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_lock_is_lost_with_its_lease() {
    let member = Fixture::start();
    let mut below = PrefixEvents::open(&member, "jobs").await;
    let mut leases = LeaseClient::new(member.channel());
    for lease in [1, 2] {
        grant(&member, lease).await;
    }
    lock(&member, "jobs", 1).await.unwrap().unwrap();
    let second = lock(&member, "jobs", 2);
    below.next().await;
    assert_eq!(below.next().await, (EventType::Put, "jobs/2".into()));
    for id in [2, 1] {
        leases.lease_revoke(pb::LeaseRevokeRequest { id }).await.unwrap();
    }
    let error = second.await.unwrap().unwrap_err();
    assert_eq!(status_of(&error), (Code::Unknown, "mutex: session is expired"));
}

#[tokio::test]
async fn refusals_have_the_code_unknown() {
    let member = Fixture::start();
    let mut locks = LockClient::new(member.channel());
    let error = locks.unlock(UnlockRequest::default()).await.unwrap_err();
    assert_eq!(status_of(&error), (Code::Unknown, "etcdserver: key is not provided"));
    let error = locks.lock(lock_request("jobs", 5)).await.unwrap_err();
    assert_eq!(status_of(&error), (Code::Unknown, "etcdserver: requested lease not found"));
    let mut elections = ElectionClient::new(member.channel());
    let error = elections.leader(epb::LeaderRequest { name: "e".into() }).await.unwrap_err();
    assert_eq!(status_of(&error), (Code::Unknown, "election: no leader"));
    let missing = (Code::Unknown, "\"leader\" field must be provided");
    let error = elections.proclaim(epb::ProclaimRequest::default()).await.unwrap_err();
    assert_eq!(status_of(&error), missing);
    let error = elections.resign(epb::ResignRequest::default()).await.unwrap_err();
    assert_eq!(status_of(&error), missing);
    let stale = epb::LeaderKey { key: "e/1".into(), rev: 4, lease: 9, ..Default::default() };
    let request = epb::ProclaimRequest { leader: Some(stale), value: "v".into() };
    let error = elections.proclaim(request).await.unwrap_err();
    assert_eq!(status_of(&error), (Code::Unknown, "election: not leader"));
}

/// Campaigns in a task that waits for the result.
fn campaign(
    member: &Fixture,
    lease: i64,
    value: &'static str,
) -> JoinHandle<Result<epb::CampaignResponse, Status>> {
    let request = epb::CampaignRequest { name: "e".into(), lease, value: value.into() };
    let mut client = ElectionClient::new(member.channel());
    tokio::spawn(async move { Ok(client.campaign(request).await?.into_inner()) })
}

async fn leader(client: &mut ElectionClient<Channel>) -> (Bytes, Bytes) {
    let found = client.leader(epb::LeaderRequest { name: "e".into() }).await.unwrap();
    let kv = found.into_inner().kv.unwrap();
    (kv.key, kv.value)
}

#[tokio::test]
async fn leadership_passes_to_the_next_candidate() {
    let member = Fixture::start();
    let mut below = PrefixEvents::open(&member, "e").await;
    let mut client = ElectionClient::new(member.channel());
    for lease in [0xa, 0xb] {
        grant(&member, lease).await;
    }
    let won = campaign(&member, 0xa, "one").await.unwrap().unwrap();
    let first = won.leader.unwrap();
    let key = epb::LeaderKey { name: "e".into(), key: "e/a".into(), rev: 2, lease: 0xa };
    assert_eq!((&first, won.header), (&key, Some(member.server().header(2))));
    assert_eq!(leader(&mut client).await, ("e/a".into(), "one".into()));

    let second = campaign(&member, 0xb, "two");
    below.next().await;
    assert_eq!(below.next().await, (EventType::Put, "e/b".into()));
    let proclaim = epb::ProclaimRequest { leader: Some(first.clone()), value: "still one".into() };
    let proclaimed = client.proclaim(proclaim.clone()).await.unwrap().into_inner();
    assert_eq!(proclaimed.header, Some(member.server().header(4)));
    assert_eq!(leader(&mut client).await, ("e/a".into(), "still one".into()));
    // A second campaign with another value proclaims it.
    let again = campaign(&member, 0xa, "again one").await.unwrap().unwrap();
    assert_eq!(again.leader.unwrap().rev, 2);
    assert_eq!(leader(&mut client).await, ("e/a".into(), "again one".into()));

    client.resign(epb::ResignRequest { leader: Some(first) }).await.unwrap();
    let won = second.await.unwrap().unwrap();
    assert_eq!(won.leader.unwrap().key, "e/b");
    assert_eq!(leader(&mut client).await, ("e/b".into(), "two".into()));
    let error = client.proclaim(proclaim).await.unwrap_err();
    assert_eq!(status_of(&error), (Code::Unknown, "election: not leader"));
}

#[tokio::test]
async fn a_canceled_campaign_withdraws_the_candidate() {
    let member = Fixture::start();
    let mut below = PrefixEvents::open(&member, "e").await;
    for lease in [0xa, 0xb] {
        grant(&member, lease).await;
    }
    campaign(&member, 0xa, "one").await.unwrap().unwrap();
    assert_eq!(below.next().await, (EventType::Put, "e/a".into()));
    let second = campaign(&member, 0xb, "two");
    assert_eq!(below.next().await, (EventType::Put, "e/b".into()));
    let waits = || member.server().state().store().watchers() >= 2;
    yield_until("the second request waits", waits).await;
    second.abort();
    assert_eq!(below.next().await, (EventType::Delete, "e/b".into()));
}

#[tokio::test]
async fn observers_see_every_leader() {
    let member = Fixture::start();
    let mut client = ElectionClient::new(member.channel());
    let observe = || epb::LeaderRequest { name: "e".into() };
    let next = async |leaders: &mut Streaming<epb::LeaderResponse>| {
        let response = message(leaders).await.unwrap().unwrap();
        let kv = response.kv.unwrap();
        (response.header.unwrap().revision, kv.key, kv.value)
    };
    for lease in [0xa, 0xb] {
        grant(&member, lease).await;
    }
    // As with etcd, the response headers wait for the first leader.
    let mut early = ElectionClient::new(member.channel());
    let (leaders, won) = tokio::join!(early.observe(observe()), campaign(&member, 0xa, "one"));
    let mut leaders = leaders.unwrap().into_inner();
    let first = won.unwrap().unwrap().leader.unwrap();
    assert_eq!(next(&mut leaders).await, (2, "e/a".into(), "one".into()));
    let proclaim = epb::ProclaimRequest { leader: Some(first.clone()), value: "still one".into() };
    client.proclaim(proclaim).await.unwrap();
    assert_eq!(next(&mut leaders).await, (3, "e/a".into(), "still one".into()));

    let second = campaign(&member, 0xb, "two");
    let mut kv = KvClient::new(member.channel());
    let candidate = || pb::RangeRequest { key: "e/b".into(), ..Default::default() };
    yield_until_async("the second candidate has registered", async || {
        kv.range(candidate()).await.unwrap().into_inner().count > 0
    })
    .await;
    client.resign(epb::ResignRequest { leader: Some(first) }).await.unwrap();
    assert_eq!(next(&mut leaders).await, (5, "e/b".into(), "two".into()));
    second.await.unwrap().unwrap();

    // A later observer sees the current leader.
    let mut late = client.observe(observe()).await.unwrap().into_inner();
    assert_eq!(next(&mut late).await, (5, "e/b".into(), "two".into()));
}
