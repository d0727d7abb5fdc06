//! HTTP on the client port, beside gRPC, and on the peer port.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use e2e::http::{self, Response};
use e2e::{Member, Options};

const HEALTHY: &str = r#"{"health":"true","reason":""}"#;
/// Log message of a new cluster that has set its storage version, shortly after it serves.
const VERSIONS_KNOWN: &str = "updated storage version";
const PLAIN: &str = "text/plain; charset=utf-8";
const NOT_FOUND: &str = "404 page not found\n";

/// Returns the body of `/version` once the versions are known.
fn versions() -> String {
    let server = types::ETCD_VERSION;
    format!(r#"{{"etcdserver":"{server}","etcdcluster":"3.7.0","storage":"3.7.0"}}"#)
}

#[tokio::test(flavor = "multi_thread")]
async fn http_paths_are_served_beside_grpc() {
    let member = Member::start(Options::new());
    member.client().put("k", "v").await.unwrap();
    member.log().wait_for_message(VERSIONS_KNOWN);
    let versions = versions();
    let expected = [
        ("/health", 200, PLAIN, HEALTHY),
        ("/health?serializable=true", 200, PLAIN, HEALTHY),
        ("/health?exclude=NOSPACE", 200, PLAIN, HEALTHY),
        ("/livez", 200, PLAIN, "ok\n"),
        ("/livez?verbose", 200, PLAIN, "[+]serializable_read ok\nok\n"),
        ("/livez/serializable_read", 200, PLAIN, "ok\n"),
        ("/readyz", 200, PLAIN, "ok\n"),
        ("/readyz/data_corruption", 200, PLAIN, "ok\n"),
        ("/readyz/serializable_read", 200, PLAIN, "ok\n"),
        ("/readyz/linearizable_read", 200, PLAIN, "ok\n"),
        ("/readyz/non_learner", 200, PLAIN, "ok\n"),
        ("/version", 200, "application/json", versions.as_str()),
        ("/", 404, PLAIN, NOT_FOUND),
        ("/nothing", 404, PLAIN, NOT_FOUND),
        ("/livez/", 404, PLAIN, NOT_FOUND),
        ("/readyz/nothing", 404, PLAIN, NOT_FOUND),
        ("/debug/pprof/", 404, PLAIN, NOT_FOUND),
    ];
    for (path, status, content_type, body) in expected {
        let answer = http::wait_until_healthy(|| member.get(path));
        assert_eq!((answer.status, answer.text().as_str()), (status, body), "{path}");
        assert_eq!(answer.header("content-type"), Some(content_type), "{path}");
        assert_allows_all(&answer, path);
    }
    assert_eq!(member.client().get("k").await.unwrap().count, 1, "gRPC still works");
}

#[tokio::test(flavor = "multi_thread")]
async fn readyz_lists_each_check_with_verbose() {
    let member = Member::start(Options::new());
    let checks = |path| {
        let text = http::wait_until_healthy(|| member.get(path)).text();
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        assert_eq!(lines.pop().as_deref(), Some("ok"), "{text}");
        lines.sort();
        lines
    };
    let all = [
        "[+]data_corruption ok",
        "[+]linearizable_read ok",
        "[+]non_learner ok",
        "[+]serializable_read ok",
    ];
    assert_eq!(checks("/readyz?verbose"), all);
    assert_eq!(checks("/readyz?verbose&exclude=data_corruption"), all[1..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn read_only_paths_allow_only_get() {
    let member = Member::start(Options::new());
    let ask = |method: &str, path: &str| {
        http::request(&member.sandbox().client_address(), method, path, &[], "")
    };
    for path in ["/health", "/livez", "/readyz/non_learner", "/version", "/debug/vars"] {
        let refused = ask("POST", path);
        assert_eq!((refused.status, refused.text().as_str()), (405, "Method Not Allowed\n"));
        assert_eq!(refused.header("allow"), Some("GET"), "{path}");
    }
    assert_eq!(ask("POST", "/metrics").status, 200, "etcd allows it");
    let options = ask("OPTIONS", "/anything");
    assert_eq!((options.status, options.text().as_str()), (200, ""));
    assert_allows_all(&options, "OPTIONS");
}

#[tokio::test(flavor = "multi_thread")]
async fn debug_vars_describe_the_process_and_raft() {
    let member = Member::start(Options::new());
    let vars = member.get_json("/debug/vars");
    let arguments = vars["cmdline"].as_array().unwrap();
    assert!(arguments.iter().any(|argument| {
        argument.as_str().is_some_and(|argument| argument.starts_with("--data-dir="))
    }));
    assert!(vars["file_descriptor_limit"].as_u64().unwrap() > 100);
    let raft = &vars["raft.status"];
    let id = format!("{:x}", member.client().status().await.unwrap().leader);
    assert_eq!(raft["id"], id.as_str());
    assert_eq!(raft["lead"], id.as_str());
    assert_eq!(raft["raftState"], "StateLeader");
    assert_eq!(raft["progress"][&id]["state"], "StateReplicate");
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_in_prometheus_text_format() {
    let member = Member::start(Options::new());
    let answer = member.get("/metrics");
    assert_eq!(answer.status, 200);
    let content_type = answer.header("content-type").unwrap();
    assert!(content_type.starts_with("text/plain; version=0.0.4"), "{content_type}");
    assert!(answer.text().contains("\netcd_server_has_leader 1\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_peer_port_serves_no_clients() {
    let member = Member::start(Options::new());
    let ask = |path| http::get(&member.sandbox().peer_address(), path);
    member.log().wait_for_message(VERSIONS_KNOWN);
    let version = ask("/version");
    assert_eq!((version.status, version.text().as_str()), (200, versions().as_str()));
    assert_eq!(version.header("access-control-allow-origin"), None);
    for path in ["/health", "/metrics", "/debug/vars", "/"] {
        let answer = ask(path);
        assert_eq!((answer.status, answer.text().as_str()), (404, NOT_FOUND), "{path}");
    }
}

/// Asserts etcd's default CORS headers.
#[track_caller]
fn assert_allows_all(answer: &Response, path: &str) {
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"), "{path}");
    let methods = answer.header("access-control-allow-methods");
    assert_eq!(methods, Some("POST, GET, OPTIONS, PUT, DELETE"), "{path}");
    let headers = answer.header("access-control-allow-headers");
    assert_eq!(headers, Some("accept, content-type, authorization"), "{path}");
}

#[test]
fn non_http_on_the_peer_port_is_closed_and_logged() {
    let member = Member::start(Options::new());
    let mut connection = TcpStream::connect(member.sandbox().peer_address()).unwrap();
    connection.write_all(b"\x00\x01 this is no HTTP\r\n\r\n").unwrap();
    let record = member.log().wait_for_message("rejected connection");
    assert_eq!(record["remote-addr"], connection.local_addr().unwrap().to_string(), "{record}");
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).unwrap();
}
