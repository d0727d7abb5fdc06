//! Addresses to listen on, and how they resolve.
//!
//! ```text
//!   localhost:2379    127.0.0.1:2379    the first IPv4 address of a name, or else the first
//!   10.0.0.7:2379     10.0.0.7:2379
//!   0.0.0.0:2379      [::]:2379         all addresses of both families, if the machine has IPv6
//!   [::]:2379         [::]:2379         also
//!   :2379             [::]:2379         also
//! ```
//!
//! Compat: as Go's `net.Listen` does for etcd, including that 0.0.0.0 accepts IPv6 connections.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// `host:port`, where the host is a name, an IP address or empty.
    Tcp(String),
    /// The path of a unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host_port) => f.write_str(host_port),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// Resolves `host:port` to one socket address.
pub(crate) fn resolve(host_port: &str) -> io::Result<SocketAddr> {
    let wildcard = host_port.strip_prefix(':').map(|port| format!("0.0.0.0:{port}"));
    let addresses: Vec<SocketAddr> =
        wildcard.as_deref().unwrap_or(host_port).to_socket_addrs()?.collect();
    let preferred = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
    preferred.copied().ok_or_else(|| io::Error::other("no such host"))
}

/// Returns the addresses to try to bind, in order: the address itself, or both families of a
/// wildcard.
pub(crate) fn candidates(address: SocketAddr) -> Vec<SocketAddr> {
    if !address.ip().is_unspecified() {
        return vec![address];
    }
    let wildcards = [IpAddr::from(Ipv6Addr::UNSPECIFIED), IpAddr::from(Ipv4Addr::UNSPECIFIED)];
    wildcards.map(|ip| SocketAddr::new(ip, address.port())).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(host_port: &str) -> Vec<String> {
        candidates(resolve(host_port).unwrap()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_ip_address_resolves_to_itself() {
        assert_eq!(of("10.0.0.7:2379"), ["10.0.0.7:2379"]);
        assert_eq!(of("[::1]:2379"), ["[::1]:2379"]);
    }

    #[test]
    fn localhost_resolves_to_its_ipv4_address() {
        assert_eq!(of("localhost:2379"), ["127.0.0.1:2379"]);
    }

    #[test]
    fn a_wildcard_is_tried_in_both_families() {
        for host_port in ["0.0.0.0:2379", "[::]:2379", ":2379"] {
            assert_eq!(of(host_port), ["[::]:2379", "0.0.0.0:2379"], "{host_port}");
        }
    }

    #[test]
    fn malformed_addresses_are_refused() {
        for host_port in ["", "2379", "localhost", "localhost:port", "localhost:65536", "[::1:1"] {
            assert!(resolve(host_port).is_err(), "{host_port}");
        }
    }
}
