//! Configurations that the server rejects, with their texts and exit codes.

use e2e::{Exit, Member, Options, Sandbox};

#[test]
fn an_invalid_command_line_prints_the_usage() {
    let expected = [
        ("--nope", "flag provided but not defined: -nope"),
        ("--name", "flag needs an argument: -name"),
        ("--max-txn-ops=x", "invalid value \"x\" for flag -max-txn-ops: parse error"),
        ("--snapshot-count=-1", "invalid value \"-1\" for flag -snapshot-count: parse error"),
        ("--pre-vote=perhaps", "invalid boolean value \"perhaps\" for -pre-vote: parse error"),
        ("--initial-cluster-state=old", "invalid value \"old\" for flag -initial-cluster-state"),
        ("--feature-gates=Nope=true", "unrecognized feature gate: Nope"),
        ("--listen-client-urls=foo", "invalid value \"foo\" for flag -listen-client-urls"),
    ];
    for (argument, text) in expected {
        let ended = Sandbox::new().run(&Options::bare().argument(argument));
        assert_rejected(&ended, 2, text);
        assert!(ended.text().contains("Usage:"), "{argument}: {}", ended.text());
    }
}

#[test]
fn invalid_flag_values_are_rejected_in_the_log() {
    let flag = |name: &str, value: &str| Options::new().flag(name, value);
    let expected = [
        (Options::bare().argument("word"), "\"word\" is not a valid flag"),
        (
            flag("election-timeout", "200"),
            "--election-timeout[200ms] should be at least as 5 times as --heartbeat-interval[100ms]",
        ),
        (
            flag("election-timeout", "50001"),
            "--election-timeout[50001ms] is too long, and should be set less than 50000ms",
        ),
        (flag("heartbeat-interval", "0"), "--heartbeat-interval must be >0 (set to 0ms)"),
        (flag("auto-compaction-mode", "x"), "unknown auto-compaction-mode \"x\""),
        (flag("compact-hash-check-time", "0s"), "--compact-hash-check-time must be >0 (set to 0s)"),
        (flag("log-format", "xml"), "unknown log format: xml, supported values json, console"),
        (
            flag("log-outputs", "default,stdout"),
            "multi logoutput for \"default\" is not supported yet",
        ),
        (flag("logger", "capnslog"), "--logger=capnslog is removed in v3.5"),
        (
            flag("listen-client-urls", "http://example.com:{client}"),
            "expected IP in URL for binding (http://example.com:{client})",
        ),
        (
            Options::new().without("advertise-client-urls"),
            "--advertise-client-urls is required when --listen-client-urls is set explicitly",
        ),
        (
            flag("feature-gates", "LeaseCheckpointPersist=true"),
            "enabling feature gate LeaseCheckpointPersist requires enabling feature gate LeaseCheckpoint",
        ),
        (
            Options::bare().env("ETCD_MAX_TXN_OPS", "x"),
            "invalid value \"x\" for ETCD_MAX_TXN_OPS: parse error",
        ),
        (
            Options::bare().flag("config-file", "{dir}/missing"),
            "open {dir}/missing: no such file or directory",
        ),
    ];
    for (options, text) in expected {
        let sandbox = Sandbox::new();
        let ended = sandbox.run(&options);
        assert_eq!(ended.code(), Some(1), "{text}: {}", ended.text());
        let record = ended.stderr.record("failed to verify flags");
        let record = record.unwrap_or_else(|| panic!("{text}: {}", ended.text()));
        assert_eq!(record["error"], sandbox.fill(text).as_str());
        assert!(!sandbox.path("data").exists(), "no data directory is created for {text}");
    }
}

#[test]
fn a_flag_with_its_environment_variable_is_rejected() {
    let options = Options::new().flag("name", "b").env("ETCD_NAME", "a");
    let ended = Sandbox::new().run(&options);
    assert_rejected(&ended, 1, "conflicting environment variable is shadowed by corresponding");
}

#[test]
fn a_member_missing_from_the_initial_cluster_is_rejected() {
    let options = Options::new().flag("initial-cluster", "other=http://127.0.0.1:{peer}");
    let text = "couldn't find local name \\\"default\\\" in the initial cluster configuration";
    assert_rejected(&Sandbox::new().run(&options), 1, text);
}

#[test]
fn a_port_cannot_serve_both_grpc_and_http_only() {
    let sandbox = Sandbox::new();
    let options = Options::new().flag("listen-client-http-urls", "http://127.0.0.1:{client}");
    let text =
        "cannot bind both --listen-client-urls and --listen-client-http-urls on the same url";
    let text = format!("{text} http://{}", sandbox.client_address());
    assert_rejected(&sandbox.run(&options), 1, &text);
}

#[test]
fn invalid_auth_token_options_are_rejected() {
    let expected = [
        ("jwt", "auth: invalid auth options"),
        ("nope", "auth: invalid auth options"),
        ("jwt,sign-method=RS256", "auth: missing key data"),
    ];
    for (token, text) in expected {
        assert_rejected(&Sandbox::new().run(&Options::new().flag("auth-token", token)), 1, text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_port_is_named() {
    let member = Member::start(Options::new());
    let taken = member.sandbox().client_address();
    let options = Options::new().flag("listen-client-urls", format!("http://{taken}"));
    let ended = Sandbox::new().run(&options);
    let text = format!("listen tcp {taken}: bind: address already in use");
    assert_rejected(&ended, 1, &text);
}

#[test]
fn an_uncreatable_data_directory_is_named() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("file"), "in the way").unwrap();
    let ended = sandbox.run(&Options::new().flag("data-dir", "{dir}/file/data"));
    assert_rejected(&ended, 1, &sandbox.fill("{dir}/file"));
}

#[test]
fn a_rejected_flag_creates_no_data_directory() {
    let sandbox = Sandbox::new();
    let options = Options::new().flag("listen-client-urls", "https://127.0.0.1:{client}");
    assert_rejected(&sandbox.run(&options), 1, "TLS key/cert (--cert-file, --key-file)");
    assert!(!sandbox.path("data").exists(), "no data directory is created");
}

#[test]
fn version_and_help_start_nothing() {
    let version = Sandbox::new().run(&Options::bare().argument("--version"));
    assert_eq!(version.code(), Some(0));
    assert_eq!(version.stdout.lines()[0], format!("etcd Version: {}", types::ETCD_VERSION));
    let help = Sandbox::new().run(&Options::bare().argument("--help"));
    assert_eq!(help.code(), Some(0));
    assert!(help.text().contains("--listen-client-urls"), "{}", help.text());
}

#[track_caller]
fn assert_rejected(ended: &Exit, code: i32, text: &str) {
    assert_eq!(ended.code(), Some(code), "{text}: {}", ended.text());
    assert!(ended.text().contains(text), "no {text:?} in:\n{}", ended.text());
}
