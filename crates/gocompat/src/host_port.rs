//! `host:port`, as `net.SplitHostPort` and `net.JoinHostPort` handle it.

use std::borrow::Cow;

/// Splits `host:port`, `[v6]:port` or `:port`, and removes the brackets.
///
/// Returns `None` where `net.SplitHostPort` returns an error: without a colon, with a bare IPv6
/// address, or with brackets in the wrong place. The port may be any text.
pub fn split_host_port(text: &str) -> Option<(&str, &str)> {
    parse_host_port(text).ok()
}

/// Splits as [`split_host_port`] does.
///
/// # Errors
/// That of `net.SplitHostPort`.
pub fn parse_host_port(text: &str) -> Result<(&str, &str), HostPortError> {
    let refused = |reason| HostPortError { address: text.to_owned(), reason };
    let (before_port, port) = text.rsplit_once(':').ok_or_else(|| refused(MISSING_PORT))?;
    let (host, rest) = match text.strip_prefix('[') {
        Some(inner) => {
            let (host, rest) =
                inner.split_once(']').ok_or_else(|| refused("missing ']' in address"))?;
            match rest.strip_prefix(':') {
                Some(rest) if rest == port => (host, rest),
                Some(_) => return Err(refused(TOO_MANY_COLONS)),
                None => return Err(refused(MISSING_PORT)),
            }
        }
        None if before_port.contains(':') => return Err(refused(TOO_MANY_COLONS)),
        None => (before_port, text),
    };
    if host.contains('[') || rest.contains('[') {
        return Err(refused("unexpected '[' in address"));
    }
    if rest.contains(']') {
        return Err(refused("unexpected ']' in address"));
    }
    Ok((host, port))
}

const MISSING_PORT: &str = "missing port in address";
const TOO_MANY_COLONS: &str = "too many colons in address";

/// The reason a text is not `host:port`, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("address {address}: {reason}")]
pub struct HostPortError {
    address: String,
    reason: &'static str,
}

/// Joins a host and a port, with brackets around an IPv6 address: `[::1]:2380`.
pub fn join_host_port(host: &str, port: u16) -> String {
    format!("{}:{port}", bracketed(host))
}

/// Returns the host as it stands before a port: an IPv6 address gets brackets.
pub fn bracketed(host: &str) -> Cow<'_, str> {
    if host.contains(':') { format!("[{host}]").into() } else { host.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_split_as_in_go() {
        assert_eq!(split_host_port("a:1"), Some(("a", "1")));
        assert_eq!(split_host_port("[::1]:1"), Some(("::1", "1")));
        assert_eq!(split_host_port(":1"), Some(("", "1")));
        assert_eq!(split_host_port("a:"), Some(("a", "")));
        for text in ["a", "a:b:1", "[::1]", "[::1]x:1", "[::1:1", "a:1]", ""] {
            assert_eq!(split_host_port(text), None, "{text:?}");
        }
    }

    #[test]
    fn errors_read_as_in_go() {
        let cases = [
            ("foo", "missing port in address"),
            ("", "missing port in address"),
            ("a:b:c", "too many colons in address"),
            ("[::1]", "missing port in address"),
            ("[::1]x:1", "missing port in address"),
            ("[::1]:1:2", "too many colons in address"),
            ("[::1", "missing ']' in address"),
            ("a[b:1", "unexpected '[' in address"),
            ("[a[b]:1", "unexpected '[' in address"),
            ("[a]:[1", "unexpected '[' in address"),
            ("a]:1", "unexpected ']' in address"),
            ("[a]:1]", "unexpected ']' in address"),
        ];
        for (text, reason) in cases {
            let error = parse_host_port(text).expect_err(text);
            assert_eq!(error.to_string(), format!("address {text}: {reason}"));
        }
    }

    #[test]
    fn only_ipv6_addresses_get_brackets() {
        assert_eq!(join_host_port("10.0.0.1", 2380), "10.0.0.1:2380");
        assert_eq!(join_host_port("::1", 2380), "[::1]:2380");
        assert_eq!(join_host_port("", 2380), ":2380");
        assert_eq!(bracketed("a.example"), "a.example");
    }
}
