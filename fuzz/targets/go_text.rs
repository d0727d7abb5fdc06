//! Parses arbitrary text with the ports of Go's parsers, and with the parsers of URLs above them.
//!
//! Invariants: no panic. A printed value is parsed to an equal value. Numbers equal those of Rust's
//! parser where both accept a text. The URL of a member leads to its own host and port. Paths and
//! queries are decoded as by a second implementation, and to themselves once escaped. The target of
//! a request has the host and path of the same URL. `NO_PROXY`, in the lines below a host, matches
//! as a second implementation does.

#![no_main]

#[path = "../../crates/net/src/dial/proxy/bypass.rs"]
mod bypass;
#[path = "go_text/no_proxy.rs"]
mod no_proxy;

use config::url::list::{self, UrlsMap};
use config::url::{Address, Url};
use gocompat::{GoDuration, GoUrl, RequestPath, RequestTarget};
use libfuzzer_sys::fuzz_target;
use net::Target;

fuzz_target!(|input: &[u8]| {
    let _ = gocompat::quote_bytes(input);
    check_path(input);
    let Ok(text) = std::str::from_utf8(input) else { return };
    check_numbers(text);
    check_durations(text);
    check_host_port(text);
    check_urls(text);
    check_target_of_request(text);
    check_query(text);
    no_proxy::check(text);
    let quoted = gocompat::quote(text);
    assert!(quoted.len() >= text.len() + 2 && quoted.starts_with('"') && quoted.ends_with('"'));
});

fn check_numbers(text: &str) {
    if let Ok(number) = gocompat::parse_decimal(text) {
        assert_eq!(text.parse(), Ok(number));
        assert_eq!(gocompat::parse_decimal(&number.to_string()), Ok(number));
    }
    if let Ok(number) = gocompat::parse_uint(text, 16) {
        assert!(number <= u16::MAX.into());
        assert_eq!(gocompat::parse_uint(text, 64), Ok(number));
    }
    if let Ok(number) = gocompat::parse_uint(text, 64) {
        assert_eq!(gocompat::parse_uint(&format!("{number:#x}"), 64), Ok(number));
    }
    if let Ok(number) = gocompat::parse_int(text) {
        assert_eq!(gocompat::parse_int(&number.to_string()), Ok(number));
    }
    if let Some(value) = gocompat::parse_bool(text) {
        assert_eq!(gocompat::parse_bool(&value.to_string()), Some(value));
    }
}

fn check_durations(text: &str) {
    if let Ok(duration) = GoDuration::parse(text) {
        let printed = duration.to_string();
        assert_eq!(GoDuration::parse(&printed), Ok(duration), "{printed}");
    }
}

fn check_host_port(text: &str) {
    if let Some((host, port)) = gocompat::split_host_port(text) {
        let joined = format!("{}:{port}", gocompat::bracketed(host));
        assert_eq!(gocompat::split_host_port(&joined), Some((host, port)), "{joined}");
    }
}

fn check_urls(text: &str) {
    if let Ok(url) = GoUrl::parse(text) {
        let printed = url.to_string();
        // Compat: as in Go, a printed URL can be one that is not parsed, or not to the same URL.
        if let Ok(again) = GoUrl::parse(&printed) {
            assert_eq!(again.scheme(), url.scheme(), "{printed}");
        }
    }
    let _ = Target::parse(text);
    let _ = list::parse(text);
    if let Ok(url) = Url::parse(text) {
        check_target(&url);
    }
    if let Ok(map) = UrlsMap::parse(text) {
        assert!(map.len() <= list::URLS_MAX && !map.to_string().is_empty() | map.is_empty());
    }
}

/// A member's URL is dialed at the address that the member would listen on.
fn check_target(url: &Url) {
    let Ok(Address::Tcp { host, port }) = url.address() else { return };
    // Compat: as in Go, the printed form of a zone outside ASCII cannot be parsed.
    if host.is_empty() || port == 0 || GoUrl::parse(url.as_str()).is_err() {
        return;
    }
    let target = Target::parse(url.as_str()).expect("a member's URL can be dialed");
    assert_eq!(target.host(), host, "{url}");
    assert_eq!(target.to_string(), gocompat::join_host_port(&host, port), "{url}");
    assert_eq!(target.is_secure(), url.scheme().is_secure());
}

fn check_path(input: &[u8]) {
    let parsed = RequestPath::parse(input);
    assert_eq!(parsed.as_ref().map(|path| &path.decoded), unescape(input).as_ref());
    for path in parsed.into_iter().chain([RequestPath::from_decoded(input.to_vec())]) {
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"?#".contains(&byte);
        assert!(path.escaped.bytes().all(is_plain), "{}", path.escaped);
        assert_eq!(RequestPath::parse(path.escaped.as_bytes()), Some(path));
    }
    let Some(target) = RequestTarget::parse(input) else { return };
    let query = input.iter().position(|byte| *byte == b'?').map(|at| input[at + 1..].to_vec());
    assert_eq!(target.query, query);
    let is_relative = input.starts_with(b"/") || input == b"*";
    assert!(!is_relative || target.host.is_empty());
}

/// Replaces every `%XX` by its byte, once more.
fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut parts = text.split(|byte| *byte == b'%');
    let mut decoded = parts.next()?.to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
        let digits = std::str::from_utf8(digits).ok().filter(|_| is_hex)?;
        decoded.push(u8::from_str_radix(digits, 16).ok()?);
        decoded.extend_from_slice(rest);
    }
    Some(decoded)
}

/// An absolute URL has the same host and path in a request. There it has no fragment.
fn check_target_of_request(text: &str) {
    if text.contains('#') || text.starts_with('/') || text == "*" {
        return;
    }
    match (RequestTarget::parse(text.as_bytes()), GoUrl::parse(text)) {
        (Some(target), Ok(url)) => {
            let path = (&target.host[..], &target.path.decoded[..]);
            assert_eq!(path, (url.host(), url.path().as_bytes()));
        }
        // Paths of requests need not be UTF-8.
        (Some(target), Err(error)) => {
            assert!(std::str::from_utf8(&target.path.decoded).is_err(), "{error}");
        }
        (None, Ok(url)) => assert!(url.scheme().is_empty(), "{url}"),
        (None, Err(_)) => {}
    }
}

fn check_query(text: &str) {
    let decode = |text: &str| String::from_utf8(unescape(text.as_bytes())?).ok();
    let decode_query = |text: &str| decode(&text.replace('+', "%20"));
    assert_eq!(gocompat::path_unescape(text).ok(), decode(text));
    assert_eq!(gocompat::query_unescape(text).ok(), decode_query(text));
    let mut pairs = Vec::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
        let equals = pair.find('=').unwrap_or(pair.len());
        let (name, value) = pair.split_at(equals);
        let value = decode_query(value.strip_prefix('=').unwrap_or(value));
        pairs.extend(decode_query(name).zip(value));
    }
    assert!(gocompat::query_pairs(text).eq(pairs));
    let escaped: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let pair = (text.to_owned(), text.to_owned());
    assert!(gocompat::query_pairs(&format!("{escaped}={escaped}")).eq([pair]));
    let clean = gocompat::clean_path(text);
    assert!(clean == "/" || clean.split('/').skip(1).all(|part| !["", ".", ".."].contains(&part)));
    assert_eq!(gocompat::clean_path(&format!("{text}/x/..")), clean);
    assert_eq!(gocompat::clean_path(&clean), clean);
}
