//! Valid command lines and their configuration.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use config::gates::Gate;
use config::url::list::texts;
use config::{Audience, AutoCompaction, ClusterState, Keepalive, Notice, Tracing};
use gocompat::GoDuration;
use logging::{Level, Output};

use super::{ROUTED, config, run, run_on};

#[test]
fn the_defaults_are_etcds() {
    let config = config(&[]);
    assert_eq!(config.name, "default");
    assert_eq!(config.data_dir, Path::new("default.etcd"));
    assert_eq!(config.wal_dir, None);
    assert_eq!(config.listen.peer[0].to_string(), "http://localhost:2380");
    assert_eq!(config.listen.client[0].to_string(), "http://localhost:2379");
    assert!(config.listen.client_http.is_empty() && config.listen.metrics.is_empty());
    assert_eq!(texts(&config.advertise.peer), ["http://localhost:2380"]);
    assert_eq!(texts(&config.advertise.client), ["http://localhost:2379"]);
    assert_eq!(config.cluster.initial, "default=http://localhost:2380");
    assert_eq!(
        (config.cluster.state, config.cluster.token.as_str()),
        (ClusterState::New, "etcd-cluster")
    );
    assert_eq!((config.raft.tick, config.raft.election_ticks), (Duration::from_millis(100), 10));
    assert_eq!(config.raft.election_timeout(), Duration::from_secs(1));
    assert_eq!(config.raft.request_timeout(), Duration::from_secs(7));
    assert_eq!((config.raft.snapshot_count, config.raft.snapshot_catchup_entries), (10_000, 5_000));
    assert_eq!((config.raft.snapshots_max, config.raft.wals_max), (Some(5), Some(5)));
    assert_eq!(config.backend.quota_bytes, Some(2_147_483_648));
    assert_eq!(config.backend.batch_interval, Duration::from_millis(100));
    assert_eq!(config.backend.batch_operations, 10_000);
    assert_eq!((config.limits.txn_operations, config.limits.request_bytes), (128, 1_572_864));
    assert_eq!(config.client.streams_max, u32::MAX);
    assert_eq!(config.client.ping_interval_min, Some(Duration::from_secs(5)));
    let keepalive =
        Keepalive { interval: Duration::from_secs(7200), timeout: Duration::from_secs(20) };
    assert_eq!(config.client.keepalive, Some(keepalive));
    assert_eq!(config.client.cors, BTreeSet::from(["*".to_owned()]));
    assert_eq!(config.compaction.auto, None);
    assert_eq!(
        (config.compaction.batch_revisions, config.compaction.pause),
        (1000, Duration::from_millis(10))
    );
    assert_eq!((config.auth.token.as_str(), config.auth.bcrypt_cost), ("simple", 10));
    assert_eq!(config.auth.token_ttl, Duration::from_secs(300));
    // Bowline's own default; etcd has none.
    assert_eq!(config.checks.corruption_interval, Some(Duration::from_secs(3600)));
    assert_eq!(config.checks.downgrade_interval, Some(Duration::from_secs(5)));
    assert_eq!(config.monitoring.slow_apply, Duration::from_millis(100));
    assert_eq!(config.monitoring.slow_request, Duration::from_millis(300));
    assert_eq!(config.monitoring.tracing, None);
    assert_eq!((config.logs.level, config.logs.outputs), (Level::Info, vec![Output::Stderr]));
    assert!(config.raft.pre_vote && config.cluster.strict_reconfig_check);
}

#[test]
fn flags_have_one_dash_or_two_and_a_space_or_an_equals_sign() {
    for args in [&["--name", "m1"][..], &["-name", "m1"], &["--name=m1"], &["-name=m1"]] {
        assert_eq!(config(args).name, "m1");
    }
    assert_eq!(config(&["--name=a", "--name=b"]).name, "b");
    assert_eq!(config(&["--name=a=b", "--"]).name, "a=b");
}

#[test]
fn booleans_need_no_value() {
    assert!(config(&["--unsafe-no-fsync"]).unsafe_no_fsync);
    assert!(!config(&["--unsafe-no-fsync=F"]).unsafe_no_fsync);
    assert!(!config(&["--pre-vote=0", "--vv", "--config=anything"]).raft.pre_vote);
}

#[test]
fn durations_parse_as_in_go() {
    let config = config(&["--corrupt-check-time=1m30s", "--warning-apply-duration", "500µs"]);
    assert_eq!(config.checks.corruption_interval, Some(Duration::from_secs(90)));
    assert_eq!(config.monitoring.slow_apply, Duration::from_micros(500));
}

#[test]
fn the_default_data_directory_has_the_name_of_the_member() {
    let parsed = run(&["--name=m1"], &[]).expect("valid flags");
    assert_eq!(parsed.config.data_dir, Path::new("m1.etcd"));
    assert!(parsed.notices.contains(&Notice::DefaultDataDir { dir: "m1.etcd".to_owned() }));
    assert_eq!(config(&["--data-dir=d", "--wal-dir=w"]).wal_dir.as_deref(), Some(Path::new("w")));
}

#[test]
fn the_initial_cluster_follows_the_name_and_the_urls() {
    let named =
        config(&["--name=m1", "--initial-advertise-peer-urls=http://b:1,http://a:1,http://b:1"]);
    assert_eq!(named.cluster.initial, "m1=http://a:1,m1=http://b:1");
    assert_eq!(texts(&named.advertise.peer), ["http://a:1", "http://b:1"]);
    // Compat: without a name, the default initial cluster is kept.
    let unnamed = config(&["--initial-advertise-peer-urls=http://a:1"]);
    assert_eq!(unnamed.cluster.initial, "default=http://localhost:2380");
}

#[test]
fn a_member_on_all_addresses_advertises_the_default_route() {
    let args = &[
        "--name=m1",
        "--listen-peer-urls=http://0.0.0.0:12380",
        "--listen-client-urls=http://0.0.0.0:12379",
        "--advertise-client-urls=http://localhost:2379",
    ];
    let parsed = run_on(&ROUTED, args, &[]).expect("valid flags");
    assert_eq!(texts(&parsed.config.advertise.peer), ["http://10.0.0.7:12380"]);
    assert_eq!(texts(&parsed.config.advertise.client), ["http://10.0.0.7:12379"]);
    assert_eq!(parsed.config.cluster.initial, "m1=http://10.0.0.7:12380");
    assert!(parsed.notices.contains(&Notice::DefaultHost { host: "10.0.0.7".to_owned() }));
}

#[test]
fn a_member_on_one_address_keeps_its_advertised_urls() {
    let parsed =
        run_on(&ROUTED, &["--listen-peer-urls=http://127.0.0.1:2380"], &[]).expect("valid flags");
    assert_eq!(texts(&parsed.config.advertise.peer), ["http://localhost:2380"]);
    assert!(!parsed.notices.iter().any(|notice| matches!(notice, Notice::DefaultHost { .. })));
}

#[test]
fn a_missing_default_route_is_logged() {
    let parsed = run(&[], &[]).expect("valid flags");
    let error = "could not find default route".to_owned();
    assert!(parsed.notices.contains(&Notice::NoDefaultHost { error }));
}

#[test]
fn auto_compaction_retention_is_time_or_revisions() {
    let auto = |mode: &str, retention: &str| {
        let (mode, retention) = (
            format!("--auto-compaction-mode={mode}"),
            format!("--auto-compaction-retention={retention}"),
        );
        config(&[&mode, &retention]).compaction.auto
    };
    let minutes = |minutes: u64| Some(AutoCompaction::Periodic(Duration::from_secs(60 * minutes)));
    assert_eq!(auto("periodic", "0"), None);
    assert_eq!(auto("periodic", ""), None);
    assert_eq!(auto("periodic", "2"), minutes(120));
    assert_eq!(auto("periodic", "1.5h"), minutes(90));
    assert_eq!(auto("revision", "1000"), Some(AutoCompaction::Revision(1000)));
    // Compat: the nanoseconds of a duration are revisions.
    assert_eq!(auto("revision", "1us"), Some(AutoCompaction::Revision(1000)));
}

#[test]
fn zero_is_the_default_and_negative_is_off() {
    let config = config(&[
        "--snapshot-count=0",
        "--snapshot-catchup-entries=0",
        "--max-wals=0",
        "--quota-backend-bytes=-1",
        "--grpc-keepalive-min-time=-1s",
        "--grpc-keepalive-timeout=0",
        "--warning-unary-request-duration=0",
        "--max-learners=-1",
        "--downgrade-check-time=0",
    ]);
    assert_eq!((config.raft.snapshot_count, config.raft.snapshot_catchup_entries), (10_000, 5_000));
    assert_eq!((config.raft.wals_max, config.backend.quota_bytes), (None, None));
    assert_eq!((config.client.ping_interval_min, config.client.keepalive), (None, None));
    assert_eq!(config.monitoring.slow_request, Duration::from_millis(300));
    assert_eq!((config.cluster.learners_max, config.checks.downgrade_interval), (0, None));
}

#[test]
fn values_above_the_recommendation_are_logged() {
    let args = &[
        "--bcrypt-cost=3",
        "--max-request-bytes=10485761",
        "--quota-backend-bytes=8589934593",
        "--watch-progress-notify-interval=1ms",
        "--raft-read-timeout=1s",
        "--max-snapshots=4",
        "--feature-gates=LeaseCheckpoint=true",
        "--backend-bbolt-freelist-type=array",
    ];
    let parsed = run(args, &[]).expect("valid flags");
    let expected = [
        Notice::ArrayFreelist,
        Notice::BcryptCost { given: 3 },
        Notice::LargeRequests { bytes: 10_485_761 },
        Notice::LargeQuota { bytes: 8_589_934_593 },
        Notice::CheckpointNotPersisted,
        Notice::TimeoutRaised {
            flag: "raft-read-timeout",
            to: GoDuration::from_nanos(5_000_000_000),
        },
        Notice::Deprecated(
            "--max-snapshots is deprecated in 3.6 and will be decommissioned in 3.8.",
        ),
    ];
    for notice in expected {
        assert!(parsed.notices.contains(&notice), "{notice:?}");
    }
    assert_eq!(parsed.config.auth.bcrypt_cost, 10);
    assert_eq!(parsed.config.client.watch_progress_interval, Some(Duration::from_millis(100)));
    assert!(parsed.config.gates.enabled(Gate::LeaseCheckpoint));
}

#[test]
fn lists_are_sorted_and_distinct() {
    let config = config(&[
        "--host-whitelist=b,a,b",
        "--cors=http://b:1,http://a:1",
        "--log-outputs=b.log,a.log,b.log",
    ]);
    assert_eq!(config.client.host_whitelist, BTreeSet::from(["a".to_owned(), "b".to_owned()]));
    assert_eq!(
        config.client.cors,
        BTreeSet::from(["http://a:1".to_owned(), "http://b:1".to_owned()])
    );
    assert_eq!(config.logs.outputs, ["a.log", "b.log"].map(|path| Output::File(path.to_owned())));
}

#[test]
fn an_empty_list_of_urls_keeps_the_default() {
    assert_eq!(
        config(&["--listen-peer-urls="]).listen.peer[0].to_string(),
        "http://localhost:2380"
    );
}

#[test]
fn unix_sockets_are_listen_urls() {
    let config = config(&[
        "--listen-client-urls=unix:///run/b.sock",
        "--advertise-client-urls=unix:///run/b.sock",
    ]);
    assert_eq!(config.listen.client[0].to_string(), "unix:///run/b.sock");
}

#[test]
fn tracing_flags_configure_the_collector() {
    let tracing = |args: &[&str]| config(args).monitoring.tracing;
    let address = "--distributed-tracing-address=10.0.0.9:4317";
    assert_eq!(tracing(&[address, "--distributed-tracing-sampling-rate=-1"]), None, "not enabled");
    let usual = Tracing {
        address: "localhost:4317".to_owned(),
        service_name: "etcd".to_owned(),
        instance_id: None,
        sampled_per_million: 0,
    };
    assert_eq!(tracing(&["--enable-distributed-tracing"]), Some(usual.clone()));
    let actual = tracing(&[
        "--enable-distributed-tracing",
        address,
        "--distributed-tracing-service-name=store",
        "--distributed-tracing-instance-id=a",
        "--distributed-tracing-sampling-rate=1000000",
    ]);
    let expected = Tracing {
        address: "10.0.0.9:4317".to_owned(),
        service_name: "store".to_owned(),
        instance_id: Some("a".to_owned()),
        sampled_per_million: 1_000_000,
    };
    assert_eq!(actual, Some(expected));
}

#[test]
fn peer_flags_configure_peer_connections() {
    let peer = config(&[]).peer;
    assert!(peer.tls.info.is_empty() && peer.tls.auto.is_none() && peer.tls.checks_origin);
    assert_eq!((peer.read_timeout, peer.write_timeout), (SECONDS_5, SECONDS_5));
    assert_eq!(config(&[]).raft.dial_timeout(), Duration::from_secs(2));
    let peer = config(&[
        "--peer-cert-file=c",
        "--peer-key-file=k",
        "--peer-crl-file=r",
        "--peer-cert-allowed-cn=a,b",
        "--peer-auto-tls",
        "--tls-min-version=TLS1.3",
        "--raft-read-timeout=7s",
        "--raft-write-timeout=1s",
    ])
    .peer;
    assert_eq!(peer.tls.info.allowed_cns, ["a", "b"]);
    assert_eq!(peer.tls.info.crl_file.as_deref(), Some(Path::new("r")));
    assert_eq!(peer.tls.info.versions.min, tls::Version::Tls13);
    assert!(peer.tls.auto.is_none(), "a certificate was given");
    assert_eq!((peer.read_timeout, peer.write_timeout), (Duration::from_secs(7), SECONDS_5));
}

const SECONDS_5: Duration = Duration::from_secs(5);

#[test]
fn given_certificates_disable_auto_tls() {
    let notices = run(
        &["--peer-auto-tls", "--peer-cert-file=c", "--auto-tls", "--cert-file=c", "--key-file=k"],
        &[],
    )
    .expect("valid flags")
    .notices;
    let ignored: Vec<&Notice> =
        notices.iter().filter(|notice| matches!(notice, Notice::AutoTlsIgnored(_))).collect();
    let expected =
        [Notice::AutoTlsIgnored(Audience::Peers), Notice::AutoTlsIgnored(Audience::Clients)];
    assert_eq!(ignored, expected.iter().collect::<Vec<_>>());
}

#[test]
fn peers_are_dialed_from_an_advertised_address() {
    let gate = "--feature-gates=SetMemberLocalAddr=true";
    let of = |urls: &str| {
        let urls = format!("--initial-advertise-peer-urls={urls}");
        let parsed = run(&[gate, &urls], &[]).expect("valid flags");
        let notice = parsed.notices.into_iter().find_map(|notice| match notice {
            Notice::LocalAddress { address, .. } => Some(address),
            _ => None,
        });
        assert_eq!(notice, Some(parsed.config.peer.local_address));
        parsed.config.peer.local_address.map(|address| address.to_string())
    };
    assert_eq!(of("http://127.0.0.1:1,http://m1:1,http://10.0.0.7:1").as_deref(), Some("10.0.0.7"));
    assert_eq!(of("http://[fd00::1]:1,http://0.0.0.0:1").as_deref(), Some("fd00::1"));
    assert_eq!(of("http://localhost:2380"), None);
    assert_eq!(
        config(&["--initial-advertise-peer-urls=http://10.0.0.7:1"]).peer.local_address,
        None
    );
}
