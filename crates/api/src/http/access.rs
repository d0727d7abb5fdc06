//! Allowed hosts of plaintext requests, and allowed origins of browsers.
//!
//! A foreign web page can make a browser send requests to this member, under a name that resolves
//! to its address (DNS rebinding). There are two defenses: the host of a request must be listed
//! (`--host-whitelist`; not needed with TLS, which proves the name), and a browser shows the
//! response to the page only if the origin is listed (`--cors`). Both lists are `*` by default,
//! which allows all; an empty list does the same.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Response, StatusCode, Version};

use super::response;

const METHODS: HeaderValue = HeaderValue::from_static("POST, GET, OPTIONS, PUT, DELETE");
const HEADERS: HeaderValue = HeaderValue::from_static("accept, content-type, authorization");
const ANY: &str = "*";

/// The allowed hosts and origins.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// `--host-whitelist`.
    pub hosts: BTreeSet<String>,
    /// `--cors`.
    pub origins: BTreeSet<String>,
}

fn allows(list: &BTreeSet<String>, name: &str) -> bool {
    list.is_empty() || list.contains(ANY) || list.contains(name)
}

impl Access {
    /// Refuses a request whose host is not listed.
    pub(super) fn refuse_host(&self, head: &Parts) -> Option<Response<Bytes>> {
        if allows(&self.hosts, ANY) {
            return None;
        }
        if names_several_hosts(head) {
            return Some(response::malformed());
        }
        let named = named_host(head);
        let host = without_port(&named);
        if allows(&self.hosts, host) {
            return None;
        }
        tracing::warn!(host, "rejecting HTTP request to prevent DNS rebinding attacks");
        Some(response::error(StatusCode::MISDIRECTED_REQUEST, unknown_host(host)))
    }

    /// Adds the CORS headers, if the origin of the request is listed.
    pub(super) fn allow_origin(&self, head: &Parts, headers: &mut HeaderMap) {
        let none = HeaderValue::from_static("");
        let origin = head.headers.get(header::ORIGIN).unwrap_or(&none);
        let allowed = if allows(&self.origins, ANY) {
            HeaderValue::from_static(ANY)
        } else if origin.to_str().is_ok_and(|origin| self.origins.contains(origin)) {
            origin.clone()
        } else {
            return;
        };
        let allow: [(HeaderName, HeaderValue); 3] = [
            (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
            (header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed),
            (header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS),
        ];
        headers.extend(allow);
    }
}

/// Reports whether the authority and the `Host` headers of an HTTP/2 request differ: a proxy in
/// front may have checked another one. Over HTTP/1, such a request is refused before.
fn names_several_hosts(head: &Parts) -> bool {
    let mut headers = head.headers.get_all(header::HOST).iter().map(HeaderValue::as_bytes);
    let authority = head.uri.authority().map(|authority| authority.as_str().as_bytes());
    let Some(first) = authority.or_else(|| headers.next()) else { return false };
    head.version == Version::HTTP_2 && headers.any(|host| host != first)
}

/// Returns the host of the request line, or else of the header.
fn named_host(head: &Parts) -> String {
    let of_line = head.uri.authority().map(|authority| authority.as_str().as_bytes());
    let of_header = || head.headers.get(header::HOST).map(HeaderValue::as_bytes);
    let host = of_line.or_else(of_header).unwrap_or_default();
    String::from_utf8_lossy(host).into_owned()
}

/// Removes the port of `host:80` or `[::1]:80`. A host without a port is unchanged, with brackets.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, _)) if !name.contains(':') && !name.starts_with('[') => name,
        Some((name, _)) => {
            name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(host)
        }
        None => host,
    }
}

/// Returns etcd's text for an unknown host.
fn unknown_host(host: &str) -> String {
    format!(
        "
etcd received your request, but the Host header was unrecognized.

To fix this, choose one of the following options:
- Enable TLS, then any HTTPS request will be allowed.
- Add the hostname you want to use to the whitelist in settings.
  - e.g. etcd --host-whitelist {host:?}

This requirement has been added to help prevent \"DNS Rebinding\" attacks (CVE-2018-5702).
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_over_http2_that_names_two_hosts_is_refused() {
        let access = Access { hosts: BTreeSet::from(["allowed".to_owned()]), ..Access::default() };
        let status = |uri: &str, hosts: &[&str]| {
            let mut request = http::Request::get(uri).version(Version::HTTP_2);
            for host in hosts {
                request = request.header(header::HOST, *host);
            }
            let (head, ()) = request.body(()).unwrap().into_parts();
            access.refuse_host(&head).map_or(StatusCode::OK, |refused| refused.status())
        };
        assert_eq!(status("http://allowed/health", &[]), StatusCode::OK);
        assert_eq!(status("http://allowed/health", &["allowed"]), StatusCode::OK);
        assert_eq!(status("/health", &["allowed", "allowed"]), StatusCode::OK);
        assert_eq!(status("http://allowed/health", &["evil"]), StatusCode::BAD_REQUEST);
        assert_eq!(status("/health", &["allowed", "evil"]), StatusCode::BAD_REQUEST);
        assert_eq!(status("http://evil/health", &["allowed"]), StatusCode::BAD_REQUEST);
        assert_eq!(status("http://evil/health", &[]), StatusCode::MISDIRECTED_REQUEST);
    }

    #[test]
    fn the_port_is_removed_from_a_host() {
        for (host, name) in [
            ("a.b", "a.b"),
            ("a.b:80", "a.b"),
            ("[::1]:80", "::1"),
            ("[::1]", "[::1]"),
            ("::1", "::1"),
            ("localhost:::", "localhost:::"),
            ("", ""),
        ] {
            assert_eq!(without_port(host), name, "{host}");
        }
    }
}
