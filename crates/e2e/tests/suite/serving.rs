//! A single member serves every kind of request, shuts down in order, and restarts with all data.

use e2e::process::Signal;
use e2e::{Client, Member, Options, TIMEOUT};
use proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::response_op::Response;
use proto::etcdserverpb::{
    Compare, LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest, LeaseTimeToLiveRequest,
    MemberListRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
};
use proto::mvccpb::event::EventType;
use tokio::time::timeout;
use tonic::Status;
use tonic::codegen::tokio_stream;

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_put_read_and_deleted() {
    let member = Member::start(Options::new());
    let client = member.client();
    let revision = client.put("k", "old").await.unwrap().header.unwrap().revision;
    assert_eq!(revision, 2, "an empty store is at revision 1");
    client.put("k", "new").await.unwrap();

    let read = client.get("k").await.unwrap();
    let kv = &read.kvs[0];
    assert_eq!((&kv.value[..], kv.version), (&b"new"[..], 2));
    assert_eq!((kv.create_revision, kv.mod_revision), (2, 3));
    let past = RangeRequest { key: "k".into(), revision: 2, ..RangeRequest::default() };
    assert_eq!(client.range(past).await.unwrap().kvs[0].value, "old");

    assert_eq!(client.delete("k").await.unwrap().deleted, 1);
    let read = client.get("k").await.unwrap();
    assert_eq!((read.count, read.header.unwrap().revision), (0, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_takes_the_branch_of_its_comparison() {
    let member = Member::start(Options::new());
    let client = member.client();
    client.put("owner", "a").await.unwrap();
    let swap = |from: &'static str, to: &'static str| TxnRequest {
        compare: vec![value_is("owner", from)],
        success: vec![put("owner", to)],
        failure: vec![get("owner")],
    };
    assert!(client.txn(swap("a", "b")).await.unwrap().succeeded);
    let late = client.txn(swap("a", "c")).await.unwrap();
    assert!(!late.succeeded);
    let Some(Response::ResponseRange(found)) = &late.responses[0].response else {
        panic!("{late:?}");
    };
    assert_eq!(found.kvs[0].value, "b");
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_receive_past_and_new_events() {
    let member = Member::start(Options::new());
    let client = member.client();
    client.put("w/1", "a").await.unwrap();
    client.put("other", "x").await.unwrap();
    let mut watching = client.watch_prefix("w/", 2).await.unwrap();
    client.put("w/2", "b").await.unwrap();
    client.delete("w/1").await.unwrap();

    let events = watching.events(3).await.unwrap();
    let actual = events.iter().map(|event| {
        let kv = event.kv.as_ref().unwrap();
        (event.r#type(), std::str::from_utf8(&kv.key).unwrap(), kv.mod_revision)
    });
    let expected =
        [(EventType::Put, "w/1", 2), (EventType::Put, "w/2", 4), (EventType::Delete, "w/1", 5)];
    assert_eq!(actual.collect::<Vec<_>>(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_deleted_with_its_revoked_or_expired_lease() {
    let member = Member::start(Options::new());
    let client = member.client();
    let mut watching = client.watch_prefix("l/", 0).await.unwrap();
    let revoked = grant(&client, 600).await;
    put_with_lease(&client, "l/revoked", revoked).await;
    let renewal = LeaseKeepAliveRequest { id: revoked };
    let mut renewals =
        client.lease().lease_keep_alive(tokio_stream::iter([renewal])).await.unwrap().into_inner();
    let renewed = timeout(TIMEOUT, renewals.message()).await.expect("timed out: a renewal");
    assert_eq!(renewed.unwrap().unwrap().ttl, 600);
    client.lease().lease_revoke(LeaseRevokeRequest { id: revoked }).await.unwrap();
    let forgotten = put_with_short_lease(&client, "l/forgotten").await;

    let actual: Vec<_> = watching.events(4).await.unwrap();
    let actual = actual.iter().map(|event| (event.r#type(), &event.kv.as_ref().unwrap().key[..]));
    let expected: [(_, &[u8]); 4] = [
        (EventType::Put, b"l/revoked"),
        (EventType::Delete, b"l/revoked"),
        (EventType::Put, b"l/forgotten"),
        (EventType::Delete, b"l/forgotten"),
    ];
    assert_eq!(actual.collect::<Vec<_>>(), expected);
    assert_eq!(time_left(&client, forgotten).await, -1);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_data_survives_an_orderly_shutdown() {
    let member = Member::start(Options::new());
    let client = member.client();
    for number in 0..50 {
        client.put(&format!("k/{number:02}"), &number.to_string()).await.unwrap();
    }
    client.delete("k/07").await.unwrap();
    let lease = grant(&client, 600).await;
    put_with_lease(&client, "leased", lease).await;
    client.compact(20).await.unwrap();
    let keys = client.get_prefix("k/").await.unwrap();
    let ids = members(&client).await;

    let stopped = member.terminate();
    assert_eq!(
        stopped.end.signal(),
        Some(Signal::TERM),
        "the process ends by the signal, as etcd does"
    );
    stopped.end.stderr.wait_for_message("closed etcd server");
    let member = stopped.start();
    let client = member.client();
    let again = client.get_prefix("k/").await.unwrap();
    assert_eq!(again.kvs, keys.kvs);
    assert_eq!(again.header.unwrap().revision, keys.header.unwrap().revision);
    assert_eq!(client.get("leased").await.unwrap().kvs[0].lease, lease);
    assert!((1..=600).contains(&time_left(&client, lease).await));
    assert_eq!(members(&client).await, ids);

    let compacted = RangeRequest { key: "k/00".into(), revision: 10, ..RangeRequest::default() };
    let refused = client.range(compacted).await.unwrap_err();
    assert_eq!(refused.message(), "etcdserver: mvcc: required revision has been compacted");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_stops_the_server() {
    let member = Member::start(Options::new());
    member.process().signal(Signal::INT);
    assert_eq!(member.wait().end.signal(), Some(Signal::INT));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_grpc_health_service_answers() {
    let member = Member::start(Options::new());
    let check = proto::health::HealthCheckRequest::default();
    let answer = member.client().health().check(check).await.unwrap().into_inner();
    assert_eq!(answer.status(), proto::health::health_check_response::ServingStatus::Serving);
}

fn value_is(key: &'static str, value: &'static str) -> Compare {
    Compare {
        key: key.into(),
        target: CompareTarget::Value.into(),
        result: CompareResult::Equal.into(),
        target_union: Some(TargetUnion::Value(value.into())),
        ..Compare::default()
    }
}

fn put(key: &'static str, value: &'static str) -> RequestOp {
    let put = PutRequest { key: key.into(), value: value.into(), ..PutRequest::default() };
    RequestOp { request: Some(Request::RequestPut(put)) }
}

fn get(key: &'static str) -> RequestOp {
    let range = RangeRequest { key: key.into(), ..RangeRequest::default() };
    RequestOp { request: Some(Request::RequestRange(range)) }
}

async fn grant(client: &Client, ttl: i64) -> i64 {
    let grant = LeaseGrantRequest { ttl, id: 0 };
    client.lease().lease_grant(grant).await.unwrap().into_inner().id
}

async fn time_left(client: &Client, id: i64) -> i64 {
    let ask = LeaseTimeToLiveRequest { id, keys: false };
    client.lease().lease_time_to_live(ask).await.unwrap().into_inner().ttl
}

async fn put_with_lease(client: &Client, key: &'static str, lease: i64) {
    try_put_with_lease(client, key, lease).await.unwrap();
}

/// Puts a key with a new lease that expires soon, and returns the lease. On a busy machine a lease
/// may expire before the put; then a longer one is granted.
async fn put_with_short_lease(client: &Client, key: &'static str) -> i64 {
    for ttl in [5, 15, 45] {
        let lease = grant(client, ttl).await;
        match try_put_with_lease(client, key, lease).await {
            Ok(()) => return lease,
            Err(status) => assert_eq!(status.message(), "etcdserver: requested lease not found"),
        }
    }
    panic!("no lease lasted until its key was put");
}

async fn try_put_with_lease(client: &Client, key: &'static str, lease: i64) -> Result<(), Status> {
    let put = PutRequest { key: key.into(), value: "v".into(), lease, ..PutRequest::default() };
    client.kv().put(put).await.map(drop)
}

/// Returns the cluster id and the members.
async fn members(client: &Client) -> (u64, Vec<(u64, String)>) {
    let ask = MemberListRequest { linearizable: true };
    let list = client.cluster().member_list(ask).await.unwrap().into_inner();
    let members = list.members.into_iter().map(|member| (member.id, member.name)).collect();
    (list.header.unwrap().cluster_id, members)
}
