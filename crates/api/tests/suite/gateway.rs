//! The JSON gateway from HTTP request to response. `interop/` compares its output with etcd's in
//! detail.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use api::http::{Access, Config, Surface};
use api::{Api, Body, Http};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::request::Builder;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::channel::{Channel, Sender};
use http_body_util::{BodyExt as _, Full};
use net::{Connection, RemoteAddr};
use proto::etcdserverpb::PutRequest;
use serde_json::{Value, json};
use server::Server;
use tokio::time::timeout;

use crate::support::{Fixture, connection, within};

/// A member with a JSON gateway.
struct Gateway {
    member: Fixture,
    api: Api<Server>,
}

impl Gateway {
    fn start() -> Gateway {
        Gateway::with(Surface::Client, Config { gateway: true, ..Config::default() })
    }

    fn with(surface: Surface, config: Config) -> Gateway {
        let member = Fixture::start();
        let http = Http::new(member.server().clone(), config, prometheus::Registry::new()).unwrap();
        let api = Api::new(surface, member.grpc.clone(), Arc::new(http));
        Gateway { member, api }
    }

    async fn send(&self, request: Builder, body: impl Into<Bytes>) -> Response<Body> {
        let request = request.body(Full::new(body.into())).unwrap();
        within("response headers", self.api.call(&connection(), request)).await
    }

    async fn post(&self, path: &str, body: impl Into<Bytes>) -> (u16, Value) {
        let response = self.send(Request::post(path), body).await;
        let status = response.status().as_u16();
        let text = within("a body", response.into_body().collect()).await.unwrap().to_bytes();
        (status, serde_json::from_slice(&text).unwrap())
    }

    /// Puts a value of `bytes` bytes.
    async fn put(&self, key: &str, bytes: usize) {
        let put = PutRequest {
            key: key.to_owned().into(),
            value: vec![b'v'; bytes].into(),
            ..Default::default()
        };
        assert_eq!(self.member.unary("/etcdserverpb.KV/Put", &put).await.status().0, 0);
    }
}

/// Reads the lines of a streaming response.
struct Lines {
    body: Body,
    text: String,
}

impl Lines {
    fn new(response: Response<Body>) -> Lines {
        Lines { body: response.into_body(), text: String::new() }
    }

    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((line, rest)) = self.text.split_once('\n') {
                let line = serde_json::from_str(line).unwrap();
                self.text = rest.to_owned();
                return Some(line);
            }
            let frame = within("a line", self.body.frame()).await?;
            let piece = frame.unwrap().into_data().unwrap();
            self.text.push_str(std::str::from_utf8(&piece).unwrap());
        }
    }
}

/// A body that the test writes.
type OpenBody = (Sender<Bytes, Infallible>, Channel<Bytes, Infallible>);

#[tokio::test]
async fn a_put_is_read_back_and_counted() {
    let gateway = Gateway::start();
    let (status, put) = gateway.post("/v3/kv/put", r#"{"key":"Zm9v","value":"YmFy"}"#).await;
    assert_eq!((status, &put["header"]["revision"]), (200, &json!("2")));
    let (status, range) = gateway.post("/v3/kv/range", r#"{"key":"Zm9v"}"#).await;
    let kv =
        json!({"key":"Zm9v","create_revision":"2","mod_revision":"2","version":"1","value":"YmFy"});
    assert_eq!((status, &range["kvs"]), (200, &json!([kv])));
    // It counts as a gRPC call.
    let series = r#"grpc_server_handled_total{grpc_code="OK",grpc_method="Range",grpc_service="etcdserverpb.KV",grpc_type="unary"}"#;
    assert_eq!(gateway.member.metric(series), Some(1.0));
}

#[tokio::test]
async fn a_refusal_has_a_grpc_code_and_an_http_status() {
    let gateway = Gateway::start();
    for (path, body, status, code) in [
        ("/v3/kv/put", r#"{"key":"Zm9v","lease":77}"#, 404, 5),
        ("/v3/kv/put", "{}", 400, 3),
        ("/v3/kv/put", "{", 400, 3),
        ("/v3/kv/range", r#"{"key":"YQ==","revision":99}"#, 400, 11),
        ("/v3/auth/enable", "{}", 400, 9),
        ("/v3/nothing", "{}", 404, 5),
    ] {
        let (got, response) = gateway.post(path, body).await;
        assert_eq!((got, &response["code"]), (status, &json!(code)), "{path} {body}");
    }
    let response = gateway.send(Request::get("/v3/kv/range"), "").await;
    assert_eq!(response.status(), 501);
    let timeout = Request::post("/v3/kv/range").header("grpc-timeout", "-1S");
    let response = gateway.send(timeout, r#"{"key":"YQ=="}"#).await;
    assert_eq!(response.status(), 504);
}

#[tokio::test]
async fn the_length_of_a_message_is_bounded() {
    let gateway = Gateway::start();
    let value = |bytes: usize| format!(r#"{{"key":"YQ==","value":"{}"}}"#, "A".repeat(bytes));
    // The limit is 2 MiB for the message; the value has three quarters of the length of its base64.
    let (status, response) = gateway.post("/v3/kv/put", value(3 << 20)).await;
    assert_eq!((status, &response["code"]), (429, &json!(8)));
    let text = "grpc: received message larger than max (2359304 vs. 2097152)";
    assert_eq!(response["message"], text);
    let (status, _) = gateway.post("/v3/kv/put", value(9 << 20)).await;
    assert_eq!(status, 429);
    assert_eq!(gateway.post("/v3/kv/put", value(1 << 20)).await.0, 200);
}

#[tokio::test]
async fn an_endless_body_times_out() {
    let gateway = Gateway::start();
    // From here on time advances whenever all tasks wait.
    tokio::time::pause();
    for (path, start) in [
        ("/v3/kv/put", r#"{"key":"YQ==","value":"YQ"#),
        // The message is complete, but the body is not.
        ("/v3/kv/put", r#"{"key":"YQ=="} "#),
        ("/v3/kv/range", r#"{"key":"#),
    ] {
        let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
        sender.send_data(Bytes::from(start)).await.unwrap();
        let request = Request::post(path).body(body).unwrap();
        // Far above the timeout of the gateway, which is above the bound of other waits.
        let hour = Duration::from_secs(3600);
        let response = timeout(hour, gateway.api.call(&connection(), request)).await;
        assert_eq!(response.expect("no response within an hour").status(), 504, "{start}");
        drop(sender);
    }
}

#[tokio::test]
async fn reading_a_long_body_yields_to_other_tasks() {
    let gateway = Gateway::start();
    let (mut sender, body) = Channel::<Bytes, Infallible>::new(64);
    for _ in 0..32 {
        sender.send_data(Bytes::from(vec![b' '; 64 << 10])).await.unwrap();
    }
    drop(sender);
    let (connection, mut turns) = (connection(), 0);
    let request = Request::post("/v3/kv/range").body(body).unwrap();
    let mut call = std::pin::pin!(gateway.api.call(&connection, request));
    let response = std::future::poll_fn(|cx| {
        turns += 1;
        call.as_mut().poll(cx)
    });
    // White space alone is a request for an empty key.
    assert_eq!(within("a response", response).await.status(), 400);
    assert!(turns > 32, "{turns}");
}

#[tokio::test]
async fn a_long_response_is_chunked() {
    let gateway = Gateway::start();
    let short = gateway.send(Request::post("/v3/kv/range"), r#"{"key":"YQ=="}"#).await;
    assert!(http_body::Body::size_hint(short.body()).exact().is_some());
    for number in 0..40 {
        gateway.put(&format!("k{number:02}"), 10_000).await;
    }
    let all = r#"{"key":"AA==","range_end":"AA=="}"#;
    let mut response = gateway.send(Request::post("/v3/kv/range"), all).await;
    assert_eq!(response.headers()["content-type"], "application/json");
    assert_eq!(response.headers()["grpc-metadata-content-type"], "application/grpc");
    let (mut text, mut pieces) = (Vec::new(), 0);
    while let Some(frame) = within("a chunk", response.body_mut().frame()).await {
        let piece = frame.unwrap().into_data().unwrap();
        assert!(piece.len() < (64 << 10) + 20_000, "{}", piece.len());
        text.extend_from_slice(&piece);
        pieces += 1;
    }
    assert!(pieces > 5);
    let range: Value = serde_json::from_slice(&text).unwrap();
    let kvs = range["kvs"].as_array().unwrap();
    assert_eq!((kvs.len(), &range["count"]), (40, &json!("40")));
    let value = STANDARD.decode(kvs[39]["value"].as_str().unwrap()).unwrap();
    assert_eq!(value, vec![b'v'; 10_000]);
}

#[tokio::test]
async fn a_watch_responds_line_by_line() {
    let gateway = Gateway::start();
    let (mut requests, body): OpenBody = Channel::new(4);
    requests.send_data(r#"{"create_request":{"key":"YQ=="}}"#.into()).await.unwrap();
    let request = Request::post("/v3/watch").body(body).unwrap();
    let response = within("response headers", gateway.api.call(&connection(), request)).await;
    assert_eq!(response.status(), 200);
    let mut lines = Lines::new(response);
    assert_eq!(lines.next().await.unwrap()["result"]["created"], true);
    gateway.put("a", 1).await;
    let event = lines.next().await.unwrap();
    assert_eq!(event["result"]["events"][0]["kv"]["value"], "dg==");
    // A request in two pieces on an open stream.
    requests.send_data(r#"{"cancel_req"#.into()).await.unwrap();
    requests.send_data(r#"uest":{"watch_id":"0"}}"#.into()).await.unwrap();
    assert_eq!(lines.next().await.unwrap()["result"]["canceled"], true);
    // An invalid request ends the requests, while the stream stays open.
    requests.send_data("]".into()).await.unwrap();
    drop(requests);
    gateway.member.grpc.close();
    let last = lines.next().await.unwrap();
    assert_eq!(last["error"]["code"], 14);
    assert!(lines.next().await.is_none());
}

#[tokio::test]
async fn requests_of_a_stream_may_arrive_together() {
    let gateway = Gateway::start();
    let (status, _) = gateway.post("/v3/lease/grant", r#"{"ID":7,"TTL":100}"#).await;
    assert_eq!(status, 200);
    let request = Request::post("/v3/lease/keepalive");
    let response = gateway.send(request, r#"{"ID":7} {"ID":"8"}"#).await;
    let mut lines = Lines::new(response);
    assert_eq!(lines.next().await.unwrap()["result"]["TTL"], "100");
    assert_eq!(lines.next().await.unwrap()["result"]["ID"], "8");
    assert!(lines.next().await.is_none());
}

#[tokio::test]
async fn a_snapshot_can_be_taken() {
    let gateway = Gateway::start();
    gateway.put("a", 100_000).await;
    let mut lines = Lines::new(gateway.send(Request::post("/v3/maintenance/snapshot"), "").await);
    let (mut bytes, mut left) = (Vec::new(), None);
    while let Some(line) = lines.next().await {
        let piece = STANDARD.decode(line["result"]["blob"].as_str().unwrap()).unwrap();
        let remaining = line["result"]["remaining_bytes"].as_str().unwrap_or("0");
        left = Some(remaining.parse::<usize>().unwrap());
        bytes.extend_from_slice(&piece);
    }
    assert_eq!(left, Some(0));
    let (database, hash) = bytes.split_at(bytes.len() - 32);
    assert!(database.len() > 100_000);
    assert_eq!(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, database).as_ref(), hash);
}

#[tokio::test]
async fn the_gateway_is_served_on_client_ports_only() {
    let body = r#"{"key":"YQ=="}"#;
    let served = |surface, gateway| async move {
        let config = Config { gateway, ..Config::default() };
        let gateway = Gateway::with(surface, config);
        let response = gateway.send(Request::post("/v3/kv/range"), body).await;
        response.status() == 200 && response.headers()["content-type"] == "application/json"
    };
    assert!(served(Surface::Client, true).await);
    assert!(served(Surface::ClientHttpOnly, true).await);
    assert!(!served(Surface::Client, false).await);
    assert!(!served(Surface::Metrics, true).await);
    assert!(!served(Surface::Peer, true).await);
}

#[tokio::test]
async fn hosts_and_origins_are_checked_first() {
    let access = Access { hosts: BTreeSet::from(["a".into()]), origins: BTreeSet::default() };
    let config = Config { gateway: true, access, ..Config::default() };
    let gateway = Gateway::with(Surface::Client, config);
    let send = |host| gateway.send(Request::post("/v3/kv/range").header("host", host), "{}");
    assert_eq!(send("b:1").await.status(), 421);
    let allowed = send("a:1").await;
    assert_eq!(allowed.status(), 400);
    assert_eq!(allowed.headers()["access-control-allow-origin"], "*");
    let options = Request::options("/v3/kv/put").header("host", "a");
    assert_eq!(gateway.send(options, "").await.status(), 200);
}

#[tokio::test]
async fn a_disconnected_client_ends_the_call() {
    let gateway = Gateway::start();
    let (mut requests, body): OpenBody = Channel::new(1);
    requests.send(Frame::data(r#"{"create_request":{"key":"YQ=="}}"#.into())).await.unwrap();
    let request = Request::post("/v3/watch").body(body).unwrap();
    let connection = Connection::new(RemoteAddr::Unix, false);
    let response = within("response headers", gateway.api.call(&connection, request)).await;
    let mut lines = Lines::new(response);
    lines.next().await.unwrap();
    let watchers = || gateway.member.metric("etcd_debugging_mvcc_watcher_total");
    assert_eq!(watchers(), Some(1.0));
    drop(lines);
    assert_eq!(watchers(), Some(0.0));
}
