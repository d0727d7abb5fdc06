//! `NO_PROXY`: the hosts that are reached without a proxy.
//!
//! ```text
//!   *                     all
//!   10.0.0.7              this address
//!   10.0.0.7:2380         only with this port
//!   10.0.0.0/8            these addresses
//!   example.com           this name and those below it
//!   .example.com          only those below it; *.example.com is the same
//! ```
//!
//! Addresses of this machine (`localhost` and loopback addresses) are always reached directly.

use std::net::IpAddr;

/// The most entries that are kept.
const ENTRIES_MAX: usize = 4096;

/// Hosts that are reached without a proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bypass {
    is_all: bool,
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    Network {
        address: IpAddr,
        prefix: u8,
    },
    Address {
        address: IpAddr,
        port: Option<u16>,
    },
    /// A domain with a leading dot.
    Domain {
        suffix: String,
        is_itself: bool,
        port: Option<u16>,
    },
}

impl Bypass {
    /// Parses a list. As in Go, entries that are malformed are skipped.
    pub(super) fn parse(text: &str) -> Bypass {
        let entries = text.split(',').map(|entry| entry.trim().to_lowercase());
        let entries: Vec<String> =
            entries.filter(|entry| !entry.is_empty()).take(ENTRIES_MAX).collect();
        let is_all = entries.iter().any(|entry| entry == "*");
        Bypass { is_all, entries: entries.iter().filter_map(|text| Entry::parse(text)).collect() }
    }

    /// Reports whether a host is reached directly.
    pub(super) fn contains(&self, host: &str, port: u16) -> bool {
        let host = host.trim().to_lowercase();
        // A zone does not change the address.
        let address = host.split('%').next().unwrap_or_default().parse::<IpAddr>().ok();
        let address = address.map(|address| address.to_canonical());
        let is_local = host == "localhost" || address.is_some_and(|address| address.is_loopback());
        let matches = |entry: &Entry| match address {
            Some(address) => entry.contains_address(address, port),
            None => entry.contains_name(&host, port),
        };
        is_local || self.is_all || self.entries.iter().any(matches)
    }
}

impl Entry {
    fn parse(text: &str) -> Option<Entry> {
        if let Some(network) = parse_network(text) {
            return Some(network);
        }
        let (host, port) = match gocompat::split_host_port(text) {
            // A port that is not a number matches nothing.
            Some((host, port)) => (host, Some(port.parse::<u16>().ok()?)),
            None => (text, None),
        };
        if let Ok(address) = host.parse::<IpAddr>() {
            return Some(Entry::Address { address: address.to_canonical(), port });
        }
        let host = host.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(host);
        let (suffix, is_itself) = match host {
            "" => return None,
            host if host.starts_with('.') => (host.to_owned(), false),
            host => (format!(".{host}"), true),
        };
        Some(Entry::Domain { suffix, is_itself, port })
    }

    fn contains_address(&self, given: IpAddr, given_port: u16) -> bool {
        match self {
            Entry::Network { address, prefix } => shares_prefix(*address, given, *prefix),
            Entry::Address { address, port } => {
                *address == given && port.is_none_or(|port| port == given_port)
            }
            Entry::Domain { .. } => false,
        }
    }

    fn contains_name(&self, name: &str, given_port: u16) -> bool {
        let Entry::Domain { suffix, is_itself, port } = self else { return false };
        let matches = name.ends_with(suffix.as_str()) || (*is_itself && *name == suffix[1..]);
        matches && port.is_none_or(|port| port == given_port)
    }
}

fn parse_network(text: &str) -> Option<Entry> {
    let (address, prefix) = text.split_once('/')?;
    let (address, prefix) = (address.parse::<IpAddr>().ok()?, prefix.parse::<u8>().ok()?);
    let bits = if address.is_ipv4() { 32 } else { 128 };
    (prefix <= bits).then_some(Entry::Network { address, prefix })
}

/// Reports whether the first bits of two addresses of one family are equal.
fn shares_prefix(a: IpAddr, b: IpAddr, bits: u8) -> bool {
    fn equal(a: &[u8], b: &[u8], bits: u8) -> bool {
        let (whole, rest) = (usize::from(bits / 8), bits % 8);
        let mask = !(0xff_u8.checked_shr(rest.into()).unwrap_or(0));
        a[..whole] == b[..whole] && (rest == 0 || (a[whole] & mask) == (b[whole] & mask))
    }
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => equal(&a.octets(), &b.octets(), bits),
        (IpAddr::V6(a), IpAddr::V6(b)) => equal(&a.octets(), &b.octets(), bits),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each line was also given to `httpproxy.Config` of Go 1.26.
    #[test]
    fn hosts_match_as_in_go() {
        for (list, host, port, expected) in [
            ("", "m1", 2380, false),
            ("", "localhost", 2380, true),
            ("", "localhost.example", 2380, false),
            ("", "127.9.9.9", 2380, true),
            ("", "::1", 2380, true),
            ("", "::ffff:127.0.0.1", 2380, true),
            ("*", "m1", 2380, true),
            ("x, * ,y", "10.0.0.1", 2380, true),
            ("example.com", "example.com", 2380, true),
            ("example.com", "M1.Example.COM", 2380, true),
            ("example.com", "notexample.com", 2380, false),
            (".example.com", "example.com", 2380, false),
            (".example.com", "m1.example.com", 2380, true),
            ("*.example.com", "m1.example.com", 2380, true),
            ("*.example.com", "example.com", 2380, false),
            ("m1:2380", "m1", 2380, true),
            ("m1:2380", "m1", 2379, false),
            ("10.0.0.7", "10.0.0.7", 2380, true),
            ("10.0.0.7:1", "10.0.0.7", 2380, false),
            ("[fd00::1]:2380", "fd00::1", 2380, true),
            ("fd00::1", "fd00::1", 2380, true),
            ("10.0.0.0/8", "10.200.3.4", 2380, true),
            ("10.0.0.0/8", "11.0.0.1", 2380, false),
            ("10.1.2.3/8", "10.200.3.4", 2380, true),
            ("10.0.0.0/9", "10.128.0.1", 2380, false),
            ("0.0.0.0/0", "8.8.8.8", 2380, true),
            ("0.0.0.0/0", "fd00::1", 2380, false),
            ("fd00::/8", "fd12::1", 2380, true),
            ("10.0.0.0/33", "10.0.0.1", 2380, false),
            ("10.0.0", "10.0.0.1", 2380, false),
            ("::ffff:10.0.0.7", "10.0.0.7", 2380, true),
            (":2380", "m1", 2380, false),
            ("m1:x", "m1", 2380, false),
            ("fe80::1", "fe80::1%eth0", 2380, true),
        ] {
            assert_eq!(
                Bypass::parse(list).contains(host, port),
                expected,
                "{list:?} {host}:{port}"
            );
        }
    }
}
