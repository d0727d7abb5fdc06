//! The peer port, compared byte by byte.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use prost::Message as _;
use proto::raftpb;
use server::ReceiveError;
use types::ETCD_VERSION;

use super::fixture::{FixtureConfig, TransportFixture, cluster, headers, heartbeat};

fn error(status: &str, headers: &str, text: &str) -> String {
    let length = text.len() + 1;
    format!(
        "HTTP/1.1 {status}\nContent-Type: text/plain; charset=utf-8\nX-Content-Type-Options: nosniff\n{headers}Connection: close\nContent-Length: {length}\n\n{text}\n"
    )
}

/// Returns the sorted lines of a response, since their order has no meaning.
fn sorted(answer: &str) -> Vec<String> {
    let mut lines: Vec<String> = answer.lines().map(str::to_lowercase).collect();
    lines.sort();
    lines
}

fn check(fixture: &TransportFixture, head: &str, headers: &str, body: &[u8], expected: &str) {
    let answer = fixture.request(head, headers, body);
    assert_eq!(sorted(&answer), sorted(expected), "{head}:\n{answer}");
}

const SIGNED: &str = "X-Etcd-Cluster-Id: c1\n";

#[test]
fn wrong_methods_are_refused() {
    let [one, _] = cluster();
    let refused = |allow: &str| error("405 Method Not Allowed", allow, "Method Not Allowed");
    for path in ["/raft", "/raft/snapshot", "/members/promote/7"] {
        check(&one, &format!("GET {path}"), "", b"", &refused("Allow: POST\n"));
    }
    for path in ["/raft/stream/message/2", "/members", "/members/hashkv", "/downgrade/enabled"] {
        check(&one, &format!("PUT {path}"), "", b"", &refused("Allow: GET\n"));
    }
    for path in ["/leases", "/leases/internal"] {
        check(&one, &format!("GET {path}"), "", b"", &refused(""));
    }
}

#[test]
fn other_paths_go_to_the_fallback() {
    let [one, _] = cluster();
    for path in [
        "/",
        "/version",
        "/raft/",
        "/raft/x",
        "/leases/",
        "/members/",
        "/raft//stream/message/2",
        "/raft/stream/../x",
        "/metrics",
    ] {
        let answer = one.request(&format!("GET {path}"), "", b"");
        let is_fallback = answer.ends_with("fallback") || answer.contains("etcdserver");
        assert!(is_fallback, "{path}: {answer}");
    }
}

#[test]
fn a_missing_slash_is_redirected() {
    let [one, _] = cluster();
    let html = "<a href=\"/raft/stream/?a=1&amp;b\">Temporary Redirect</a>.\n\n";
    let expected = format!(
        "HTTP/1.1 307 Temporary Redirect\nContent-Type: text/html; charset=utf-8\nLocation: /raft/stream/?a=1&b\nConnection: close\nContent-Length: {}\n\n{html}",
        html.len()
    );
    check(&one, "GET /raft/stream?a=1&b", "", b"", &expected);
    let expected = "HTTP/1.1 307 Temporary Redirect\nLocation: /members/promote/\nConnection: close\nContent-Length: 0\n\n";
    check(&one, "POST /members/promote", "", b"", expected);
}

#[test]
fn streams_are_refused_with_etcds_texts() {
    let [one, _] = cluster();
    one.fake.removed.lock().insert(types::MemberId(0xdead));
    let all = format!("X-Server-Version: {ETCD_VERSION}\nX-Etcd-Cluster-Id: c1\n");
    for (path, headers, status, text) in [
        ("x/2", headers(2, 1), "404 Not Found", "invalid path"),
        ("message/2/3", headers(2, 1), "404 Not Found", "invalid path"),
        ("message", headers(2, 1), "404 Not Found", "invalid path"),
        ("message/", headers(2, 1), "404 Not Found", "invalid from"),
        ("message/xyz", headers(2, 1), "404 Not Found", "invalid from"),
        ("msgapp/dead", headers(2, 1), "410 Gone", "removed member"),
        ("msgapp/77", headers(2, 1), "404 Not Found", "error sender not found"),
        ("msgapp/2", headers(2, 7), "412 Precondition Failed", "to field mismatch"),
        ("msgapp/2", String::new(), "412 Precondition Failed", "incompatible version"),
        (
            "msgapp/2",
            headers(2, 1).replace("Cluster-ID: c1", "Cluster-ID: c2"),
            "412 Precondition Failed",
            "cluster ID mismatch",
        ),
    ] {
        let head = format!("GET /raft/stream/{path}");
        check(&one, &head, &headers, b"", &error(status, &all, text));
    }
}

#[test]
fn a_stream_is_answered_at_once_with_heartbeats() {
    let one = FixtureConfig { timeout: Duration::from_millis(300), ..FixtureConfig::of(1) }.start();
    one.set_members(&[one.member(), super::fixture::member(2, &["http://127.0.0.1:1"])]);
    one.attach();
    let mut stream = one.connect();
    let head = format!("GET /raft/stream/msgapp/2 HTTP/1.1\r\nHost: x\r\n{}\r\n", headers(2, 1));
    stream.write_all(head.as_bytes()).unwrap();
    let mut stream = std::io::BufReader::new(stream);
    let mut lines = super::fixture::read_head(&mut stream);
    lines.retain(|line| !line.starts_with("Date"));
    lines.sort();
    let expected = [
        "HTTP/1.1 200 OK",
        "Transfer-Encoding: chunked",
        "X-Etcd-Cluster-Id: c1",
        &format!("X-Server-Version: {ETCD_VERSION}"),
    ];
    assert_eq!(lines, expected);
    // Link heartbeats arrive without messages.
    let mut bytes = [0; 12];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"1\r\n\0\r\n1\r\n\0\r\n");
}

#[test]
fn messages_are_accepted_or_refused() {
    let [one, _] = cluster();
    let sent: raftpb::Message = heartbeat(2, 1, 7).into();
    let sent = sent.encode_to_vec();
    let post =
        |body: &[u8], expected: &str| check(&one, "POST /raft", &headers(2, 1), body, expected);
    post(&sent, "HTTP/1.1 204 No Content\nX-Etcd-Cluster-Id: c1\nConnection: close\n\n");
    assert_eq!(one.received(), heartbeat(2, 1, 7));
    post(b"garbage", &error("400 Bad Request", SIGNED, "error unmarshalling raft message"));
    // An unknown message type.
    post(&[0x08, 0x63], &error("400 Bad Request", SIGNED, "error unmarshalling raft message"));
    let old = headers(2, 1).replace(ETCD_VERSION, "2.3.0");
    let refused = error("412 Precondition Failed", SIGNED, "incompatible version");
    check(&one, "POST /raft", &old, &sent, &refused);

    for refusal in [ReceiveError::Removed, ReceiveError::Mismatch, ReceiveError::Full] {
        *one.fake.refusal.lock() = Some(refusal);
        let text = "error processing raft message";
        post(&sent, &error("500 Internal Server Error", SIGNED, text));
    }
}

#[test]
fn a_slow_sender_is_cut_off() {
    let one = FixtureConfig { timeout: Duration::from_millis(200), ..FixtureConfig::of(1) }.start();
    one.set_members(&[one.member()]);
    one.attach();
    let mut slow = one.connect();
    let head =
        format!("POST /raft HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n{}\r\nab", headers(2, 1));
    slow.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    slow.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nerror reading raft message\n"), "{answer}");
}

#[test]
fn rpcs_are_answered_with_etcds_texts() {
    let [one, two] = cluster();
    let ok = |kind: &str, headers: &str, body: &str| {
        format!(
            "HTTP/1.1 200 OK\nContent-Type: {kind}\n{headers}Connection: close\nContent-Length: {}\n\n{body}",
            body.len()
        )
    };
    let json = "application/json";
    let members = format!(
        "[{{\"id\":1,\"peerURLs\":[\"{}\"]}},{{\"id\":2,\"peerURLs\":[\"{}\"]}}]\n",
        one.url(),
        two.url()
    );
    check(&one, "GET /members", "", b"", &ok(json, SIGNED, &members));
    check(
        &one,
        "POST /members/promote/3",
        "Authorization: secret\r\n",
        b"",
        &ok(json, SIGNED, &members),
    );
    check(&one, "GET /downgrade/enabled", "", b"", &ok("text/plain", SIGNED, "true"));

    let promote = |id: &str, expected: &str| {
        check(&one, &format!("POST /members/promote/{id}"), "", b"", expected);
    };
    promote("3", &error("404 Not Found", SIGNED, "membership: ID not found"));
    promote("x", &error("404 Not Found", SIGNED, "member x not found in cluster"));
    promote(
        "4",
        &error("412 Precondition Failed", SIGNED, "membership: can only promote a learner member"),
    );
    promote(
        "5",
        &error(
            "412 Precondition Failed",
            SIGNED,
            "etcdserver: can only promote a learner member which is in sync with leader",
        ),
    );
    promote(
        "6",
        "HTTP/1.1 500 Internal Server Error\nContent-Type: application/json\nX-Etcd-Cluster-Id: c1\nConnection: close\nContent-Length: 35\n\n{\"message\":\"Internal Server Error\"}",
    );

    let hash = |headers: &str, body: &[u8], expected: &str| {
        check(&one, "GET /members/hashkv", headers, body, expected);
    };
    let answer =
        r#"{"header":{"revision":50},"hash":12345,"compact_revision":2,"hash_revision":7}"#;
    hash("", br#"{"revision":7}"#, &ok(json, SIGNED, answer));
    let at_zero = r#"{"header":{"revision":50},"hash":12345,"compact_revision":2}"#;
    hash("X-Etcd-Cluster-ID: c1\r\n", b"{}", &ok(json, SIGNED, at_zero));
    hash("", b"", &error("400 Bad Request", "", "error unmarshalling request"));
    hash(
        "",
        br#"{"revision":1}"#,
        &error("400 Bad Request", "", "mvcc: required revision has been compacted"),
    );
    hash(
        "",
        br#"{"revision":100}"#,
        &error("400 Bad Request", "", "mvcc: required revision is a future revision"),
    );
    hash(
        "X-Etcd-Cluster-ID: c2\r\n",
        b"{}",
        &error("412 Precondition Failed", "", "cluster ID mismatch"),
    );

    let probing = one.request("GET /raft/probing", "", b"");
    assert!(probing.contains("\nContent-Type: text/plain; charset=utf-8\n"), "{probing}");
    assert!(
        probing.contains("\n\n{\"OK\":true,\"Now\":\"20") && probing.ends_with("Z\"}\n"),
        "{probing}"
    );
}

#[test]
fn lease_requests_are_answered_with_etcds_texts() {
    let [one, _] = cluster();
    let renew = |id: u8, expected: &str| check(&one, "POST /leases", "", &[8, id], expected);
    // ID 7, TTL 60.
    renew(
        7,
        "HTTP/1.1 200 OK\nContent-Type: application/protobuf\nConnection: close\nContent-Length: 4\n\n\x10\x07\x18\x3c",
    );
    renew(
        8,
        &error(
            "408 Request Timeout",
            "",
            "waiting for node to catch up its applied index has timed out",
        ),
    );
    renew(9, &error("400 Bad Request", "", "not a primary lessor"));
    renew(10, &error("404 Not Found", "", "lease not found"));
    check(
        &one,
        "POST /leases",
        "",
        b"\xff",
        &error("400 Bad Request", "", "error unmarshalling request"),
    );
    let long = vec![0; (64 << 10) + 1];
    check(
        &one,
        "POST /leases",
        "",
        &long,
        &error("413 Request Entity Too Large", "", "request body too large"),
    );

    let lease = |id: u8, expected: &str| {
        check(&one, "POST /leases/internal", "", &[0x0a, 2, 8, id], expected);
    };
    lease(
        7,
        "HTTP/1.1 200 OK\nContent-Type: application/protobuf\nConnection: close\nContent-Length: 10\n\n\x0a\x08\x0a\0\x10\x07\x18\x37\x20\x3c",
    );
    lease(9, &error("500 Internal Server Error", "", "not a primary lessor"));
    lease(10, &error("404 Not Found", "", "lease not found"));
}
