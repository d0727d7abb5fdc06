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
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use gocompat::{HostPortError, lookup_error_text, parse_host_port};

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

/// The reason an address has no socket address, in Go's words.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The address is not `host:port`.
    #[error(transparent)]
    Format(#[from] HostPortError),
    /// The port does not fit 16 bits.
    #[error("address {0}: invalid port")]
    Port(String),
    /// The port is not a number.
    #[error("lookup tcp/{0}: unknown port")]
    PortName(String),
    /// The host has no address.
    #[error("lookup {host}: {reason}")]
    Host {
        /// The host.
        host: String,
        /// The resolver's error.
        reason: String,
    },
}

/// Resolves `host:port` to one socket address.
pub(crate) fn resolve(host_port: &str) -> Result<SocketAddr, ResolveError> {
    let (host, port) = parse_host_port(host_port)?;
    let port = parse_port(port)?;
    if host.is_empty() {
        return Ok(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)));
    }
    let unknown = |reason| ResolveError::Host { host: host.to_owned(), reason };
    let found = (host, port).to_socket_addrs();
    let addresses: Vec<SocketAddr> =
        found.map_err(|error| unknown(lookup_error_text(&error)))?.collect();
    let preferred = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
    preferred.copied().ok_or_else(|| unknown("no such host".to_owned()))
}

/// Parses a port. As in Go, an empty one is 0: the kernel chooses.
fn parse_port(port: &str) -> Result<u16, ResolveError> {
    let digits = port.strip_prefix(['+', '-']).unwrap_or(port);
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ResolveError::PortName(port.to_owned()));
    }
    match digits {
        "" => Ok(0),
        _ => port.parse().map_err(|_| ResolveError::Port(port.to_owned())),
    }
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
    fn malformed_addresses_are_rejected() {
        let cases = [
            ("", "address : missing port in address"),
            ("localhost", "address localhost: missing port in address"),
            ("localhost:port", "lookup tcp/port: unknown port"),
            ("localhost:65536", "address 65536: invalid port"),
            ("localhost:-1", "address -1: invalid port"),
            ("[::1:1", "address [::1:1: missing ']' in address"),
            ("nohost.invalid:1", "lookup nohost.invalid: no such host"),
        ];
        for (host_port, text) in cases {
            let error = resolve(host_port).unwrap_err().to_string();
            // Without any name server the lookup fails differently.
            if !error.contains("Temporary failure") {
                assert_eq!(error, text, "{host_port}");
            }
        }
    }
}
