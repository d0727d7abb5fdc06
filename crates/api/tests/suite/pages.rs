//! HTTP, of a real member.

use std::sync::Arc;
use std::time::Duration;

use api::Http;
use api::http::{Config, Surface};
use env::SimDisk;
use http::Request;
use proto::etcdserverpb as pb;
use rpc::etcdserverpb::kv_client::KvClient;
use rpc::etcdserverpb::maintenance_client::MaintenanceClient;
use server::Server;

use crate::support::Fixture;

fn pages(member: &Fixture) -> Http<Server> {
    let registry = member.registry.clone();
    Http::new(member.server().clone(), Config::default(), registry).unwrap()
}

async fn get(pages: &Http<Server>, uri: &str) -> (u16, String) {
    let (asked, ()) = Request::get(uri).body(()).unwrap().into_parts();
    let response = pages.call(Surface::Client, false, &asked).await;
    (response.status().as_u16(), String::from_utf8(response.body().to_vec()).unwrap())
}

/// A member that has found that it leads.
async fn led() -> Fixture {
    let member = Fixture::start();
    member.server().linearizable().await.unwrap();
    member
}

fn ok(text: &str) -> (u16, String) {
    (200, text.to_owned())
}

#[tokio::test]
async fn a_member_is_well() {
    let member = led().await;
    let pages = pages(&member);
    assert_eq!(get(&pages, "/health").await, ok(r#"{"health":"true","reason":""}"#));
    let all = "[+]data_corruption ok\n[+]serializable_read ok\n[+]linearizable_read ok\n[+]non_learner ok\nok\n";
    assert_eq!(get(&pages, "/readyz?verbose").await, ok(all));
    assert_eq!(get(&pages, "/livez").await, ok("ok\n"));
}

#[tokio::test]
async fn an_alarm_is_told_of() {
    let member = led().await;
    let pages = pages(&member);
    let corrupt = pb::AlarmRequest { action: 1, member_id: 5, alarm: 2 };
    MaintenanceClient::new(member.channel()).alarm(corrupt).await.unwrap();
    let told = "{\"health\":\"false\",\"reason\":\"ALARM CORRUPT\"}\n";
    assert_eq!(get(&pages, "/health").await, (503, told.to_owned()));
    let (status, lines) = get(&pages, "/readyz").await;
    assert_eq!(status, 503);
    assert!(lines.starts_with("[-]data_corruption failed: alarm activated: CORRUPT\n"));
    assert_eq!(get(&pages, "/livez").await, ok("ok\n"));
}

#[tokio::test]
async fn variables_have_the_state_of_consensus() {
    let member = led().await;
    let (status, body) = get(&pages(&member), "/debug/vars").await;
    assert_eq!(status, 200);
    let values: serde_json::Value = serde_json::from_str(&body).unwrap();
    let raft = &values["raft.status"];
    assert_eq!(raft["raftState"], "StateLeader");
    assert_eq!(raft["id"], member.server().local().to_string());
}

#[tokio::test]
async fn metrics_are_those_of_the_member() {
    let member = led().await;
    let pages = pages(&member);
    let (status, text) = get(&pages, "/metrics").await;
    assert_eq!(status, 200);
    for line in
        ["# TYPE etcd_disk_wal_fsync_duration_seconds histogram", "# TYPE process_open_fds gauge"]
    {
        assert!(text.lines().any(|shown| shown == line), "{line}");
    }
}

/// A disk that hangs says nothing, so it takes a second until it is known to.
#[tokio::test]
async fn a_member_whose_disk_hangs_is_not_ready_but_alive() {
    let disk = SimDisk::new(1);
    let member = Fixture::on(Arc::new(disk.clone()));
    member.server().linearizable().await.unwrap();
    let pages = pages(&member);
    disk.hang();
    let mut client = KvClient::new(member.channel());
    let request = pb::PutRequest { key: "k".into(), ..pb::PutRequest::default() };
    let put = tokio::spawn(async move { client.put(request).await });
    while get(&pages, "/health").await.0 == 200 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!put.is_finished(), "what is not on the disk is not acknowledged");
    let (status, told) = get(&pages, "/readyz/linearizable_read").await;
    assert_eq!(status, 503);
    assert!(told.contains("the log has been waiting for the disk for "), "{told}");
    assert_eq!(get(&pages, "/health?serializable=true").await.0, 200);
    assert_eq!(get(&pages, "/livez").await, ok("ok\n"));

    disk.heal();
    put.await.unwrap().unwrap();
    assert_eq!(get(&pages, "/health").await.0, 200);
}
