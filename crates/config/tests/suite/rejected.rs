//! Bad command lines: exit codes and texts are etcd's.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use config::{ConfigError, Exit, Notice, notices_without_logs, parse};
use logging::Format;

use super::{HOST_INFO, outcome, outcome_of, run};

/// Syntax errors are printed on standard error, with code 2.
#[test]
fn syntax_errors_exit_with_code_2() {
    let cases: &[(&[&str], &str)] = &[
        (&["--bogus"], "flag provided but not defined: -bogus"),
        (&["-bogus=1"], "flag provided but not defined: -bogus"),
        (&["--discovery=x"], "flag provided but not defined: -discovery"),
        (&["--enable-v2"], "flag provided but not defined: -enable-v2"),
        (&["---x"], "bad flag syntax: ---x"),
        (&["--=x"], "bad flag syntax: --=x"),
        (&["--name"], "flag needs an argument: -name"),
        (&["--max-wals", "x"], r#"invalid value "x" for flag -max-wals: parse error"#),
        (&["--max-wals=-1"], r#"invalid value "-1" for flag -max-wals: parse error"#),
        (&["--max-wals="], r#"invalid value "" for flag -max-wals: parse error"#),
        (
            &["--max-wals=99999999999999999999"],
            r#"invalid value "99999999999999999999" for flag -max-wals: value out of range"#,
        ),
        (
            &["--quota-backend-bytes=9223372036854775808"],
            r#"invalid value "9223372036854775808" for flag -quota-backend-bytes: value out of range"#,
        ),
        (
            &["--backend-batch-limit=x"],
            r#"invalid value "x" for flag -backend-batch-limit: parse error"#,
        ),
        (&["--pre-vote=x"], r#"invalid boolean value "x" for -pre-vote: parse error"#),
        (&["--pre-vote="], r#"invalid boolean value "" for -pre-vote: parse error"#),
        (
            &["--grpc-keepalive-min-time=5"],
            r#"invalid value "5" for flag -grpc-keepalive-min-time: parse error"#,
        ),
        (
            &["--max-concurrent-streams=4294967296"],
            r#"invalid value "4294967296" for flag -max-concurrent-streams: strconv.ParseUint: parsing "4294967296": value out of range"#,
        ),
        (
            &["--max-concurrent-streams=x"],
            r#"invalid value "x" for flag -max-concurrent-streams: strconv.ParseUint: parsing "x": invalid syntax"#,
        ),
        (
            &["--initial-cluster-state=x"],
            r#"invalid value "x" for flag -initial-cluster-state: invalid value"#,
        ),
        (
            &["--v2-deprecation=x"],
            r#"invalid value "x" for flag -v2-deprecation: invalid value "x""#,
        ),
        (
            &["--v2-deprecation=not-yet"],
            r#"invalid value "not-yet" for flag -v2-deprecation: invalid value "not-yet""#,
        ),
        (
            &["--feature-gates=X=true"],
            r#"invalid value "X=true" for flag -feature-gates: unrecognized feature gate: X"#,
        ),
        (
            &["--feature-gates=LeaseCheckpoint"],
            r#"invalid value "LeaseCheckpoint" for flag -feature-gates: missing bool value for LeaseCheckpoint"#,
        ),
        (
            &["--listen-peer-urls=x"],
            r#"invalid value "x" for flag -listen-peer-urls: URL scheme must be http, https, unix, or unixs: x"#,
        ),
        (
            &["--listen-peer-urls=http://a:1,"],
            r#"invalid value "http://a:1," for flag -listen-peer-urls: URL scheme must be http, https, unix, or unixs: "#,
        ),
        (
            &["--listen-peer-urls=http://a"],
            r#"invalid value "http://a" for flag -listen-peer-urls: URL address does not have the form "host:port": http://a"#,
        ),
        (
            &["--listen-peer-urls=http://1.1.1.1:2/x"],
            r#"invalid value "http://1.1.1.1:2/x" for flag -listen-peer-urls: URL must not contain a path: http://1.1.1.1:2/x"#,
        ),
        (
            &["--listen-peer-urls=http://a:%"],
            r#"invalid value "http://a:%" for flag -listen-peer-urls: parse "http://a:%": invalid port ":%" after host"#,
        ),
        (
            &["--cors="],
            r#"invalid value "" for flag -cors: URL scheme must be http, https, unix, or unixs: "#,
        ),
        // The first error is reported, even if help follows.
        (&["--bogus", "--help"], "flag provided but not defined: -bogus"),
    ];
    for (args, text) in cases {
        assert_eq!(outcome(args, &[]), (2, (*text).to_owned()), "{args:?}");
    }
}

#[test]
fn an_argument_that_is_not_utf8_is_rejected() {
    let no_text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    let rejected = parse(["bowline".into(), no_text(b"--data-dir=\xff")], [], &HOST_INFO);
    let text = r#"invalid argument "--data-dir=\xff": not UTF-8"#.to_owned();
    assert_eq!(outcome_of(&rejected.expect_err("rejected")), (2, text));
    assert!(parse([no_text(b"\xff/bowline")], [], &HOST_INFO).is_ok(), "but it may be called so");
}

/// Invalid values and combinations are logged, with code 1.
#[test]
fn invalid_flags_exit_with_code_1() {
    let cases: &[(&[&str], &str)] = &[
        (&["foo"], r#""foo" is not a valid flag"#),
        (&["-"], r#""-" is not a valid flag"#),
        (&["--", "foo"], r#""foo" is not a valid flag"#),
        (&["--name", "x", "foo", "--bogus"], r#""foo" is not a valid flag"#),
        (&["--version", "foo"], r#""foo" is not a valid flag"#),
        (&["--pre-vote", "x"], r#""x" is not a valid flag"#),
        (&["--logger=capnslog"], "--logger=capnslog is removed in v3.5"),
        (
            &["--log-outputs=default,stderr"],
            r#"multi logoutput for "default" is not supported yet"#,
        ),
        (&["--listen-peer-urls=http://a:1"], "expected IP in URL for binding (http://a:1)"),
        (&["--listen-client-urls=http://:1"], "expected IP in URL for binding (http://:1)"),
        (&["--listen-client-http-urls=http://a:1"], "expected IP in URL for binding (http://a:1)"),
        (&["--listen-metrics-urls=http://a:1"], "expected IP in URL for binding (http://a:1)"),
        (
            &["--initial-advertise-peer-urls=http://:1,http://a:2"],
            r#"--initial-advertise-peer-urls "http://:1,http://a:2" must be "host:port" (unexpected empty host (http://:1))"#,
        ),
        (
            &["--advertise-client-urls=http://:1"],
            r#"--advertise-client-urls "http://:1" must be in the format "host:port", "unix:/path/to/socket" or "unixs:/path/to/socket" (unexpected empty host (http://:1))"#,
        ),
        (
            &["--listen-client-urls=http://localhost:2379"],
            "--advertise-client-urls is required when --listen-client-urls is set explicitly",
        ),
        (
            &["--discovery-srv=x.example", "--initial-cluster=a=http://1.1.1.1:1"],
            r#"multiple discovery or bootstrap flags are set. Choose one of "initial-cluster", "discovery-endpoints" or "discovery-srv""#,
        ),
        (&["--discovery-token=x"], "both --discovery-token and --discovery-endpoints must be set"),
        (
            &["--discovery-endpoints=a"],
            "both --discovery-token and --discovery-endpoints must be set",
        ),
        (
            &["--discovery-endpoints=a,", "--discovery-token=x"],
            "--discovery-endpoints must not contain empty endpoints",
        ),
        (
            &["--discovery-fallback=proxy", "--logger=x"],
            r#"v2 proxy is deprecated, and --discovery-fallback can't be configured as "proxy""#,
        ),
        (&["--heartbeat-interval=0"], "--heartbeat-interval must be >0 (set to 0ms)"),
        (&["--election-timeout=0"], "--election-timeout must be >0 (set to 0ms)"),
        (
            &["--election-timeout=400"],
            "--election-timeout[400ms] should be at least as 5 times as --heartbeat-interval[100ms]",
        ),
        (
            &["--election-timeout=50001"],
            "--election-timeout[50001ms] is too long, and should be set less than 50000ms",
        ),
        (&["--auto-compaction-mode="], "undefined auto-compaction-mode"),
        (&["--auto-compaction-mode=x"], r#"unknown auto-compaction-mode "x""#),
        (
            &["--enable-distributed-tracing", "--distributed-tracing-sampling-rate=-1"],
            "distributed tracing configurition is not valid: (tracing sampling rate must be positive)",
        ),
        (
            &["--enable-distributed-tracing", "--distributed-tracing-sampling-rate=1000001"],
            "distributed tracing configurition is not valid: (tracing sampling rate must be less than 1000000)",
        ),
        (
            &["--feature-gates=LeaseCheckpointPersist=true"],
            "enabling feature gate LeaseCheckpointPersist requires enabling feature gate LeaseCheckpoint",
        ),
        (&["--compact-hash-check-time=0"], "--compact-hash-check-time must be >0 (set to 0s)"),
        (
            &["--compact-hash-check-time=-1m30.5s"],
            "--compact-hash-check-time must be >0 (set to -1m30.5s)",
        ),
        (
            &["--tls-min-version=x"],
            r#"unexpected TLS version "x" (must be one of: TLS1.2, TLS1.3)"#,
        ),
        (
            &["--tls-min-version=TLS1.3", "--tls-max-version=TLS1.2"],
            "min version (TLS1.3) is greater than max version (TLS1.2)",
        ),
        (
            &["--tls-min-version=TLS1.3", "--cipher-suites="],
            "cipher suites cannot be configured when only TLS1.3 is enabled",
        ),
    ];
    for (args, text) in cases {
        assert_eq!(outcome(args, &[]), (1, (*text).to_owned()), "{args:?}");
    }
}

/// etcd reports these errors only when it opens its listeners.
#[test]
fn valid_flags_may_still_fail_at_the_start() {
    let advertise = "--advertise-client-urls=http://127.0.0.1:2379";
    let cases: &[(&[&str], &str)] = &[
        (&["--cipher-suites=x"], r#"unexpected TLS cipher suite "x""#),
        (
            &["--listen-client-urls=https://127.0.0.1:2379", advertise],
            "TLS key/cert (--cert-file, --key-file) must be provided for client url https://127.0.0.1:2379 with HTTPS scheme",
        ),
        (
            &["--listen-client-http-urls=http://localhost:2379"],
            "cannot bind both --listen-client-urls and --listen-client-http-urls on the same url http://localhost:2379",
        ),
        (
            &["--listen-metrics-urls=https://127.0.0.1:2381"],
            "client TLS key/cert (--cert-file, --key-file) must be provided for metrics secure url",
        ),
        (
            &["--auto-compaction-retention=x"],
            r#"error parsing CompactionRetention: time: invalid duration "x""#,
        ),
        (
            &["--auto-compaction-retention=-5"],
            r#"error parsing CompactionRetention: time: missing unit in duration "-5""#,
        ),
        (&["--listen-peer-urls=http://127.0.0.1:99999"], "listen tcp: address 99999: invalid port"),
    ];
    for (args, text) in cases {
        assert_eq!(outcome(args, &[]), (1, (*text).to_owned()), "{args:?}");
        let Err(Exit::Logged { notices, .. }) = run(args, &[]) else { panic!("{args:?}") };
        assert!(matches!(notices.last(), Some(Notice::NotStarted(_))), "{args:?}");
    }
}

#[test]
fn negative_intervals_are_rejected() {
    let cases: &[(&[&str], &str)] = &[
        (
            &["--backend-batch-interval=-1s"],
            "--backend-batch-interval must not be negative (set to -1s)",
        ),
        (&["--backend-batch-limit=-1"], "--backend-batch-limit must not be negative (set to -1)"),
        (
            &["--downgrade-check-time=-1s"],
            "--downgrade-check-time must not be negative (set to -1s)",
        ),
        (
            &["--heartbeat-interval=3689348814741910324"],
            "--election-timeout[1000ms] should be at least as 5 times as --heartbeat-interval[3689348814741910324ms]",
        ),
    ];
    for (args, text) in cases {
        assert_eq!(outcome(args, &[]), (1, (*text).to_owned()), "{args:?}");
    }
}

#[test]
fn etcds_errors_come_before_unsupported_flags() {
    let (_, text) = outcome(&["--memory-mlock", "--heartbeat-interval=0"], &[]);
    assert_eq!(text, "--heartbeat-interval must be >0 (set to 0ms)");
}

#[test]
fn an_error_is_logged_with_the_log_flags_once_they_are_valid() {
    let Err(Exit::Logged { logs, notices }) =
        run(&["--log-format=console", "--heartbeat-interval=0"], &[])
    else {
        panic!("rejected");
    };
    assert_eq!(logs.format, Format::Console);
    let args =
        ["bowline", "--log-format=console", "--heartbeat-interval=0"].map(str::to_owned).to_vec();
    assert_eq!(
        notices,
        [Notice::SinglePort, Notice::Running { args }, Notice::Rejected(ConfigError::Heartbeat)]
    );
}

/// etcd opens its log outputs first, and reports nothing else if that fails.
#[test]
fn a_log_output_error_hides_later_notices() {
    let parsed = run(&["--raft-read-timeout=1s", "--max-snapshots=4"], &["ETCD_NAME=m1"]);
    let (args, error) = (["bowline".to_owned()], "open sink \"x\"".to_owned());
    let notices = notices_without_logs(&parsed.expect("valid flags").notices, &args, error.clone());
    let [used, raised, running, rejected] = &notices[..] else { panic!("{notices:?}") };
    assert!(matches!(used, Notice::VariableUsed { .. }), "{used:?}");
    assert!(matches!(raised, Notice::TimeoutRaised { .. }), "{raised:?}");
    assert_eq!(*running, Notice::Running { args: args.to_vec() });
    assert_eq!(*rejected, Notice::Rejected(ConfigError::LogOutput(error)));
}

#[test]
fn missing_advertised_urls_get_a_hint() {
    let Err(Exit::Logged { notices, .. }) = run(&["--listen-client-urls=http://127.0.0.1:1"], &[])
    else {
        panic!("rejected");
    };
    let rejection = ConfigError::AdvertiseClientUnset;
    assert!(
        notices
            .ends_with(&[Notice::Rejected(rejection.clone()), Notice::AdvertiseUnset(rejection)])
    );
}
