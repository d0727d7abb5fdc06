//! The target of an HTTP request, parsed as by `url.ParseRequestURI`, and its path as Go's
//! `ServeMux` sees it.
//!
//! ```text
//!   target                     host     decoded path      escaped path
//!   /v3/kv%2frange?x                    /v3/kv/range      /v3/kv%2frange
//!   /v3/kv#x                            /v3/kv#x          /v3/kv%23x       no fragment
//!   http://a:80/v3             a:80     /v3               /v3
//!   http://a                   a        (empty)           (empty)
//!   v3, /%zz, http://a b/      refused
//! ```

use super::escape::{UrlPart, escape, is_escaped, unescape_bytes};
use super::{parse_host, parse_user, split_scheme};

/// A path: decoded, and escaped as in the request where Go keeps that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestPath {
    /// `url.URL.Path`. Not always UTF-8.
    pub decoded: Vec<u8>,
    /// The result of `url.URL.EscapedPath`.
    pub escaped: String,
}

impl RequestPath {
    /// Parses the path of a request; none if a percent sign is not followed by two digits.
    pub fn parse(raw: &[u8]) -> Option<Self> {
        if let Some(plain) = plain(raw) {
            return Some(Self { decoded: raw.to_vec(), escaped: plain.to_owned() });
        }
        let decoded = unescape_bytes(raw)?;
        let escaped = match std::str::from_utf8(raw) {
            Ok(raw) if raw == "*" || is_escaped(raw, UrlPart::Path) => raw.to_owned(),
            _ => escape(&decoded, UrlPart::Path),
        };
        Some(Self { decoded, escaped })
    }

    /// Escapes a decoded path by Go's default.
    pub fn from_decoded(decoded: Vec<u8>) -> Self {
        Self { escaped: escape(&decoded, UrlPart::Path), decoded }
    }
}

/// Returns a path that is equal decoded and escaped, as nearly all are.
fn plain(raw: &[u8]) -> Option<&str> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'_');
    std::str::from_utf8(raw).ok().filter(|raw| raw.as_bytes().iter().all(is_plain))
}

/// The target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestTarget {
    /// The decoded host of an absolute URL; empty without one.
    pub host: String,
    /// The path; empty for a URL that ends with its host.
    pub path: RequestPath,
    /// The query as it was given, without its question mark.
    pub query: Option<Vec<u8>>,
}

impl RequestTarget {
    /// Parses the target of a request line; none if `url.ParseRequestURI` would return an error.
    pub fn parse(target: &[u8]) -> Option<Self> {
        if target.is_empty() || target.iter().any(|&byte| byte < b' ' || byte == 0x7f) {
            return None;
        }
        let question_mark = target.iter().position(|&byte| byte == b'?');
        let (before, query) = match question_mark {
            Some(at) => (&target[..at], Some(target[at + 1..].to_vec())),
            None => (target, None),
        };
        if before.starts_with(b"/") || target == b"*" {
            let path = RequestPath::parse(before)?;
            return Some(Self { host: String::new(), path, query });
        }
        let (host, path) = absolute(before)?;
        Some(Self { host, path: RequestPath::parse(path)?, query })
    }
}

/// Splits an absolute URL without its query into its host, which may be empty, and its path.
fn absolute(url: &[u8]) -> Option<(String, &[u8])> {
    // A scheme is ASCII, so the bytes before the first slash decide.
    let ascii = url.iter().position(|byte| !byte.is_ascii()).unwrap_or(url.len());
    let (scheme, _) = split_scheme(std::str::from_utf8(&url[..ascii]).ok()?).ok()?;
    if scheme.is_empty() {
        return None;
    }
    let rest = &url[scheme.len() + 1..];
    let Some(authority) = rest.strip_prefix(b"//") else {
        // Without a slash the rest is opaque: it is no path.
        return Some((String::new(), if rest.starts_with(b"/") { rest } else { b"" }));
    };
    let end = authority.iter().position(|&byte| byte == b'/').unwrap_or(authority.len());
    let (authority, path) = authority.split_at(end);
    let authority = std::str::from_utf8(authority).ok()?;
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    parse_user(user).ok()?;
    Some((parse_host(&scheme.to_ascii_lowercase(), host).ok()?, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns host, decoded path, escaped path and query. Expected values were taken from Go 1.26.
    fn parsed(target: &str) -> Option<(String, String, String, Option<String>)> {
        let RequestTarget { host, path, query } = RequestTarget::parse(target.as_bytes())?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Some((host, text(path.decoded), path.escaped, query.map(text)))
    }

    fn expected(
        [host, decoded, escaped]: [&str; 3],
        query: Option<&str>,
    ) -> Option<(String, String, String, Option<String>)> {
        Some((host.into(), decoded.into(), escaped.into(), query.map(Into::into)))
    }

    #[test]
    fn targets_parse_as_in_go() {
        for (target, parts, query) in [
            ("/v3/kv", ["", "/v3/kv", "/v3/kv"], None),
            ("/v3/kv?", ["", "/v3/kv", "/v3/kv"], Some("")),
            ("/v3/kv?a?b#c", ["", "/v3/kv", "/v3/kv"], Some("a?b#c")),
            ("/v3%2fkv", ["", "/v3/kv", "/v3%2fkv"], None),
            ("/v3%2fkv#x", ["", "/v3/kv#x", "/v3/kv%23x"], None),
            ("//v3", ["", "//v3", "//v3"], None),
            ("/a b", ["", "/a b", "/a%20b"], None),
            ("/é", ["", "/é", "/%C3%A9"], None),
            ("/%ff", ["", "/\u{fffd}", "/%ff"], None),
            ("/a:b@[c]", ["", "/a:b@[c]", "/a:b@[c]"], None),
            ("*", ["", "*", "*"], None),
            ("http://a:80/v3", ["a:80", "/v3", "/v3"], None),
            ("HTTP://A/v3?q", ["A", "/v3", "/v3"], Some("q")),
            ("http://u:p@a/v3", ["a", "/v3", "/v3"], None),
            ("http://a", ["a", "", ""], None),
            ("http://a?x", ["a", "", ""], Some("x")),
            ("http:///v3", ["", "/v3", "/v3"], None),
            ("http:/v3", ["", "/v3", "/v3"], None),
            ("http:v3", ["", "", ""], None),
            ("x://[::1]:80/v3", ["[::1]:80", "/v3", "/v3"], None),
        ] {
            assert_eq!(parsed(target), expected(parts, query), "{target}");
        }
    }

    #[test]
    fn malformed_targets_are_refused() {
        for target in [
            "",
            "v3",
            "#x",
            "*?x",
            ":",
            "?",
            "/%zz",
            "/%2",
            "/%",
            "/a\tb",
            "/a\x7f",
            "http://a b/",
            "http://a:b/",
            "http://[::1/",
            "http://a[::1]/",
            "http://%41/",
            "http://a/%zz",
            "http://u{@a/",
            "1http://a/",
        ] {
            assert_eq!(parsed(target), None, "{target}");
        }
    }
}
