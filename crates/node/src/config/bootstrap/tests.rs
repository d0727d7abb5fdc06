use std::cell::Cell;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};

use super::{InitialCluster, Names};
use crate::config::{Config, Machine, NoDefaultHost, parse};

const MACHINE: Machine = Machine { arch: "amd64", default_host: || Err(NoDefaultHost) };

fn config(args: &[&str]) -> Config {
    let args = std::iter::once("bowline").chain(args.iter().copied()).map(OsString::from);
    parse(args, [], &MACHINE).expect("sound").config
}

/// Knows one name.
fn resolve(host: &str) -> Result<IpAddr, String> {
    match host {
        "one.example" => Ok(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1))),
        _ => Err(format!("lookup {host}: no such host")),
    }
}

/// The cluster of the member `m` with these URLs.
fn cluster(initial: &str, advertised: &str) -> Result<InitialCluster, String> {
    let (initial, advertised) = (
        format!("--initial-cluster={initial}"),
        format!("--initial-advertise-peer-urls={advertised}"),
    );
    config(&["--name=m", &initial, &advertised])
        .initial_cluster_by(&Names { resolve: &resolve, pause: &|| false })
        .map_err(|error| error.to_string())
}

#[test]
fn a_member_alone() {
    let cluster = config(&["--name=m", "--initial-cluster-token=t"]).initial_cluster(&resolve);
    let cluster = cluster.expect("sound");
    assert_eq!(cluster.members.to_string(), "m=http://localhost:2380");
    assert_eq!(cluster.token, "t");
}

#[test]
fn urls_may_be_written_in_two_ways() {
    for (initial, advertised) in [
        ("m=http://[::1]:1", "http://[0:0::1]:1"),
        ("m=http://one.example:1", "http://10.0.0.1:1"),
        ("m=http://b:1,m=http://a:1", "http://a:1,http://b:1"),
    ] {
        assert!(cluster(initial, advertised).is_ok(), "{initial} {advertised}");
    }
}

#[test]
fn a_name_that_is_known_late_is_asked_for_again() {
    let (asked, pauses) = (Cell::new(0), Cell::new(0));
    let resolve = |host: &str| {
        asked.set(asked.get() + 1);
        if asked.get() < 3 { Err(format!("lookup {host}: no such host")) } else { resolve(host) }
    };
    let pause = || {
        pauses.set(pauses.get() + 1);
        true
    };
    let config = config(&[
        "--name=m",
        "--initial-cluster=m=http://one.example:1",
        "--initial-advertise-peer-urls=http://10.0.0.1:1",
    ]);
    let names = Names { resolve: &resolve, pause: &pause };
    assert!(config.initial_cluster_by(&names).is_ok());
    assert_eq!((asked.get(), pauses.get()), (3, 2), "with a pause before each further try");
}

#[test]
fn refusals_are_in_etcds_words() {
    let cases = [
        (
            cluster("m=http://1.1.1.1:1", "http://1.1.1.1:1,http://1.1.1.1:2"),
            r#"--initial-advertise-peer-urls has http://1.1.1.1:2 but missing from --initial-cluster=m=http://1.1.1.1:1,m=http://1.1.1.1:2"#,
        ),
        (
            cluster("m=http://1.1.1.1:1,m=http://1.1.1.1:2", "http://1.1.1.1:1"),
            r#"--initial-cluster has m=http://1.1.1.1:2 but missing from --initial-advertise-peer-urls=http://1.1.1.1:1 (len(["http://1.1.1.1:1"]) != len(["http://1.1.1.1:1" "http://1.1.1.1:2"]))"#,
        ),
        (
            cluster("m=http://1.1.1.1:1", "http://localhost:1"),
            r#"--initial-cluster has m=http://1.1.1.1:1 but missing from --initial-advertise-peer-urls=http://localhost:1 (resolved urls: "http://localhost:1" != "http://1.1.1.1:1")"#,
        ),
        (
            cluster("m=http://a.example:1", "http://1.1.1.1:1"),
            r#"--initial-cluster has m=http://a.example:1 but missing from --initial-advertise-peer-urls=http://1.1.1.1:1 (failed to resolve "http://a.example:1" (lookup a.example: no such host))"#,
        ),
        (
            cluster("x=http://1.1.1.1:1", "http://1.1.1.1:1"),
            r#"couldn't find local name "m" in the initial cluster configuration"#,
        ),
        (
            cluster("", "http://1.1.1.1:1"),
            r#"couldn't find local name "m" in the initial cluster configuration"#,
        ),
        (
            cluster("m=http://1.1.1.1:1,m=http://1.1.1.1:1", "http://1.1.1.1:1"),
            r#"failed to resolve http://1.1.1.1:1 to match --initial-cluster=m=http://1.1.1.1:1 (len(["http://1.1.1.1:1"]) != len(["http://1.1.1.1:1" "http://1.1.1.1:1"]))"#,
        ),
        (
            cluster("m=x", "http://1.1.1.1:1"),
            "error setting up initial cluster: URL scheme must be http, https, unix, or unixs: x",
        ),
    ];
    for (given, expected) in cases {
        assert_eq!(given, Err(expected.to_owned()));
    }
}
