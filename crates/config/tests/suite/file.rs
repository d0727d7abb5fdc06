//! The configuration file.

use std::time::Duration;

use config::url::list::texts;
use config::{Audience, Config, Discovery, Notice, Parsed};
use logging::Output;

use super::{outcome, run};

/// Calls `look` with `args` and a configuration file of this text.
fn with_file<T>(text: &str, args: &[&str], look: impl FnOnce(&[&str]) -> T) -> T {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("b.yaml");
    std::fs::write(&path, text).expect("written");
    let flag = format!("--config-file={}", path.display());
    let mut args = args.to_vec();
    args.push(&flag);
    look(&args)
}

fn parsed(text: &str) -> Parsed {
    with_file(text, &[], |args| run(args, &[]).unwrap_or_else(|exit| panic!("{text}: {exit:?}")))
}

fn config(text: &str) -> Config {
    parsed(text).config
}

fn rejected(text: &str) -> (u8, String) {
    with_file(text, &[], |args| outcome(args, &[]))
}

#[test]
fn keys_have_the_names_of_flags() {
    let config = config(
        "name: m1\n\
         data-dir: d\n\
         heartbeat-interval: 200\n\
         Election-Timeout: 2000\n\
         grpc-keepalive-interval: 60000000000\n\
         max-wals: 0x10\n\
         quota-backend-bytes: 1e9\n\
         backend-batch-limit: 1_000\n\
         pre-vote: no\n\
         listen-client-urls: http://127.0.0.1:1,http://127.0.0.1:2\n\
         log-outputs: [stdout, b.log]\n\
         socket-options: {reuse-port: true}\n\
         auto-compaction-retention: \"0\"\n",
    );
    assert_eq!(config.name, "m1");
    assert_eq!((config.raft.tick, config.raft.election_ticks), (Duration::from_millis(200), 10));
    assert_eq!(
        config.client.keepalive.map(|keepalive| keepalive.interval),
        Some(Duration::from_secs(60))
    );
    assert_eq!((config.raft.wals_max, config.backend.quota_bytes), (Some(16), Some(1_000_000_000)));
    assert_eq!((config.backend.batch_operations, config.raft.pre_vote), (1000, false));
    assert_eq!(config.listen.client.len(), 2);
    assert_eq!(config.logs.outputs, [Output::Stdout, Output::File("b.log".to_owned())]);
    assert!(config.listen.reuse_port && !config.listen.reuse_address);
    assert_eq!(config.cluster.initial, "m1=http://localhost:2380");
}

#[test]
fn a_file_may_be_json() {
    assert_eq!(config(r#"{"name": "m1", "advertise-client-urls": "http://a:1"}"#).name, "m1");
}

#[test]
fn an_empty_file_has_all_defaults() {
    assert_eq!(config(""), super::config(&[]));
}

/// Unlike on the command line, the advertised client URLs keep their default.
#[test]
fn listen_urls_in_a_file_need_no_advertised_urls() {
    let config = config("listen-client-urls: http://127.0.0.1:1");
    assert_eq!(texts(&config.advertise.client), ["http://localhost:2379"]);
}

#[test]
fn a_file_replaces_flags_and_environment() {
    with_file("name: m1", &["--name=m2", "--max-wals=7"], |args| {
        let parsed = run(args, &["ETCD_NAME=m3", "ETCD_MAX_WALS=x"]).expect("valid flags");
        assert_eq!((parsed.config.name.as_str(), parsed.config.raft.wals_max), ("m1", Some(5)));
        assert!(parsed.notices.iter().any(|notice| matches!(notice, Notice::FileLoaded { .. })));
    });
}

/// Two flags have no key. They are not raised to their minimum either.
#[test]
fn peer_timeouts_come_from_the_command_line() {
    with_file("name: m1", &["--raft-read-timeout=1s"], |args| {
        let peer = run(args, &[]).expect("valid flags").config.peer;
        let timeouts = (peer.read_timeout.as_secs(), peer.write_timeout.as_secs());
        assert_eq!(timeouts, (1, 5));
    });
    with_file("name: m1", &["--raft-write-timeout=0"], |args| {
        let text = "--raft-write-timeout must be >0 (set to 0s)".to_owned();
        assert_eq!(outcome(args, &[]), (1, text));
    });
}

#[test]
fn errors_on_the_command_line_are_reported_with_a_file_too() {
    with_file("name: m1", &["--max-wals=x"], |args| assert_eq!(outcome(args, &[]).0, 2));
}

#[test]
fn a_variable_may_name_the_file() {
    let missing = &["ETCD_CONFIG_FILE=/nonexistent"];
    let text = "open /nonexistent: no such file or directory";
    assert_eq!(outcome(&["--heartbeat-interval=0"], missing), (1, text.to_owned()));
    let text = "open /nonexistent2: no such file or directory";
    assert_eq!(outcome(&["--config-file=/nonexistent2"], missing), (1, text.to_owned()));
    assert_eq!(outcome(&["--config-file=/"], &[]), (1, "read /: is a directory".to_owned()));
}

#[test]
fn unknown_keys_are_logged() {
    let notices = parsed("bogus: 1\ncert-file: x\nclient-transport-security: {bogus: 2}\n").notices;
    for key in ["bogus", "cert-file", "client-transport-security.bogus"] {
        assert!(notices.contains(&Notice::UnknownKey { key: key.to_owned() }), "{key}");
    }
}

#[test]
fn deprecated_keys_are_logged() {
    let notices = parsed("max-snapshots: 3\nv2-deprecation: anything\n").notices;
    let deprecated = notices.iter().filter(|notice| matches!(notice, Notice::Deprecated(_)));
    assert_eq!(deprecated.count(), 2);
}

#[test]
fn nested_keys_set_flags() {
    let text = "discovery-config: {token: t, client: {endpoints: [e], secure: {cacert: f}}}\n";
    let cluster = config(text).cluster;
    let Some(Discovery::Service(list)) = cluster.discovery else { panic!("{cluster:?}") };
    assert_eq!((list.token.as_str(), list.endpoints), ("t", vec!["e".to_owned()]));
    assert_eq!(list.tls.and_then(|tls| tls.trusted_ca_file), Some("f".into()));
}

#[test]
fn discovery_has_keys_without_a_flag() {
    let list = |client: &str| {
        let text =
            format!("discovery-config: {{token: t, client: {{endpoints: [e], {client}}}}}\n");
        let cluster = config(&text).cluster;
        let Some(Discovery::Service(list)) = cluster.discovery else { panic!("{cluster:?}") };
        list
    };
    let limits = list("max-request-bytes: 5, max-recv-bytes: 6");
    assert_eq!((limits.request_bytes_max, limits.answer_bytes_max), (Some(5), Some(6)));
    let usual = list("max-request-bytes: 0, max-recv-bytes: -1");
    assert_eq!((usual.request_bytes_max, usual.answer_bytes_max), (None, None));
    let named = list("secure: {server-name: d.example, insecure-transport: true}");
    assert_eq!(named.tls.and_then(|tls| tls.server_name).as_deref(), Some("d.example"));
    let empty = list("secure: {server-name: '', insecure-transport: true}, auth: {token: null}");
    assert_eq!((&empty.tls, empty.user.token.as_str()), (&None, ""));
    assert_eq!(list("auth: {token: secret}").user.token, "secret");
}

#[test]
fn peer_transport_security_is_a_section() {
    let tls = parsed(
        "peer-transport-security: {cert-file: c, key-file: k, client-cert-file: cc, client-key-file: ck, \
         client-cert-auth: true, trusted-ca-file: ca, allowed-cn: [a, b], skip-client-san-verification: true}\n",
    )
    .config
    .peer
    .tls;
    let texts = tls.info.to_string();
    assert_eq!(
        texts,
        "cert = c, key = k, client-cert=cc, client-key=ck, trusted-ca = ca, client-cert-auth = true, crl-file = "
    );
    assert_eq!(tls.info.allowed_cns, ["a", "b"]);
    assert!(!tls.checks_origin && tls.auto.is_none());
    let made = parsed("peer-transport-security: {auto-tls: true, allowed-hostname: [h]}\n");
    assert!(made.config.peer.tls.auto.is_some());
    let ignored = vec!["peer-cert-allowed-hostname"];
    assert!(made.notices.contains(&Notice::AutoTlsAlone { audience: Audience::Peers, ignored }));
}

#[test]
fn client_transport_security_has_keys_without_a_flag() {
    let tls = parsed(
        "client-transport-security: {cert-file: c, key-file: k, client-cert-auth: true, \
         trusted-ca-file: a, allowed-cn: [alice, bob], skip-client-san-verification: true}\n\
         cipher-suites: [TLS_AES_128_GCM_SHA256]\ntls-min-version: TLS1.2\ntls-max-version: TLS1.2\n",
    )
    .config
    .tls;
    assert_eq!(
        tls.info.to_string(),
        "cert = c, key = k, client-cert=, client-key=, trusted-ca = a, client-cert-auth = true, crl-file = "
    );
    assert_eq!(tls.info.allowed_cns, ["alice", "bob"]);
    assert_eq!(tls.info.suites.names(), ["TLS_AES_128_GCM_SHA256"]);
    assert!(!tls.checks_origin && tls.auto.is_none());
}

/// Type errors and failed checks.
#[test]
fn errors_have_etcds_texts() {
    let decoding = "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal";
    let field = format!("{decoding} string into Go struct field configYAML.Config");
    let cases = [
        ("max-wals: x\n", format!("{field}.max-wals of type uint")),
        ("max-wals: \"010\"\n", format!("{field}.max-wals of type uint")),
        ("pre-vote: \"on\"\n", format!("{field}.pre-vote of type bool")),
        (
            "name: on\n",
            format!("{decoding} bool into Go struct field configYAML.Config.name of type string"),
        ),
        (
            "name: 0123\n",
            format!("{decoding} number into Go struct field configYAML.Config.name of type string"),
        ),
        (
            "max-wals: -0123\n",
            format!("{decoding} number -83 into Go struct field configYAML.Config.max-wals of type uint"),
        ),
        (
            "election-timeout: 0123\n",
            "--election-timeout[83ms] should be at least as 5 times as --heartbeat-interval[100ms]".to_owned(),
        ),
        (
            "heartbeat-interval: 7\nelection-timeout: 10\n<<: {heartbeat-interval: 3}\n",
            "--election-timeout[10ms] should be at least as 5 times as --heartbeat-interval[3ms]".to_owned(),
        ),
        (
            "base: &b {heartbeat-interval: 0}\n<<: *b\nelection-timeout: 0\n",
            "--heartbeat-interval must be >0 (set to 0ms)".to_owned(),
        ),
        ("max-wals: \"5\"\n", format!("{field}.max-wals of type uint")),
        ("grpc-keepalive-interval: 10m\n", format!("{field}.grpc-keepalive-interval of type time.Duration")),
        ("pre-vote: maybe\n", format!("{field}.pre-vote of type bool")),
        ("cipher-suites: a\n", format!("{field}.cipher-suites of type []string")),
        (
            "max-wals: -1\n",
            format!("{decoding} number -1 into Go struct field configYAML.Config.max-wals of type uint"),
        ),
        (
            "max-wals: 99999999999999999999\n",
            format!(
                "{decoding} number 100000000000000000000 into Go struct field configYAML.Config.max-wals of type uint"
            ),
        ),
        (
            "max-concurrent-streams: 4294967296\n",
            format!(
                "{decoding} number 4294967296 into Go struct field configYAML.Config.max-concurrent-streams of type uint32"
            ),
        ),
        ("name: 5\n", format!("{decoding} number into Go struct field configYAML.Config.name of type string")),
        ("name: [a]\n", format!("{decoding} array into Go struct field configYAML.Config.name of type string")),
        (
            "log-outputs: [1]\n",
            format!("{decoding} number into Go struct field configYAML.Config.log-outputs of type string"),
        ),
        (
            "feature-gates: {X: true}\n",
            format!("{decoding} object into Go struct field configYAML.configJSON.feature-gates of type string"),
        ),
        (
            "v2-deprecation: 5\n",
            format!(
                "{decoding} number into Go struct field configYAML.Config.v2-deprecation of type config.V2DeprecationEnum"
            ),
        ),
        (
            "peer-transport-security: x\n",
            format!(
                "{decoding} string into Go struct field configYAML.configJSON.peer-transport-security of type embed.securityConfig"
            ),
        ),
        (
            "client-transport-security: {cert-file: 1, client-cert-auth: x}\n",
            format!(
                "{decoding} number into Go struct field securityConfig.configJSON.client-transport-security.cert-file of type string"
            ),
        ),
        (
            "discovery-config: {client: {endpoints: x}}\n",
            format!(
                "{decoding} string into Go struct field ConfigSpec.Config.discovery-config.client.endpoints of type []string"
            ),
        ),
        (
            "discovery-config: {client: {max-recv-bytes: x}}\n",
            format!(
                "{decoding} string into Go struct field ConfigSpec.Config.discovery-config.client.max-recv-bytes of type int"
            ),
        ),
        (
            "discovery-config: {client: {auth: {token: 5}}}\n",
            format!(
                "{decoding} number into Go struct field AuthConfig.Config.discovery-config.client.auth.token of type string"
            ),
        ),
        ("[a]\n", format!("{decoding} array into Go value of type embed.configYAML")),
        ("foo\n", format!("{decoding} string into Go value of type embed.configYAML")),
        ("peer-transport-security:\n", "invalid peer-transport-security".to_owned()),
        ("feature-gates: X=true\n", "unrecognized feature gate: X".to_owned()),
        ("initial-cluster-state: foo\n", "unexpected clusterState \"foo\"".to_owned()),
        ("listen-client-urls: http://a:1\n", "expected IP in URL for binding (http://a:1)".to_owned()),
        ("heartbeat-interval: 0\nbogus: 1\n", "--heartbeat-interval must be >0 (set to 0ms)".to_owned()),
        ("heartbeat-interval: null\nelection-timeout: 0\n", "--election-timeout must be >0 (set to 0ms)".to_owned()),
        ("election-timeout: 1\nelection-timeout: 0\n", "--election-timeout must be >0 (set to 0ms)".to_owned()),
        ("election-timeout: 0\n---\nelection-timeout: 9\n", "--election-timeout must be >0 (set to 0ms)".to_owned()),
        (
            "listen-peer-urls: x\n",
            "unexpected error setting up listen-peer-urls: URL scheme must be http, https, unix, or unixs: x".to_owned(),
        ),
        (
            "advertise-client-urls: x\n",
            "unexpected error setting up advertise-peer-urls: URL scheme must be http, https, unix, or unixs: x"
                .to_owned(),
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(rejected(text), (1, expected), "{text:?}");
    }
}

#[test]
fn anchors_and_merges_are_supported() {
    let config = config(
        "common: &common {pre-vote: off, max-wals: 010}\n\
         <<: *common\n\
         max-wals: 9\n",
    );
    assert_eq!((config.raft.pre_vote, config.raft.wals_max), (false, Some(9)));
}

#[test]
fn only_maps_can_be_merged() {
    let (code, text) = rejected("<<: 5\n");
    let words = "error converting YAML to JSON: yaml: map merge requires map or sequence of maps as the value";
    assert_eq!(code, 1);
    assert!(text.starts_with(words), "{text}");
}

#[test]
fn a_file_that_is_not_yaml_is_rejected() {
    let (code, text) = rejected("a: b: c");
    assert_eq!(code, 1);
    assert!(text.starts_with(
        "error converting YAML to JSON: yaml: mapping values are not allowed in this context"
    ));
}

#[test]
fn a_file_beyond_the_maximum_size_is_rejected() {
    let (_, text) = rejected(&"# x\n".repeat(100_000));
    assert!(text.ends_with(": larger than 262144 bytes"), "{text}");
}
