//! What all calls have in common.

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

use crate::support::{Answer, Fixture, framed, post};

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
async fn an_answer_is_a_message_and_then_its_status() {
    let member = Fixture::start();
    let answer = member.unary(RANGE, &range("a")).await;
    assert_eq!(answer.parts.status, 200);
    assert_eq!(answer.parts.headers["content-type"], "application/grpc");
    assert!(!answer.parts.headers.contains_key("grpc-status"), "that comes last");
    assert_eq!(answer.status(), (0, String::new()));
    let trailers = answer.trailers.as_ref().unwrap();
    assert_eq!(trailers["grpc-message"], "", "as with etcd, there is always a text");
    let [response] = &answer.messages::<RangeResponse>()[..] else { panic!("{answer:?}") };
    let header = response.header.unwrap();
    assert_eq!(header, member.server().header(1));
    assert_ne!((header.cluster_id, header.member_id, header.raft_term), (0, 0, 0));
}

#[tokio::test]
async fn a_refusal_is_in_the_headers_alone() {
    let member = Fixture::start();
    let answer = member.unary(RANGE, &range("")).await;
    assert_eq!(answer.status(), (3, "etcdserver: key is not provided".to_owned()));
    assert!(answer.parts.headers.contains_key("grpc-status"));
    assert_eq!((answer.trailers, answer.body), (None, Bytes::new()));
}

#[tokio::test]
async fn a_stream_that_ends_without_a_word_has_headers_alone() {
    let member = Fixture::start();
    let none = RangeRequest { key: "a".into(), sort_order: 2, ..RangeRequest::default() };
    let garbage = Bytes::from_static(&[0, 0, 0, 0, 2, 0x0a, 0xff]);
    for (path, asked, code) in [
        ("/etcdserverpb.KV/RangeStream", framed(&none), 12),
        ("/etcdserverpb.Watch/Watch", garbage, 13),
        ("/etcdserverpb.Lease/LeaseKeepAlive", Bytes::new(), 0),
    ] {
        let answer = member.ask(post(path).body(Full::new(asked)).unwrap()).await;
        assert_eq!(answer.parts.headers["grpc-status"], code.to_string(), "{path}");
        assert_eq!((answer.trailers, answer.body), (None, Bytes::new()), "{path}");
    }
}

#[tokio::test]
async fn what_is_too_long_is_refused_before_it_is_read() {
    let member = Fixture::start();
    let head = Bytes::from_static(&[0, 0, 0x20, 0, 1]);
    let answer = member.ask(post(PUT).body(Full::new(head)).unwrap()).await;
    let text = "grpc: received message larger than max (2097153 vs. 2097152)";
    assert_eq!(answer.status(), (8, text.to_owned()));
    assert_eq!(member.metric(&handled("Put", "ResourceExhausted")), Some(0.0), "not a call yet");
}

#[tokio::test]
async fn a_request_that_is_too_large_for_the_log_is_refused() {
    let member = Fixture::start();
    let answer = member.unary(PUT, &put("a", &"x".repeat(3 << 19))).await;
    assert_eq!(answer.status(), (3, "etcdserver: request is too large".to_owned()));
}

#[tokio::test]
async fn bytes_that_are_no_message_are_refused() {
    let member = Fixture::start();
    let garbage = Bytes::from_static(&[0, 0, 0, 0, 2, 0x0a, 0xff]);
    let answer = member.ask(post(RANGE).body(Full::new(garbage)).unwrap()).await;
    let text = "grpc: error unmarshalling request: proto: cannot parse invalid wire-format data";
    assert_eq!(answer.status(), (13, text.to_owned()));
    let nothing = member.ask(post(RANGE).body(Full::default()).unwrap()).await;
    assert_eq!(nothing.status(), (2, "EOF".to_owned()));
    let cut = member.ask(post(RANGE).body(Full::new(framed(&range("abc")).slice(..7))).unwrap());
    assert_eq!(cut.await.status(), (2, "unexpected EOF".to_owned()));
}

/// A message as a client sends it that compresses.
fn gzipped(message: &impl Message) -> Bytes {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&message.encode_to_vec()).unwrap();
    let packed = packed.finish().unwrap();
    let length = u32::try_from(packed.len()).unwrap().to_be_bytes();
    [&[1][..], &length, &packed].concat().into()
}

/// The only message of an answer that is compressed.
fn unzipped<M: Message + Default>(answer: &Answer) -> M {
    assert_eq!(answer.parts.headers["grpc-encoding"], "gzip");
    let [1, _, _, _, _, packed @ ..] = &answer.body[..] else { panic!("{answer:?}") };
    let mut message = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut message).unwrap();
    M::decode(&message[..]).unwrap()
}

#[tokio::test]
async fn a_client_that_compresses_is_answered_so() {
    let member = Fixture::start();
    let gzip = |path: &str, body: Bytes| {
        member.ask(post(path).header("grpc-encoding", "gzip").body(Full::new(body)).unwrap())
    };
    for (key, length) in [("short", 1), ("long", 1 << 20)] {
        let value = "v".repeat(length);
        let answer = gzip(PUT, gzipped(&put(key, &value))).await;
        assert_eq!(answer.status(), (0, String::new()));
        for path in [RANGE, "/etcdserverpb.KV/RangeStream"] {
            let answer = gzip(path, gzipped(&range(key))).await;
            let response = match path {
                RANGE => unzipped::<RangeResponse>(&answer),
                _ => unzipped::<RangeStreamResponse>(&answer).range_response.unwrap(),
            };
            assert_eq!(response.kvs[0].value, value, "{path}");
            assert!(answer.body.len() < 4 << 10, "{}", answer.body.len());
        }
    }
    let plain = gzip(RANGE, framed(&range("short"))).await;
    assert_eq!(unzipped::<RangeResponse>(&plain).count, 1, "each message says whether it is");
    let refused = gzip(RANGE, gzipped(&range(""))).await;
    assert_eq!(refused.status(), (3, "etcdserver: key is not provided".to_owned()));
    assert!(!refused.parts.headers.contains_key("grpc-encoding"));

    let bomb = gzip(PUT, gzipped(&put("a", &"v".repeat(4 << 20)))).await;
    let text = "grpc: received message after decompression larger than max 2097152";
    assert_eq!(bomb.status(), (8, text.to_owned()));
}

#[tokio::test]
async fn a_stream_with_one_request_wants_exactly_one() {
    let member = Fixture::start();
    let path = "/etcdserverpb.KV/RangeStream";
    let none = member.ask(post(path).body(Full::default()).unwrap()).await;
    let text = "cardinality violation: received no request message from non-client-streaming RPC";
    assert_eq!(none.status(), (13, text.to_owned()));
    let two = [framed(&range("a")), framed(&range("b"))].concat();
    let two = member.ask(post(path).body(Full::new(two.into())).unwrap()).await;
    let text =
        "cardinality violation: received multiple request messages for non-client-streaming RPC";
    assert_eq!(two.status(), (13, text.to_owned()));
}

#[tokio::test]
async fn unknown_methods_are_told_of() {
    let member = Fixture::start();
    let answer = member.unary("/etcdserverpb.KV/Get", &range("a")).await;
    let text = "unknown method Get for service etcdserverpb.KV";
    assert_eq!(answer.status(), (12, text.to_owned()));
}

#[tokio::test]
async fn clients_and_calls_are_counted() {
    let member = Fixture::start();
    let request = post(PUT).header("client-api-version", "3.7");
    member.ask(request.body(Full::new(framed(&put("a", "1")))).unwrap()).await;
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
    let asked = framed(&put("a", "1")).len() + framed(&put("", "1")).len() - 10;
    let received = member.metric("etcd_network_client_grpc_received_bytes_total");
    assert_eq!(received, Some(f64::from(u32::try_from(asked).unwrap())));
}

fn handled(method: &str, code: &str) -> String {
    format!(
        "grpc_server_handled_total{{grpc_code=\"{code}\",grpc_method=\"{method}\",grpc_service=\"etcdserverpb.KV\",grpc_type=\"unary\"}}"
    )
}

#[tokio::test]
async fn a_call_that_is_given_up_is_counted_as_canceled() {
    let member = Fixture::start();
    let lock = || framed(&LockRequest { name: "jobs".into(), lease: 0 });
    let path = "/v3lockpb.Lock/Lock";
    assert_eq!(member.ask(post(path).body(Full::new(lock())).unwrap()).await.status().0, 0);
    let connection = crate::support::connection();
    let waits = member.grpc.call(&connection, post(path).body(Full::new(lock())).unwrap());
    let keys = RangeRequest { range_end: "jobs0".into(), count_only: true, ..range("jobs/") };
    let joined = async {
        let count = async || member.unary(RANGE, &keys).await.messages::<RangeResponse>()[0].count;
        while count().await < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = waits => panic!("somebody else holds it"),
        () = joined => {}
    }
    let canceled = r#"grpc_server_handled_total{grpc_code="Canceled",grpc_method="Lock",grpc_service="v3lockpb.Lock",grpc_type="unary"}"#;
    assert_eq!(member.metric(canceled), Some(1.0));
}

#[tokio::test]
async fn a_call_whose_message_does_not_come_is_none() {
    let member = Fixture::start();
    let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
    let request = post(PUT).body(NeverEnds { started: Some(sender) }).unwrap();
    let connection = crate::support::connection();
    let call = member.grpc.call(&connection, request);
    tokio::select! {
        _ = call => panic!("its message never came"),
        _ = receiver => {}
    }
    // Its message was never read, so it never was a call: only a stream is one from the beginning.
    assert_eq!(member.metric(&handled("Put", "Canceled")), Some(0.0));
}

/// A body that has been asked for its first piece, and does not give it.
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
async fn a_deadline_is_kept() {
    let member = Fixture::start();
    let request = post(PUT).header("grpc-timeout", "20m");
    let request = request.body(NeverEnds { started: None }).unwrap();
    let response = member.grpc.call(&crate::support::connection(), request).await;
    assert_eq!(response.headers()["grpc-status"], "4");
    assert_eq!(response.headers()["grpc-message"], "context deadline exceeded");
}

#[tokio::test]
async fn a_member_that_has_stopped_says_so() {
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
