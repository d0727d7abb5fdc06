//! A URL taken apart, and put together again, as Go does both.
//!
//! ```text
//!     scheme://user:password@host:port/path?query#fragment
//!     scheme:opaque?query#fragment                            what follows the colon does not start with a slash
//! ```

use std::fmt;
use std::net::IpAddr;

use super::UrlError;
use super::escape::{Place, escape, is_escaped, unescape};
use crate::config::go::quote;

/// The parts of any URL, also of one that no listener could have.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) scheme: String,
    pub(super) host: String,
    pub(super) path: String,
    opaque: String,
    user: Option<String>,
    raw_path: String,
    query: Option<String>,
    fragment: String,
    /// Written without `//`: `unix:/run/b.sock`.
    no_authority: bool,
}

impl Parts {
    pub(super) fn parse(text: &str) -> Result<Self, UrlError> {
        let (head, fragment) = text.split_once('#').unwrap_or((text, ""));
        let refuse = |url: &str, reason| UrlError::Parse { url: url.to_owned(), reason };
        let mut parts = Self::parse_head(head).map_err(|reason| refuse(head, reason))?;
        let decoded = unescape(fragment, Place::Fragment).map_err(|reason| refuse(text, reason))?;
        parts.fragment = written(fragment, &decoded, Place::Fragment);
        Ok(parts)
    }

    fn parse_head(text: &str) -> Result<Self, String> {
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        let (scheme, rest) = split_scheme(text)?;
        let (rest, query) = split_query(rest);
        let mut parts = Self { scheme: scheme.to_ascii_lowercase(), query, ..Self::default() };
        if !rest.starts_with('/') {
            if !parts.scheme.is_empty() {
                rest.clone_into(&mut parts.opaque);
                return Ok(parts);
            }
            if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        let path = parts.take_authority(rest)?;
        parts.path = unescape(path, Place::Path)?;
        parts.raw_path = written(path, &parts.path, Place::Path);
        Ok(parts)
    }

    /// Takes user and host off, if there are any, and gives back the path.
    fn take_authority<'a>(&mut self, rest: &'a str) -> Result<&'a str, String> {
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

impl fmt::Display for Parts {
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

impl Parts {
    fn write_hierarchy(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let anything = !self.host.is_empty() || !self.path.is_empty() || self.user.is_some();
        if anything && !self.no_authority {
            f.write_str("//")?;
        }
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        f.write_str(&escape(&self.host, Place::Host))?;
        f.write_str(&self.raw_path)
    }
}

/// What is written for a part that was given as `raw`: the same, unless it had to be escaped and was not.
fn written(raw: &str, decoded: &str, place: Place) -> String {
    if is_escaped(raw, place) { raw.to_owned() } else { escape(decoded, place) }
}

/// The scheme, empty if there is none, and what follows its colon.
fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    let Some(end) = text.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c))) else {
        return Ok(("", text));
    };
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic());
    match text.as_bytes()[end] {
        b':' if end == 0 => Err("missing protocol scheme".to_owned()),
        b':' if starts_well => Ok((&text[..end], &text[end + 1..])),
        _ => Ok(("", text)),
    }
}

/// What is before the first question mark, and what is behind it. One that ends the text is kept although it asks nothing.
fn split_query(text: &str) -> (&str, Option<String>) {
    match text.split_once('?') {
        Some((before, query)) => (before, Some(query.to_owned())),
        None => (text, None),
    }
}

fn parse_user(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
    if !text.chars().all(plain) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    let again =
        |part: &str| unescape(part, Place::User).map(|decoded| escape(&decoded, Place::User));
    match text.split_once(':') {
        Some((name, password)) => Ok(format!("{}:{}", again(name)?, again(password)?)),
        None => again(text),
    }
}

fn parse_host(scheme: &str, text: &str) -> Result<String, String> {
    match text.rfind('[') {
        Some(0) => return parse_bracketed(text),
        Some(_) => return Err("invalid IP-literal".to_owned()),
        None => {}
    }
    // More than one colon is refused only where a port must follow: with http and https.
    let strict = scheme == "http" || scheme == "https";
    if let Some(colon) = if strict { text.find(':') } else { text.rfind(':') } {
        check_port(&text[colon..])?;
    }
    unescape(text, Place::Host)
}

fn parse_bracketed(text: &str) -> Result<String, String> {
    let close = text.rfind(']').ok_or_else(|| "missing ']' in host".to_owned())?;
    check_port(&text[close + 1..])?;
    let inside = &text[1..close];
    let address = match inside.find("%25") {
        Some(zone) => {
            unescape(&inside[..zone], Place::Host)? + &unescape(&inside[zone..], Place::Zone)?
        }
        None => unescape(inside, Place::Host)?,
    };
    match address.split('%').next().unwrap_or_default().parse::<IpAddr>() {
        Ok(IpAddr::V6(_)) => Ok(format!("[{address}]{}", &text[close + 1..])),
        Ok(IpAddr::V4(_)) => Err("invalid IP-literal".to_owned()),
        Err(_) => Err(format!("invalid host: ParseAddr({}): unable to parse IP", quote(&address))),
    }
}

/// Nothing, or a colon with digits, or a colon alone.
fn check_port(text: &str) -> Result<(), String> {
    let sound = match text.strip_prefix(':') {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_digit()),
        None => text.is_empty(),
    };
    if sound { Ok(()) } else { Err(format!("invalid port {} after host", quote(text))) }
}
