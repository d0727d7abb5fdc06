//! The target of an outgoing connection, parsed from a URL.
//!
//! ```text
//!   http://10.0.0.7:2380        10.0.0.7, port 2380
//!   https://m1.example:2380     m1.example, port 2380, over TLS, with a certificate for m1.example
//!   https://[fd00::1]           fd00::1, port 443
//!   http://[fe80::1%25eth0]:1   fe80::1%eth0, port 1: the host is decoded, as in Go
//!   unix://localhost:2380       the socket localhost:2380, in the working directory
//!   unixs:///run/m1.sock        the socket /run/m1.sock, over TLS, certificate for localhost
//! ```
//!
//! Only the parts that a connection needs are parsed: the path of an `http` URL is up to the
//! caller.

use std::fmt;
use std::path::PathBuf;

use gocompat::{GoUrl, UrlParseError};

/// The longest URL that is parsed. URLs of members come from peers.
pub const URL_BYTES_MAX: usize = 8 << 10;

/// The target of an outgoing connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    endpoint: Endpoint,
    /// The name that the server's certificate must be for.
    host: String,
    is_secure: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Endpoint {
    /// A name or an IP address without brackets, and a port.
    Tcp(String, u16),
    Unix(PathBuf),
}

/// The reason a URL is no target. The texts are etcd's where it has some.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// Not a URL.
    #[error(transparent)]
    Parse(#[from] UrlParseError),
    /// The scheme is unknown.
    #[error("URL scheme must be http, https, unix, or unixs: {0}")]
    Scheme(String),
    /// The host is missing.
    #[error("http: no Host in request URL: {0}")]
    NoHost(String),
    /// The port is not a number up to 65535.
    #[error("invalid port in URL: {0}")]
    Port(String),
    /// The URL is too long.
    #[error("URL is longer than {URL_BYTES_MAX} bytes")]
    TooLong,
}

impl Target {
    /// Parses a URL.
    ///
    /// # Errors
    /// If the URL is not a valid target.
    pub fn parse(url: &str) -> Result<Target, TargetError> {
        if url.len() > URL_BYTES_MAX {
            return Err(TargetError::TooLong);
        }
        let parsed = GoUrl::parse(url)?;
        match parsed.scheme() {
            "http" => Self::tcp(url, &parsed, 80, false),
            "https" => Self::tcp(url, &parsed, 443, true),
            "unix" => Self::unix(url, &parsed, false),
            "unixs" => Self::unix(url, &parsed, true),
            _ => Err(TargetError::Scheme(url.to_owned())),
        }
    }

    fn tcp(url: &str, parsed: &GoUrl, port: u16, is_secure: bool) -> Result<Target, TargetError> {
        let host = parsed.hostname().to_owned();
        if host.is_empty() {
            return Err(TargetError::NoHost(url.to_owned()));
        }
        let port = match parsed.port() {
            "" => port,
            digits => digits.parse().map_err(|_| TargetError::Port(url.to_owned()))?,
        };
        Ok(Target { endpoint: Endpoint::Tcp(host.clone(), port), host, is_secure })
    }

    fn unix(url: &str, parsed: &GoUrl, is_secure: bool) -> Result<Target, TargetError> {
        let socket = format!("{}{}", parsed.host(), parsed.path());
        if socket.is_empty() {
            return Err(TargetError::NoHost(url.to_owned()));
        }
        // A unix socket is on this machine, whatever its path.
        let host = Some(parsed.hostname()).filter(|host| !host.is_empty()).unwrap_or("localhost");
        Ok(Target { endpoint: Endpoint::Unix(socket.into()), host: host.to_owned(), is_secure })
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns the host without port and brackets: the name that the certificate must be for.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the authority of requests, that is, the header `Host`. As in Go, it has no zone; and
    /// the path of a Unix socket is no authority.
    pub fn authority(&self) -> String {
        match &self.endpoint {
            Endpoint::Tcp(host, port) => {
                let address = host.split('%').next().unwrap_or_default();
                gocompat::join_host_port(address, *port)
            }
            Endpoint::Unix(path) => {
                let path = path.display().to_string();
                if path.contains('/') { self.host.clone() } else { path }
            }
        }
    }

    /// Returns whether TLS is used.
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }
}

/// Prints `host:port`, or the path of a socket.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.endpoint {
            Endpoint::Tcp(host, port) => f.write_str(&gocompat::join_host_port(host, *port)),
            Endpoint::Unix(path) => path.display().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed_into_targets() {
        for (url, text, host, is_secure) in [
            ("http://10.0.0.7:2380", "10.0.0.7:2380", "10.0.0.7", false),
            ("https://m1.example:2380", "m1.example:2380", "m1.example", true),
            ("https://m1.example:2380/raft?x#y", "m1.example:2380", "m1.example", true),
            ("https://user:word@m1.example:2380", "m1.example:2380", "m1.example", true),
            ("http://m1.example", "m1.example:80", "m1.example", false),
            ("https://[fd00::1]", "[fd00::1]:443", "fd00::1", true),
            ("http://[fd00::1]:2380", "[fd00::1]:2380", "fd00::1", false),
            ("http://[fe80::1%25eth0]:1", "[fe80::1%eth0]:1", "fe80::1%eth0", false),
            ("unix://localhost:2380", "localhost:2380", "localhost", false),
            ("unixs:///run/m1.sock", "/run/m1.sock", "localhost", true),
            ("unix:/run/m%201.sock", "/run/m 1.sock", "localhost", false),
        ] {
            let target = Target::parse(url).unwrap();
            assert_eq!(target.to_string(), text);
            assert_eq!((target.host(), target.is_secure()), (host, is_secure), "{url}");
        }
    }

    #[test]
    fn the_authority_has_neither_a_zone_nor_a_path() {
        let authority = |url| Target::parse(url).unwrap().authority();
        assert_eq!(authority("http://10.0.0.7:2380"), "10.0.0.7:2380");
        assert_eq!(authority("http://[fe80::1%25eth0]:2380"), "[fe80::1]:2380");
        assert_eq!(authority("unix://localhost:2380"), "localhost:2380");
        assert_eq!(authority("unix:///run/m1.sock"), "localhost");
    }

    #[test]
    fn invalid_urls_are_rejected() {
        for (url, text) in [
            ("m1:2380", "URL scheme must be http, https, unix, or unixs: m1:2380"),
            ("ftp://m1:2380", "URL scheme must be http, https, unix, or unixs: ftp://m1:2380"),
            ("http://:2380", "http: no Host in request URL: http://:2380"),
            ("http://", "http: no Host in request URL: http://"),
            ("unix://", "http: no Host in request URL: unix://"),
            ("http://m1:65536", "invalid port in URL: http://m1:65536"),
            ("http://m1:+1x", r#"parse "http://m1:+1x": invalid port ":+1x" after host"#),
            ("http:m1:1", "http: no Host in request URL: http:m1:1"),
        ] {
            assert_eq!(Target::parse(url).unwrap_err().to_string(), text);
        }
        let long = format!("http://{}:1", "a".repeat(URL_BYTES_MAX));
        assert_eq!(Target::parse(&long), Err(TargetError::TooLong));
    }
}
