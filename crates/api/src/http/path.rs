//! Paths and queries, parsed as by Go's server.
//!
//! ```text
//!   /x/..//health   →  redirected to /health, before anything else
//!   /v%65rsion      =  /version
//!   ?exclude=a&exclude=&b;c&d=%zz   exclude: a         malformed parameters are skipped
//! ```

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use bytes::Bytes;
use http::Response;
use http::request::Parts;

use super::response;

/// Returns the path of a request, with the alias `/v3beta/` replaced by `/v3/`.
pub(super) fn canonical(head: &Parts) -> Cow<'_, str> {
    let path = head.uri.path();
    path.strip_prefix("/v3beta/").map_or(path.into(), |rest| format!("/v3/{rest}").into())
}

/// Redirects a path with empty, `.` or `..` parts to the clean path, and `/v3` to the gateway.
pub(super) fn redirect(head: &Parts, has_gateway: bool) -> Option<Response<Bytes>> {
    let path = canonical(head);
    let mut cleaned = clean(&path);
    if has_gateway && cleaned == "/v3" {
        cleaned.push('/');
    }
    if cleaned == path {
        return None;
    }
    let mut to = escape(&cleaned);
    if let Some(query) = head.uri.query() {
        to.push('?');
        to.push_str(query);
    }
    Some(response::redirect(&head.method, &to))
}

/// Removes empty, `.` and `..` parts of a path. A trailing slash stays.
fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let mut cleaned = format!("/{}", parts.join("/"));
    if path.ends_with('/') && cleaned != "/" {
        cleaned.push('/');
    }
    cleaned
}

/// Percent-encodes a path for a link.
///
/// Compat: as in etcd, percent signs are encoded again.
fn escape(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'%' => escaped.push_str("%25"),
            // Encoded twice, because the request should have encoded them.
            b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | 0x80.. => {
                // Writing to a string never fails.
                let _ = write!(escaped, "%25{byte:02X}");
            }
            byte => escaped.push(char::from(byte)),
        }
    }
    escaped
}

/// Percent-decodes a path. A malformed path is unchanged, and so matches no endpoint.
pub(super) fn decoded(path: &str) -> Cow<'_, str> {
    if !path.contains('%') {
        return Cow::Borrowed(path);
    }
    unescape(path, false).map_or(Cow::Borrowed(path), Cow::Owned)
}

/// Returns the parameters of a query, in order.
pub(super) fn query(head: &Parts) -> impl Iterator<Item = (String, String)> {
    let pairs = head.uri.query().unwrap_or_default().split('&');
    pairs.filter(|pair| !pair.is_empty() && !pair.contains(';')).filter_map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((unescape(name, true)?, unescape(value, true)?))
    })
}

/// Returns all non-empty values of a parameter.
pub(super) fn values(head: &Parts, name: &str) -> BTreeSet<String> {
    let matching = query(head).filter(|(given, value)| given == name && !value.is_empty());
    matching.map(|(_, value)| value).collect()
}

/// Percent-decodes text; in a query, `+` is a space. Returns none if it is malformed or not UTF-8.
fn unescape(text: &str, plus: bool) -> Option<String> {
    let mut bytes = text.bytes();
    let mut unescaped = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        unescaped.push(match byte {
            b'%' => 16 * digit(bytes.next()?)? + digit(bytes.next()?)?,
            b'+' if plus => b' ',
            byte => byte,
        });
    }
    String::from_utf8(unescaped).ok()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned() {
        for (path, cleaned) in [
            ("/", "/"),
            ("/health", "/health"),
            ("/health/", "/health/"),
            ("//health", "/health"),
            ("/x/../health", "/health"),
            ("/../..", "/"),
            ("/a/./b//", "/a/b/"),
            ("/health/.", "/health"),
        ] {
            assert_eq!(clean(path), cleaned, "{path}");
        }
    }

    #[test]
    fn percent_signs_in_links_are_encoded_again() {
        assert_eq!(escape("/v%2f3"), "/v%252f3");
        assert_eq!(escape("/v\"<&"), "/v%2522%253C&");
    }

    #[test]
    fn malformed_percent_encoding_is_refused() {
        assert_eq!(unescape("a%2Fb+c", true).as_deref(), Some("a/b c"));
        assert_eq!(unescape("a+b", false).as_deref(), Some("a+b"));
        for text in ["%", "%4", "%zz", "%ff"] {
            assert_eq!(unescape(text, true), None, "{text}");
        }
        assert_eq!(decoded("/he%61lth"), "/health");
        assert_eq!(decoded("/he%zz"), "/he%zz");
    }
}
