//! Distributed tracing: sampling, spans and attributes, and an unreachable collector.

use std::collections::BTreeMap;

use e2e::collector::{CollectedSpan, Collector, hex};
use e2e::http::request;
use e2e::{Member, Options};
use proto::etcdserverpb::{LeaseGrantRequest, PutRequest, RangeRequest, WatchCreateRequest};
use tonic::Request;

const PARENT: &str = "b7ad6b7169203331";

fn options(address: &str) -> Options {
    let options = Options::new().flag("enable-distributed-tracing", "true");
    // The default of five seconds would only make the tests wait.
    let options = options.env("OTEL_BSP_SCHEDULE_DELAY", "100");
    options.flag("distributed-tracing-address", address)
}

/// A `traceparent` with a unique trace id.
fn trace(number: u8) -> String {
    format!("0af7651916cd43dd8448eb211c8031{number:02x}")
}

fn within<T>(message: T, trace: &str, sampled: bool) -> Request<T> {
    let mut request = Request::new(message);
    let flags = if sampled { "01" } else { "00" };
    let parent = format!("00-{trace}-{PARENT}-{flags}");
    request.metadata_mut().insert("traceparent", parent.parse().unwrap());
    request
}

fn put(key: &str) -> PutRequest {
    PutRequest { key: key.to_owned().into(), ..PutRequest::default() }
}

fn range(key: &str) -> RangeRequest {
    RangeRequest { key: key.to_owned().into(), ..RangeRequest::default() }
}

/// Maps each span to the name of its parent.
fn shape(spans: &[CollectedSpan]) -> BTreeMap<&str, &str> {
    let name = |id: &[u8]| {
        let parent = spans.iter().find(|one| one.span.span_id == id);
        parent.map_or("", |parent| &parent.span.name)
    };
    spans.iter().map(|one| (&*one.span.name, name(&one.span.parent_span_id))).collect()
}

fn find<'a>(spans: &'a [CollectedSpan], name: &str) -> &'a CollectedSpan {
    spans.iter().find(|one| one.span.name == name).unwrap_or_else(|| panic!("no {name}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_put_has_spans_from_the_call_to_the_sync() {
    let mut collector = Collector::start().await;
    let options = options(&collector.address()).flag("distributed-tracing-instance-id", "me");
    let member = Member::start(options);
    member.client().kv().put(within(put("foo"), &trace(1), true)).await.unwrap();

    let spans = collector.trace(&trace(1), "etcdserverpb.KV/Put").await;
    let call = find(&spans, "etcdserverpb.KV/Put");
    assert_eq!(hex(&call.span.parent_span_id), PARENT);
    assert_eq!(call.span.kind, 2, "span kind SERVER");
    let port = member.sandbox().client_address().rsplit(':').next().unwrap().to_owned();
    for (name, value) in [
        ("rpc.method", "etcdserverpb.KV/Put"),
        ("rpc.system.name", "grpc"),
        ("server.address", "127.0.0.1"),
        ("server.port", &port),
        ("rpc.response.status_code", "OK"),
    ] {
        assert_eq!(call.attribute(name).as_deref(), Some(value), "{name}");
    }
    let resource = [("service.instance.id", "me"), ("service.name", "etcd")];
    let mut actual = call.resource.clone();
    actual.sort_unstable();
    assert_eq!(actual, resource.map(|(name, value)| (name.to_owned(), value.to_owned())));

    let expected = [
        ("apply", "put"),
        ("etcdserverpb.KV/Put", ""),
        ("propose", "put"),
        ("put", "etcdserverpb.KV/Put"),
        ("sync", "propose"),
    ];
    assert_eq!(shape(&spans), BTreeMap::from(expected));
    let put = find(&spans, "put");
    assert_eq!(put.attribute("key").as_deref(), Some("foo"));
    assert_eq!(put.events(), ["Send raft proposal", "Receive raft result"]);
    let times = |name| {
        let span = &find(&spans, name).span;
        (span.start_time_unix_nano, span.end_time_unix_nano)
    };
    let (sync, apply, put) = (times("sync"), times("apply"), times("put"));
    assert!(put.0 <= sync.0 && sync.0 <= sync.1 && sync.1 <= apply.0, "{spans:#?}");
    assert!(apply.0 <= apply.1 && apply.1 <= put.1, "{spans:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_has_a_read_index_span() {
    let mut collector = Collector::start().await;
    let member = Member::start(options(&collector.address()));
    let client = member.client();
    client.kv().range(within(range("foo"), &trace(1), true)).await.unwrap();
    let spans = collector.trace(&trace(1), "etcdserverpb.KV/Range").await;
    let expected = [
        ("etcdserverpb.KV/Range", ""),
        ("range", "etcdserverpb.KV/Range"),
        ("read_index", "range"),
    ];
    assert_eq!(shape(&spans), BTreeMap::from(expected));
    assert_eq!(find(&spans, "range").attribute("range_begin").as_deref(), Some("foo"));

    let serializable = RangeRequest { serializable: true, ..range("foo") };
    client.kv().range(within(serializable, &trace(2), true)).await.unwrap();
    let spans = collector.trace(&trace(2), "etcdserverpb.KV/Range").await;
    assert_eq!(spans.len(), 2, "no read index: {spans:#?}");

    let refused = client.kv().range(within(range(""), &trace(3), true)).await;
    assert!(refused.is_err());
    let spans = collector.trace(&trace(3), "etcdserverpb.KV/Range").await;
    let [call] = &spans[..] else { panic!("{spans:#?}") };
    let code = call.attribute("rpc.response.status_code");
    assert_eq!(code.as_deref(), Some("INVALID_ARGUMENT"));
}

/// A stopping member exports all pending spans, so a span in flight would be seen.
#[tokio::test(flavor = "multi_thread")]
async fn only_sampled_calls_are_exported() {
    let mut collector = Collector::start().await;
    let member = Member::start(options(&collector.address()));
    let client = member.client();
    client.put("foo", "bar").await.unwrap();
    client.kv().put(within(put("foo"), &trace(1), false)).await.unwrap();
    client.kv().put(within(put("foo"), &trace(2), true)).await.unwrap();
    drop(client);
    member.terminate();
    collector.trace(&trace(2), "etcdserverpb.KV/Put").await;
    assert!(collector.traces().iter().all(|came| *came == trace(2)), "{:?}", collector.traces());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sampling_rate_of_one_million_traces_every_call() {
    let mut collector = Collector::start().await;
    let options = options(&collector.address());
    let member = Member::start(options.flag("distributed-tracing-sampling-rate", "1000000"));
    let client = member.client();
    client.put("foo", "bar").await.unwrap();
    client.kv().put(within(put("foo"), &trace(1), false)).await.unwrap();
    drop(client);
    member.terminate();
    let traces = collector.traces();
    assert_eq!(traces.len(), 5, "the sampled flag of a client takes precedence: {traces:?}");
    assert!(!traces.contains(&trace(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn gateway_calls_are_traced_like_grpc_calls() {
    let mut collector = Collector::start().await;
    let member = Member::start(options(&collector.address()));
    let parent = format!("00-{}-{PARENT}-01", trace(1));
    let headers = [("Grpc-Metadata-Traceparent", &*parent)];
    let address = member.sandbox().client_address();
    let answer = request(&address, "POST", "/v3/kv/range", &headers, r#"{"key":"Zm9v"}"#);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let spans = collector.trace(&trace(1), "etcdserverpb.KV/Range").await;
    let call = find(&spans, "etcdserverpb.KV/Range");
    assert_eq!(hex(&call.span.parent_span_id), PARENT);
    assert_eq!(find(&spans, "range").attribute("range_begin").as_deref(), Some("foo"));
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_traced_for_their_duration() {
    let mut collector = Collector::start().await;
    let options = options(&collector.address());
    let member = Member::start(options.flag("distributed-tracing-sampling-rate", "1000000"));
    let client = member.client();
    let grant = within(LeaseGrantRequest { id: 0, ttl: 60 }, &trace(1), true);
    let granted = client.lease().lease_grant(grant).await.unwrap().into_inner();
    let create = WatchCreateRequest { key: "foo".into(), ..WatchCreateRequest::default() };
    drop(client.watch(create).await.unwrap());
    drop(client);
    member.terminate();
    let spans = collector.trace(&trace(1), "etcdserverpb.Lease/LeaseGrant").await;
    let id = find(&spans, "lease_grant").attribute("id");
    assert_eq!(id, Some(granted.id.to_string()), "the granted lease id");
    assert_eq!(shape(&spans)["apply"], "lease_grant");
    let watch = collector.named("watch");
    assert_eq!(watch.attribute("key").as_deref(), Some("foo"));
    let call = collector.named("etcdserverpb.Watch/Watch");
    assert_eq!(call.span.trace_id, watch.span.trace_id);
    assert_eq!(call.span.span_id, watch.span.parent_span_id);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_collector_delays_no_call() {
    let options = options("127.0.0.1:{extra}");
    let member = Member::start(options.flag("distributed-tracing-sampling-rate", "1000000"));
    let client = member.client();
    client.put("foo", "bar").await.unwrap();
    let record = member.log().wait_for_message("failed to export spans");
    assert_eq!(record["level"], "warn");
    client.put("foo", "bar").await.unwrap();
    drop(client);
    assert!(member.metric("bowline_trace_spans_dropped_total{reason=\"export_failed\"}") >= 5.0);
    let stopped = member.terminate();
    let times = stopped.end.stderr.lines();
    let times = times.iter().filter(|line| line.contains("failed to export spans")).count();
    assert_eq!(times, 1, "the failure is logged once");
}
