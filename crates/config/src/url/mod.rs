//! URLs of listeners and members, as etcd takes them.
//!
//! ```text
//!     http://10.0.0.1:2380     scheme http, host 10.0.0.1:2380            listens on TCP
//!     http://[::1]:2380        host [::1]:2380, hostname ::1, port 2380
//!     unix://localhost:12      host localhost:12                          listens on the socket localhost:12
//!     unix:///run/b.sock       no host, path /run/b.sock                  listens on the socket /run/b.sock
//! ```
//!
//! Always true of a [`Url`]: its scheme is one of four; with `http` and `https` there is a host, a colon, a port of digits (or none),
//! and no path. Its text is what Go's `url.URL.String` gives for it: member ids are hashed over these texts, and members compare them.
//!
//! [`list`] has lists of URLs and the map of an initial cluster. Whether a host may be listened on is for `check` to say.

pub mod list;

use std::fmt;
use std::net::IpAddr;

use gocompat::{GoUrl, UrlParseError, split_host_port};

/// The longest URL that is looked at.
const LENGTH_MAX: usize = 8 * 1024;

/// How to talk to whom.
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

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Unix => "unix",
            Self::Unixs => "unixs",
        }
    }

    /// Whether what travels is encrypted.
    pub fn is_secure(self) -> bool {
        matches!(self, Self::Https | Self::Unixs)
    }

    /// Whether it is about a socket in the file system.
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

/// Why a text is not such a URL, in etcd's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Not a URL.
    #[error(transparent)]
    Parse(#[from] UrlParseError),
    /// The scheme is none of the four.
    #[error("URL scheme must be http, https, unix, or unixs: {0}")]
    Scheme(String),
    /// There is no port, or no host.
    #[error("URL address does not have the form \"host:port\": {0}")]
    Address(String),
    /// There is a path where none belongs.
    #[error("URL must not contain a path: {0}")]
    Path(String),
    /// An initial cluster, or a list, without any URL.
    #[error("no valid URLs given")]
    Empty,
    /// More than any cluster has.
    #[error("more than {URLS_MAX} URLs given", URLS_MAX = list::URLS_MAX)]
    TooMany,
}

impl Url {
    /// Reads a URL. Spaces round it do not matter.
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

    /// `http://host:port`, from parts that are known to be sound.
    pub fn with_host(scheme: Scheme, host: &str, port: &str) -> Self {
        let host = format!("{host}:{port}");
        let text = format!("{}://{host}", scheme.as_str());
        Self { scheme, host, path: String::new(), text }
    }

    /// How to talk.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The host with its port: `10.0.0.1:2380`, `[::1]:2380`.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The host without brackets and port.
    pub fn hostname(&self) -> &str {
        let host = split_port(&self.host).map_or(self.host.as_str(), |(host, _)| host);
        host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(host)
    }

    /// The digits of the port; none if there is no port.
    pub fn port(&self) -> &str {
        split_port(&self.host).map_or("", |(_, port)| port)
    }

    /// The path; there is one only with Unix sockets.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// As Go prints it, and as members know it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Where to listen. A port is a number that fits; no port is any port.
    pub fn address(&self) -> Result<Address, AddressError> {
        if self.scheme.is_unix() {
            return Ok(Address::Unix(format!("{}{}", self.host, self.path)));
        }
        let digits = self.port();
        let port = if digits.is_empty() { Ok(0) } else { digits.parse() };
        let port = port.map_err(|_| AddressError { port: digits.to_owned() })?;
        Ok(Address::Tcp { host: self.hostname().to_owned(), port })
    }

    /// Whether both name the same place in the same way: addresses may be written differently, names may not.
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

/// Where to listen, or whom to dial.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    /// A host, which is an address or a name, and a port.
    Tcp {
        /// The host, without brackets.
        host: String,
        /// The port; 0 is any.
        port: u16,
    },
    /// The path of a socket.
    Unix(String),
}

/// A port that is not a number of 16 bits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("address {port}: invalid port")]
pub struct AddressError {
    /// Its digits.
    pub port: String,
}

/// A URL to listen on, with the address that follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenUrl {
    url: Url,
    address: Address,
}

impl ListenUrl {
    /// Fails if the port is not one.
    pub fn new(url: Url) -> Result<Self, AddressError> {
        let address = url.address()?;
        Ok(Self { url, address })
    }

    /// As it was given.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Where to listen.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Whether to speak TLS there.
    pub fn is_secure(&self) -> bool {
        self.url.scheme.is_secure()
    }
}

impl fmt::Display for ListenUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

/// Host, brackets and all, and the digits behind the last colon.
fn split_port(text: &str) -> Option<(&str, &str)> {
    text.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests;
