//! `host:port`, as `net.SplitHostPort` and `net.JoinHostPort` handle it.

use std::borrow::Cow;

/// Splits `host:port`, `[v6]:port` or `:port`, and removes the brackets.
///
/// Returns `None` where `net.SplitHostPort` returns an error: without a colon, with a bare IPv6
/// address, or with brackets in the wrong place. The port may be any text.
pub fn split_host_port(text: &str) -> Option<(&str, &str)> {
    let (host, port) = text.rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']').filter(|inner| !inner.contains(['[', ']']))?,
        None if host.contains([':', '[', ']']) => return None,
        None => host,
    };
    if port.contains(['[', ']']) { None } else { Some((host, port)) }
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
    fn only_ipv6_addresses_get_brackets() {
        assert_eq!(join_host_port("10.0.0.1", 2380), "10.0.0.1:2380");
        assert_eq!(join_host_port("::1", 2380), "[::1]:2380");
        assert_eq!(join_host_port("", 2380), ":2380");
        assert_eq!(bracketed("a.example"), "a.example");
    }
}
