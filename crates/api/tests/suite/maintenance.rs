//! `Maintenance` and `Health` through the generated clients.

use api::GrpcConfig;
use aws_lc_rs::digest;
use proto::etcdserverpb as pb;
use proto::health::health_check_response::ServingStatus;
use proto::health::{HealthCheckRequest, HealthListRequest};
use rpc::etcdserverpb::kv_client::KvClient;
use rpc::etcdserverpb::maintenance_client::MaintenanceClient;
use rpc::health::health_client::HealthClient;
use testkit::waiting::yield_until_async;
use tonic::{Code, Status};

use crate::support::{Channel, Fixture, message};

fn client(member: &Fixture) -> MaintenanceClient<Channel> {
    MaintenanceClient::new(member.channel())
}

fn status_of(error: &Status) -> (Code, &str) {
    (error.code(), error.message())
}

async fn put(member: &Fixture, key: &str, bytes: usize) {
    let value = vec![7; bytes].into();
    let put = pb::PutRequest { key: key.to_owned().into(), value, ..Default::default() };
    KvClient::new(member.channel()).put(put).await.unwrap();
}

#[tokio::test]
async fn status_describes_the_member() {
    let member = Fixture::start();
    put(&member, "a", 1).await;
    let server = member.server();
    // The member commits entries of its own meanwhile: its name and the cluster version.
    let committed_before = server.committed().0;
    let status = client(&member).status(pb::StatusRequest {}).await.unwrap().into_inner();
    let committed = committed_before..=server.committed().0;
    assert_eq!(status.header, Some(server.header(2)));
    assert_eq!(status.version, types::ETCD_VERSION);
    assert_eq!(status.leader, server.local().0);
    assert_eq!(status.raft_term, server.term().0);
    assert!(committed.contains(&status.raft_index), "{status:?}, committed {committed:?}");
    assert!(status.db_size >= status.db_size_in_use && status.db_size_in_use > 0);
    assert_eq!(status.db_size_quota, 2 << 30);
    assert_eq!(status.downgrade_info, Some(pb::DowngradeInfo::default()));
    assert!(status.errors.is_empty() && !status.is_learner);
}

#[tokio::test]
async fn alarms_are_raised_listed_and_cleared() {
    let member = Fixture::start();
    let mut client = client(&member);
    let alarm = |action: i32, alarm: i32| pb::AlarmRequest { action, member_id: 5, alarm };
    let raised = pb::AlarmMember { member_id: 5, alarm: 1 };
    let response = client.alarm(alarm(1, 1)).await.unwrap().into_inner();
    assert_eq!(
        (response.header, &response.alarms[..]),
        (Some(member.server().header(1)), &[raised][..])
    );
    assert_eq!(client.alarm(alarm(0, 0)).await.unwrap().into_inner().alarms, [raised]);
    let status = client.status(pb::StatusRequest {}).await.unwrap().into_inner();
    assert_eq!(status.errors, ["memberID:5 alarm:NOSPACE"]);
    let refused = pb::PutRequest { key: "a".into(), ..Default::default() };
    let error = KvClient::new(member.channel()).put(refused).await.unwrap_err();
    let text = "etcdserver: mvcc: database space exceeded";
    assert_eq!(status_of(&error), (Code::ResourceExhausted, text));
    client.alarm(alarm(2, 1)).await.unwrap();
    assert_eq!(client.alarm(alarm(0, 0)).await.unwrap().into_inner().alarms, []);
}

#[tokio::test]
async fn hashes_carry_their_revision() {
    let member = Fixture::start();
    put(&member, "a", 1).await;
    put(&member, "b", 1).await;
    let mut client = client(&member);
    let at = |revision| pb::HashKvRequest { revision };
    let now = client.hash_kv(at(0)).await.unwrap().into_inner();
    assert_eq!((now.header, now.hash_revision), (Some(member.server().header(3)), 3));
    let before = client.hash_kv(at(2)).await.unwrap().into_inner();
    assert_eq!((before.header.unwrap().revision, before.hash_revision), (3, 2));
    assert_ne!(before.hash, now.hash);
    let error = client.hash_kv(at(9)).await.unwrap_err();
    let text = "etcdserver: mvcc: required revision is a future revision";
    assert_eq!(status_of(&error), (Code::OutOfRange, text));
    let hash = client.hash(pb::HashRequest {}).await.unwrap().into_inner();
    assert_eq!(hash.header, Some(member.server().header(3)));
    assert_ne!(hash.hash, 0);
}

#[tokio::test]
async fn a_snapshot_is_the_database_and_its_hash() {
    let member = Fixture::start();
    // A new member sets the cluster version, and with it the storage version, soon after its start.
    yield_until_async("the storage version is set", async || {
        let status = client(&member).status(pb::StatusRequest {}).await.unwrap().into_inner();
        status.storage_version == "3.7.0"
    })
    .await;
    for key in 0..20 {
        put(&member, &format!("key{key}"), 10_000).await;
    }
    let mut stream = client(&member).snapshot(pb::SnapshotRequest {}).await.unwrap().into_inner();
    let (mut file, mut last) = (Vec::new(), None::<pb::SnapshotResponse>);
    while let Some(piece) = message(&mut stream).await.unwrap() {
        assert_eq!((&piece.header, piece.version.as_str()), (&None, "3.7.0"));
        if let Some(before) = last.replace(piece) {
            assert!(before.blob.len() == 32 << 10 || before.remaining_bytes == 0);
            file.extend_from_slice(&before.blob);
        }
    }
    let hash = last.unwrap();
    assert_eq!(hash.remaining_bytes, 0);
    assert_eq!(hash.blob, digest::digest(&digest::SHA256, &file).as_ref());

    // The chunks joined, as clients do it, are a database with the keys.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    std::fs::write(&path, &file).unwrap();
    let clock = std::sync::Arc::new(env::OsClock::default());
    let disk = std::sync::Arc::new(env::OsDisk);
    let copy = backend::Backend::open(disk, clock, &path, backend::Config::default()).unwrap();
    let keys = mvcc::Store::open(copy, &mvcc::NoLeases, mvcc::Config::default()).unwrap();
    assert_eq!(keys.current(), 21);
}

#[tokio::test]
async fn the_number_of_unread_snapshots_is_bounded() {
    let member = Fixture::start();
    for key in 0..40 {
        put(&member, &format!("key{key}"), 100_000).await;
    }
    let begin = async || client(&member).snapshot(pb::SnapshotRequest {}).await;
    let mut unread = Vec::new();
    for _ in 0..SNAPSHOTS_MAX {
        unread.push(begin().await.unwrap());
    }
    let refused = begin().await.map(|_| ()).unwrap_err();
    assert_eq!(status_of(&refused), (Code::ResourceExhausted, "too many snapshots are being sent"));
    // Dropped snapshots make room for others as soon as their threads notice.
    drop(unread);
    yield_until_async("a snapshot is accepted", async || begin().await.is_ok()).await;
}

/// The most snapshots that are sent at once.
const SNAPSHOTS_MAX: usize = 16;

#[tokio::test]
async fn leadership_moves_only_to_voters() {
    let member = Fixture::start();
    let mut client = client(&member);
    let to = |target_id| pb::MoveLeaderRequest { target_id };
    // Once a write succeeds, the member leads.
    put(&member, "a", 1).await;
    let moved = client.move_leader(to(member.server().local().0)).await.unwrap().into_inner();
    assert_eq!(moved.header, None);
    let error = client.move_leader(to(5)).await.unwrap_err();
    assert_eq!(status_of(&error), (Code::FailedPrecondition, "etcdserver: bad leader transferee"));
}

#[tokio::test]
async fn a_downgrade_needs_a_valid_version() {
    let member = Fixture::start();
    let mut client = client(&member);
    let ask = |version: &str| pb::DowngradeRequest { action: 0, version: version.to_owned() };
    let error = client.downgrade(ask("x")).await.unwrap_err();
    let text = "etcdserver: wrong downgrade target version format";
    assert_eq!(status_of(&error), (Code::InvalidArgument, text));
}

#[tokio::test]
async fn defragmentation_keeps_all_keys() {
    let member = Fixture::start();
    put(&member, "a", 100_000).await;
    let done = client(&member).defragment(pb::DefragmentRequest {}).await.unwrap().into_inner();
    assert_eq!(done.header, None);
    let range = pb::RangeRequest { key: "a".into(), ..Default::default() };
    let found = KvClient::new(member.channel()).range(range).await.unwrap().into_inner();
    assert_eq!(found.kvs[0].value.len(), 100_000);
}

#[tokio::test]
async fn only_the_health_of_all_services_is_known() {
    let config = GrpcConfig { stop_service_on_defragment: true, ..GrpcConfig::default() };
    let member = Fixture::with(|_| {}, config);
    let mut health = HealthClient::new(member.channel());
    let of = |service: &str| HealthCheckRequest { service: service.to_owned() };
    let serving = i32::from(ServingStatus::Serving);
    assert_eq!(health.check(of("")).await.unwrap().into_inner().status, serving);
    let error = health.check(of("etcdserverpb.KV")).await.unwrap_err();
    assert_eq!(status_of(&error), (Code::NotFound, "unknown service"));
    let all = health.list(HealthListRequest {}).await.unwrap().into_inner();
    assert_eq!(all.statuses.keys().collect::<Vec<_>>(), [""]);

    let mut changes = health.watch(of("")).await.unwrap().into_inner();
    assert_eq!(message(&mut changes).await.unwrap().unwrap().status, serving);
    let mut maintenance = client(&member);
    let done = tokio::spawn(async move { maintenance.defragment(pb::DefragmentRequest {}).await });
    let not_serving = i32::from(ServingStatus::NotServing);
    assert_eq!(message(&mut changes).await.unwrap().unwrap().status, not_serving);
    assert_eq!(message(&mut changes).await.unwrap().unwrap().status, serving);
    done.await.unwrap().unwrap();
}
