//! The JSON gateway, over sockets.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use e2e::{Member, Options, TIMEOUT, http};
use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest as _;
use tungstenite::{Error, Message, WebSocket};

fn post(member: &Member, path: &str, body: &str) -> (u16, Value) {
    let answer = http::request(&member.sandbox().client_address(), "POST", path, &[], body);
    (answer.status, serde_json::from_slice(&answer.body).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn json_is_served_beside_grpc() {
    let member = Member::start(Options::new());
    let (status, _) = post(&member, "/v3/kv/put", r#"{"key":"Zm9v","value":"YmFy"}"#);
    assert_eq!(status, 200);
    let kvs = member.client().get("foo").await.unwrap().kvs;
    assert_eq!(kvs[0].value, "bar");
    member.client().put("big", &"x".repeat(1 << 20)).await.unwrap();
    let (status, range) = post(&member, "/v3/kv/range", r#"{"key":"YmlnAA==","range_end":"Yg=="}"#);
    assert_eq!((status, range.get("kvs")), (200, None));
    let (status, range) = post(&member, "/v3/kv/range", r#"{"key":"Ymln"}"#);
    let value = range["kvs"][0]["value"].as_str().unwrap();
    assert_eq!((status, value.len()), (200, (1_usize << 20).div_ceil(3) * 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_streamed_response_arrives_while_it_is_produced() {
    let member = Member::start(Options::new());
    let mut to = TcpStream::connect(member.sandbox().client_address()).unwrap();
    to.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut lines = BufReader::new(to.try_clone().unwrap()).lines().map(Result::unwrap);
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let head = "POST /v3/lease/keepalive HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    to.write_all(head.as_bytes()).unwrap();
    for id in ["7", "8", "9"] {
        to.write_all(chunk(&format!(r#"{{"ID":"{id}"}}"#)).as_bytes()).unwrap();
        let line = lines.find(|line| line.starts_with("{\"result\"")).unwrap();
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["result"]["ID"], id);
    }
}

#[test]
fn enable_grpc_gateway_false_disables_the_gateway() {
    let member = Member::start(Options::new().flag("enable-grpc-gateway", "false"));
    let address = member.sandbox().client_address();
    let answer = http::request(&address, "POST", "/v3/kv/range", &[], r#"{"key":"YQ=="}"#);
    assert_eq!((answer.status, answer.text().as_str()), (404, "404 page not found\n"));
}

type Socket = WebSocket<TcpStream>;

fn websocket(member: &Member, path: &str, protocol: Option<&'static str>) -> Socket {
    let address = member.sandbox().client_address();
    let stream = TcpStream::connect(&address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut request = format!("ws://{address}{path}").into_client_request().unwrap();
    if let Some(protocol) = protocol {
        request.headers_mut().insert("sec-websocket-protocol", protocol.parse().unwrap());
    }
    tungstenite::client(request, stream).unwrap().0
}

/// Returns the next message.
fn next(socket: &mut Socket) -> Value {
    serde_json::from_str(socket.read().unwrap().to_text().unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_websocket_carries_a_watch() {
    let member = Member::start(Options::new());
    let mut socket = websocket(&member, "/v3/watch", None);
    socket.send(Message::text(r#"{"create_request":{"key":"Zm9v"}}"#)).unwrap();
    assert_eq!(next(&mut socket)["result"]["created"], true);
    member.client().put("foo", "bar").await.unwrap();
    assert_eq!(next(&mut socket)["result"]["events"][0]["kv"]["value"], "YmFy");
    // A message may carry two requests.
    let both = r#"{"progress_request":{}} {"cancel_request":{"watch_id":"0"}}"#;
    socket.send(Message::binary(both)).unwrap();
    let mut seen =
        [next(&mut socket), next(&mut socket)].map(|line| line["result"]["canceled"] == true);
    seen.sort_unstable();
    assert_eq!(seen, [false, true]);
    assert_eq!(member.metric("grpc_server_started_total{grpc_method=\"Watch\",grpc_service=\"etcdserverpb.Watch\",grpc_type=\"bidi_stream\"}"), 1.0);
    socket.close(None).unwrap();
    while socket.read().is_ok() {}
}

#[test]
fn a_websocket_carries_a_unary_call() {
    let member = Member::start(Options::new());
    let mut socket = websocket(&member, "/v3/kv/put", None);
    socket.send(Message::text(r#"{"key":"Zm9v"}"#)).unwrap();
    assert_eq!(next(&mut socket)["header"]["revision"], "2");
    assert!(matches!(socket.read(), Ok(Message::Close(_))));
}

#[test]
fn a_websocket_takes_its_token_from_the_subprotocol() {
    let member = Member::start(Options::new().flag("bcrypt-cost", "4"));
    for (path, body) in [
        ("/v3/auth/user/add", r#"{"name":"root","password":"pw"}"#),
        ("/v3/auth/user/grant", r#"{"user":"root","role":"root"}"#),
        ("/v3/auth/enable", "{}"),
    ] {
        assert_eq!(post(&member, path, body).0, 200, "{path}");
    }
    let (_, answer) = post(&member, "/v3/auth/authenticate", r#"{"name":"root","password":"pw"}"#);
    let token = answer["token"].as_str().unwrap();
    let request = r#"{"key":"Zm9v"}"#;
    let mut socket = websocket(&member, "/v3/kv/range", None);
    socket.send(Message::text(request)).unwrap();
    assert_eq!(next(&mut socket), json!({"code":3,"message":"etcdserver: user name is empty"}));
    let protocol: &'static str = format!("Bearer, {token}").leak();
    let mut socket = websocket(&member, "/v3/kv/range", Some(protocol));
    socket.send(Message::text(request)).unwrap();
    assert_eq!(next(&mut socket)["header"]["revision"], "1");
}

#[test]
fn a_websocket_is_closed_when_the_member_stops() {
    let member = Member::start(Options::new());
    let mut socket = websocket(&member, "/v3/watch", None);
    socket.send(Message::text(r#"{"create_request":{"key":"Zm9v"}}"#)).unwrap();
    assert_eq!(next(&mut socket)["result"]["created"], true);
    member.terminate();
    assert_eq!(next(&mut socket)["error"]["code"], 14);
    assert!(matches!(socket.read(), Ok(Message::Close(_)) | Err(Error::ConnectionClosed)));
}

#[test]
fn an_invalid_websocket_upgrade_is_rejected() {
    let member = Member::start(Options::new());
    let address = member.sandbox().client_address();
    let upgrade = [("Connection", "Upgrade, close"), ("Upgrade", "websocket")];
    let answer = http::request(&address, "GET", "/v3/watch", &upgrade, "");
    assert_eq!((answer.status, answer.text().as_str()), (400, "Bad Request\n"));
    assert_eq!(answer.header("sec-websocket-version"), Some("13"));
}
