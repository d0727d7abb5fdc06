//! From where a request may come: hosts for plaintext connections, origins for browsers.
//!
//! A page from elsewhere can make a browser ask this member, under a name that resolves to it. Two things stand against that: the host that the request
//! names has to be one of ours (`--host-whitelist`, unless TLS has proved who we are), and the browser shows the page our answer only if its origin
//! is listed (`--cors`). Both lists say `*` by default, which is everybody; and so does an empty list.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Response, StatusCode};

use super::answer;

const METHODS: HeaderValue = HeaderValue::from_static("POST, GET, OPTIONS, PUT, DELETE");
const HEADERS: HeaderValue = HeaderValue::from_static("accept, content-type, authorization");
const ANY: &str = "*";

/// Which hosts and origins may ask.
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
    /// The refusal of a request that names a host which is not one of ours.
    pub(super) fn refuse_host(&self, asked: &Parts) -> Option<Response<Bytes>> {
        let named = named_host(asked);
        let host = without_port(&named);
        if allows(&self.hosts, host) {
            return None;
        }
        tracing::warn!(host, "rejecting HTTP request to prevent DNS rebinding attacks");
        Some(answer::error(StatusCode::MISDIRECTED_REQUEST, unknown_host(host)))
    }

    /// Tells a browser whether the page that asked may see the answer.
    pub(super) fn allow_origin(&self, asked: &Parts, headers: &mut HeaderMap) {
        let nobody = HeaderValue::from_static("");
        let origin = asked.headers.get(header::ORIGIN).unwrap_or(&nobody);
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

/// The host of the request line, if it has one, or of the header.
fn named_host(asked: &Parts) -> String {
    let of_line = asked.uri.authority().map(|authority| authority.as_str().as_bytes());
    let of_header = || asked.headers.get(header::HOST).map(HeaderValue::as_bytes);
    let host = of_line.or_else(of_header).unwrap_or_default();
    String::from_utf8_lossy(host).into_owned()
}

/// `host:80` and `[::1]:80` without their ports. What has none stays as it is, brackets included.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, _)) if !name.contains(':') && !name.starts_with('[') => name,
        Some((name, _)) => {
            name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(host)
        }
        None => host,
    }
}

/// What etcd says to whoever names an unknown host.
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
    fn ports_are_no_part_of_a_host() {
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
