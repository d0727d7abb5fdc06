//! HTTP, of a real member.

use api::Http;
use api::http::{Config, Surface};
use http::Request;
use proto::etcdserverpb as pb;
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
