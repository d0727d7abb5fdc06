//! Whom to call, by a URL.
//!
//! ```text
//!   http://10.0.0.7:2380        10.0.0.7, port 2380
//!   https://m1.example:2380     m1.example, port 2380, over TLS, with a certificate for m1.example
//!   https://[fd00::1]           fd00::1, port 443
//!   unix://localhost:2380       the socket localhost:2380, in the folder of the process
//!   unixs:///run/m1.sock        the socket /run/m1.sock, over TLS, with a certificate for localhost
//! ```
//!
//! Only what is needed for a connection is looked at: a path behind a host is for whoever speaks HTTP there.

use std::fmt;
use std::path::PathBuf;

/// The longest URL that is looked at. Those of members come from others.
pub const URL_BYTES_MAX: usize = 8 << 10;

/// Whom to call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    endpoint: Endpoint,
    /// What a certificate must be for.
    host: String,
    is_secure: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Endpoint {
    /// A name or an address without brackets, and a port.
    Tcp(String, u16),
    Unix(PathBuf),
}

/// Why nobody can be called by a URL. The texts are etcd's where it has some.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The scheme is another.
    #[error("URL scheme must be http, https, unix, or unixs: {0}")]
    Scheme(String),
    /// There is nobody in it.
    #[error("http: no Host in request URL: {0}")]
    NoHost(String),
    /// The port is none.
    #[error("invalid port in URL: {0}")]
    Port(String),
    /// It is longer than any that makes sense.
    #[error("URL is longer than {URL_BYTES_MAX} bytes")]
    TooLong,
}

impl Target {
    /// Reads a URL.
    ///
    /// # Errors
    /// If nobody can be called by it.
    pub fn parse(url: &str) -> Result<Target, TargetError> {
        if url.len() > URL_BYTES_MAX {
            return Err(TargetError::TooLong);
        }
        let scheme = url.split_once("://");
        let (scheme, rest) = scheme.ok_or_else(|| TargetError::Scheme(url.to_owned()))?;
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let authority = authority.rsplit_once('@').map_or(authority, |(_, authority)| authority);
        match scheme {
            "http" => Self::tcp(url, authority, 80, false),
            "https" => Self::tcp(url, authority, 443, true),
            "unix" => Self::unix(url, authority, path, false),
            "unixs" => Self::unix(url, authority, path, true),
            _ => Err(TargetError::Scheme(url.to_owned())),
        }
    }

    fn tcp(url: &str, authority: &str, port: u16, is_secure: bool) -> Result<Target, TargetError> {
        let (host, digits) = split(authority);
        if host.is_empty() {
            return Err(TargetError::NoHost(url.to_owned()));
        }
        let port = match digits {
            "" => port,
            digits => digits.parse().map_err(|_| TargetError::Port(url.to_owned()))?,
        };
        let host = host.to_owned();
        Ok(Target { endpoint: Endpoint::Tcp(host.clone(), port), host, is_secure })
    }

    fn unix(url: &str, host: &str, path: &str, is_secure: bool) -> Result<Target, TargetError> {
        let socket = format!("{host}{path}");
        if socket.is_empty() {
            return Err(TargetError::NoHost(url.to_owned()));
        }
        // A socket is on this machine, whatever its path is.
        let host = Some(split(host).0).filter(|host| !host.is_empty()).unwrap_or("localhost");
        Ok(Target { endpoint: Endpoint::Unix(socket.into()), host: host.to_owned(), is_secure })
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The host, without port and brackets: what a certificate must be for.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether TLS is spoken.
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }
}

/// `host:port`, or the path of a socket.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.endpoint {
            Endpoint::Tcp(host, port) => f.write_str(&gocompat::join_host_port(host, *port)),
            Endpoint::Unix(path) => path.display().fmt(f),
        }
    }
}

/// Host and port; either may be empty.
fn split(authority: &str) -> (&str, &str) {
    if let Some((host, rest)) = authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (host, rest.strip_prefix(':').unwrap_or(rest));
    }
    authority.rsplit_once(':').unwrap_or((authority, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_whom_to_call() {
        for (url, text, host, is_secure) in [
            ("http://10.0.0.7:2380", "10.0.0.7:2380", "10.0.0.7", false),
            ("https://m1.example:2380", "m1.example:2380", "m1.example", true),
            ("https://m1.example:2380/raft?x#y", "m1.example:2380", "m1.example", true),
            ("https://user:word@m1.example:2380", "m1.example:2380", "m1.example", true),
            ("http://m1.example", "m1.example:80", "m1.example", false),
            ("https://[fd00::1]", "[fd00::1]:443", "fd00::1", true),
            ("http://[fd00::1]:2380", "[fd00::1]:2380", "fd00::1", false),
            ("unix://localhost:2380", "localhost:2380", "localhost", false),
            ("unixs:///run/m1.sock", "/run/m1.sock", "localhost", true),
        ] {
            let target = Target::parse(url).unwrap();
            assert_eq!(target.to_string(), text);
            assert_eq!((target.host(), target.is_secure()), (host, is_secure), "{url}");
        }
    }

    #[test]
    fn what_leads_nowhere_is_refused() {
        for (url, text) in [
            ("m1:2380", "URL scheme must be http, https, unix, or unixs: m1:2380"),
            ("ftp://m1:2380", "URL scheme must be http, https, unix, or unixs: ftp://m1:2380"),
            ("http://:2380", "http: no Host in request URL: http://:2380"),
            ("http://", "http: no Host in request URL: http://"),
            ("unix://", "http: no Host in request URL: unix://"),
            ("http://m1:65536", "invalid port in URL: http://m1:65536"),
            ("http://m1:+1x", "invalid port in URL: http://m1:+1x"),
        ] {
            assert_eq!(Target::parse(url).unwrap_err().to_string(), text);
        }
        let long = format!("http://{}:1", "a".repeat(URL_BYTES_MAX));
        assert_eq!(Target::parse(&long), Err(TargetError::TooLong));
    }
}
