//! `grpc-proxy start`: a gRPC proxy in front of members.

use e2e::{Client, Member, Options, Proxy, Sandbox, TlsClient, http};
use proto::etcdserverpb as pb;
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::watch_request::RequestUnion;
use testkit::certs::{Authority, Subject, write};
use testkit::waiting::{wait_until, yield_until_async};
use tonic::Code;

/// The series of a member's watchers.
const WATCHERS: &str = "etcd_debugging_mvcc_watcher_total";
/// The watcher by which a proxy notices the loss of the leader.
const OWN_WATCHERS: f64 = 1.0;

fn endpoints(member: &Member) -> String {
    format!("--endpoints={}", member.sandbox().client_address())
}

/// Starts a member and a proxy in front of it.
fn start(flags: &[&str]) -> (Member, Proxy) {
    let member = Member::start(Options::new());
    let endpoints = endpoints(&member);
    let flags: Vec<&str> = [endpoints.as_str()].into_iter().chain(flags.iter().copied()).collect();
    let proxy = Proxy::start("grpc-proxy", &flags);
    (member, proxy)
}

fn serializable(key: &str) -> pb::RangeRequest {
    let key = key.to_owned().into();
    pb::RangeRequest { key, serializable: true, ..pb::RangeRequest::default() }
}

fn with_token<T>(message: T, token: &str) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert("token", token.parse().unwrap());
    request
}

#[tokio::test]
async fn keys_are_written_and_read_through_a_proxy() {
    let (member, proxy) = start(&[]);
    let client = proxy.client();
    let put = client.put("k", "1").await.unwrap();
    assert_eq!(member.client().get("k").await.unwrap().kvs[0].value, "1");
    assert_eq!(
        client.get("k").await.unwrap().header.unwrap().revision,
        put.header.unwrap().revision
    );
    let op = pb::RequestOp {
        request: Some(Request::RequestPut(pb::PutRequest {
            key: "k".into(),
            value: "2".into(),
            ..Default::default()
        })),
    };
    let txn = pb::TxnRequest { success: vec![op], ..pb::TxnRequest::default() };
    assert!(client.txn(txn).await.unwrap().succeeded);
    assert_eq!(client.get("k").await.unwrap().kvs[0].value, "2");
    assert_eq!(client.delete("k").await.unwrap().deleted, 1);
    let empty = client.put("", "x").await.unwrap_err();
    assert_eq!(
        (empty.code(), empty.message()),
        (Code::InvalidArgument, "etcdserver: key is not provided")
    );
    let stream = client.kv().range_stream(serializable("k")).await.unwrap_err();
    assert_eq!(stream.code(), Code::Unimplemented);
}

#[tokio::test]
async fn serializable_reads_are_answered_from_the_cache_until_a_write() {
    let (member, proxy) = start(&[]);
    let client = proxy.client();
    client.put("k", "1").await.unwrap();
    client.get("k").await.unwrap();
    // A write past the proxy is not noticed, as with etcd.
    member.client().put("k", "2").await.unwrap();
    assert_eq!(client.range(serializable("k")).await.unwrap().kvs[0].value, "1");
    assert_eq!(proxy.metric("etcd_grpc_proxy_cache_hits_total"), 1.0);
    assert_eq!(proxy.metric("etcd_grpc_proxy_cache_keys_total"), 1.0);
    client.put("k", "3").await.unwrap();
    assert_eq!(client.range(serializable("k")).await.unwrap().kvs[0].value, "3");
    assert_eq!(proxy.metric("etcd_grpc_proxy_cache_misses_total"), 1.0);
}

// On several threads: the waits below block theirs, while the connections go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_of_one_range_share_a_watcher_of_the_member() {
    let (member, proxy) = start(&[]);
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(proxy.client().watch_prefix("k", 0).await.unwrap());
    }
    wait_until("the watchers are coalesced", || member.metric(WATCHERS) == OWN_WATCHERS + 1.0);
    assert_eq!(proxy.metric("etcd_grpc_proxy_watchers_coalescing_total"), 2.0);
    proxy.client().put("k1", "v").await.unwrap();
    for stream in &mut streams {
        let events = stream.events(1).await.unwrap();
        assert_eq!(events[0].kv.as_ref().unwrap().key, "k1");
        assert_eq!(events[0].prev_kv, None, "not requested");
    }
    wait_until("the further receivers are counted", || {
        proxy.metric("etcd_grpc_proxy_events_coalescing_total") >= 2.0
    });
    streams.truncate(1);
    proxy.client().put("k2", "v").await.unwrap();
    assert_eq!(streams[0].events(1).await.unwrap()[0].kv.as_ref().unwrap().key, "k2");
    drop(streams);
    wait_until("no watcher is left", || member.metric(WATCHERS) == OWN_WATCHERS);
}

#[tokio::test]
async fn a_watcher_of_the_past_receives_each_event_once() {
    let (member, proxy) = start(&[]);
    let first = member.client().put("k", "0").await.unwrap().header.unwrap().revision;
    for n in 1..20 {
        member.client().put("k", &n.to_string()).await.unwrap();
    }
    let mut current = proxy.client().watch_prefix("k", 0).await.unwrap();
    let mut past = proxy.client().watch_prefix("k", first).await.unwrap();
    member.client().put("k", "20").await.unwrap();
    let revisions: Vec<i64> = past.events(21).await.unwrap().iter().map(revision).collect();
    assert_eq!(revisions, (first..=first + 20).collect::<Vec<_>>());
    let revisions: Vec<i64> = current.events(1).await.unwrap().iter().map(revision).collect();
    assert_eq!(revisions, [first + 20]);
}

fn revision(event: &proto::mvccpb::Event) -> i64 {
    event.kv.as_ref().unwrap().mod_revision
}

#[tokio::test]
async fn watches_are_canceled_and_refused_as_by_a_member() {
    let (member, proxy) = start(&[]);
    let create = |revision| pb::WatchCreateRequest {
        key: "k".into(),
        start_revision: revision,
        ..Default::default()
    };
    let mut stream = proxy.client().watch(create(0)).await.unwrap();
    stream.send(RequestUnion::CreateRequest(create(-1))).await;
    let refused = stream.next().await.unwrap();
    assert!(refused.created && refused.canceled && refused.watch_id == -1);
    assert!(refused.cancel_reason.contains("compacted"), "{refused:?}");
    let cancel = pb::WatchCancelRequest { watch_id: 0 };
    stream.send(RequestUnion::CancelRequest(cancel)).await;
    assert!(stream.next().await.unwrap().canceled);

    for _ in 0..3 {
        member.client().put("k", "v").await.unwrap();
    }
    member.client().compact(4).await.unwrap();
    let mut stream = proxy.client().watch(create(2)).await.unwrap();
    let compacted = stream.next().await.unwrap();
    assert!(compacted.canceled && compacted.compact_revision == 4, "{compacted:?}");
}

/// A refusal carries the id -1. It must not be taken for the end of a watcher.
// On several threads: the wait below blocks its thread, while the connections go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_ends_no_watcher_whatever_id_its_client_chose() {
    let (member, proxy) = start(&[]);
    let create = |start_revision| pb::WatchCreateRequest {
        key: "k".into(),
        start_revision,
        watch_id: -1,
        ..Default::default()
    };
    let mut stream = proxy.client().watch(create(0)).await.unwrap();
    stream.send(RequestUnion::CreateRequest(create(-1))).await;
    let refused = stream.next().await.unwrap();
    assert!(refused.created && refused.canceled && refused.watch_id == -1, "{refused:?}");
    proxy.client().put("k", "v").await.unwrap();
    let event = stream.next().await.unwrap();
    assert_eq!((event.watch_id, event.events.len()), (0, 1), "the proxy has chosen the id");
    drop(stream);
    wait_until("no watcher is left", || member.metric(WATCHERS) == OWN_WATCHERS);
}

#[tokio::test]
async fn leases_are_granted_renewed_and_revoked() {
    let (member, proxy) = start(&[]);
    let client = proxy.client();
    let grant = pb::LeaseGrantRequest { ttl: 60, id: 0 };
    let lease = client.lease().lease_grant(grant).await.unwrap().into_inner().id;
    let put = pb::PutRequest { key: "k".into(), lease, ..pb::PutRequest::default() };
    client.kv().put(put).await.unwrap();
    let request = pb::LeaseKeepAliveRequest { id: lease };
    for _ in 0..2 {
        let requests = tonic::codegen::tokio_stream::iter([request, request]);
        let mut renewed = client.lease().lease_keep_alive(requests).await.unwrap().into_inner();
        for _ in 0..2 {
            let renewed = renewed.message().await.unwrap().unwrap();
            assert_eq!((renewed.id, renewed.ttl), (lease, 60));
        }
        assert!(renewed.message().await.unwrap().is_none(), "the stream ends with the requests");
    }
    let streams = r#"grpc_server_started_total{grpc_method="LeaseKeepAlive",grpc_service="etcdserverpb.Lease",grpc_type="bidi_stream"}"#;
    assert_eq!(member.metric(streams), 1.0, "clients share a stream");
    let keys = pb::LeaseTimeToLiveRequest { id: lease, keys: true };
    let left = client.lease().lease_time_to_live(keys).await.unwrap().into_inner();
    assert_eq!((left.granted_ttl, left.keys), (60, vec!["k".into()]));
    client.lease().lease_revoke(pb::LeaseRevokeRequest { id: lease }).await.unwrap();
    assert_eq!(member.client().get("k").await.unwrap().count, 0);
    let unknown = client.lease().lease_revoke(pb::LeaseRevokeRequest { id: lease }).await;
    assert_eq!(unknown.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn clients_of_a_namespace_see_only_its_keys() {
    let (member, proxy) = start(&["--namespace=app/"]);
    let client = proxy.client();
    let mut watch = client.watch_prefix("k", 0).await.unwrap();
    client.put("k", "v").await.unwrap();
    member.client().put("outside", "v").await.unwrap();
    assert_eq!(member.client().get("app/k").await.unwrap().count, 1);
    let all = pb::RangeRequest { key: "\0".into(), range_end: "\0".into(), ..Default::default() };
    let found = client.range(all).await.unwrap();
    assert_eq!((found.count, &found.kvs[0].key[..]), (1, &b"k"[..]));
    assert_eq!(watch.events(1).await.unwrap()[0].kv.as_ref().unwrap().key, "k");
    let op = pb::RequestOp {
        request: Some(Request::RequestRange(pb::RangeRequest {
            key: "k".into(),
            ..Default::default()
        })),
    };
    let txn = pb::TxnRequest { success: vec![op], ..pb::TxnRequest::default() };
    let answer = client.txn(txn).await.unwrap();
    let Some(pb::response_op::Response::ResponseRange(range)) = &answer.responses[0].response
    else {
        panic!("{answer:?}");
    };
    assert_eq!(range.kvs[0].key, "k");
    assert_eq!(client.get("").await.unwrap_err().message(), "etcdserver: key is not provided");
}

#[tokio::test]
async fn authenticated_users_pass_through_a_proxy_and_past_its_cache() {
    let (_member, proxy) = start(&[]);
    let client = proxy.client();
    client.put("secret", "v").await.unwrap();
    client.get("secret").await.unwrap();
    let mut auth = client.auth();
    for (name, password) in [("root", "r"), ("guest", "g")] {
        let add = pb::AuthUserAddRequest {
            name: name.into(),
            password: password.into(),
            ..Default::default()
        };
        auth.user_add(add).await.unwrap();
    }
    auth.role_add(pb::AuthRoleAddRequest { name: "root".into() }).await.unwrap();
    let grant = pb::AuthUserGrantRoleRequest { user: "root".into(), role: "root".into() };
    auth.user_grant_role(grant).await.unwrap();
    auth.auth_enable(pb::AuthEnableRequest {}).await.unwrap();
    let mut tokens = Vec::new();
    for (name, password) in [("root", "r"), ("guest", "g")] {
        let login = pb::AuthenticateRequest { name: name.into(), password: password.into() };
        tokens.push(auth.authenticate(login).await.unwrap().into_inner().token);
    }
    let read = |token: Option<&String>| {
        let request = match token {
            Some(token) => with_token(serializable("secret"), token),
            None => tonic::Request::new(serializable("secret")),
        };
        let mut kv = client.kv();
        async move { kv.range(request).await.map(|found| found.into_inner().count) }
    };
    assert_eq!(read(Some(&tokens[0])).await.unwrap(), 1);
    assert_eq!(read(Some(&tokens[1])).await.unwrap_err().code(), Code::PermissionDenied);
    let anonymous = read(None).await.unwrap_err();
    assert_eq!(anonymous.message(), "etcdserver: user name is empty");
    let watch = client.watch_prefix("secret", 0).await.unwrap_err();
    assert!(watch.message().contains("user name is empty"), "{watch}");
    let grant = pb::LeaseGrantRequest { ttl: 60, id: 7 };
    client.lease().lease_grant(with_token(grant, &tokens[0])).await.unwrap();
    let put = pb::PutRequest { key: "secret".into(), lease: 7, ..pb::PutRequest::default() };
    client.kv().put(with_token(put, &tokens[0])).await.unwrap();
    let renew = || tonic::codegen::tokio_stream::iter([pb::LeaseKeepAliveRequest { id: 7 }]);
    let renewal = with_token(renew(), &tokens[0]);
    let mut renewed = client.lease().lease_keep_alive(renewal).await.unwrap().into_inner();
    assert_eq!(renewed.message().await.unwrap().unwrap().ttl, 60);
    let mut refused = client.lease().lease_keep_alive(renew()).await.unwrap().into_inner();
    let refused = refused.message().await.unwrap_err();
    assert_eq!(refused.message(), "etcdserver: user name is empty");
}

#[tokio::test]
async fn watches_and_calls_survive_a_restart_of_the_member() {
    let (member, proxy) = start(&[]);
    let client = proxy.client();
    let mut watch = client.watch_prefix("k", 0).await.unwrap();
    client.put("k", "1").await.unwrap();
    assert_eq!(watch.events(1).await.unwrap().len(), 1);
    let stopped = member.kill();
    let refused = client.get("k").await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    let member = stopped.start();
    member.client().put("k", "2").await.unwrap();
    let events = watch.events(1).await.unwrap();
    assert_eq!(events[0].kv.as_ref().unwrap().value, "2");
    assert_eq!(client.get("k").await.unwrap().kvs[0].value, "2");
}

#[tokio::test]
async fn a_client_that_does_not_read_its_events_does_not_delay_others() {
    let (member, proxy) = start(&[]);
    let mut slow = proxy.client().watch_prefix("k", 0).await.unwrap();
    let mut fast = proxy.client().watch_prefix("k", 0).await.unwrap();
    let value = "x".repeat(64 << 10);
    let writer = member.client();
    let write = async {
        for _ in 0..1500 {
            writer.put("k", &value).await.unwrap();
        }
    };
    let (events, ()) = tokio::join!(fast.events(1500), write);
    assert_eq!(events.unwrap().len(), 1500);
    proxy.log().wait_for(|line| line.contains("failed to put a watch response"));
    let ended = loop {
        match slow.next().await {
            Ok(_) => {}
            Err(status) => break status,
        }
    };
    assert_eq!(ended.code(), Code::Cancelled);
}

#[tokio::test]
async fn a_proxy_registers_itself_and_lists_proxies_as_members() {
    let flags = [
        "--resolver-prefix=proxies",
        "--resolver-ttl=5",
        "--advertise-client-url=127.0.0.1:{client}",
    ];
    let (member, proxy) = start(&flags);
    proxy.log().wait_for_message("registered session with lease");
    let key = format!("proxies/{}", proxy.address());
    let found = member.client().get(&key).await.unwrap();
    let value: serde_json::Value = serde_json::from_slice(&found.kvs[0].value).unwrap();
    assert_eq!((&value["Op"], &value["Addr"]), (&0.into(), &proxy.address().into()));
    assert!(found.kvs[0].lease != 0);
    // Another proxy, of any kind, is a member too.
    let other = r#"{"Op":0,"Addr":"10.9.9.9:1","Metadata":"{\"name\":\"zzz\"}"}"#;
    member.client().put("proxies/zzz", other).await.unwrap();
    let list = || async {
        let mut cluster = proxy.client().cluster();
        cluster.member_list(pb::MemberListRequest::default()).await.unwrap().into_inner().members
    };
    yield_until_async("both proxies are listed", async || list().await.len() >= 2).await;
    let members = list().await;
    assert_eq!(members[1].client_urls, ["10.9.9.9:1"]);
    assert_eq!(members[1].name, "zzz");
}

#[tokio::test]
async fn members_are_listed_only_without_an_advertised_address() {
    let (_member, proxy) = start(&["--advertise-client-url="]);
    let list = |client: Client| async move {
        let listed = client.cluster().member_list(pb::MemberListRequest::default()).await;
        listed.unwrap().into_inner().members
    };
    assert_eq!(list(proxy.client()).await[0].name, "default");
    assert_eq!(proxy.get("/proxy/health").status, 503);
    let (_member, proxy) = start(&["--advertise-client-url=127.0.0.1:{client}"]);
    let members = list(proxy.client()).await;
    assert_eq!((members.len(), members[0].id), (1, 0));
    assert_eq!(members[0].client_urls, [proxy.address()]);
}

#[tokio::test]
async fn health_and_metrics_are_served_over_http() {
    let flags =
        ["--advertise-client-url=127.0.0.1:{client}", "--metrics-addr=http://127.0.0.1:{extra}"];
    let (member, proxy) = start(&flags);
    for path in ["/health", "/proxy/health"] {
        let health = http::wait_until_healthy(|| proxy.get(path));
        assert_eq!(
            (health.status, health.text().as_str()),
            (200, r#"{"health":"true","reason":""}"#)
        );
    }
    assert!(proxy.get("/metrics").text().contains("etcd_server_has_leader 1"));
    let extra = proxy.sandbox().extra_address();
    assert!(
        http::get(&extra, "/proxy/metrics").text().contains("etcd_grpc_proxy_cache_keys_total")
    );
    assert!(proxy.get("/proxy/metrics").text().contains("process_resident_memory_bytes"));
    let gzip = [("Accept-Encoding", "gzip")];
    let page = http::request(&proxy.address(), "GET", "/proxy/metrics", &gzip, "");
    assert_eq!(page.header("content-encoding"), Some("gzip"));
    assert_eq!(
        page.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8; escaping=underscores")
    );
    assert_eq!(proxy.get("/version").status, 404);
    assert_eq!(proxy.get("/debug/pprof/").status, 404);
    drop(member.kill());
    let health = proxy.get("/health");
    assert_eq!(health.status, 503);
    assert!(
        health.text().starts_with(r#"{"health":"false","reason":"GET ERROR:"#),
        "{}",
        health.text()
    );
}

#[tokio::test]
async fn endpoints_follow_the_member_list() {
    let (member, proxy) = start(&["--endpoints-auto-sync-interval=20ms"]);
    let line = proxy.log().wait_for_message("updated the endpoints from the member list");
    assert_eq!(line["endpoints"][0], format!("http://{}", member.sandbox().client_address()));
    proxy.client().put("k", "v").await.unwrap();
}

#[tokio::test]
async fn tls_is_spoken_with_clients_and_members() {
    let servers = Authority::new("servers");
    let files = Sandbox::new();
    servers.issue(&Subject::default()).write(files.dir(), "server");
    write(&files.path("ca"), servers.pem().as_bytes());
    let dir = files.dir().display().to_string();
    let secure = Options::new()
        .flag("listen-client-urls", "https://127.0.0.1:{client}")
        .flag("advertise-client-urls", "https://127.0.0.1:{client}")
        .flag("cert-file", format!("{dir}/server.pem"))
        .flag("key-file", format!("{dir}/server.key"));
    let member = Member::start(secure);
    let flags = [
        endpoints(&member),
        format!("--cacert={dir}/ca"),
        format!("--cert-file={dir}/server.pem"),
        format!("--key-file={dir}/server.key"),
        "--tls-min-version=TLS1.2".to_owned(),
        "--tls-max-version=TLS1.3".to_owned(),
    ];
    let proxy = Proxy::start("grpc-proxy", &flags.iter().map(String::as_str).collect::<Vec<_>>());
    let client = TlsClient::new(servers.pem());
    client.client(&proxy.address()).put("k", "v").await.unwrap();
    let health = http::wait_until_healthy(|| client.get(&proxy.address(), "/health"));
    assert_eq!(health.status, 200);
    assert!(client.get(&proxy.address(), "/metrics").text().contains("etcd_server_has_leader 1"));
    proxy.client().put("k", "v").await.unwrap_err();
}

#[tokio::test]
async fn a_generated_certificate_is_enough_for_tls() {
    let (_member, proxy) = start(&[
        "--auto-tls",
        "--data-dir={dir}/proxy",
        "--advertise-client-url=127.0.0.1:{client}",
        "--metrics-addr=http://127.0.0.1:{extra}",
    ]);
    assert!(proxy.sandbox().path("proxy/fixtures/proxy/cert.pem").exists());
    // The check calls the proxy by its advertised address, over TLS.
    let extra = proxy.sandbox().extra_address();
    let health = http::wait_until_healthy(|| http::get(&extra, "/proxy/health"));
    assert_eq!((health.status, health.text().as_str()), (200, r#"{"health":"true","reason":""}"#));
    proxy.client().put("k", "v").await.unwrap_err();
}

#[tokio::test]
async fn reads_are_ordered_on_request() {
    let (_member, proxy) = start(&["--experimental-serializable-ordering"]);
    assert!(
        proxy
            .log()
            .record("waiting for linearized read from cluster to recover ordering")
            .is_some()
    );
    let client = proxy.client();
    client.put("k", "v").await.unwrap();
    assert_eq!(client.range(serializable("k")).await.unwrap().count, 1);
}

#[tokio::test]
async fn calls_are_logged_on_request_without_values_and_passwords() {
    const SECRETS: [&str; 2] = ["a-secret-value", "a-secret-password"];
    let (_member, proxy) = start(&["--experimental-enable-grpc-logging"]);
    let client = proxy.client();
    client.put("k", SECRETS[0]).await.unwrap();
    client.get("k").await.unwrap();
    let add = pb::AuthUserAddRequest {
        name: "root".into(),
        password: SECRETS[1].into(),
        ..pb::AuthUserAddRequest::default()
    };
    client.auth().user_add(add).await.unwrap();
    for (service, method) in [("KV", "Put"), ("KV", "Range"), ("Auth", "UserAdd")] {
        let is_finished = |line: &str| {
            line.contains("finished call")
                && line.contains(&format!(r#""service":"etcdserverpb.{service}""#))
                && line.contains(&format!(r#""method":"{method}""#))
                && line.contains(r#""code":"OK""#)
        };
        let line = proxy.log().wait_for(is_finished).expect("the proxy runs");
        assert!(line.contains(r#""peer-address":"127.0.0.1:"#), "{line}");
    }
    let log = proxy.log().text();
    assert!(!SECRETS.iter().any(|secret| log.contains(secret)), "{log}");
}

#[tokio::test]
async fn requests_above_the_limit_are_refused() {
    let (_member, proxy) = start(&["--max-send-bytes=1000"]);
    let refused = proxy.client().put("k", &"x".repeat(1000)).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().starts_with("trying to send message larger than max"), "{refused}");
}

/// The proxy tries an endpoint that is down several times a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_is_down_is_logged_once() {
    let (member, proxy) = start(&["--debug"]);
    proxy.client().put("k", "1").await.unwrap();
    let stopped = member.kill();
    let count = |message: &str| {
        let lines = proxy.log().lines();
        lines.iter().filter(|line| line.contains(message)).count()
    };
    // The proxy itself watches for the loss of the leader.
    wait_until("further attempts fail", || count("still not connected") >= 3);
    let failures = count("failed to connect");
    assert!((1..=2).contains(&failures), "once for each reason: {}", proxy.log().text());
    let _member = stopped.start();
    proxy.log().wait_for_message("connected again");
}

/// The texts are those of etcd 3.7.3, except for the last two: etcd accepts these values.
#[test]
fn invalid_flags_end_a_proxy_with_code_1() {
    let cases: [(&[&str], &str); 9] = [
        (&["--resolver-ttl=1"], "invalid resolver-prefix \"\""),
        (&["--resolver-prefix=a"], "invalid resolver-ttl 0"),
        (&["--metrics-addr=https://127.0.0.1:{peer}"], ": KeyFile and CertFile are not presented"),
        (&["--bogus"], "unknown flag: --bogus"),
        (&["--listen-addr=foo"], "listen tcp: address foo: missing port in address"),
        (&["--listen-addr=127.0.0.1:99999"], "listen tcp: address 99999: invalid port"),
        (&["--listen-addr=nohost.invalid:1"], "listen tcp: lookup nohost.invalid: no such host"),
        (&["--endpoints=foo://x"], "URL scheme must be http, https, unix, or unixs: foo://x"),
        (&["--metrics-addr=localhost:1"], "cannot parse \"localhost:1\""),
    ];
    for (flags, text) in cases {
        let refused = Proxy::refused("grpc-proxy", flags);
        assert_eq!(refused.code(), Some(1), "{flags:?}");
        let output = refused.text();
        // Without any name server the lookup fails differently.
        let is_refused = output.contains(text) || output.contains("Temporary failure");
        assert!(is_refused, "{flags:?}: {output}");
    }
}

/// The texts are those of etcd 3.7.3, which does not name the file.
#[test]
fn unusable_tls_files_end_a_proxy_with_code_1() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new("servers");
    authority.issue(&Subject::default()).write(dir.path(), "empty");
    authority.issue(&Subject { common_name: "a", ..Subject::default() }).write(dir.path(), "a");
    let path = |file: &str| dir.path().join(file).display().to_string();
    let switched = "did find a private key; PEM inputs may have been switched";
    let listener: [(&[&str], &str); 5] = [
        (&["--trusted-ca-file={f}/a.pem"], ": KeyFile and CertFile are not presented"),
        (&["--cert-file={f}/no"], "KeyFile and CertFile must both be present[key: , cert: {f}/no]"),
        (&["--cert-file={f}/a.pem", "--key-file={f}/no"], "open {f}/no: no such file or directory"),
        (
            &["--cert-file={f}/a.pem", "--key-file={f}/a.pem"],
            "tls: found a certificate rather than a key in the PEM for the private key",
        ),
        (&["--cert-file={f}/a.key", "--key-file={f}/a.key"], switched),
    ];
    let members: [(&[&str], &str); 5] = [
        (&["--cacert={f}/no"], "open {f}/no: no such file or directory"),
        (
            &["--cert={f}/a.pem"],
            "KeyFile and CertFile must both be present[key: , cert: {f}/a.pem]",
        ),
        (&["--cert={f}/a.key", "--key={f}/a.key"], switched),
        (&["--cert={f}/a.pem", "--key={f}/empty.key"], "private key does not match public key"),
        (&["--cert={f}/a.pem", "--key={f}/a.key"], "cert has non empty Common Name (a): {f}/a.pem"),
    ];
    let check = |flags: &[&str], text: &str, is_logged: bool| {
        let flags: Vec<String> = flags.iter().map(|flag| flag.replace("{f}/", &path(""))).collect();
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let refused = Proxy::refused("grpc-proxy", &flags);
        assert_eq!(refused.code(), Some(1), "{flags:?}");
        let output = refused.text();
        assert!(output.contains(&text.replace("{f}/", &path(""))), "{flags:?}: {output}");
        let logged = output.contains("\"msg\":\"failed to create TLS listener\"");
        assert_eq!(logged, is_logged, "{flags:?}: {output}");
    };
    listener.iter().for_each(|(flags, text)| check(flags, text, true));
    members.iter().for_each(|(flags, text)| check(flags, text, false));
}
