//! The effect of each flag, as far as it is visible from outside.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use e2e::{Client, Member, Options, Sandbox, http};
use proto::etcdserverpb::{
    DefragmentRequest, Member as Listed, MemberListRequest, MemberListResponse, RangeRequest,
    WatchCreateRequest,
};
use testkit::waiting::{yield_until, yield_until_async};

use crate::files;

#[tokio::test(flavor = "multi_thread")]
async fn listen_client_urls_accept_a_unix_socket() {
    let member = Member::start(Options::new().flag("listen-client-urls", "unix://{dir}/client"));
    let socket = member.sandbox().path("client");
    let client = Client::new(&format!("unix://{}", socket.display()));
    client.put("k", "v").await.unwrap();
    assert_eq!(client.get("k").await.unwrap().count, 1);
    let health = http::wait_until_healthy(|| http::get_unix(&socket, "/health"));
    assert_eq!(health.status, 200);
    member.terminate();
}

#[tokio::test(flavor = "multi_thread")]
async fn listen_metrics_urls_serve_only_metrics_and_health() {
    let url = "http://127.0.0.1:{extra}";
    let member = Member::start(Options::new().flag("listen-metrics-urls", url));
    let ask = |path| http::get(&member.sandbox().extra_address(), path);
    // The ports start in no particular order.
    member.log().wait_for_message("now serving peer/client/metrics");
    assert!(ask("/metrics").text().contains("\netcd_server_has_leader 1\n"));
    for (path, status) in [
        ("/health", 200),
        ("/livez", 200),
        ("/readyz", 200),
        ("/version", 404),
        ("/debug/vars", 404),
    ] {
        assert_eq!(http::wait_until_healthy(|| ask(path)).status, status, "{path}");
    }
    assert_eq!(member.get("/metrics").status, 200, "the client port still serves metrics");
}

#[tokio::test(flavor = "multi_thread")]
async fn listen_client_http_urls_remove_http_from_the_grpc_port() {
    let url = "http://127.0.0.1:{extra}";
    let member = Member::start(Options::new().flag("listen-client-http-urls", url));
    member.client().put("k", "v").await.unwrap();
    let both =
        |line: &str| line.contains("serving client traffic insecurely") && line.contains("http");
    member.log().wait_for(both);
    let extra = member.sandbox().extra_address();
    assert_eq!(http::wait_until_healthy(|| http::get(&extra, "/health")).status, 200);
    for path in ["/health", "/version", "/metrics"] {
        let answer = answer(&member.sandbox().client_address(), path);
        assert!(!answer.starts_with(b"HTTP/1.1 200"), "the gRPC port serves no {path}");
    }
    let elsewhere = Client::new(&format!("http://{}", member.sandbox().extra_address()));
    assert!(elsewhere.put("k", "v").await.is_err(), "the HTTP port serves no gRPC");
}

#[tokio::test(flavor = "multi_thread")]
async fn name_and_advertised_urls_are_published() {
    let options =
        Options::new().flag("name", "m1").flag("initial-cluster", "m1=http://127.0.0.1:{peer}");
    let member = Member::start(options.flag("advertise-client-urls", "http://one.example:1234"));
    let listed = listed(&member.client()).await;
    assert_eq!(listed.name, "m1");
    assert_eq!(listed.client_urls, ["http://one.example:1234"]);
    assert_eq!(listed.peer_urls, [format!("http://{}", member.sandbox().peer_address())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn data_dir_defaults_to_the_name() {
    let options = Options::new().without("data-dir").flag("name", "m2");
    let options = options.flag("initial-cluster", "m2=http://127.0.0.1:{peer}");
    let member = Member::start(options);
    assert!(member.sandbox().path("m2.etcd/member/snap/db").is_file());
}

#[tokio::test(flavor = "multi_thread")]
async fn wal_dir_moves_the_wal() {
    let member = Member::start(Options::new().flag("wal-dir", "{dir}/log"));
    member.client().put("k", "v").await.unwrap();
    let stopped = member.kill();
    assert!(count_files(&stopped.sandbox.path("log"), "wal") > 0);
    assert!(!stopped.data_dir().join("member/wal").exists());
    let member = stopped.start();
    assert_eq!(member.client().get("k").await.unwrap().count, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn initial_cluster_token_changes_the_cluster_id() {
    let id = async |token: &str| {
        let sandbox = Sandbox::new();
        // The same advertised peer URL in both, whatever the port.
        let options = Options::new().flag("initial-cluster-token", token);
        let options = options.flag("initial-advertise-peer-urls", "http://127.0.0.1:1");
        let options = options.flag("initial-cluster", "default=http://127.0.0.1:1");
        let member = Member::start_in(sandbox, options);
        let header = member.client().status().await.unwrap().header.unwrap();
        (header.cluster_id, header.member_id)
    };
    // The ids that etcd derives from that URL.
    let expected = [
        ("etcd-cluster", (11_701_000_360_937_476_151, 6_388_509_975_005_204_352)),
        ("other", (4_663_380_406_525_353_589, 17_788_361_991_820_630_656)),
    ];
    for (token, ids) in expected {
        assert_eq!(id(token).await, ids, "{token}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn environment_variables_set_flags() {
    let options = Options::bare()
        .env("ETCD_NAME", "m3")
        .env("ETCD_DATA_DIR", "{dir}/data")
        .env("ETCD_LISTEN_CLIENT_URLS", "http://127.0.0.1:{client}")
        .env("ETCD_ADVERTISE_CLIENT_URLS", "http://127.0.0.1:{client}")
        .env("ETCD_LISTEN_PEER_URLS", "http://127.0.0.1:{peer}")
        .env("ETCD_INITIAL_ADVERTISE_PEER_URLS", "http://127.0.0.1:{peer}")
        .env("ETCD_INITIAL_CLUSTER", "m3=http://127.0.0.1:{peer}")
        .env("ETCD_QUOTA_BACKEND_BYTES", "12345678")
        .env("ETCD_WHAT_IS_THIS", "1");
    let member = Member::start(options);
    assert_eq!(listed(&member.client()).await.name, "m3");
    assert_eq!(member.client().status().await.unwrap().db_size_quota, 12_345_678);
    let warned = member.log().wait_for_message("unrecognized environment variable");
    assert_eq!(warned["environment-variable"], "ETCD_WHAT_IS_THIS=1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_file_replaces_all_flags() {
    let sandbox = Sandbox::new();
    let file = "
name: m4
data-dir: {dir}/data
listen-client-urls: http://127.0.0.1:{client}
advertise-client-urls: http://127.0.0.1:{client}
listen-peer-urls: http://127.0.0.1:{peer}
initial-advertise-peer-urls: http://127.0.0.1:{peer}
initial-cluster: m4=http://127.0.0.1:{peer}
quota-backend-bytes: 23456789
";
    fs::write(sandbox.path("config.yml"), sandbox.fill(file)).unwrap();
    let options = Options::bare().flag("config-file", "{dir}/config.yml").flag("name", "ignored");
    let member = Member::start_in(sandbox, options);
    assert_eq!(listed(&member.client()).await.name, "m4");
    assert_eq!(member.metric("etcd_server_quota_backend_bytes"), 23_456_789.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn host_whitelist_restricts_the_host_header() {
    let member = Member::start(Options::new().flag("host-whitelist", "good.example,127.0.0.1"));
    let ask = |host| {
        let address = member.sandbox().client_address();
        http::request(&address, "GET", "/health", &[("Host", host)], "")
    };
    assert_eq!(http::wait_until_healthy(|| ask("good.example:2379")).status, 200);
    let refused = ask("evil.example");
    assert_eq!(refused.status, 421);
    assert!(refused.text().contains("--host-whitelist"), "{}", refused.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn cors_restricts_the_origin() {
    let member = Member::start(Options::new().flag("cors", "http://good.example:80"));
    let ask = |origin| {
        let address = member.sandbox().client_address();
        let answer = http::request(&address, "GET", "/health", &[("Origin", origin)], "");
        answer.header("access-control-allow-origin").map(str::to_owned)
    };
    assert_eq!(ask("http://good.example:80").as_deref(), Some("http://good.example:80"));
    assert_eq!(ask("http://evil.example:80"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_extensive_adds_call_durations() {
    let series = "grpc_server_handling_seconds_count{grpc_method=\"Put\",grpc_service=\"etcdserverpb.KV\",grpc_type=\"unary\"}";
    let basic = Member::start(Options::new());
    basic.client().put("k", "v").await.unwrap();
    assert!(!basic.get("/metrics").text().contains("grpc_server_handling_seconds"));
    let extensive = Member::start(Options::new().flag("metrics", "extensive"));
    extensive.client().put("k", "v").await.unwrap();
    assert_eq!(extensive.metric(series), 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn feature_gates_are_reported_as_metrics() {
    let member = Member::start(Options::new().flag("feature-gates", "LeaseCheckpoint=true"));
    let gate = |name, stage| {
        member.metric(&format!("etcd_server_feature_enabled{{name=\"{name}\",stage=\"{stage}\"}}"))
    };
    assert_eq!(gate("LeaseCheckpoint", "ALPHA"), 1.0);
    assert_eq!(gate("CompactHashCheck", "ALPHA"), 1.0);
    assert_eq!(gate("FastLeaseKeepAlive", "BETA"), 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn feature_gates_take_effect() {
    let stops = async |gates: &str| {
        let member = Member::start(Options::new().flag("feature-gates", gates));
        member.client().maintenance().defragment(DefragmentRequest {}).await.unwrap();
        let records = member.terminate().end.stderr.records();
        let stopped = |record: &&serde_json::Value| {
            record["msg"] == "grpc service status changed" && record["status"] == "NOT_SERVING"
        };
        records.iter().filter(stopped).count()
    };
    assert_eq!(stops("StopGRPCServiceOnDefrag=true").await, 1);
    assert_eq!(stops("StopGRPCServiceOnDefrag=false").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn unsafe_no_fsync_skips_syncs() {
    let syncs = async |flag: &str| {
        let member = Member::start(Options::new().flag("unsafe-no-fsync", flag));
        let syncs = || member.metric("etcd_disk_wal_fsync_duration_seconds_count");
        let before = syncs();
        member.client().put("k", "v").await.unwrap();
        syncs() - before
    };
    assert!(syncs("false").await >= 1.0);
    assert_eq!(syncs("true").await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn backend_batch_limit_commits_before_the_interval() {
    let start = |limit: &str| {
        let options = Options::new().flag("backend-batch-interval", "1h");
        Member::start(options.flag("backend-batch-limit", limit))
    };
    let commits =
        |member: &Member| member.metric("etcd_disk_backend_commit_duration_seconds_count");
    let member = start("1");
    let before = commits(&member);
    // One commit may include many puts, and ends after them.
    yield_until_async("two commits are made", async || {
        member.client().put("k", "v").await.unwrap();
        commits(&member) >= before + 2.0
    })
    .await;

    let member = start("1000000");
    let before = commits(&member);
    for _ in 0..50 {
        member.client().put("k", "v").await.unwrap();
    }
    assert_eq!(commits(&member), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn socket_reuse_port_lets_two_servers_share_a_port() {
    let first = Member::start(Options::new().flag("socket-reuse-port", "true"));
    let shared = format!("http://{}", first.sandbox().client_address());
    let options = Options::new().flag("listen-client-urls", shared);
    let second = Member::start(options.flag("socket-reuse-port", "true"));
    // The kernel chooses either; once the first has stopped, it is the second.
    let address = first.sandbox().client_address();
    let health = || http::wait_until_healthy(|| http::get(&address, "/health"));
    assert_eq!(health().status, 200);
    first.terminate();
    assert_eq!(health().status, 200);
    drop(second);
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeat_interval_and_election_timeout_are_milliseconds() {
    let options = Options::new().flag("heartbeat-interval", "20");
    let member = Member::start(options.flag("election-timeout", "300"));
    let record = member.log().wait_for_message("starting an etcd server");
    assert_eq!(
        (&record["heartbeat-interval"], &record["election-timeout"]),
        (&"20ms".into(), &"300ms".into())
    );
    member.client().put("k", "v").await.unwrap();
}

/// A single member campaigns at once, whatever the flag says; otherwise this test would time out.
#[tokio::test(flavor = "multi_thread")]
async fn a_single_member_does_not_wait_for_the_election_timeout() {
    let options = Options::new().flag("initial-election-tick-advance", "false");
    let options = options.flag("heartbeat-interval", "9000").flag("election-timeout", "49000");
    let member = Member::start(options);
    member.client().put("k", "v").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshot_count_triggers_snapshots() {
    let member = Member::start(Options::new().flag("snapshot-count", "10"));
    for _ in 0..30 {
        member.client().put("k", "v").await.unwrap();
    }
    member.log().wait_for_message("saved snapshot to disk");
    assert!(count_files(&member.data_dir().join("member/snap"), "snap") > 0);
    let member = member.kill().start();
    assert_eq!(member.client().get("k").await.unwrap().kvs[0].version, 30);
}

#[tokio::test(flavor = "multi_thread")]
async fn max_snapshots_bounds_the_snapshot_files() {
    let options = Options::new().flag("snapshot-count", "5").flag("max-snapshots", "0");
    let member = Member::start(options);
    let dir = member.data_dir().join("member/snap");
    yield_until_async("four snapshots are taken", async || {
        member.client().put("k", "v").await.unwrap();
        count_files(&dir, "snap") >= 4
    })
    .await;
    // Old files are purged at the start, and twice a minute.
    let member = member.terminate().start_with(|options| options.flag("max-snapshots", "2"));
    member.log().wait_for_message("purged");
    yield_until("old snapshots are purged", || count_files(&dir, "snap") <= 2).await;
    assert_eq!(member.client().get("k").await.unwrap().count, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn auto_compaction_compacts_revisions_older_than_its_period() {
    let options = Options::new().flag("auto-compaction-mode", "periodic");
    let member = Member::start(options.flag("auto-compaction-retention", "1s"));
    let client = member.client();
    for value in ["a", "b", "c"] {
        client.put("k", value).await.unwrap();
    }
    let forgotten = |line: &str| {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        record["msg"] == "completed auto periodic compaction" && record["revision"] == 4
    };
    assert!(member.log().wait_for(forgotten).is_some());
    let past = RangeRequest { key: "k".into(), revision: 2, ..RangeRequest::default() };
    let refused = client.range(past).await.unwrap_err();
    assert_eq!(refused.message(), "etcdserver: mvcc: required revision has been compacted");
    assert_eq!(client.get("k").await.unwrap().kvs[0].value, "c");
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_progress_notify_interval_sets_the_notification_period() {
    let member = Member::start(Options::new().flag("watch-progress-notify-interval", "100ms"));
    let client = member.client();
    client.put("other", "v").await.unwrap();
    let create =
        WatchCreateRequest { key: "k".into(), progress_notify: true, ..Default::default() };
    let mut watching = client.watch(create).await.unwrap();
    for _ in 0..2 {
        let progress = watching.next().await.unwrap();
        assert_eq!((progress.events.len(), progress.header.unwrap().revision), (0, 2));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bootstrap_defrag_threshold_defragments_at_start() {
    let options = Options::new().flag("backend-batch-limit", "1");
    let threshold = |options: Options| options.flag("bootstrap-defrag-threshold-megabytes", "1");
    let member = Member::start(threshold(options));
    // A new database is measured, too.
    member.log().wait_for_message("Skipping defragmentation");
    let client = member.client();
    let value = "v".repeat(1 << 20);
    for _ in 0..4 {
        client.put("k", &value).await.unwrap();
    }
    let size = |data: &Path| files::bytes_on_disk(&data.join("member/snap/db"));
    // A delete and compaction in the same commit would leave no free pages.
    yield_until("the values are committed", || size(&member.data_dir()) > 4 << 20).await;
    let revision = client.delete("k").await.unwrap().header.unwrap().revision;
    client.compact(revision).await.unwrap();
    let stopped = member.terminate();
    let before = size(&stopped.data_dir());
    assert!(before > 4 << 20, "{before}");
    let member = stopped.start();
    let after = size(&member.data_dir());
    assert!(after < before / 4, "{after} of {before}");
    assert_eq!(member.client().get("k").await.unwrap().header.unwrap().revision, revision);
}

async fn listed(client: &Client) -> Listed {
    let ask = MemberListRequest { linearizable: true };
    let MemberListResponse { members, .. } =
        client.cluster().member_list(ask).await.unwrap().into_inner();
    members.into_iter().next().unwrap()
}

/// Sends a GET request and returns the raw response, HTTP or not.
fn answer(address: &str, path: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(e2e::TIMEOUT)).unwrap();
    let ask = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(ask.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // A reset connection ends the response.
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// Counts the files in a directory with this extension.
fn count_files(dir: &Path, extension: &str) -> usize {
    let ends = |path: &Path| path.extension().is_some_and(|known| known == extension);
    fs::read_dir(dir).unwrap().filter(|entry| ends(&entry.as_ref().unwrap().path())).count()
}
