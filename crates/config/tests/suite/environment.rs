//! Environment variables.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use config::{ConfigError, Exit, HostInfo, Notice, parse};

use super::{HOST_INFO, outcome, outcome_of, run, run_on};

fn notices(args: &[&str], variables: &[&str]) -> Vec<Notice> {
    match run(args, variables) {
        Ok(parsed) => parsed.notices,
        Err(Exit::Logged { notices, .. }) => notices,
        Err(exit) => panic!("{exit:?}"),
    }
}

#[test]
fn a_variable_sets_its_flag() {
    let parsed = run(&[], &["ETCD_NAME=m1", "ETCD_PRE_VOTE=false"]).expect("valid flags");
    assert_eq!((parsed.config.name.as_str(), parsed.config.raft.pre_vote), ("m1", false));
    let used = |name: &str, value: &str| Notice::VariableUsed {
        name: name.to_owned(),
        value: value.to_owned(),
    };
    assert_eq!(parsed.notices[..2], [used("ETCD_NAME", "m1"), used("ETCD_PRE_VOTE", "false")]);
}

#[test]
fn a_flag_set_by_a_variable_counts_as_given() {
    let (_, text) = outcome(&[], &["ETCD_LISTEN_CLIENT_URLS=http://127.0.0.1:1"]);
    assert_eq!(text, ConfigError::AdvertiseClientUnset.to_string());
}

#[test]
fn a_variable_conflicts_with_its_flag() {
    assert_eq!(outcome(&["--name=x"], &["ETCD_NAME=y"]), (1, "shadowed: ETCD_NAME".to_owned()));
    assert_eq!(outcome(&["--name=x"], &["ETCD_NAME="]), (1, "shadowed: ETCD_NAME".to_owned()));
    let both = &["ETCD_MAX_WALS=x", "ETCD_NAME=y"];
    assert_eq!(outcome(&["--name=x"], both), (1, "shadowed: ETCD_NAME".to_owned()));
}

#[test]
fn the_last_of_several_bad_values_is_reported() {
    let cases: &[(&[&str], &str)] = &[
        (&["ETCD_MAX_WALS=x"], r#"invalid value "x" for ETCD_MAX_WALS: parse error"#),
        (&["ETCD_PRE_VOTE=x"], r#"invalid value "x" for ETCD_PRE_VOTE: parse error"#),
        (
            &["ETCD_LISTEN_PEER_URLS=x"],
            r#"invalid value "x" for ETCD_LISTEN_PEER_URLS: URL scheme must be http, https, unix, or unixs: x"#,
        ),
        (
            &["ETCD_FEATURE_GATES=x"],
            r#"invalid value "x" for ETCD_FEATURE_GATES: missing bool value for x"#,
        ),
        (
            &["ETCD_PRE_VOTE=y", "ETCD_MAX_WALS=x"],
            r#"invalid value "y" for ETCD_PRE_VOTE: parse error"#,
        ),
    ];
    for (variables, text) in cases {
        assert_eq!(outcome(&[], variables), (1, (*text).to_owned()), "{variables:?}");
    }
}

#[test]
fn a_value_that_is_not_utf8_is_rejected_if_a_flag_needs_it() {
    let with = |name: &str, args: &[&str]| {
        let args = ["bowline"].iter().chain(args).map(OsString::from);
        parse(args, [(name.into(), OsString::from_vec(b"/d/\xff".to_vec()))], &HOST_INFO)
    };
    for name in ["ETCD_DATA_DIR", "ETCD_CONFIG_FILE"] {
        let rejected = outcome_of(&with(name, &[]).expect_err("rejected"));
        let text = format!(r#"invalid value "/d/\xff" for {name}: not UTF-8"#);
        assert_eq!(rejected, (1, text));
    }
    let shadowed = outcome_of(&with("ETCD_DATA_DIR", &["--data-dir=d"]).expect_err("rejected"));
    assert_eq!(shadowed, (1, "shadowed: ETCD_DATA_DIR".to_owned()));
    let unknown = Notice::UnknownVariable { variable: "ETCD_BOGUS=/d/\u{fffd}".to_owned() };
    assert_eq!(with("ETCD_BOGUS", &[]).expect("valid flags").notices[0], unknown);
    assert!(with("PATH", &[]).is_ok());
}

#[test]
fn an_unknown_variable_is_logged() {
    let variables =
        &["ETCD_BOGUS=1", "ETCD_NAME=", "ETCD_UNSUPPORTED_ARCH=arm", "ETCD_HELP=1", "PATH=/bin"];
    let unknown: Vec<Notice> =
        ["ETCD_BOGUS=1", "ETCD_NAME=", "ETCD_UNSUPPORTED_ARCH=arm", "ETCD_HELP=1"]
            .map(|variable| Notice::UnknownVariable { variable: variable.to_owned() })
            .to_vec();
    assert!(notices(&[], variables).starts_with(&unknown));
}

#[test]
fn etcd_version_is_ignored_with_a_warning() {
    let special = Notice::SpecialVariable { key: "ETCD_VERSION".to_owned(), value: "1".to_owned() };
    assert_eq!(notices(&[], &["ETCD_VERSION=1"])[0], special);
}

#[test]
fn variables_of_old_flags_are_ignored() {
    let used =
        Notice::VariableUsed { name: "ETCD_TEST.COVERPROFILE".to_owned(), value: "1".to_owned() };
    assert_eq!(notices(&[], &["ETCD_TEST.COVERPROFILE=1"])[0], used);
}

#[test]
fn an_unsupported_architecture_must_be_allowed() {
    let host_info = HostInfo { arch: "riscv64", ..HOST_INFO };
    let rejected = run_on(&host_info, &["--version"], &[]).expect_err("rejected");
    let Exit::Logged { notices, .. } = &rejected else { panic!("{rejected:?}") };
    assert_eq!(notices[..], [Notice::ArchRefused { arch: "riscv64".to_owned() }]);
    let parsed = run_on(&host_info, &[], &["ETCD_UNSUPPORTED_ARCH=riscv64"])
        .expect("the variable permits the architecture");
    assert_eq!(parsed.notices[0], Notice::ArchAllowed { arch: "riscv64".to_owned() });
    assert!(!parsed.notices.iter().any(|notice| matches!(notice, Notice::UnknownVariable { .. })));
}
