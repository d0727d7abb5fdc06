//! Paths and queries, read as Go's server reads them.
//!
//! ```text
//!   /x/..//health   →  redirected to /health, before anything else is looked at
//!   /he%61lth       =  /health
//!   ?exclude=a&exclude=&b;c&d=%zz   exclude: a         what cannot be read is passed over
//! ```

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use bytes::Bytes;
use http::Response;
use http::request::Parts;

use super::answer;

/// The path that is asked for: what begins with `/v3beta/` is another name for it.
pub(super) fn named(asked: &Parts) -> Cow<'_, str> {
    let path = asked.uri.path();
    path.strip_prefix("/v3beta/").map_or(path.into(), |rest| format!("/v3/{rest}").into())
}

/// Sends whoever asks for a path with empty, `.` or `..` parts to the path without them, and with a gateway whoever means it to where it is.
pub(super) fn redirect(asked: &Parts, has_gateway: bool) -> Option<Response<Bytes>> {
    let path = named(asked);
    let mut cleaned = clean(&path);
    if has_gateway && cleaned == "/v3" {
        cleaned.push('/');
    }
    if cleaned == path {
        return None;
    }
    let mut to = escape(&cleaned);
    if let Some(query) = asked.uri.query() {
        to.push('?');
        to.push_str(query);
    }
    Some(answer::redirect(&asked.method, &to))
}

/// The path without empty, `.` and `..` parts. A slash at its end stays.
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

/// A path as it stands in a link.
///
/// Compat: as in etcd, what was escaped is escaped once more.
fn escape(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'%' => escaped.push_str("%25"),
            // Two steps of escaping, for what should have come escaped.
            b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | 0x80.. => {
                // Writing to a string does not fail.
                let _ = write!(escaped, "%25{byte:02X}");
            }
            byte => escaped.push(char::from(byte)),
        }
    }
    escaped
}

/// A path with what was escaped in it. One that cannot be read is left as it is, and so is no path that is served.
pub(super) fn decoded(path: &str) -> Cow<'_, str> {
    if !path.contains('%') {
        return Cow::Borrowed(path);
    }
    unescape(path, false).map_or(Cow::Borrowed(path), Cow::Owned)
}

/// The parameters of a query, in order.
pub(super) fn query(asked: &Parts) -> impl Iterator<Item = (String, String)> {
    let pairs = asked.uri.query().unwrap_or_default().split('&');
    pairs.filter(|pair| !pair.is_empty() && !pair.contains(';')).filter_map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((unescape(name, true)?, unescape(value, true)?))
    })
}

/// All values of a parameter that are not empty.
pub(super) fn values(asked: &Parts, name: &str) -> BTreeSet<String> {
    let named = query(asked).filter(|(given, value)| given == name && !value.is_empty());
    named.map(|(_, value)| value).collect()
}

/// `%61` is `a`, and in a query `+` is a space. None if what follows `%` is no number, or the whole no text.
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
    fn links_are_escaped_once_more() {
        assert_eq!(escape("/v%2f3"), "/v%252f3");
        assert_eq!(escape("/v\"<&"), "/v%2522%253C&");
    }

    #[test]
    fn what_cannot_be_unescaped_is_no_text() {
        assert_eq!(unescape("a%2Fb+c", true).as_deref(), Some("a/b c"));
        assert_eq!(unescape("a+b", false).as_deref(), Some("a+b"));
        for text in ["%", "%4", "%zz", "%ff"] {
            assert_eq!(unescape(text, true), None, "{text}");
        }
        assert_eq!(decoded("/he%61lth"), "/health");
        assert_eq!(decoded("/he%zz"), "/he%zz");
    }
}
