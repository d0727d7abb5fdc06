//! The members of a cluster, by records of DNS.
//!
//! ```text
//!   --discovery-srv example.com --name m2 --initial-advertise-peer-urls https://10.0.0.2:2380
//!
//!   _etcd-server-ssl._tcp.example.com   m1.example.com. 2380    10.0.0.1:2380                                     0=https://m1.example.com:2380
//!                                       m2.example.com. 2380    10.0.0.2:2380    which is what is advertised      m2=https://m2.example.com:2380
//!   _etcd-server._tcp.example.com       none
//! ```
//!
//! Both lists are asked for and put together. Who is not oneself gets a number for a name, which nobody sees again: members find out each other's names later.
//!
//! Compat: the numbers of the second list begin anew, as in etcd.

use std::net::SocketAddr;

use gocompat::join_host_port;

/// The most members that are taken from a list.
pub const MEMBERS_MAX: usize = 1024;

/// A record of DNS: where a service is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    /// Who comes first.
    pub priority: u16,
    /// The host, perhaps with a dot at its end.
    pub target: String,
    /// The port.
    pub port: u16,
}

/// Who is asked for names.
pub trait Lookup {
    /// The records of `_service._tcp.domain`.
    ///
    /// # Errors
    /// Why there are none.
    fn srv(&self, service: &str, domain: &str) -> Result<Vec<Record>, String>;

    /// An address of a host.
    ///
    /// # Errors
    /// Why there is none.
    fn address(&self, host: &str, port: u16) -> Result<SocketAddr, String>;
}

/// A peer URL of the member that looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    /// `http` or `https`.
    pub scheme: String,
    /// The host, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// What is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// The name of the member that looks.
    pub name: &'a str,
    /// The domain, `--discovery-srv`.
    pub domain: &'a str,
    /// What is behind the names of services, `--discovery-srv-name`; may be empty.
    pub service_name: &'a str,
    /// What the member advertises.
    pub own: &'a [Own],
}

/// What was found: the parts of an `--initial-cluster`; and what went wrong, which may be something even if much was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// `name=url` each.
    pub members: Vec<String>,
    /// Why there are not more, a line for each list.
    pub errors: Vec<String>,
}

/// Looks for a cluster.
pub fn find(wanted: &Wanted<'_>, lookup: &dyn Lookup) -> Found {
    let mut found = Found::default();
    for (scheme, service) in [("https", "etcd-server-ssl"), ("http", "etcd-server")] {
        let service = match wanted.service_name {
            "" => service.to_owned(),
            suffix => format!("{service}-{suffix}"),
        };
        let listed = list(wanted, scheme, &service, lookup);
        let error = listed.as_ref().err().cloned();
        found.members.extend(listed.unwrap_or_default());
        tracing::info!(
            service_scheme = scheme,
            service_name = service,
            server_name = wanted.name,
            discovery_srv = wanted.domain,
            found_cluster = ?found.members,
            error,
            "get cluster for {} SRV",
            if scheme == "https" { "etcd-server-ssl" } else { "etcd-server" }
        );
        found.errors.extend(error);
    }
    found
}

/// The members of one list.
fn list(
    wanted: &Wanted<'_>,
    scheme: &str,
    service: &str,
    lookup: &dyn Lookup,
) -> Result<Vec<String>, String> {
    let own = resolve_own(wanted, lookup)?;
    let failed = |reason| format!("error querying DNS SRV records for _{service} {reason}");
    let mut records = lookup.srv(service, wanted.domain).map_err(failed)?;
    records.sort();
    let (mut members, mut strangers, mut last) = (Vec::new(), 0, None);
    for record in records.iter().take(MEMBERS_MAX) {
        let listed = member(record, scheme, service, wanted.name, &own, &mut strangers, lookup);
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

/// The addresses that the member advertises, each with its URL.
fn resolve_own<'a>(
    wanted: &Wanted<'a>,
    lookup: &dyn Lookup,
) -> Result<Vec<(SocketAddr, &'a Own)>, String> {
    wanted.own.iter().map(|own| Ok((lookup.address(&own.host, own.port)?, own))).collect()
}

fn member(
    record: &Record,
    scheme: &str,
    service: &str,
    name: &str,
    own: &[(SocketAddr, &Own)],
    strangers: &mut usize,
    lookup: &dyn Lookup,
) -> Result<String, String> {
    let address = lookup.address(&record.target, record.port)?;
    let same = own.iter().find(|(known, _)| *known == address).map(|(_, own)| *own);
    let url =
        format!("{scheme}://{}", join_host_port(record.target.trim_end_matches('.'), record.port));
    let Some(same) = same.filter(|_| !name.is_empty()) else {
        *strangers += 1;
        return Ok(format!("{}={url}", *strangers - 1));
    };
    if same.scheme != scheme {
        let expected = format!("{}://{}", same.scheme, join_host_port(&same.host, same.port));
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
        fn srv(&self, service: &str, domain: &str) -> Result<Vec<Record>, String> {
            assert_eq!(domain, "example.com");
            let found = self.0.iter().find(|(known, _)| *known == service);
            let (_, records) =
                found.ok_or_else(|| format!("lookup _{service}._tcp.{domain}: no such host"))?;
            let record = |(target, port): &(&str, u16)| Record {
                priority: 1,
                target: (*target).to_owned(),
                port: *port,
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

    fn own(scheme: &str, host: &str) -> Own {
        Own { scheme: scheme.to_owned(), host: host.to_owned(), port: 2380 }
    }

    fn found(zone: &Zone, own: &[Own], service_name: &str) -> Found {
        let wanted = Wanted { name: "m", domain: "example.com", service_name, own };
        find(&wanted, zone)
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
    fn both_lists_are_put_together() {
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
    fn one_that_cannot_be_found_is_left_out_unless_all_are() {
        let zone = Zone(&[
            ("etcd-server-ssl", &[("m1.example.com.", 2380), ("nobody.", 2380)]),
            ("etcd-server", &[("nobody.", 2380)]),
        ]);
        let found = found(&zone, &[own("https", "10.0.0.1")], "");
        assert_eq!(found.members, ["m=https://m1.example.com:2380"]);
        let text = "error querying DNS SRV records for _etcd-server lookup nobody: no such host";
        assert_eq!(found.errors, [text]);
    }

    #[test]
    fn what_is_advertised_must_be_of_the_kind_of_the_list() {
        let zone = Zone(&[("etcd-server-ssl", &[("m1.example.com.", 2380)])]);
        let other_kind = found(&zone, &[own("http", "10.0.0.1")], "");
        assert!(other_kind.members.is_empty());
        assert_eq!(
            other_kind.errors[0],
            "error querying DNS SRV records for _etcd-server-ssl bootstrap at https://m1.example.com:2380 \
             from DNS for etcd-server-ssl has scheme mismatch with expected peer http://10.0.0.1:2380"
        );
        let unknown = found(&zone, &[own("https", "nowhere")], "");
        assert_eq!(unknown.errors, ["lookup nowhere: no such host"; 2]);
    }
}
