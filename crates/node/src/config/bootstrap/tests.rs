use std::cell::Cell;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use discovery::srv::{Lookup, Record};

use super::{BootstrapError, InitialCluster, Names, same_places};
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

/// As [`Config::initial_cluster`], with pauses of one's own.
fn made(config: &Config, names: &Names<'_>) -> Result<InitialCluster, BootstrapError> {
    let told = config.told_cluster(&Zone)?;
    config.verify_new(&told, names).map(|()| told)
}

/// A domain with two members.
struct Zone;

impl Lookup for Zone {
    fn srv(&self, service: &str, domain: &str) -> Result<Vec<Record>, String> {
        let record = |target: &str| Record { priority: 0, target: format!("{target}."), port: 1 };
        match (service, domain) {
            ("etcd-server-ssl", "example.com") => {
                Ok(vec![record("one.example"), record("two.example")])
            }
            _ => Err(format!("lookup _{service}._tcp.{domain}: no such host")),
        }
    }

    fn address(&self, host: &str, port: u16) -> Result<SocketAddr, String> {
        match host.trim_end_matches('.') {
            "one.example" | "10.0.0.1" => Ok(SocketAddr::from(([10, 0, 0, 1], port))),
            "two.example" => Ok(SocketAddr::from(([10, 0, 0, 2], port))),
            other => Err(format!("lookup {other}: no such host")),
        }
    }
}

/// The cluster of the member `m` with these URLs.
fn cluster(initial: &str, advertised: &str) -> Result<InitialCluster, String> {
    let (initial, advertised) = (
        format!("--initial-cluster={initial}"),
        format!("--initial-advertise-peer-urls={advertised}"),
    );
    let config = config(&["--name=m", &initial, &advertised]);
    made(&config, &Names::with_pause(&resolve, || false)).map_err(|error| error.to_string())
}

#[test]
fn a_member_alone() {
    let config = config(&["--name=m", "--initial-cluster-token=t"]);
    let cluster = config.initial_cluster(&resolve, &Zone);
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
    let names = Names::with_pause(&resolve, pause);
    assert!(made(&config, &names).is_ok());
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

#[test]
fn a_cluster_is_found_in_dns() {
    let with = |flags: &[&str]| {
        let flags = [&["--name=m", "--discovery-srv=example.com"], flags].concat();
        made(&config(&flags), &Names::with_pause(&resolve, || false))
            .map_err(|error| error.to_string())
    };
    let found = with(&["--initial-advertise-peer-urls=https://one.example:1"]).expect("found");
    let members = "0=https://two.example:1,m=https://one.example:1";
    assert_eq!(found.members.to_string(), members);
    assert_eq!(found.server_name.as_deref(), Some("example.com"), "whom the system trusts");
    let given = with(&[
        "--initial-advertise-peer-urls=https://one.example:1",
        "--peer-trusted-ca-file=ca.pem",
    ]);
    assert_eq!(given.expect("found").server_name, None);
    assert_eq!(
        with(&["--initial-advertise-peer-urls=https://one.example:2"]).unwrap_err(),
        "error setting up initial cluster: cannot find local etcd member \"m\" in SRV records"
    );
    assert_eq!(
        with(&["--discovery-srv-name=x", "--initial-advertise-peer-urls=http://one.example:1"])
            .unwrap_err(),
        "error setting up initial cluster: error querying DNS SRV records for _etcd-server-ssl-x \
         lookup _etcd-server-ssl-x._tcp.example.com: no such host\n\
         error querying DNS SRV records for _etcd-server-x \
         lookup _etcd-server-x._tcp.example.com: no such host"
    );
}

#[test]
fn a_cluster_that_is_joined_need_not_know_what_is_advertised() {
    let joined = |flags: &[&str]| {
        let config = config(&[&["--name=m", "--initial-cluster-state=existing"], flags].concat());
        config
            .joined_cluster(&Zone)
            .map(|cluster| cluster.members.to_string())
            .map_err(|error| error.to_string())
    };
    assert_eq!(
        joined(&["--initial-cluster=m=http://x:1", "--initial-advertise-peer-urls=http://y:2"]),
        Ok("m=http://x:1".to_owned())
    );
    assert_eq!(
        joined(&["--initial-cluster=n=http://x:1"]).unwrap_err(),
        "couldn't find local name \"m\" in the initial cluster configuration"
    );
    assert_eq!(
        joined(&["--initial-cluster=m=http://x:1,m=http://x:1"]).unwrap_err(),
        "initial cluster m=http://x:1,m=http://x:1 has duplicate url"
    );
    assert_eq!(
        joined(&["--discovery-token=t", "--discovery-endpoints=http://d:1"]).unwrap_err(),
        "discovery URL should not be set when joining existing initial cluster"
    );
}

#[test]
fn on_a_list_a_member_is_alone_at_first() {
    let config = config(&["--name=m", "--discovery-token=t", "--discovery-endpoints=http://d:1"]);
    let told = config.initial_cluster(&resolve, &Zone).expect("sound");
    assert_eq!(
        (told.members.to_string().as_str(), told.token.as_str()),
        ("m=http://localhost:2380", "t")
    );
}

#[test]
fn urls_of_running_members_are_compared_with_those_one_was_told() {
    let same = |a: &[&str], b: &[&str]| {
        let texts = |urls: &[&str]| urls.iter().map(|url| (*url).to_owned()).collect::<Vec<_>>();
        let resolve = |host: &str| resolve(host).or(Ok(IpAddr::from([10, 0, 0, 9])));
        same_places(&texts(a), &texts(b), &Names::with_pause(&resolve, || false))
    };
    assert_eq!(same(&["http://b:1", "http://a:1"], &["http://a:1", "http://b:1"]), Ok(()));
    assert_eq!(same(&["http://one.example:1"], &["http://10.0.0.1:1"]), Ok(()));
    assert_eq!(
        same(&["http://10.0.0.2:1"], &["http://one.example:1"]).unwrap_err(),
        r#"resolved urls: "http://10.0.0.2:1" != "http://10.0.0.1:1""#
    );
    assert_eq!(same(&["http://a:1"], &[]).unwrap_err(), r#"len(["http://a:1"]) != len([])"#);
    assert_eq!(same(&["x"], &["y"]).unwrap_err(), r#"failed to parse string to URL: "x""#);
}
