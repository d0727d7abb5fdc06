//! `/metrics`: every metric family of etcd with its type, except for those of Go.

use std::collections::BTreeMap;

use e2e::{Member, Options, Proxy, http, start_cluster};

use crate::cluster::retry;

/// `name type` of every family that etcd 3.7 exposes after its first requests.
const FAMILIES: &str = include_str!("../../testdata/metrics");

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_family_of_etcd_exists_with_its_type() {
    let member = Member::start(Options::new());
    member.log().wait_for_message("cluster version is updated");
    member.client().put("k", "v").await.unwrap();
    member.client().get("k").await.unwrap();
    for path in ["/health", "/livez", "/readyz", "/metrics"] {
        assert_eq!(http::wait_until_healthy(|| member.get(path)).status, 200);
    }
    let text = member.get("/metrics").text();
    let family = |line: &str| {
        let (name, kind) = line.split_once(' ')?;
        Some((name.to_owned(), kind.to_owned()))
    };
    let shown = text.lines().filter_map(|line| family(line.strip_prefix("# TYPE ")?));
    let shown: BTreeMap<_, _> = shown.collect();
    let wanted =
        FAMILIES.lines().filter(|line| !line.starts_with('#')).map(|line| family(line).unwrap());
    let wanted: Vec<_> = wanted.collect();
    let missing: Vec<_> =
        wanted.iter().filter(|(name, kind)| shown.get(name) != Some(kind)).collect();
    assert!(missing.is_empty(), "missing or of another type: {missing:#?}");
}

/// Tools search the text for `etcd_server_is_leader 1`, which must not be found in a comment.
#[tokio::test(flavor = "multi_thread")]
async fn no_help_text_looks_like_a_sample() {
    let cluster = start_cluster(2, |options| {
        let url = "https://127.0.0.1:{peer}";
        let options =
            options.flag("listen-peer-urls", url).flag("initial-advertise-peer-urls", url);
        options.flag("peer-auto-tls", "true").flag("metrics", "extensive")
    });
    let client = cluster[0].client();
    retry("a put", || client.put("k", "v")).await;
    check_help_texts(&cluster[0].get("/metrics").text(), 50);
    let endpoints = format!("--endpoints={}", cluster[0].sandbox().client_address());
    let proxy = Proxy::start("grpc-proxy", &[&endpoints]);
    let client = proxy.client();
    retry("a put through the proxy", || client.put("k", "v")).await;
    check_help_texts(&proxy.get("/metrics").text(), 50);
    check_help_texts(&proxy.get("/proxy/metrics").text(), 10);
}

#[track_caller]
fn check_help_texts(text: &str, families_min: usize) {
    let helps: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# HELP ")).collect();
    let families = text.lines().filter(|line| line.starts_with("# TYPE ")).count();
    assert!(families > families_min, "{families} families");
    assert_eq!(helps.len(), families, "every family has a help text");
    for help in helps {
        let (_, text) = help.split_once(' ').unwrap_or((help, ""));
        let is_value = text.split(' ').next().is_some_and(|word| word.parse::<f64>().is_ok());
        let begins = text.chars().next();
        assert!(!is_value && begins.is_some_and(char::is_alphabetic), "{help}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_follow_requests() {
    let member = Member::start(Options::new());
    let client = member.client();
    for _ in 0..3 {
        client.put("k", "value").await.unwrap();
    }
    client.delete("k").await.unwrap();
    client.get("k").await.unwrap();
    member.log().wait_for_message("cluster version is updated");
    let put = r#"grpc_method="Put",grpc_service="etcdserverpb.KV",grpc_type="unary"}"#;
    let expected = [
        (format!("grpc_server_started_total{{{put}"), 3.0),
        (format!("grpc_server_handled_total{{grpc_code=\"OK\",{put}"), 3.0),
        (format!("grpc_server_handled_total{{grpc_code=\"DataLoss\",{put}"), 0.0),
        ("etcd_mvcc_put_total".to_owned(), 3.0),
        ("etcd_mvcc_delete_total".to_owned(), 1.0),
        ("etcd_debugging_mvcc_keys_total".to_owned(), 0.0),
        ("etcd_debugging_mvcc_current_revision".to_owned(), 5.0),
        ("etcd_debugging_mvcc_total_put_size_in_bytes".to_owned(), 18.0),
        ("etcd_server_has_leader".to_owned(), 1.0),
        ("etcd_server_is_leader".to_owned(), 1.0),
        ("etcd_server_is_learner".to_owned(), 0.0),
        ("etcd_server_leader_changes_seen_total".to_owned(), 1.0),
        ("etcd_cluster_version{cluster_version=\"3.7\"}".to_owned(), 1.0),
        (format!("etcd_server_version{{server_version=\"{}\"}}", types::ETCD_VERSION), 1.0),
    ];
    for (series, value) in expected {
        assert_eq!(member.metric(&series), value, "{series}");
    }
    let status = client.status().await.unwrap();
    let applied = member.metric("etcd_server_proposals_applied_total");
    assert_eq!(applied, status.raft_applied_index as f64);
    assert!(member.metric("etcd_disk_wal_fsync_duration_seconds_count") >= 4.0);
    assert!(member.metric("process_resident_memory_bytes") > 1e6);
    assert!(member.metric("process_open_fds") > 5.0);
}
