//! HTTP endpoints of a real member.

use std::sync::Arc;

use api::Http;
use api::http::{Config, Surface};
use env::SimDisk;
use http::Request;
use proto::etcdserverpb as pb;
use rpc::etcdserverpb::kv_client::KvClient;
use rpc::etcdserverpb::maintenance_client::MaintenanceClient;
use server::Server;
use testkit::waiting::yield_until;

use crate::support::Fixture;

fn endpoints(member: &Fixture) -> Http<Server> {
    let registry = member.registry().clone();
    Http::new(member.server().clone(), Config::default(), registry).unwrap()
}

async fn get(http: &Http<Server>, uri: &str) -> (u16, String) {
    let (head, ()) = Request::get(uri).body(()).unwrap().into_parts();
    let response = http.call(Surface::Client, false, &head, b"").await;
    (response.status().as_u16(), String::from_utf8(response.body().to_vec()).unwrap())
}

/// Starts a member and waits until it leads.
async fn start_leader() -> Fixture {
    let member = Fixture::start();
    member.server().linearizable().await.unwrap();
    member
}

fn ok(text: &str) -> (u16, String) {
    (200, text.to_owned())
}

#[tokio::test]
async fn a_healthy_member_passes_all_checks() {
    let member = start_leader().await;
    let http = endpoints(&member);
    assert_eq!(get(&http, "/health").await, ok(r#"{"health":"true","reason":""}"#));
    let all = "[+]data_corruption ok\n[+]serializable_read ok\n[+]linearizable_read ok\n[+]non_learner ok\nok\n";
    assert_eq!(get(&http, "/readyz?verbose").await, ok(all));
    assert_eq!(get(&http, "/livez").await, ok("ok\n"));
}

#[tokio::test]
async fn an_alarm_fails_health_and_readiness() {
    let member = start_leader().await;
    let http = endpoints(&member);
    let corrupt = pb::AlarmRequest { action: 1, member_id: 5, alarm: 2 };
    MaintenanceClient::new(member.channel()).alarm(corrupt).await.unwrap();
    let body = "{\"health\":\"false\",\"reason\":\"ALARM CORRUPT\"}\n";
    assert_eq!(get(&http, "/health").await, (503, body.to_owned()));
    let (status, lines) = get(&http, "/readyz").await;
    assert_eq!(status, 503);
    assert!(lines.starts_with("[-]data_corruption failed: alarm activated: CORRUPT\n"));
    assert_eq!(get(&http, "/livez").await, ok("ok\n"));
}

#[tokio::test]
async fn debug_vars_include_the_raft_status() {
    let member = start_leader().await;
    let (status, body) = get(&endpoints(&member), "/debug/vars").await;
    assert_eq!(status, 200);
    let values: serde_json::Value = serde_json::from_str(&body).unwrap();
    let raft = &values["raft.status"];
    assert_eq!(raft["raftState"], "StateLeader");
    assert_eq!(raft["id"], member.server().local().to_string());
}

#[tokio::test]
async fn metrics_include_the_members_own() {
    let member = start_leader().await;
    let http = endpoints(&member);
    let (status, text) = get(&http, "/metrics").await;
    assert_eq!(status, 200);
    for line in
        ["# TYPE etcd_disk_wal_fsync_duration_seconds histogram", "# TYPE process_open_fds gauge"]
    {
        assert!(text.lines().any(|shown| shown == line), "{line}");
    }
}

/// The first check waits for the write that is in progress, and fails when it has stalled.
#[tokio::test]
async fn a_member_with_a_stalled_disk_is_live_but_not_ready() {
    let disk = SimDisk::new(1);
    let member = Fixture::on(Arc::new(disk.clone()));
    member.server().linearizable().await.unwrap();
    let http = endpoints(&member);
    let hung = disk.hang();
    let mut client = KvClient::new(member.channel());
    let request = pb::PutRequest { key: "k".into(), ..pb::PutRequest::default() };
    let put = tokio::spawn(async move { client.put(request).await });
    let server = member.server();
    yield_until("the write to the log has begun", || server.log_busy_for().is_some()).await;
    assert_eq!(get(&http, "/health").await.0, 503);
    assert!(!put.is_finished(), "a write is not acknowledged before it is synced");
    let (status, body) = get(&http, "/readyz/linearizable_read").await;
    assert_eq!(status, 503);
    assert!(body.contains("the log has been waiting for the disk for "), "{body}");
    assert_eq!(get(&http, "/health?serializable=true").await.0, 200);
    assert_eq!(get(&http, "/livez").await, ok("ok\n"));

    drop(hung);
    put.await.unwrap().unwrap();
    assert_eq!(get(&http, "/health").await.0, 200);
}
