use std::cell::Cell;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};

use ::discovery::srv::{Lookup, SrvRecord};

use super::*;
use config::{HostInfo, NoDefaultHost, parse};

const HOST_INFO: HostInfo = HostInfo { arch: "amd64", default_host: || Err(NoDefaultHost) };

fn config(args: &[&str]) -> Config {
    let args = std::iter::once("bowline").chain(args.iter().copied()).map(OsString::from);
    parse(args, [], &HOST_INFO).expect("valid flags").config
}

/// Resolves one name.
fn resolve(host: &str) -> Result<IpAddr, String> {
    match host {
        "one.example" => Ok(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1))),
        _ => Err(format!("lookup {host}: no such host")),
    }
}

/// A DNS zone with two members.
struct TwoMembers;

impl Lookup for TwoMembers {
    fn srv(&self, service: &str, domain: &str) -> Result<Vec<SrvRecord>, String> {
        let record = |target: &str| SrvRecord {
            priority: 0,
            target: format!("{target}."),
            port: 1,
            weight: 0,
        };
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

/// The initial cluster of member `m`, for two flags.
fn cluster(initial: &str, advertised: &str) -> Result<InitialCluster, String> {
    let (initial, advertised) = (
        format!("--initial-cluster={initial}"),
        format!("--initial-advertise-peer-urls={advertised}"),
    );
    let config = config(&["--name=m", &initial, &advertised]);
    new_cluster(&config, &HostResolver::with_wait(&resolve, || false), &TwoMembers)
        .map_err(|error| error.to_string())
}

#[test]
fn the_default_initial_cluster_is_the_local_member() {
    let config = config(&["--name=m", "--initial-cluster-token=t"]);
    let cluster = new_cluster(&config, &HostResolver::new(&resolve), &TwoMembers);
    let cluster = cluster.expect("a valid cluster");
    assert_eq!(cluster.members.to_string(), "m=http://localhost:2380");
    assert_eq!(cluster.token, "t");
}

#[test]
fn advertised_urls_may_be_spelled_differently() {
    for (initial, advertised) in [
        ("m=http://[::1]:1", "http://[0:0::1]:1"),
        ("m=http://one.example:1", "http://10.0.0.1:1"),
        ("m=http://b:1,m=http://a:1", "http://a:1,http://b:1"),
    ] {
        assert!(cluster(initial, advertised).is_ok(), "{initial} {advertised}");
    }
}

#[test]
fn a_failed_lookup_is_retried() {
    let (lookups, waits) = (Cell::new(0), Cell::new(0));
    let resolve = |host: &str| {
        lookups.set(lookups.get() + 1);
        if lookups.get() < 3 { Err(format!("lookup {host}: no such host")) } else { resolve(host) }
    };
    let wait = || {
        waits.set(waits.get() + 1);
        true
    };
    let config = config(&[
        "--name=m",
        "--initial-cluster=m=http://one.example:1",
        "--initial-advertise-peer-urls=http://10.0.0.1:1",
    ]);
    let resolver = HostResolver::with_wait(&resolve, wait);
    assert!(new_cluster(&config, &resolver, &TwoMembers).is_ok());
    assert_eq!((lookups.get(), waits.get()), (3, 2), "a wait before each retry");
}

#[test]
fn errors_have_etcds_texts() {
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
    for (actual, expected) in cases {
        assert_eq!(actual, Err(expected.to_owned()));
    }
}

#[test]
fn members_are_found_in_dns() {
    let with = |flags: &[&str]| {
        let flags = [&["--name=m", "--discovery-srv=example.com"], flags].concat();
        new_cluster(&config(&flags), &HostResolver::with_wait(&resolve, || false), &TwoMembers)
            .map_err(|error| error.to_string())
    };
    let found = with(&["--initial-advertise-peer-urls=https://one.example:1"])
        .expect("the member is in DNS");
    let members = "0=https://two.example:1,m=https://one.example:1";
    assert_eq!(found.members.to_string(), members);
    assert_eq!(
        found.server_name.as_deref(),
        Some("example.com"),
        "the system's authorities are trusted"
    );
    let with_ca = with(&[
        "--initial-advertise-peer-urls=https://one.example:1",
        "--peer-trusted-ca-file=ca.pem",
    ]);
    assert_eq!(with_ca.expect("the member is in DNS").server_name, None);
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
fn joining_does_not_check_the_advertised_urls() {
    let joined = |flags: &[&str]| {
        let config = config(&[&["--name=m", "--initial-cluster-state=existing"], flags].concat());
        existing_cluster(&config, &TwoMembers)
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
fn with_a_discovery_service_the_member_starts_alone() {
    let config = config(&["--name=m", "--discovery-token=t", "--discovery-endpoints=http://d:1"]);
    let resolver = HostResolver::new(&resolve);
    let initial = new_cluster(&config, &resolver, &TwoMembers).expect("a valid cluster");
    assert_eq!(
        (initial.members.to_string().as_str(), initial.token.as_str()),
        ("m=http://localhost:2380", "t")
    );
}

#[test]
fn peer_urls_match_after_resolving_host_names() {
    let same = |a: &[&str], b: &[&str]| {
        let texts = |urls: &[&str]| urls.iter().map(|url| (*url).to_owned()).collect::<Vec<_>>();
        let resolve = |host: &str| resolve(host).or(Ok(IpAddr::from([10, 0, 0, 9])));
        match_url_texts(&texts(a), &texts(b), &HostResolver::with_wait(&resolve, || false))
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

fn members(hosts: [&str; 3]) -> Membership {
    let urls = |host: &str| vec![format!("http://{host}:2380")];
    let members = hosts.map(|host| (host.to_owned(), urls(host))).into();
    Membership::bootstrap("t", &members).expect("valid members").1
}

#[test]
fn the_resolve_deadline_holds_for_all_pairs_together() {
    let (lookups, waits) = (Cell::new(0), Cell::new(5));
    let resolve = |host: &str| {
        lookups.set(lookups.get() + 1);
        Err(format!("lookup {host}: no such host"))
    };
    let wait = || {
        let has_time = waits.get() > 0;
        waits.set(waits.get().max(1) - 1);
        has_time
    };
    let (configured, running) = (members(["a", "b", "c"]), members(["x", "y", "z"]));
    let resolver = HostResolver::with_wait(&resolve, wait);
    let rejected = adopt_running_ids(&configured, ClusterId(1), &running, &resolver)
        .expect_err("unknown hosts");
    assert!(rejected.to_string().contains("no such host"), "{rejected}");
    assert_eq!(lookups.get(), 5 + 3, "five retries in all, and one lookup for each pair");
}
