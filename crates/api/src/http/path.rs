//! Paths and queries, parsed as by Go's server.
//!
//! ```text
//!   request             decoded             segments          served
//!   /x/..//health       /x/..//health                         redirected to /health
//!   /he%61lth           /health             health            /health
//!   /readyz%2flive      /readyz/live        readyz/live       not found: one segment
//!   /v3/kv%2frange      /v3/kv/range        v3, kv/range      /v3/kv/range: the gateway decodes
//!   /v3%2fkv/range      /v3/kv/range        v3/kv, range      not found
//!   /debug/pprof        /debug/pprof        debug, pprof      redirected to /debug/pprof/
//!   ?exclude=a&exclude=&b;c&d=%zz   exclude: a         malformed parameters are skipped
//! ```
//!
//! Go matches a path segment by segment, each decoded, so an encoded slash separates nothing. A
//! proxy that denies paths by their text relies on that.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use bytes::Bytes;
use gocompat::{RequestPath, clean_path, query_pairs};
use http::request::Parts;
use http::{Method, Response};

use super::response;

const ALIAS: &[u8] = b"/v3beta/";
/// The subtree of the JSON gateway.
const GATEWAY: &str = "/v3/";

/// The path of a request, as etcd's handlers see it.
#[derive(Debug)]
pub(super) struct RoutedPath(RequestPath);

impl RoutedPath {
    /// Parses the path of a request, with the alias `/v3beta/` replaced by `/v3/`. Returns none if
    /// its percent-encoding is malformed.
    pub(super) fn parse(head: &Parts) -> Option<RoutedPath> {
        let mut path = RequestPath::parse(head.uri.path().as_bytes())?;
        if let Some(rest) = path.decoded.strip_prefix(ALIAS) {
            // Compat: as in etcd, an encoded slash is one after the replacement.
            path = RequestPath::from_decoded([b"/v3/", rest].concat());
        }
        Some(RoutedPath(path))
    }

    /// Returns the path if it can be that of an endpoint.
    pub(super) fn endpoint(&self) -> Option<&str> {
        let is_endpoint = segments(&self.0.escaped).all(|segment| !segment.contains(&b'/'));
        std::str::from_utf8(&self.0.decoded).ok().filter(|_| is_endpoint)
    }

    /// Returns the decoded path, if it is below `/v3/`.
    pub(super) fn below_gateway(&self) -> Option<String> {
        is_below(&self.0.escaped, GATEWAY)
            .then(|| String::from_utf8_lossy(&self.0.decoded).into_owned())
    }

    /// Returns the decoded path in a subtree, such as `heap` below `/debug/pprof/`.
    pub(super) fn below(&self, subtree: &str) -> Option<String> {
        let path = String::from_utf8_lossy(&self.0.decoded);
        let name = path.strip_prefix(subtree)?;
        is_below(&self.0.escaped, subtree).then(|| name.to_owned())
    }

    /// Redirects a path with empty, `.` or `..` parts to the clean path, and one of `subtrees`
    /// without its slash to the subtree.
    pub(super) fn redirect(&self, head: &Parts, subtrees: &[&str]) -> Option<Response<Bytes>> {
        let cleaned = clean(&self.0.escaped);
        let is_wanted = |subtree: &&&str| {
            subtree
                .strip_suffix('/')
                .is_some_and(|subtree| segments(subtree).eq(segments(&cleaned)))
        };
        let mut to = match subtrees.iter().find(is_wanted) {
            Some(subtree) => (*subtree).to_owned(),
            // Compat: as in Go, CONNECT is not redirected to a clean path.
            None if cleaned == self.0.escaped || head.method == Method::CONNECT => return None,
            None => escape(&cleaned),
        };
        if let Some(query) = head.uri.query() {
            to.push('?');
            to.push_str(query);
        }
        Some(response::redirect(&head.method, &to))
    }
}

/// Splits an escaped path at its slashes, and decodes the segments.
fn segments(escaped: &str) -> impl Iterator<Item = Cow<'_, [u8]>> {
    escaped.strip_prefix('/').unwrap_or(escaped).split('/').map(|segment| {
        // Escaping is never malformed: it was parsed with the whole path.
        let decoded = || RequestPath::parse(segment.as_bytes()).unwrap_or_default().decoded;
        match segment.contains('%') {
            true => decoded().into(),
            false => segment.as_bytes().into(),
        }
    })
}

/// Returns whether a path has all segments of a subtree, and more.
fn is_below(escaped: &str, subtree: &str) -> bool {
    let mut segments = segments(escaped);
    let mut parents = subtree.trim_matches('/').split('/');
    parents.all(|parent| segments.next().is_some_and(|segment| *segment == *parent.as_bytes()))
        && segments.next().is_some()
}

/// Cleans a path as Go's server does. A trailing slash stays.
fn clean(path: &str) -> Cow<'_, str> {
    if is_clean(path) {
        return path.into();
    }
    let mut cleaned = clean_path(path);
    if path.ends_with('/') && cleaned != "/" {
        cleaned.push('/');
    }
    cleaned.into()
}

/// Returns whether cleaning would change nothing, as for nearly all paths.
fn is_clean(path: &str) -> bool {
    let Some(path) = path.strip_prefix('/') else { return false };
    let without_slash = path.strip_suffix('/').unwrap_or(path);
    path.is_empty() || without_slash.split('/').all(|part| !matches!(part, "" | "." | ".."))
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

/// Returns the parameters of a query, in order.
pub(super) fn query(head: &Parts) -> impl Iterator<Item = (String, String)> {
    query_pairs(head.uri.query().unwrap_or_default())
}

/// Returns all non-empty values of a parameter.
pub(super) fn values(head: &Parts, name: &str) -> BTreeSet<String> {
    let matching = query(head).filter(|(parameter, value)| parameter == name && !value.is_empty());
    matching.map(|(_, value)| value).collect()
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

    fn routed(target: &str) -> RoutedPath {
        let request = http::Request::get(target).body(()).unwrap();
        RoutedPath::parse(&request.into_parts().0).unwrap()
    }

    #[test]
    fn an_encoded_slash_does_not_separate_segments() {
        for (target, endpoint, below_gateway) in [
            ("/health", Some("/health"), None),
            ("/he%61lth", Some("/health"), None),
            ("/health%2f", None, None),
            ("/readyz/non%5flearner", Some("/readyz/non_learner"), None),
            ("/readyz%2fnon_learner", None, None),
            ("/v3/kv/range", Some("/v3/kv/range"), Some("/v3/kv/range")),
            ("/%76%33/kv/range", Some("/v3/kv/range"), Some("/v3/kv/range")),
            ("/v3/kv%2Frange", None, Some("/v3/kv/range")),
            ("/v3%2fkv/range", None, None),
            ("/v3%2fkv%2frange", None, None),
            ("/v3%2f", None, None),
            ("/v3beta/kv/range", Some("/v3/kv/range"), Some("/v3/kv/range")),
            ("/v3beta%2fkv/range", Some("/v3/kv/range"), Some("/v3/kv/range")),
            ("/v3%62eta%2fkv%2frange", Some("/v3/kv/range"), Some("/v3/kv/range")),
        ] {
            let path = routed(target);
            assert_eq!(path.endpoint(), endpoint, "{target}");
            assert_eq!(path.below_gateway().as_deref(), below_gateway, "{target}");
        }
        let malformed = http::Request::get("/%zz").body(()).unwrap().into_parts().0;
        assert!(RoutedPath::parse(&malformed).is_none());
    }

    #[test]
    fn an_encoded_slash_is_part_of_a_name_below_a_subtree() {
        for (target, name) in [
            ("/debug/pprof/", Some("")),
            ("/debug/pprof/heap", Some("heap")),
            ("/debug/%70prof/he%61p", Some("heap")),
            ("/debug/pprof/a%2fb", Some("a/b")),
            ("/debug/pprof/profile/", Some("profile/")),
            ("/debug/pprof", None),
            ("/debug/pprofs/heap", None),
            ("/debug%2fpprof/heap", None),
            ("/debug%2fpprof%2fheap", None),
        ] {
            assert_eq!(routed(target).below("/debug/pprof/").as_deref(), name, "{target}");
        }
    }

    #[test]
    fn a_subtree_without_its_slash_is_redirected() {
        let location = |target: &str| {
            let head = http::Request::get(target).body(()).unwrap().into_parts().0;
            let redirect = RoutedPath::parse(&head)?.redirect(&head, &["/v3/", "/debug/pprof/"])?;
            redirect.headers()["location"].to_str().ok().map(str::to_owned)
        };
        for (target, to) in [
            ("/v3", Some("/v3/")),
            ("/%76%33?a=b", Some("/v3/?a=b")),
            ("/debug/pprof", Some("/debug/pprof/")),
            ("/debug//pprof?debug=1", Some("/debug/pprof/?debug=1")),
            ("/debug/pprof/", None),
            ("/debug%2fpprof", None),
            ("/debug", None),
        ] {
            assert_eq!(location(target).as_deref(), to, "{target}");
        }
    }

    #[test]
    fn percent_signs_in_links_are_encoded_again() {
        assert_eq!(escape("/v%2f3"), "/v%252f3");
        assert_eq!(escape("/v\"<&"), "/v%2522%253C&");
    }
}
