//! URLs, parsed and printed as by `net/url`.
//!
//! ```text
//!     scheme://user:password@host:port/path?query#fragment
//!     scheme:opaque?query#fragment                            no slash after the colon
//! ```

mod escape;
mod path;
mod request;

use std::fmt;
use std::net::IpAddr;

use crate::quote;
use escape::{UrlPart, escape, is_escaped, unescape};
pub use escape::{path_unescape, query_unescape};
pub use path::clean_path;

pub use request::{RequestPath, RequestTarget};

/// A URL of any scheme. `Display` prints what `url.URL.String` returns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GoUrl {
    scheme: String,
    host: String,
    path: String,
    opaque: String,
    user: Option<String>,
    raw_path: String,
    query: Option<String>,
    fragment: String,
    /// Written without `//`: `unix:/run/b.sock`.
    no_authority: bool,
}

/// A text that `url.Parse` refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("parse {}: {reason}", quote(url))]
pub struct UrlParseError {
    /// The refused text, usually without its fragment.
    pub url: String,
    /// The cause, in Go's words.
    pub reason: String,
}

impl GoUrl {
    /// Parses an absolute or relative URL.
    ///
    /// # Errors
    /// If `url.Parse` would return an error, with the same text.
    pub fn parse(text: &str) -> Result<Self, UrlParseError> {
        let (head, fragment) = text.split_once('#').unwrap_or((text, ""));
        let refuse = |url: &str, reason| UrlParseError { url: url.to_owned(), reason };
        let mut url = Self::parse_head(head).map_err(|reason| refuse(head, reason))?;
        let decoded =
            unescape(fragment, UrlPart::Fragment).map_err(|reason| refuse(text, reason))?;
        url.fragment = keep_or_escape(fragment, &decoded, UrlPart::Fragment);
        Ok(url)
    }

    /// The scheme in small letters; empty if there is none.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// The decoded host with its port: `10.0.0.1:2380`, `[::1]:2380`.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The host without brackets and port, as `url.URL.Hostname` returns it.
    pub fn hostname(&self) -> &str {
        split_hostname(&self.host).0
    }

    /// The digits of the port, as `url.URL.Port` returns them; empty if there is none.
    pub fn port(&self) -> &str {
        split_hostname(&self.host).1
    }

    /// The decoded path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Parses all but the fragment.
    fn parse_head(text: &str) -> Result<Self, String> {
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        let (scheme, rest) = split_scheme(text)?;
        let (rest, query) = split_query(rest);
        let mut url = Self { scheme: scheme.to_ascii_lowercase(), query, ..Self::default() };
        if !rest.starts_with('/') {
            if !url.scheme.is_empty() {
                rest.clone_into(&mut url.opaque);
                return Ok(url);
            }
            if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        let path = url.parse_authority(rest)?;
        url.path = unescape(path, UrlPart::Path)?;
        url.raw_path = keep_or_escape(path, &url.path, UrlPart::Path);
        Ok(url)
    }

    /// Parses user and host, if there are any, and returns the path after them.
    fn parse_authority<'a>(&mut self, rest: &'a str) -> Result<&'a str, String> {
        let has_scheme = !self.scheme.is_empty();
        let Some(after) =
            rest.strip_prefix("//").filter(|after| has_scheme || !after.starts_with('/'))
        else {
            self.no_authority = has_scheme;
            return Ok(rest);
        };
        let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        self.host = parse_host(&self.scheme, host)?;
        self.user = user.map(parse_user).transpose()?;
        Ok(path)
    }
}

impl fmt::Display for GoUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.scheme.is_empty() {
            write!(f, "{}:", self.scheme)?;
        }
        if self.opaque.is_empty() {
            self.write_hierarchy(f)?;
        } else {
            f.write_str(&self.opaque)?;
        }
        if let Some(query) = &self.query {
            write!(f, "?{query}")?;
        }
        if !self.fragment.is_empty() {
            write!(f, "#{}", self.fragment)?;
        }
        Ok(())
    }
}

impl GoUrl {
    fn write_hierarchy(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_authority = !self.host.is_empty() || self.user.is_some();
        let has_empty_authority = !self.scheme.is_empty() && !self.path.is_empty();
        if (has_authority || has_empty_authority) && !self.no_authority {
            f.write_str("//")?;
        }
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        f.write_str(&escape(&self.host, UrlPart::Host))?;
        let first_segment = self.raw_path.split('/').next().unwrap_or_default();
        if self.scheme.is_empty() && !has_authority && first_segment.contains(':') {
            // Without it the text before the colon would be read as a scheme.
            f.write_str("./")?;
        }
        f.write_str(&self.raw_path)
    }
}

/// Returns the part as it was given, or escaped if a byte in it needs that.
fn keep_or_escape(raw: &str, decoded: &str, part: UrlPart) -> String {
    if is_escaped(raw, part) { raw.to_owned() } else { escape(decoded, part) }
}

/// Splits off the scheme, which is empty if there is none.
fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    let Some(end) = text.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c))) else {
        return Ok(("", text));
    };
    let starts_with_letter = text.starts_with(|c: char| c.is_ascii_alphabetic());
    match text.as_bytes()[end] {
        b':' if end == 0 => Err("missing protocol scheme".to_owned()),
        b':' if starts_with_letter => Ok((&text[..end], &text[end + 1..])),
        _ => Ok(("", text)),
    }
}

/// Splits off the query at the first question mark. A trailing `?` is an empty query and is kept.
fn split_query(text: &str) -> (&str, Option<String>) {
    match text.split_once('?') {
        Some((before, query)) => (before, Some(query.to_owned())),
        None => (text, None),
    }
}

/// Splits the host of a URL into its name without brackets and the digits of its port.
pub(crate) fn split_hostname(host: &str) -> (&str, &str) {
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) => (name, port),
        _ => (host, ""),
    };
    (name.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(name), port)
}

fn parse_user(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
    if !text.chars().all(allowed) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    let normalize =
        |part: &str| unescape(part, UrlPart::User).map(|decoded| escape(&decoded, UrlPart::User));
    match text.split_once(':') {
        Some((name, password)) => Ok(format!("{}:{}", normalize(name)?, normalize(password)?)),
        None => normalize(text),
    }
}

fn parse_host(scheme: &str, text: &str) -> Result<String, String> {
    match text.rfind('[') {
        Some(0) => return parse_bracketed(text),
        Some(_) => return Err("invalid IP-literal".to_owned()),
        None => {}
    }
    // Go refuses a second colon only in http and https URLs.
    let strict = scheme == "http" || scheme == "https";
    if let Some(colon) = if strict { text.find(':') } else { text.rfind(':') } {
        check_port(&text[colon..])?;
    }
    unescape(text, UrlPart::Host)
}

/// Parses `[v6]:port`, where the address may have a zone after `%25`.
fn parse_bracketed(text: &str) -> Result<String, String> {
    let close = text.rfind(']').ok_or_else(|| "missing ']' in host".to_owned())?;
    check_port(&text[close + 1..])?;
    let inside = &text[1..close];
    let address = match inside.find("%25") {
        Some(zone) => {
            unescape(&inside[..zone], UrlPart::Host)? + &unescape(&inside[zone..], UrlPart::Zone)?
        }
        None => unescape(inside, UrlPart::Host)?,
    };
    match address.split('%').next().unwrap_or_default().parse::<IpAddr>() {
        Ok(IpAddr::V6(_)) => Ok(format!("[{address}]{}", &text[close + 1..])),
        Ok(IpAddr::V4(_)) => Err("invalid IP-literal".to_owned()),
        Err(_) => Err(format!("invalid host: ParseAddr({}): unable to parse IP", quote(&address))),
    }
}

/// Accepts an empty text, a colon, or a colon with digits.
fn check_port(text: &str) -> Result<(), String> {
    let valid = match text.strip_prefix(':') {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_digit()),
        None => text.is_empty(),
    };
    if valid { Ok(()) } else { Err(format!("invalid port {} after host", quote(text))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_print_as_in_go() {
        let cases = [
            ("http://10.0.0.1:2380", "http://10.0.0.1:2380"),
            ("HTTP://10.0.0.1:2380", "http://10.0.0.1:2380"),
            ("http://[::1]:2380", "http://[::1]:2380"),
            ("http://[fe80::1%25eth0]:2380", "http://[fe80::1%25eth0]:2380"),
            ("http://Example.COM:2380", "http://Example.COM:2380"),
            ("http://a:", "http://a:"),
            ("http://:1", "http://:1"),
            ("http://u:p%40@a:1", "http://u:p%40@a:1"),
            ("http://a:1?x=1&y", "http://a:1?x=1&y"),
            ("http://a:1?", "http://a:1?"),
            ("http://a:1#f%20g", "http://a:1#f%20g"),
            ("http://a:1/b%2fc?d#e f", "http://a:1/b%2fc?d#e%20f"),
            ("http://é:1", "http://%C3%A9:1"),
            ("unix://localhost:12", "unix://localhost:12"),
            ("unix:///run/b.sock", "unix:///run/b.sock"),
            ("unix:/run/b.sock", "unix:/run/b.sock"),
            ("unix:b.sock", "unix:b.sock"),
            ("unixs://a/b c", "unixs://a/b%20c"),
            ("localhost:80", "localhost:80"),
            ("a%3Ab/c", "a%3Ab/c"),
            ("a%3Ab c/d", "./a:b%20c/d"),
            ("x", "x"),
            ("", ""),
        ];
        for (text, printed) in cases {
            let url = GoUrl::parse(text).map(|url| url.to_string());
            assert_eq!(url, Ok(printed.to_owned()), "{text:?}");
        }
    }

    #[test]
    fn parse_errors_read_as_in_go() {
        let cases = [
            ("http://a:%", r#"parse "http://a:%": invalid port ":%" after host"#),
            ("http://a:b", r#"parse "http://a:b": invalid port ":b" after host"#),
            ("http://1:2:3", r#"parse "http://1:2:3": invalid port ":2:3" after host"#),
            ("http://a b:1", r#"parse "http://a b:1": invalid character " " in host name"#),
            ("http://a%20b:1", r#"parse "http://a%20b:1": invalid URL escape "%20""#),
            (
                "http://a:1\t#x",
                r#"parse "http://a:1\t": net/url: invalid control character in URL"#,
            ),
            ("http://[::1:1", r#"parse "http://[::1:1": missing ']' in host"#),
            ("http://[1.2.3.4]:1", r#"parse "http://[1.2.3.4]:1": invalid IP-literal"#),
            ("http://a[::1]:1", r#"parse "http://a[::1]:1": invalid IP-literal"#),
            ("http://u ser@a:1", r#"parse "http://u ser@a:1": net/url: invalid userinfo"#),
            (":80", r#"parse ":80": missing protocol scheme"#),
            ("1.2.3.4:80", r#"parse "1.2.3.4:80": first path segment in URL cannot contain colon"#),
            ("unix://a:b", r#"parse "unix://a:b": invalid port ":b" after host"#),
            ("http://a:1/%zz", r#"parse "http://a:1/%zz": invalid URL escape "%zz""#),
        ];
        for (text, error) in cases {
            assert_eq!(GoUrl::parse(text).expect_err(text).to_string(), error);
        }
    }

    #[test]
    fn scheme_host_and_path_are_decoded() {
        let url = GoUrl::parse("HTTP://[fe80::1%25eth0]:2380/a%20b").expect("a valid URL");
        let parts = (url.scheme(), url.host(), url.path());
        assert_eq!(parts, ("http", "[fe80::1%eth0]:2380", "/a b"));
    }

    #[test]
    fn a_host_has_a_name_and_a_port() {
        for (text, name, port) in [
            ("http://[fe80::1%25eth0]:2380", "fe80::1%eth0", "2380"),
            ("http://[::1]", "::1", ""),
            ("http://a:", "a", ""),
            ("http://a", "a", ""),
            ("http://:1", "", "1"),
            ("unix:b.sock", "", ""),
        ] {
            let url = GoUrl::parse(text).expect(text);
            assert_eq!((url.hostname(), url.port()), (name, port), "{text}");
        }
    }
}
