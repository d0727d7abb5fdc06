//! Proxies for outgoing connections, chosen by the environment as Go's `net/http` does.
//!
//! ```text
//!   HTTP_PROXY=http://10.0.0.9:3128        for http:   requests go to the proxy, which forwards them
//!   HTTPS_PROXY=http://u:p@10.0.0.9:3128   for https:  CONNECT m1:2380, then TLS to m1 in the tunnel
//!   NO_PROXY=10.0.0.0/8,.example,m2:2380   these are reached directly, and so is this machine
//! ```
//!
//! The names may also be in small letters. A proxy is spoken to in plaintext, over TLS (`https://`)
//! or with SOCKS (`socks5://`, by which all connections are tunneled). Unix sockets have none.
//! gRPC uses the proxy for https, with TLS or without ([`ProxySettings::for_grpc`]).

mod bypass;
mod tunnel;

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gocompat::{GoUrl, join_host_port, path_unescape};

use super::target::{Endpoint, Target};
use bypass::Bypass;

pub(super) use tunnel::open as open_tunnel;
pub use tunnel::{CONNECT_BYTES_MAX, CONNECT_TIMEOUT, TunnelError};

/// The proxies of outgoing connections. None by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxySettings {
    http: Option<Proxy>,
    https: Option<Proxy>,
    bypass: Bypass,
    /// Whether plaintext is tunnelled, too, and not forwarded.
    tunnels_plaintext: bool,
}

/// A proxy.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    pub(super) kind: ProxyKind,
    pub(super) host: String,
    pub(super) port: u16,
    /// User name and password.
    pub(super) user: Option<(String, String)>,
}

/// The protocol that a proxy speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProxyKind {
    Http,
    Https,
    Socks5,
}

/// The way to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route<'a> {
    Direct,
    /// Requests are sent to the proxy, each with the whole URL.
    Forward(&'a Proxy),
    /// The proxy passes on bytes.
    Tunnel(&'a Proxy),
}

/// A variable that names no proxy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable} is not the URL of a proxy (http, https or socks5): {reason}")]
pub struct ProxyError {
    /// The name of the variable. Its value may contain a password.
    pub variable: &'static str,
    /// The cause.
    pub reason: String,
}

impl ProxySettings {
    /// Reads the variables by `variable`, in capitals first. Also returns the variables that are
    /// set and name no proxy; as in Go, they count as unset.
    pub fn from_variables(
        variable: impl Fn(&str) -> Option<String>,
    ) -> (ProxySettings, Vec<ProxyError>) {
        let mut errors = Vec::new();
        let value = |names: [&str; 2]| {
            names.into_iter().filter_map(&variable).find(|value| !value.is_empty())
        };
        let mut proxy = |name: &'static str, lower| {
            let parsed = Proxy::parse(&value([name, lower])?);
            parsed.map_err(|reason| errors.push(ProxyError { variable: name, reason })).ok()
        };
        let (http, https) =
            (proxy("HTTP_PROXY", "http_proxy"), proxy("HTTPS_PROXY", "https_proxy"));
        let bypass = Bypass::parse(&value(["NO_PROXY", "no_proxy"]).unwrap_or_default());
        (ProxySettings { http, https, bypass, tunnels_plaintext: false }, errors)
    }

    /// Returns the settings for gRPC, whose requests no proxy forwards: as with grpc-go, the proxy
    /// for TLS tunnels plaintext, too.
    #[must_use]
    pub fn for_grpc(self) -> ProxySettings {
        ProxySettings { http: self.https.clone(), tunnels_plaintext: true, ..self }
    }

    /// Returns the proxies for plaintext and for TLS.
    pub fn proxies(&self) -> [Option<&Proxy>; 2] {
        [self.http.as_ref(), self.https.as_ref()]
    }

    /// Returns the way to a target.
    pub(super) fn route(&self, target: &Target) -> Route<'_> {
        let Endpoint::Tcp(host, port) = target.endpoint() else { return Route::Direct };
        let proxy = if target.is_secure() { &self.https } else { &self.http };
        match proxy {
            Some(proxy) if !self.bypass.contains(host, *port) => {
                let is_tunnel =
                    target.is_secure() || self.tunnels_plaintext || proxy.kind == ProxyKind::Socks5;
                if is_tunnel { Route::Tunnel(proxy) } else { Route::Forward(proxy) }
            }
            _ => Route::Direct,
        }
    }
}

impl Proxy {
    /// Parses `scheme://user:password@host:port`; scheme, user and port may be missing.
    fn parse(text: &str) -> Result<Proxy, String> {
        let url = match GoUrl::parse(text) {
            Ok(url) if !url.scheme().is_empty() && !url.host().is_empty() => url,
            // As in Go: `host:port` is a URL of http without its scheme.
            _ => GoUrl::parse(&format!("http://{text}")).map_err(|error| error.reason)?,
        };
        let (kind, default_port) = match url.scheme() {
            "http" => (ProxyKind::Http, 80),
            "https" => (ProxyKind::Https, 443),
            "socks5" | "socks5h" => (ProxyKind::Socks5, 1080),
            other => return Err(format!("unknown scheme {other:?}")),
        };
        let (host, port) = split_port(url.host());
        let port = match port {
            "" => default_port,
            digits => digits.parse().map_err(|_| "invalid port".to_owned())?,
        };
        if host.is_empty() {
            return Err("the host is missing".to_owned());
        }
        Ok(Proxy { kind, host: host.to_owned(), port, user: parse_user(text) })
    }

    /// Returns the value of the header `Proxy-Authorization`, if the proxy wants one.
    pub(super) fn authorization(&self) -> Option<String> {
        let (name, password) = self.user.as_ref()?;
        Some(format!("Basic {}", STANDARD.encode(format!("{name}:{password}"))))
    }
}

/// Returns user name and password of a URL.
fn parse_user(text: &str) -> Option<(String, String)> {
    let authority = text.split_once("://").map_or(text, |(_, rest)| rest);
    let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
    let (user, _) = authority.rsplit_once('@')?;
    let (name, password) = user.split_once(':').unwrap_or((user, ""));
    Some((path_unescape(name).ok()?, path_unescape(password).ok()?))
}

/// Splits host and port; the port may be missing. Removes the brackets of an IPv6 address.
fn split_port(authority: &str) -> (&str, &str) {
    match gocompat::split_host_port(authority) {
        Some(split) => split,
        None => (authority.trim_start_matches('[').trim_end_matches(']'), ""),
    }
}

/// Prints `http://host:port`, without user and password.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.kind {
            ProxyKind::Http => "http",
            ProxyKind::Https => "https",
            ProxyKind::Socks5 => "socks5",
        };
        write!(f, "{scheme}://{}", join_host_port(&self.host, self.port))
    }
}

/// The password is not printed.
impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> (ProxySettings, Vec<ProxyError>) {
        let variable = |name: &str| {
            let found = variables.iter().find(|(given, _)| *given == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        ProxySettings::from_variables(variable)
    }

    fn proxy(text: &str) -> String {
        Proxy::parse(text).map_or_else(|error| error, |proxy| proxy.to_string())
    }

    #[test]
    fn proxies_are_parsed_as_by_go() {
        for (text, expected) in [
            ("http://p:3128", "http://p:3128"),
            ("p:3128", "http://p:3128"),
            ("p", "http://p:80"),
            ("10.0.0.9:3128", "http://10.0.0.9:3128"),
            ("HTTPS://p", "https://p:443"),
            ("socks5://u:p@p", "socks5://p:1080"),
            ("http://[fd00::1]:3128/", "http://[fd00::1]:3128"),
            ("http://[fd00::1]", "http://[fd00::1]:80"),
            ("ftp://p:21", "unknown scheme \"ftp\""),
            ("http://p:99999", "invalid port"),
        ] {
            assert_eq!(proxy(text), expected, "{text}");
        }
    }

    #[test]
    fn user_and_password_are_sent_decoded() {
        let authorization = |text| Proxy::parse(text).unwrap().authorization();
        // Printed by Go for the same URLs.
        assert_eq!(authorization("http://u:p%40ss@p:1").as_deref(), Some("Basic dTpwQHNz"));
        assert_eq!(authorization("http://u@p:1").as_deref(), Some("Basic dTo="));
        assert_eq!(authorization("http://p:1"), None);
        let proxy = Proxy::parse("http://u:secret@p:1").unwrap();
        assert!(!format!("{proxy:?}{proxy}").contains("secret"));
    }

    #[test]
    fn the_scheme_of_the_target_chooses_the_proxy() {
        let settings = settings(&[
            ("HTTP_PROXY", "a:1"),
            ("https_proxy", "b:2"),
            ("HTTPS_PROXY", ""),
            ("no_proxy", "direct"),
        ])
        .0;
        let [http, https] = settings.proxies().map(Option::unwrap);
        let route = |url: &str| settings.route(&Target::parse(url).unwrap());
        for (url, expected) in [
            ("http://m1:2380", Route::Forward(http)),
            ("https://m1:2380", Route::Tunnel(https)),
            ("http://direct:2380", Route::Direct),
            ("https://direct:2380", Route::Direct),
            ("http://localhost:2380", Route::Direct),
            ("https://127.0.0.1:2380", Route::Direct),
            ("unix://m1:2380", Route::Direct),
        ] {
            assert_eq!(route(url), expected, "{url}");
        }
    }

    #[test]
    fn plaintext_is_tunneled_by_socks() {
        let settings = settings(&[("HTTP_PROXY", "socks5h://a")]).0;
        let target = Target::parse("http://m1:2380").unwrap();
        assert!(matches!(settings.route(&target), Route::Tunnel(_)));
    }

    #[test]
    fn without_variables_there_is_no_proxy() {
        assert_eq!(settings(&[]), (ProxySettings::default(), Vec::new()));
        assert_eq!(settings(&[("HTTP_PROXY", "")]), (ProxySettings::default(), Vec::new()));
    }

    #[test]
    fn a_variable_that_is_no_proxy_is_reported_without_its_value() {
        let (settings, errors) =
            settings(&[("https_proxy", "ftp://u:secret@p"), ("http_proxy", "a")]);
        assert!(settings.https.is_none() && settings.http.is_some());
        let expected =
            "HTTPS_PROXY is not the URL of a proxy (http, https or socks5): unknown scheme \"ftp\"";
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    }
}
