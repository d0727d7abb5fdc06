//! Discovery of members by DNS SRV records.
//!
//! ```text
//!   --discovery-srv example.com --name m2 --initial-advertise-peer-urls https://10.0.0.2:2380
//!
//!   _etcd-server-ssl._tcp.example.com
//!       m1.example.com. 2380    10.0.0.1:2380                   0=https://m1.example.com:2380
//!       m2.example.com. 2380    10.0.0.2:2380    advertised     m2=https://m2.example.com:2380
//!   _etcd-server._tcp.example.com    no records
//! ```
//!
//! Both services are queried, and their members joined. Other members get a number as a temporary
//! name: members learn each other's names later.
//!
//! Compat: as in etcd, the numbers of the second service start at 0 again.

use std::net::SocketAddr;

use gocompat::join_host_port;

/// The most members of a service.
pub const MEMBERS_MAX: usize = 1024;

/// An SRV record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SrvRecord {
    /// The priority; lower comes first.
    pub priority: u16,
    /// The host, possibly with a trailing dot.
    pub target: String,
    /// The port.
    pub port: u16,
    /// The share of connections among records of one priority; 0 is next to none.
    pub weight: u16,
}

/// A DNS resolver.
pub trait Lookup {
    /// Returns the SRV records of `_service._tcp.domain`.
    ///
    /// # Errors
    /// The reason there are none.
    fn srv(&self, service: &str, domain: &str) -> Result<Vec<SrvRecord>, String>;

    /// Resolves a host.
    ///
    /// # Errors
    /// The reason there is no address.
    fn address(&self, host: &str, port: u16) -> Result<SocketAddr, String>;
}

/// An advertised peer URL of the local member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnUrl {
    /// `http` or `https`.
    pub scheme: String,
    /// The host, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// The parameters of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SrvQuery<'a> {
    /// The name of the local member.
    pub name: &'a str,
    /// The domain, `--discovery-srv`.
    pub domain: &'a str,
    /// The suffix of the service names, `--discovery-srv-name`; may be empty.
    pub service_name: &'a str,
    /// The advertised peer URLs of the local member.
    pub own_urls: &'a [OwnUrl],
}

/// The members found, and the errors, of which there may be some even if members were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SrvMembers {
    /// The members, `name=url` each: the parts of an `--initial-cluster`.
    pub members: Vec<String>,
    /// The errors, at most one per service.
    pub errors: Vec<String>,
}

/// An endpoint for clients, from an SRV record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientEndpoint {
    /// `https://host:port` or `http://host:port`, by the service.
    pub url: String,
    /// The record.
    pub record: SrvRecord,
}

/// Finds the endpoints for clients: `etcd-client-ssl` with TLS, and `etcd-client` without.
///
/// # Errors
/// Neither service has records.
pub fn find_clients(
    domain: &str,
    service_name: &str,
    lookup: &dyn Lookup,
) -> Result<Vec<ClientEndpoint>, String> {
    let query = |service: &str, scheme: &str| {
        let records = lookup.srv(&suffixed(service, service_name), domain)?;
        let endpoint = |record: SrvRecord| {
            let host_port = join_host_port(record.target.trim_end_matches('.'), record.port);
            ClientEndpoint { url: format!("{scheme}://{host_port}"), record }
        };
        Ok(records.into_iter().take(MEMBERS_MAX).map(endpoint).collect::<Vec<_>>())
    };
    let (secure, insecure) = (query("etcd-client-ssl", "https"), query("etcd-client", "http"));
    match (secure, insecure) {
        (Err(secure), Err(insecure)) => {
            let secure: String = secure;
            Err(format!("dns lookup errors: {secure} and {insecure}"))
        }
        (secure, insecure) => Ok(secure.into_iter().chain(insecure).flatten().collect()),
    }
}

fn suffixed(service: &str, suffix: &str) -> String {
    match suffix {
        "" => service.to_owned(),
        suffix => format!("{service}-{suffix}"),
    }
}

/// Queries both services.
pub fn find(query: &SrvQuery<'_>, lookup: &dyn Lookup) -> SrvMembers {
    let mut found = SrvMembers::default();
    for (scheme, service) in [("https", "etcd-server-ssl"), ("http", "etcd-server")] {
        let service = suffixed(service, query.service_name);
        let listed = list(query, scheme, &service, lookup);
        let error = listed.as_ref().err().cloned();
        found.members.extend(listed.unwrap_or_default());
        tracing::info!(
            service_scheme = scheme,
            service_name = service,
            server_name = query.name,
            discovery_srv = query.domain,
            found_cluster = ?found.members,
            error,
            "get cluster for {} SRV",
            if scheme == "https" { "etcd-server-ssl" } else { "etcd-server" }
        );
        found.errors.extend(error);
    }
    found
}

/// Queries one service.
fn list(
    query: &SrvQuery<'_>,
    scheme: &str,
    service: &str,
    lookup: &dyn Lookup,
) -> Result<Vec<String>, String> {
    let own_urls = resolve_own(query, lookup)?;
    let failed = |reason| format!("error querying DNS SRV records for _{service} {reason}");
    let mut records = lookup.srv(service, query.domain).map_err(failed)?;
    records.sort();
    let (mut members, mut unnamed, mut last) = (Vec::new(), 0, None);
    for record in records.iter().take(MEMBERS_MAX) {
        let listed = member(record, scheme, service, query.name, &own_urls, &mut unnamed, lookup);
        match listed {
            Ok(member) => members.push(member),
            Err(reason) => last = Some(reason),
        }
    }
    match last {
        Some(reason) if members.is_empty() => Err(failed(reason)),
        _ => Ok(members),
    }
}

/// Resolves the advertised URLs.
fn resolve_own<'a>(
    query: &SrvQuery<'a>,
    lookup: &dyn Lookup,
) -> Result<Vec<(SocketAddr, &'a OwnUrl)>, String> {
    query.own_urls.iter().map(|own| Ok((lookup.address(&own.host, own.port)?, own))).collect()
}

fn member(
    record: &SrvRecord,
    scheme: &str,
    service: &str,
    name: &str,
    own_urls: &[(SocketAddr, &OwnUrl)],
    unnamed: &mut usize,
    lookup: &dyn Lookup,
) -> Result<String, String> {
    let address = lookup.address(&record.target, record.port)?;
    let own_url = own_urls.iter().find(|(known, _)| *known == address).map(|(_, own)| *own);
    let url =
        format!("{scheme}://{}", join_host_port(record.target.trim_end_matches('.'), record.port));
    let Some(own_url) = own_url.filter(|_| !name.is_empty()) else {
        *unnamed += 1;
        return Ok(format!("{}={url}", *unnamed - 1));
    };
    if own_url.scheme != scheme {
        let expected =
            format!("{}://{}", own_url.scheme, join_host_port(&own_url.host, own_url.port));
        return Err(format!(
            "bootstrap at {url} from DNS for {service} has scheme mismatch with expected peer {expected}"
        ));
    }
    Ok(format!("{name}={url}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A domain with three hosts.
    struct Zone(&'static [(&'static str, &'static [(&'static str, u16)])]);

    impl Lookup for Zone {
        fn srv(&self, service: &str, domain: &str) -> Result<Vec<SrvRecord>, String> {
            assert_eq!(domain, "example.com");
            let found = self.0.iter().find(|(known, _)| *known == service);
            let (_, records) =
                found.ok_or_else(|| format!("lookup _{service}._tcp.{domain}: no such host"))?;
            let record = |(target, port): &(&str, u16)| SrvRecord {
                priority: 1,
                target: (*target).to_owned(),
                port: *port,
                weight: 0,
            };
            Ok(records.iter().map(record).collect())
        }

        fn address(&self, host: &str, port: u16) -> Result<SocketAddr, String> {
            let last = match host.trim_end_matches('.') {
                "m1.example.com" | "10.0.0.1" => 1,
                "m2.example.com" | "10.0.0.2" => 2,
                "m3.example.com" | "10.0.0.3" => 3,
                other => return Err(format!("lookup {other}: no such host")),
            };
            Ok(SocketAddr::from(([10, 0, 0, last], port)))
        }
    }

    fn own(scheme: &str, host: &str) -> OwnUrl {
        OwnUrl { scheme: scheme.to_owned(), host: host.to_owned(), port: 2380 }
    }

    fn found(zone: &Zone, own: &[OwnUrl], service_name: &str) -> SrvMembers {
        let query = SrvQuery { name: "m", domain: "example.com", service_name, own_urls: own };
        find(&query, zone)
    }

    const ALL: &[(&str, u16)] =
        &[("m1.example.com.", 2380), ("m2.example.com.", 2380), ("m3.example.com.", 2380)];

    #[test]
    fn a_member_finds_itself_and_the_others() {
        let zone = Zone(&[("etcd-server-ssl", ALL)]);
        let found = found(&zone, &[own("https", "10.0.0.2")], "");
        assert_eq!(
            found.members,
            [
                "0=https://m1.example.com:2380",
                "m=https://m2.example.com:2380",
                "1=https://m3.example.com:2380"
            ]
        );
        assert_eq!(
            found.errors,
            [
                "error querying DNS SRV records for _etcd-server lookup _etcd-server._tcp.example.com: no such host"
            ]
        );
    }

    #[test]
    fn the_members_of_both_services_are_joined() {
        let zone = Zone(&[
            ("etcd-server-ssl-a", &[("m1.example.com.", 2380)]),
            ("etcd-server-a", &[("m2.example.com.", 2380), ("m3.example.com.", 1)]),
        ]);
        let found = found(&zone, &[own("http", "m2.example.com")], "a");
        assert_eq!(
            found.members,
            [
                "0=https://m1.example.com:2380",
                "m=http://m2.example.com:2380",
                "0=http://m3.example.com:1"
            ]
        );
        assert!(found.errors.is_empty());
    }

    #[test]
    fn unresolvable_members_are_skipped_unless_all_are() {
        let zone = Zone(&[
            ("etcd-server-ssl", &[("m1.example.com.", 2380), ("unknown.", 2380)]),
            ("etcd-server", &[("unknown.", 2380)]),
        ]);
        let found = found(&zone, &[own("https", "10.0.0.1")], "");
        assert_eq!(found.members, ["m=https://m1.example.com:2380"]);
        let text = "error querying DNS SRV records for _etcd-server lookup unknown: no such host";
        assert_eq!(found.errors, [text]);
    }

    #[test]
    fn the_advertised_scheme_must_match_the_service() {
        let zone = Zone(&[("etcd-server-ssl", &[("m1.example.com.", 2380)])]);
        let other_scheme = found(&zone, &[own("http", "10.0.0.1")], "");
        assert!(other_scheme.members.is_empty());
        assert_eq!(
            other_scheme.errors[0],
            "error querying DNS SRV records for _etcd-server-ssl bootstrap at https://m1.example.com:2380 \
             from DNS for etcd-server-ssl has scheme mismatch with expected peer http://10.0.0.1:2380"
        );
        let unknown = found(&zone, &[own("https", "nowhere")], "");
        assert_eq!(unknown.errors, ["lookup nowhere: no such host"; 2]);
    }

    #[test]
    fn the_endpoints_for_clients_of_both_services_are_joined() {
        let zone = Zone(&[
            ("etcd-client-ssl-a", &[("m1.example.com.", 2379)]),
            ("etcd-client-a", &[("m2.example.com", 2379)]),
        ]);
        let urls = |service_name| {
            let found = find_clients("example.com", service_name, &zone)?;
            Ok::<_, String>(found.into_iter().map(|found| found.url).collect::<Vec<_>>())
        };
        assert_eq!(
            urls("a").unwrap(),
            ["https://m1.example.com:2379", "http://m2.example.com:2379"]
        );
        assert_eq!(
            urls("").unwrap_err(),
            "dns lookup errors: lookup _etcd-client-ssl._tcp.example.com: no such host \
             and lookup _etcd-client._tcp.example.com: no such host"
        );
    }
}
