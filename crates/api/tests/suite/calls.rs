//! Framing, limits, deadlines, compression and metrics of all calls.

use std::io::{Read as _, Write as _};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use http_body_util::Full;
use prost::Message;
use proto::etcdserverpb::{
    LeaseGrantRequest, PutRequest, RangeRequest, RangeResponse, RangeStreamResponse,
};
use proto::v3lockpb::LockRequest;
use testkit::waiting::yield_until_async;

use crate::support::{Collected, Fixture, framed, post};

const RANGE: &str = "/etcdserverpb.KV/Range";
const PUT: &str = "/etcdserverpb.KV/Put";

fn range(key: &str) -> RangeRequest {
    RangeRequest { key: key.to_owned().into(), ..RangeRequest::default() }
}

fn put(key: &str, value: &str) -> PutRequest {
    PutRequest {
        key: key.to_owned().into(),
        value: value.to_owned().into(),
        ..PutRequest::default()
    }
}

#[tokio::test]
async fn a_response_is_a_message_and_then_a_status() {
    let member = Fixture::start();
    let response = member.unary(RANGE, &range("a")).await;
    assert_eq!(response.parts.status, 200);
    assert_eq!(response.parts.headers["content-type"], "application/grpc");
    assert!(!response.parts.headers.contains_key("grpc-status"), "the status is in the trailers");
    assert_eq!(response.status(), (0, String::new()));
    let trailers = response.trailers.as_ref().unwrap();
    assert_eq!(trailers["grpc-message"], "", "present even if empty, as in etcd");
    let [message] = &response.messages::<RangeResponse>()[..] else { panic!("{response:?}") };
    let header = message.header.unwrap();
    assert_eq!(header, member.server().header(1));
    assert_ne!((header.cluster_id, header.member_id, header.raft_term), (0, 0, 0));
}

#[tokio::test]
async fn a_refused_call_has_only_headers() {
    let member = Fixture::start();
    let response = member.unary(RANGE, &range("")).await;
    assert_eq!(response.status(), (3, "etcdserver: key is not provided".to_owned()));
    assert!(response.parts.headers.contains_key("grpc-status"));
    assert_eq!((response.trailers, response.body), (None, Bytes::new()));
}

#[tokio::test]
async fn a_stream_that_ends_without_a_reply_has_only_headers() {
    let member = Fixture::start();
    let none = RangeRequest { key: "a".into(), sort_order: 2, ..RangeRequest::default() };
    let garbage = Bytes::from_static(&[0, 0, 0, 0, 2, 0x0a, 0xff]);
    for (path, request, code) in [
        ("/etcdserverpb.KV/RangeStream", framed(&none), 12),
        ("/etcdserverpb.Watch/Watch", garbage, 13),
        ("/etcdserverpb.Lease/LeaseKeepAlive", Bytes::new(), 0),
    ] {
        let response = member.send(post(path).body(Full::new(request)).unwrap()).await;
        assert_eq!(response.parts.headers["grpc-status"], code.to_string(), "{path}");
        assert_eq!((response.trailers, response.body), (None, Bytes::new()), "{path}");
    }
}

#[tokio::test]
async fn a_too_long_message_is_refused_before_it_is_read() {
    let member = Fixture::start();
    let head = Bytes::from_static(&[0, 0, 0x20, 0, 1]);
    let response = member.send(post(PUT).body(Full::new(head)).unwrap()).await;
    let text = "grpc: received message larger than max (2097153 vs. 2097152)";
    assert_eq!(response.status(), (8, text.to_owned()));
    assert_eq!(
        member.metric(&handled("Put", "ResourceExhausted")),
        Some(0.0),
        "not counted as a call"
    );
}

#[tokio::test]
async fn a_request_that_is_too_large_for_the_log_is_refused() {
    let member = Fixture::start();
    let response = member.unary(PUT, &put("a", &"x".repeat(3 << 19))).await;
    assert_eq!(response.status(), (3, "etcdserver: request is too large".to_owned()));
}

#[tokio::test]
async fn malformed_messages_are_refused() {
    let member = Fixture::start();
    let garbage = Bytes::from_static(&[0, 0, 0, 0, 2, 0x0a, 0xff]);
    let response = member.send(post(RANGE).body(Full::new(garbage)).unwrap()).await;
    let text = "grpc: error unmarshalling request: proto: cannot parse invalid wire-format data";
    assert_eq!(response.status(), (13, text.to_owned()));
    let nothing = member.send(post(RANGE).body(Full::default()).unwrap()).await;
    assert_eq!(nothing.status(), (2, "EOF".to_owned()));
    let cut = member.send(post(RANGE).body(Full::new(framed(&range("abc")).slice(..7))).unwrap());
    assert_eq!(cut.await.status(), (2, "unexpected EOF".to_owned()));
}

/// Compresses and frames a message as a client does.
fn gzipped(message: &impl Message) -> Bytes {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&message.encode_to_vec()).unwrap();
    let packed = packed.finish().unwrap();
    let length = u32::try_from(packed.len()).unwrap().to_be_bytes();
    [&[1][..], &length, &packed].concat().into()
}

/// Decompresses the only message of a response.
fn unzipped<M: Message + Default>(response: &Collected) -> M {
    assert_eq!(response.parts.headers["grpc-encoding"], "gzip");
    let [1, _, _, _, _, packed @ ..] = &response.body[..] else { panic!("{response:?}") };
    let mut message = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut message).unwrap();
    M::decode(&message[..]).unwrap()
}

#[tokio::test]
async fn replies_to_compressed_requests_are_compressed() {
    let member = Fixture::start();
    let gzip = |path: &str, body: Bytes| {
        member.send(post(path).header("grpc-encoding", "gzip").body(Full::new(body)).unwrap())
    };
    for (key, length) in [("short", 1), ("long", 1 << 20)] {
        let value = "v".repeat(length);
        let response = gzip(PUT, gzipped(&put(key, &value))).await;
        assert_eq!(response.status(), (0, String::new()));
        for path in [RANGE, "/etcdserverpb.KV/RangeStream"] {
            let response = gzip(path, gzipped(&range(key))).await;
            let range = match path {
                RANGE => unzipped::<RangeResponse>(&response),
                _ => unzipped::<RangeStreamResponse>(&response).range_response.unwrap(),
            };
            assert_eq!(range.kvs[0].value, value, "{path}");
            assert!(response.body.len() < 4 << 10, "{}", response.body.len());
        }
    }
    let plain = gzip(RANGE, framed(&range("short"))).await;
    assert_eq!(unzipped::<RangeResponse>(&plain).count, 1, "each message has its own flag");
    let refused = gzip(RANGE, gzipped(&range(""))).await;
    assert_eq!(refused.status(), (3, "etcdserver: key is not provided".to_owned()));
    assert!(!refused.parts.headers.contains_key("grpc-encoding"));

    let bomb = gzip(PUT, gzipped(&put("a", &"v".repeat(4 << 20)))).await;
    let text = "grpc: received message after decompression larger than max 2097152";
    assert_eq!(bomb.status(), (8, text.to_owned()));
}

#[tokio::test]
async fn a_server_stream_takes_exactly_one_request() {
    let member = Fixture::start();
    let path = "/etcdserverpb.KV/RangeStream";
    let none = member.send(post(path).body(Full::default()).unwrap()).await;
    let text = "cardinality violation: received no request message from non-client-streaming RPC";
    assert_eq!(none.status(), (13, text.to_owned()));
    let two = [framed(&range("a")), framed(&range("b"))].concat();
    let two = member.send(post(path).body(Full::new(two.into())).unwrap()).await;
    let text =
        "cardinality violation: received multiple request messages for non-client-streaming RPC";
    assert_eq!(two.status(), (13, text.to_owned()));
}

#[tokio::test]
async fn unknown_methods_are_refused() {
    let member = Fixture::start();
    let response = member.unary("/etcdserverpb.KV/Get", &range("a")).await;
    let text = "unknown method Get for service etcdserverpb.KV";
    assert_eq!(response.status(), (12, text.to_owned()));
}

#[tokio::test]
async fn clients_and_calls_are_counted() {
    let member = Fixture::start();
    let request = post(PUT).header("client-api-version", "3.7");
    member.send(request.body(Full::new(framed(&put("a", "1")))).unwrap()).await;
    member.unary(PUT, &put("", "1")).await;
    assert_eq!(member.metric(&handled("Put", "OK")), Some(1.0));
    assert_eq!(member.metric(&handled("Put", "InvalidArgument")), Some(1.0));
    let labels = r#"{grpc_method="Put",grpc_service="etcdserverpb.KV",grpc_type="unary"}"#;
    for name in ["started", "msg_received", "msg_sent"] {
        assert_eq!(member.metric(&format!("grpc_server_{name}_total{labels}")), Some(2.0));
    }
    let requests = |version: &str| {
        let labels = format!("{{client_api_version=\"{version}\",type=\"unary\"}}");
        member.metric(&format!("etcd_server_client_requests_total{labels}"))
    };
    assert_eq!((requests("3.7"), requests("unknown")), (Some(1.0), Some(1.0)));
    let sent = framed(&put("a", "1")).len() + framed(&put("", "1")).len() - 10;
    let received = member.metric("etcd_network_client_grpc_received_bytes_total");
    assert_eq!(received, Some(f64::from(u32::try_from(sent).unwrap())));
}

fn handled(method: &str, code: &str) -> String {
    format!(
        "grpc_server_handled_total{{grpc_code=\"{code}\",grpc_method=\"{method}\",grpc_service=\"etcdserverpb.KV\",grpc_type=\"unary\"}}"
    )
}

#[tokio::test]
async fn a_dropped_call_counts_as_canceled() {
    let member = Fixture::start();
    let lock = || framed(&LockRequest { name: "jobs".into(), lease: 0 });
    let path = "/v3lockpb.Lock/Lock";
    assert_eq!(member.send(post(path).body(Full::new(lock())).unwrap()).await.status().0, 0);
    let connection = crate::support::connection();
    let waits = member.grpc.call(&connection, post(path).body(Full::new(lock())).unwrap());
    let keys = RangeRequest { range_end: "jobs0".into(), count_only: true, ..range("jobs/") };
    let joined = async {
        let count = async || member.unary(RANGE, &keys).await.messages::<RangeResponse>()[0].count;
        yield_until_async("two callers wait for the lock", async || count().await >= 2).await;
    };
    tokio::select! {
        _ = waits => panic!("another lease holds the lock"),
        () = joined => {}
    }
    let canceled = r#"grpc_server_handled_total{grpc_code="Canceled",grpc_method="Lock",grpc_service="v3lockpb.Lock",grpc_type="unary"}"#;
    assert_eq!(member.metric(canceled), Some(1.0));
}

#[tokio::test]
async fn a_unary_call_without_a_message_is_not_counted() {
    let member = Fixture::start();
    let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
    let request = post(PUT).body(NeverEnds { started: Some(sender) }).unwrap();
    let connection = crate::support::connection();
    let call = member.grpc.call(&connection, request);
    tokio::select! {
        _ = call => panic!("a call without a message returned"),
        _ = receiver => {}
    }
    // A unary call counts once its message is decoded; only a stream counts from the start.
    assert_eq!(member.metric(&handled("Put", "Canceled")), Some(0.0));
}

/// A body that reports its first poll and never yields.
struct NeverEnds {
    started: Option<tokio::sync::oneshot::Sender<()>>,
}

impl http_body::Body for NeverEnds {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        if let Some(started) = self.started.take() {
            let _ = started.send(());
        }
        std::task::Poll::Pending
    }
}

#[tokio::test]
async fn a_call_ends_at_its_deadline() {
    let member = Fixture::start();
    let request = post(PUT).header("grpc-timeout", "20m");
    let request = request.body(NeverEnds { started: None }).unwrap();
    let response = member.grpc.call(&crate::support::connection(), request).await;
    assert_eq!(response.headers()["grpc-status"], "4");
    assert_eq!(response.headers()["grpc-message"], "context deadline exceeded");
}

#[tokio::test]
async fn a_stopped_member_answers_unavailable() {
    let member = Fixture::start();
    let server = member.server().clone();
    assert_eq!(member.unary(PUT, &put("a", "1")).await.status().0, 0);
    let grpc = member.grpc.clone();
    drop(member);
    assert!(server.is_stopping());
    let request = post("/etcdserverpb.Lease/LeaseGrant");
    let request = request.body(Full::new(framed(&LeaseGrantRequest { id: 1, ttl: 10 }))).unwrap();
    let response = grpc.call(&crate::support::connection(), request).await;
    assert_eq!(response.headers()["grpc-message"], "etcdserver: server stopped");
    assert_eq!(response.headers()["grpc-status"], "14");
}
