//! URLs of listeners and members, by etcd's rules on top of `net/url`.
//!
//! ```text
//!     http://10.0.0.1:2380     scheme http, host 10.0.0.1:2380      TCP
//!     http://[::1]:2380        host [::1]:2380, hostname ::1, port 2380
//!     unix://localhost:12      host localhost:12                    the socket localhost:12
//!     unix:///run/b.sock       no host, path /run/b.sock            the socket /run/b.sock
//! ```
//!
//! Invariants of a [`Url`]: the scheme is one of four; with `http` and `https` there is a host, a
//! colon, a port of digits (or an empty one), and no path. The text is that of Go's
//! `url.URL.String`: member ids are hashes of these texts, and members compare them.
//!
//! [`list`] has lists of URLs. Flags, requests that add a member, and members that compare their
//! URLs all use these rules, as they use `types.NewURLs` in etcd.

pub mod list;

use std::fmt;
use std::net::IpAddr;

use crate::url::split_hostname;
use crate::{GoUrl, UrlParseError, split_host_port};

/// The maximum length of a URL, in bytes.
const LENGTH_MAX: usize = 8 * 1024;

/// The scheme of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    /// Plain HTTP over TCP.
    Http,
    /// HTTP over TLS.
    Https,
    /// Plain HTTP over a Unix socket.
    Unix,
    /// TLS over a Unix socket.
    Unixs,
}

impl Scheme {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "http" => Some(Self::Http),
            "https" => Some(Self::Https),
            "unix" => Some(Self::Unix),
            "unixs" => Some(Self::Unixs),
            _ => None,
        }
    }

    /// Returns the scheme as written in a URL.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Unix => "unix",
            Self::Unixs => "unixs",
        }
    }

    /// Returns whether connections use TLS.
    pub fn is_secure(self) -> bool {
        matches!(self, Self::Https | Self::Unixs)
    }

    /// Returns whether the URL names a Unix socket.
    pub fn is_unix(self) -> bool {
        matches!(self, Self::Unix | Self::Unixs)
    }
}

/// A URL of a listener or a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    scheme: Scheme,
    host: String,
    path: String,
    text: String,
}

/// A rejected URL. The texts are etcd's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Not a URL.
    #[error(transparent)]
    Parse(#[from] UrlParseError),
    /// The scheme is not one of the four.
    #[error("URL scheme must be http, https, unix, or unixs: {0}")]
    Scheme(String),
    /// Host or port is missing.
    #[error("URL address does not have the form \"host:port\": {0}")]
    Address(String),
    /// An http or https URL with a path.
    #[error("URL must not contain a path: {0}")]
    Path(String),
    /// A list without URLs.
    #[error("no valid URLs given")]
    Empty,
    /// A list with too many URLs.
    #[error("more than {URLS_MAX} URLs given", URLS_MAX = list::URLS_MAX)]
    TooMany,
}

impl Url {
    /// Parses a URL. Surrounding spaces are ignored.
    ///
    /// # Errors
    /// If etcd would reject the URL.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let text = text.trim();
        if text.len() > LENGTH_MAX {
            let reason = format!("longer than {LENGTH_MAX} bytes");
            return Err(UrlParseError { url: text.chars().take(64).collect(), reason }.into());
        }
        let url = GoUrl::parse(text)?;
        let scheme =
            Scheme::parse(url.scheme()).ok_or_else(|| UrlError::Scheme(text.to_owned()))?;
        if !scheme.is_unix() {
            split_host_port(url.host()).ok_or_else(|| UrlError::Address(text.to_owned()))?;
            if !url.path().is_empty() {
                return Err(UrlError::Path(text.to_owned()));
            }
        }
        let (host, path) = (url.host().to_owned(), url.path().to_owned());
        Ok(Self { scheme, host, path, text: url.to_string() })
    }

    /// Creates `scheme://host:port` from valid parts.
    pub fn with_host(scheme: Scheme, host: &str, port: &str) -> Self {
        let host = format!("{host}:{port}");
        let text = format!("{}://{host}", scheme.as_str());
        Self { scheme, host, path: String::new(), text }
    }

    /// Returns the scheme.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns the host with its port: `10.0.0.1:2380`, `[::1]:2380`.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the host without brackets and port.
    pub fn hostname(&self) -> &str {
        split_hostname(&self.host).0
    }

    /// Returns the digits of the port; empty if there is none.
    pub fn port(&self) -> &str {
        split_hostname(&self.host).1
    }

    /// Returns the path, which only Unix sockets have.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the text, as Go prints it and members compare it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the address to listen on or dial. An empty port is port 0.
    ///
    /// # Errors
    /// If the port does not fit 16 bits.
    pub fn address(&self) -> Result<Address, AddressError> {
        if self.scheme.is_unix() {
            return Ok(Address::Unix(format!("{}{}", self.host, self.path)));
        }
        let digits = self.port();
        let port = if digits.is_empty() { Ok(0) } else { digits.parse() };
        let port = port.map_err(|_| AddressError { port: digits.to_owned() })?;
        Ok(Address::Tcp { host: self.hostname().to_owned(), port })
    }

    /// Returns whether both URLs have the same scheme, path and host. IP addresses are compared by
    /// value, host names by text.
    pub fn same_endpoint(&self, other: &Self) -> bool {
        self.scheme == other.scheme
            && self.path == other.path
            && self.normal_host() == other.normal_host()
    }

    fn normal_host(&self) -> String {
        match self.hostname().parse::<IpAddr>() {
            Ok(address) => format!("{address} {}", self.port()),
            Err(_) => self.host.clone(),
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// An address to listen on or dial.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    /// A host, which is an IP address or a name, and a port.
    Tcp {
        /// The host, without brackets.
        host: String,
        /// The port; 0 lets the kernel choose.
        port: u16,
    },
    /// The path of a Unix socket.
    Unix(String),
}

/// A port that does not fit 16 bits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("address {port}: invalid port")]
pub struct AddressError {
    /// The digits of the port.
    pub port: String,
}

#[cfg(test)]
mod tests;
