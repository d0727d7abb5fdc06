//! Reads arbitrary bytes as a gRPC request. The first byte selects the decoder:
//!
//! ```text
//!   0   one gzip message
//!   1   length-prefixed messages, cut into pieces whose lengths are in the input
//!   2   the lines of HTTP headers: `grpc-timeout`, `grpc-encoding`, binary metadata
//!   3   the lines of `Accept` and `Accept-Encoding` headers of a request for metrics
//! ```
//!
//! Invariants: no panic. Messages are never longer than the limit, equal those of a slow reader
//! of the whole body, and do not depend on how the body is cut. Compressed data decompresses to
//! itself. Headers are accepted exactly if a second implementation of the rules accepts them, by
//! both of etcd's servers alike, and every rejection has a status. The form of metrics is one that
//! the client names.

#![no_main]

#[allow(dead_code, reason = "the crate uses the rest of it")]
#[path = "../../crates/grpc/src/compression/gzip.rs"]
mod gzip;
#[path = "../../crates/exposition/src/negotiate.rs"]
mod negotiate;

use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use grpc::{
    Code, DecodeError, Headers, MessageCounter, Observer, PREFIX, Status, Summary, Transport,
    TransportConfig,
};
use gzip::Decompressed;
use http::header::{ACCEPT, ACCEPT_ENCODING, HeaderName, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Uri};
use libfuzzer_sys::fuzz_target;

const BYTES_MAX: usize = 1 << 16;

fuzz_target!(|input: &[u8]| {
    match input.split_first() {
        Some((0, message)) => check_gzip(message),
        Some((1, body)) => check_messages(body),
        Some((2, lines)) => check_headers(lines),
        Some((3, lines)) => check_metrics(lines),
        _ => {}
    }
});

fn check_gzip(message: &[u8]) {
    if let Decompressed::Complete(bytes) = gzip::decompress(message, BYTES_MAX) {
        assert!(bytes.len() <= BYTES_MAX);
    }
    let mut compressed = Vec::new();
    gzip::compress(message, &mut compressed);
    assert_eq!(gzip::decompress(&compressed, BYTES_MAX), Decompressed::Complete(message.to_vec()));
}

static RUNTIME: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("create a runtime")
});

static TRANSPORT: LazyLock<Arc<Transport>> = LazyLock::new(|| {
    Arc::new(Transport::new(TransportConfig {
        message_bytes_max: BYTES_MAX,
        partial_bytes_max: BYTES_MAX,
        repair: |_, _| Err(DecodeError::Format),
        budget_exceeded: "too many requests",
        stopped: Status::CANCELED,
    }))
});

/// The input has the encoding, the number of cuts, the distance between them, and the body.
fn check_messages(input: &[u8]) {
    let Some((&[encoding, cuts, rest @ ..], body)) = input.split_first_chunk::<8>() else { return };
    let is_gzip = encoding % 2 == 1;
    let read =
        |pieces| RUNTIME.block_on(grpc::read_pieces(pieces, Arc::clone(&TRANSPORT), is_gzip));
    let whole = read(vec![Bytes::copy_from_slice(body)]);
    assert!(whole.0.iter().all(|message| message.len() <= BYTES_MAX));
    assert_eq!((whole.0.clone(), whole.1.is_some()), read_slowly(body, is_gzip));
    let lengths = rest.into_iter().cycle().take(usize::from(cuts));
    assert_eq!(read(cut(body, lengths)), whole, "independent of the cuts");
}

/// Cuts a body into pieces. After a length of zero, nothing arrives for a moment.
fn cut(mut body: &[u8], lengths: impl Iterator<Item = u8>) -> Vec<Bytes> {
    let mut pieces = Vec::new();
    for length in lengths {
        let (piece, rest) = body.split_at(usize::from(length).min(body.len()));
        pieces.push(Bytes::copy_from_slice(piece));
        body = rest;
    }
    pieces.push(Bytes::copy_from_slice(body));
    pieces
}

/// Returns the messages of a whole body, and whether an error follows them.
fn read_slowly(mut body: &[u8], is_gzip: bool) -> (Vec<Bytes>, bool) {
    let mut messages = Vec::new();
    while let Some((&[flag, length @ ..], rest)) = body.split_first_chunk::<PREFIX>() {
        let length = u32::from_be_bytes(length) as usize;
        let (message, rest) = match rest.split_at_checked(length) {
            Some(split) if length <= BYTES_MAX && (flag == 0 || flag == 1 && is_gzip) => split,
            _ => return (messages, true),
        };
        match flag {
            0 => messages.push(Bytes::copy_from_slice(message)),
            _ => match gzip::decompress(message, BYTES_MAX) {
                Decompressed::Complete(message) => messages.push(message.into()),
                _ => return (messages, true),
            },
        }
        body = rest;
    }
    (messages, false)
}

/// The input is a method byte and lines, each the name and value of a header. A method in lower
/// case comes without `:authority`.
fn check_headers(input: &[u8]) {
    let Some((&method, lines)) = input.split_first() else { return };
    let mut parts = parts(lines);
    parts.method = if method.eq_ignore_ascii_case(&b'G') { Method::GET } else { Method::POST };
    if !method.is_ascii_lowercase() {
        parts.uri = Uri::from_static("http://localhost:2379/etcdserverpb.KV/Range");
    }
    let (read, by_web) = (Headers::read(&parts), Headers::read_by_web(&parts));
    assert_eq!(read.is_ok(), is_valid(&parts), "{:?}", parts.headers);
    // Behind a web server, an empty timeout is none, and that server has checked the host.
    let is_empty = parts.headers.get("grpc-timeout").is_some_and(HeaderValue::is_empty);
    let may_differ = is_empty || !has_host(&parts);
    assert!(by_web.is_ok() == read.is_ok() || may_differ, "{:?}", parts.headers);
    if let Err(rejection) = read {
        let response = rejection.into_response::<NoObserver>();
        let status = Status::read_from(response.headers()).expect("a rejection has a status");
        assert_ne!(status.code, Code::Ok);
    }
    if let Err(rejection) = by_web {
        let response = rejection.into_response::<NoObserver>();
        assert!(!response.status().is_success() || response.headers().contains_key("grpc-status"));
    }
    // Trailers of another server.
    let _ = Status::read_from(&parts.headers);
}

fn parts(lines: &[u8]) -> Parts {
    let (mut parts, ()) = Request::new(()).into_parts();
    for line in lines.split(|byte| *byte == b'\n') {
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or(value).trim_ascii_start();
        let (name, value) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value));
        if let (Ok(name), Ok(value)) = (name, value) {
            parts.headers.append(name, value);
        }
    }
    parts
}

/// The rules of grpc-go, once more.
fn is_valid(parts: &Parts) -> bool {
    let headers = &parts.headers;
    let content_type = headers.get("content-type").map(HeaderValue::as_bytes).unwrap_or_default();
    let is_grpc = content_type.strip_prefix(b"application/grpc").is_some_and(|subtype| {
        subtype.is_empty() || subtype.starts_with(b"+") || subtype.starts_with(b";")
    });
    let timeout = headers.get("grpc-timeout").map(HeaderValue::as_bytes);
    is_grpc
        && parts.method == Method::POST
        && has_host(parts)
        && timeout.is_none_or(is_positive_timeout)
        && all_binary_is_base64(headers)
}

fn has_host(parts: &Parts) -> bool {
    parts.uri.authority().is_some() || parts.headers.contains_key("host")
}

fn is_positive_timeout(text: &[u8]) -> bool {
    let Some((unit, digits)) = text.split_last() else { return false };
    (1..=8).contains(&digits.len())
        && b"HMSmun".contains(unit)
        && digits.iter().all(u8::is_ascii_digit)
        && digits.iter().any(|digit| *digit != b'0')
}

fn all_binary_is_base64(headers: &HeaderMap) -> bool {
    let config = |padding| {
        let config = GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true);
        GeneralPurpose::new(&STANDARD, config.with_decode_padding_mode(padding))
    };
    let padded = config(DecodePaddingMode::RequireCanonical);
    let unpadded = config(DecodePaddingMode::RequireNone);
    headers.iter().filter(|(name, _)| name.as_str().ends_with("-bin")).all(|(_, value)| {
        let engine = if value.len().is_multiple_of(4) { &padded } else { &unpadded };
        engine.decode(value).is_ok()
    })
}

fn check_metrics(lines: &[u8]) {
    let headers = parts(lines).headers;
    let names = |header: HeaderName, text: &str| {
        let mut values = headers.get_all(header).iter().filter_map(|value| value.to_str().ok());
        values.any(|value| value.contains(text))
    };
    let kind = negotiate::content_type(&headers);
    let kind = kind.to_str().expect("a text").to_owned();
    let escaping = kind.strip_prefix("text/plain; version=0.0.4; charset=utf-8; escaping=");
    let escaping = escaping.expect("the text format");
    assert!(escaping == "underscores" || names(ACCEPT, "escaping") && names(ACCEPT, escaping));
    let prefers_gzip = negotiate::prefers_gzip(&headers);
    assert!(!prefers_gzip || names(ACCEPT_ENCODING, "gzip"));
    // The best quality of a coding counts, and lines are independent.
    let with = |line| {
        let mut headers = headers.clone();
        headers.append(ACCEPT_ENCODING, HeaderValue::from_static(line));
        negotiate::prefers_gzip(&headers)
    };
    for useless in ["", "br", "gzip;q=0", "identity;q=0", "gzip;q=x, identity", "*;q=0"] {
        assert_eq!(with(useless), prefers_gzip, "{useless}");
    }
    assert!(with("gzip;q=1.99") >= prefers_gzip && with("identity;q=1.99") <= prefers_gzip);
}

/// Observes nothing: a rejected request starts no call.
struct NoObserver;

impl Observer for NoObserver {
    type Counter = NoObserver;

    fn counter(&self) -> Arc<NoObserver> {
        Arc::new(NoObserver)
    }

    fn received_bytes(&self, _: usize) {}

    fn start(&mut self) {}

    fn handled(&mut self, _: Code) {}

    fn replied(&mut self, _: &net::Connection, _: &Bytes, _: Option<(Summary, usize)>) {}

    fn finish(self, _: &Status) {}
}

impl MessageCounter for NoObserver {
    fn received(&self) {}

    fn received_bytes(&self, _: usize) {}

    fn sent(&self, _: usize) {}
}
