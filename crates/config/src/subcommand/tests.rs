//! The expected texts were printed by etcd 3.7.3, except for the name of the program and the
//! descriptions of the flags.

use super::*;

fn parsed(line: &[&str]) -> Result<Subcommand, Exit> {
    let args: Vec<String> = line.iter().map(|arg| (*arg).to_owned()).collect();
    parse(&args).expect("a subcommand")
}

fn gateway(line: &[&str]) -> GatewayFlags {
    match parsed(&[&["gateway", "start"], line].concat()) {
        Ok(Subcommand::Gateway(flags)) => flags,
        other => panic!("{other:?}"),
    }
}

fn proxy(line: &[&str]) -> ProxyFlags {
    match parsed(&[&["grpc-proxy", "start"], line].concat()) {
        Ok(Subcommand::GrpcProxy(flags)) => *flags,
        other => panic!("{other:?}"),
    }
}

/// Returns the last line of standard error.
fn rejection(line: &[&str]) -> String {
    match parsed(line) {
        Err(Exit::Printed { stdout, stderr, code: 1 }) if stdout.is_empty() => {
            stderr.lines().last().unwrap_or_default().to_owned()
        }
        other => panic!("{other:?}"),
    }
}

fn help(line: &[&str]) -> String {
    match parsed(line) {
        Err(Exit::Printed { stdout, stderr, code: 0 }) if stderr.is_empty() => stdout,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_member_is_no_subcommand() {
    assert_eq!(parse(&[]), None);
    assert_eq!(parse(&["--name".to_owned(), "gateway".to_owned()]), None);
}

#[test]
fn flags_have_etcds_defaults() {
    let flags = gateway(&[]);
    assert_eq!(flags.listen_addr, "127.0.0.1:23790");
    assert_eq!(flags.endpoints, ["127.0.0.1:2379"]);
    assert_eq!(flags.retry_delay.to_string(), "1m0s");
    let flags = proxy(&[]);
    assert_eq!(flags.data_dir, "default.proxy");
    assert_eq!((flags.max_send_bytes, flags.max_recv_bytes), (1_572_864, 2_147_483_647));
    assert_eq!(flags.max_concurrent_streams, u32::MAX);
    assert_eq!(flags.grpc_keepalive_interval.to_string(), "2h0m0s");
}

/// The flags of `etcd gateway start --help`, without their descriptions.
const GATEWAY_FLAGS: &str = r#"
    --discovery-srv string
    --discovery-srv-name string
    --endpoints strings (default [127.0.0.1:2379])
    --insecure-discovery
    --listen-addr string (default "127.0.0.1:23790")
    --retry-delay duration (default 1m0s)
    --trusted-ca-file string
"#;

/// The flags of `etcd grpc-proxy start --help`, without their descriptions.
const PROXY_FLAGS: &str = r#"
    --advertise-client-url string (default "127.0.0.1:23790")
    --auto-tls
    --cacert string
    --cert string
    --cert-file string
    --client-crl-file string
    --data-dir string (default "default.proxy")
    --debug
    --dial-keepalive-time duration
    --dial-keepalive-timeout duration (default 20s)
    --discovery-srv string
    --discovery-srv-name string
    --enable-pprof
    --endpoints strings (default [127.0.0.1:2379])
    --endpoints-auto-sync-interval duration
    --experimental-enable-grpc-logging
    --experimental-leasing-prefix string
    --experimental-serializable-ordering
    --grpc-keepalive-interval duration (default 2h0m0s)
    --grpc-keepalive-min-time duration (default 5s)
    --grpc-keepalive-timeout duration (default 20s)
    --insecure-discovery
    --insecure-skip-tls-verify
    --key string
    --key-file string
    --listen-addr string (default "127.0.0.1:23790")
    --listen-cipher-suites strings
    --max-concurrent-streams uint32 (default 4294967295)
    --max-recv-bytes int (default 2147483647)
    --max-send-bytes int (default 1572864)
    --metrics-addr string
    --namespace string
    --permit-without-stream
    --resolver-prefix string
    --resolver-ttl int
    --self-signed-cert-validity uint (default 1)
    --tls-max-version string
    --tls-min-version string (default "TLS1.2")
    --trusted-ca-file string
"#;

/// Returns the flags in the help of a command, without their descriptions: name, type and default.
fn flags_in_help(group: &str) -> Vec<String> {
    let help = help(&[group, "start", "--help"]);
    let (_, rows) = help.split_once("Flags:\n").expect("a table of flags");
    let rows = rows.lines().map(str::trim_start).filter(|row| row.starts_with("--"));
    let without_description = |row: &str| {
        let (flag, description) = row.split_once("   ").expect("two columns");
        match description.rsplit_once(" (default ") {
            Some((_, default)) => format!("{flag} (default {default}"),
            None => flag.to_owned(),
        }
    };
    rows.map(without_description).collect()
}

#[test]
fn names_types_and_defaults_of_flags_are_etcds() {
    for (group, expected) in [("gateway", GATEWAY_FLAGS), ("grpc-proxy", PROXY_FLAGS)] {
        let expected: Vec<_> = expected.trim().lines().map(str::trim).collect();
        assert_eq!(flags_in_help(group), expected, "{group}");
    }
}

#[test]
fn lists_replace_the_default_and_then_add_up() {
    assert_eq!(gateway(&["--endpoints=a:1,b:2", "--endpoints", "c:3"]).endpoints.len(), 3);
    assert_eq!(gateway(&["--endpoints", "\"a,\"\"b\",c"]).endpoints, ["a,\"b", "c"]);
    assert!(gateway(&["--endpoints="]).endpoints.is_empty());
    let line = ["gateway", "start", "--endpoints=\"a"];
    assert_eq!(
        rejection(&line),
        r#"invalid argument "\"a" for "--endpoints" flag: parse error on line 1, column 3: extraneous or missing " in quoted-field"#
    );
}

#[test]
fn flags_stand_before_or_after_the_verb() {
    let before = parsed(&["gateway", "--endpoints=a:1", "start"]);
    assert_eq!(before, parsed(&["gateway", "start", "ignored", "--endpoints=a:1"]));
    assert!(gateway(&["--insecure-discovery"]).insecure_discovery);
    assert!(!gateway(&["--insecure-discovery=F"]).insecure_discovery);
    assert_eq!(gateway(&["--", "--bogus"]), gateway(&[]));
    // Without `=`, a flag before the verb swallows it.
    assert_eq!(
        rejection(&["gateway", "--endpoints=x:1", "--foo", "start"]),
        "unknown flag: --endpoints"
    );
}

#[test]
fn bad_flags_are_rejected_with_cobras_texts() {
    let cases: [(&[&str], &str); 9] = [
        (&["--foo"], "unknown flag: --foo"),
        (&["--listen-addr"], "flag needs an argument: --listen-addr"),
        (
            &["--retry-delay=5"],
            r#"invalid argument "5" for "--retry-delay" flag: time: missing unit in duration "5""#,
        ),
        (
            &["--insecure-discovery=maybe"],
            r#"invalid argument "maybe" for "--insecure-discovery" flag: strconv.ParseBool: parsing "maybe": invalid syntax"#,
        ),
        (&["-x"], "unknown shorthand flag: 'x' in -x"),
        (&["-xyz"], "unknown shorthand flag: 'x' in -xyz"),
        (&["--=5"], "bad flag syntax: --=5"),
        (&["---x"], "bad flag syntax: ---x"),
        (&["-help"], "unknown shorthand flag: 'e' in -elp"),
    ];
    for (flags, text) in cases {
        let line = [&["gateway", "start"], flags].concat();
        assert_eq!(rejection(&line), text);
        let Err(Exit::Printed { stderr, .. }) = parsed(&line) else { panic!("accepted") };
        assert!(stderr.starts_with(&format!("Error: {text}\nUsage:\n  bowline gateway start")));
        assert!(stderr.ends_with(&format!("\n\n{text}")));
    }
}

#[test]
fn numbers_are_rejected_with_gos_texts() {
    let cases = [
        ("--max-send-bytes=1e6", r#"parsing "1e6": invalid syntax"#),
        ("--max-concurrent-streams=4294967296", r#"parsing "4294967296": value out of range"#),
        ("--self-signed-cert-validity=-1", r#"parsing "-1": invalid syntax"#),
    ];
    for (flag, text) in cases {
        let rejected = rejection(&["grpc-proxy", "start", flag]);
        assert!(rejected.ends_with(text), "{rejected}");
    }
}

#[test]
fn combinations_are_rejected_as_in_etcd() {
    let cases: [(&[&str], &str); 9] = [
        (&["--resolver-ttl=1"], r#"invalid resolver-prefix """#),
        (&["--resolver-prefix=x"], "invalid resolver-ttl 0"),
        (
            &["--resolver-prefix=x", "--resolver-ttl=3", "--advertise-client-url="],
            r#"invalid advertise-client-url """#,
        ),
        (
            &["--auto-tls", "--self-signed-cert-validity=0"],
            "selfSignedCertValidity is invalid,it should be greater than 0",
        ),
        (
            &["--tls-min-version=TLS1.1"],
            r#"tls-min-version is invalid: unexpected TLS version "TLS1.1" (must be one of: TLS1.2, TLS1.3)"#,
        ),
        (
            &["--tls-max-version=x"],
            r#"tls-max-version is invalid: unexpected TLS version "x" (must be one of: TLS1.2, TLS1.3)"#,
        ),
        (
            &["--tls-min-version=TLS1.3", "--tls-max-version=TLS1.2"],
            "min version (TLS1.3) is greater than max version (TLS1.2)",
        ),
        (
            &["--tls-min-version=TLS1.3", "--listen-cipher-suites=a"],
            "cipher suites cannot be configured when only TLS1.3 is enabled",
        ),
        (&["--auto-tls", "--listen-cipher-suites=a"], r#"unexpected TLS cipher suite "a""#),
    ];
    for (flags, text) in cases {
        assert_eq!(rejection(&[&["grpc-proxy", "start"], flags].concat()), text);
    }
}

#[test]
fn a_prefix_of_leasing_keys_is_accepted() {
    assert_eq!(proxy(&[]).experimental_leasing_prefix, "");
    let flags = proxy(&["--experimental-leasing-prefix=l/"]);
    assert_eq!(flags.experimental_leasing_prefix, "l/");
}

#[test]
fn tls_is_served_with_a_certificate_or_a_generated_one() {
    let tls = |line: &[&str]| proxy(line).tls().expect("valid flags");
    assert_eq!(tls(&[]), ProxyTls { serving: None, members: None });
    let serving = tls(&["--cert-file=c", "--key-file=k", "--client-crl-file=r"]).serving;
    let serving = serving.expect("TLS is served");
    assert_eq!(serving.crl_file, Some("r".into()));
    assert!(tls(&["--auto-tls"]).serving.is_some_and(|info| info.is_empty()));
    let members = tls(&["--insecure-skip-tls-verify"]).members.expect("TLS to members");
    assert!(members.insecure_skip_verify && members.is_empty());
    assert_eq!(tls(&["--cacert=ca"]).members.expect("TLS").trusted_ca_file, Some("ca".into()));
}

#[test]
fn the_help_has_cobras_layout() {
    assert_eq!(
        help(&["gateway"]),
        "gateway related command

Usage:
  bowline gateway [command]

Available Commands:
  start       start the gateway

Flags:
  -h, --help   help for gateway

Use \"bowline gateway [command] --help\" for more information about a command.
"
    );
    for line in [&["gateway", "foo"], &["gateway", "-h"], &["gateway", "--help"]] {
        assert_eq!(help(line), help(&["gateway"]));
    }
    let text = help(&["gateway", "start", "--help"]);
    assert!(text.starts_with("start the gateway\n\nUsage:\n  bowline gateway start [flags]\n\n"));
    for line in [
        "      --endpoints strings           Endpoints of the cluster, unless SRV records name some. (default [127.0.0.1:2379])\n",
        "  -h, --help                        help for start\n",
        "      --insecure-discovery          Accept",
        "      --listen-addr string          Address to listen on. (default \"127.0.0.1:23790\")\n",
        "      --retry-delay duration        Interval between attempts to reach a failed endpoint. (default 1m0s)\n",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
}
