//! Expected values were taken from etcd 3.7.3: the bytes that it sends, and the requests that it
//! serves.

use super::*;

/// Parses one head. Returns what hyper gets, or the refusal.
fn parse(head: &str) -> Result<Head, Refusal> {
    let mut parser = HeadParser::new(false);
    let mut input = BytesMut::from(head);
    let parsed = parser.parse(&mut input).map(|head| head.expect("the head is complete"));
    assert!(parsed.is_err() || input.is_empty(), "{input:?} is left");
    parsed
}

fn text(head: &str) -> String {
    String::from_utf8(parse(head).unwrap().bytes).unwrap()
}

#[test]
fn a_plain_head_stays_as_it_is() {
    let head = "POST /v3/kv/range?a=b HTTP/1.1\r\nhost: a:80\r\nX: y\r\ncontent-length: 5\r\n\r\n";
    let parsed = parse(head).unwrap();
    assert_eq!(parsed.bytes, head.as_bytes());
    assert_eq!(parsed.body, BodyLength::Exact(5));
    assert!(!parsed.expectation_failed);
}

#[test]
fn a_head_is_the_same_however_its_bytes_arrive() {
    let head = b"GET /a HTTP/1.1\nHost: a\r\nX: 1\r\n\t 2\r\nY:\r\n\r\nrest";
    let whole = parse("GET /a HTTP/1.1\r\nHost: a\r\nX: 1 2\r\nY:\r\n\r\n").unwrap();
    for portion in 1..head.len() {
        let (mut parser, mut input) = (HeadParser::new(true), BytesMut::new());
        let mut parsed = None;
        for bytes in head.chunks(portion) {
            input.extend_from_slice(bytes);
            if parsed.is_none() {
                parsed = parser.parse(&mut input).unwrap();
            }
        }
        assert_eq!(parsed.as_ref(), Some(&whole), "in portions of {portion}");
        assert_eq!(input, b"rest"[..]);
    }
}

#[test]
fn targets_are_rewritten_to_gos_escaped_path() {
    for (target, expected) in [
        ("/v3/kv#x", "/v3/kv%23x"),
        ("/v3%2fkv", "/v3%2fkv"),
        ("/a?b#c|d", "/a?b%23c%7Cd"),
        ("/a?", "/a?"),
        ("http://b", "//"),
        ("http://b?x", "//?x"),
        ("http://b/a", "/a"),
        ("*", "*"),
    ] {
        let head = text(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let line = head.lines().next().unwrap();
        assert_eq!(line, format!("GET {expected} HTTP/1.1"), "{target}");
    }
    let connect = text("CONNECT a:80 HTTP/1.1\r\n\r\n");
    assert_eq!(connect, "CONNECT / HTTP/1.1\r\nhost: a:80\r\n\r\n");
    let connect = text("CONNECT * HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(connect, "CONNECT * HTTP/1.1\r\nhost: *\r\n\r\n");
}

#[test]
fn the_host_of_an_absolute_target_takes_precedence() {
    assert_eq!(
        text("GET http://b:1/x HTTP/1.1\r\nHost: a\r\n\r\n"),
        "GET /x HTTP/1.1\r\nhost: b:1\r\n\r\n"
    );
    assert_eq!(text("GET /x HTTP/1.0\r\n\r\n"), "GET /x HTTP/1.0\r\n\r\n");
    assert_eq!(text("GET /x HTTP/1.1\r\nHost:\r\n\r\n"), "GET /x HTTP/1.1\r\nhost: \r\n\r\n");
    assert_eq!(text("GET /x HTTP/1.9\r\nHOST: a\r\n\r\n"), "GET /x HTTP/1.1\r\nhost: a\r\n\r\n");
}

const MISSING: Refusal = Refusal::Invalid("missing required Host header");
const BAD_HOST: Refusal = Refusal::Invalid("malformed Host header");
const BAD_NAME: Refusal = Refusal::Invalid("invalid header name");

#[test]
fn invalid_heads_are_refused_with_gos_reason() {
    for (head, refusal) in [
        ("GET /x HTTP/1.1\r\n\r\n", MISSING),
        ("GET http://b/x HTTP/1.1\r\n\r\n", MISSING),
        ("GET /x HTTP/1.1\r\nhost : a\r\n\r\n", MISSING),
        ("GET /x HTTP/1.0\r\nhost : a\r\n\r\n", BAD_NAME),
        ("GET /x HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", Refusal::Malformed),
        ("GET /x HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", Refusal::Malformed),
        ("GET /x HTTP/1.1\r\nHost: a b\r\n\r\n", BAD_HOST),
        ("GET /x HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", BAD_HOST),
        ("GET /x HTTP/1.0\r\nHost: a@b\r\n\r\n", BAD_HOST),
        ("GET /x HTTP/1.1\r\nHost: é\r\n\r\n", BAD_HOST),
        ("GET /x HTTP/1.1\r\nHost: a\r\nX y: 1\r\n\r\n", BAD_NAME),
        ("GET /x HTTP/1.1\r\nHost: a\r\nX@: 1\r\n\r\n", Refusal::Malformed),
        ("GET /x HTTP/1.1\r\nHost: a\r\n: 1\r\n\r\n", Refusal::Malformed),
        ("GET /x HTTP/1.1\r\nHost: a\r\nX\r\n\r\n", Refusal::Malformed),
        ("GET /x HTTP/1.1\r\n X: 1\r\n\r\n", Refusal::Malformed),
        ("GET /x HTTP/1.1\r\nHost: a\r\nX: \u{1}\r\n\r\n", Refusal::Malformed),
        ("GET /x HTTP/1.1\r\nHost: a\r\nX: \u{7f}\r\n\r\n", Refusal::Malformed),
        ("GET /x HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", Refusal::Malformed),
        ("G@T /x HTTP/1.1\r\n", Refusal::Malformed),
        (" /x HTTP/1.1\r\n", Refusal::Malformed),
        ("GET /x\r\n", Refusal::Malformed),
        ("GET /x HTTP/1.1 \r\n", Refusal::Malformed),
        ("GET /x HTTP/1.10\r\n", Refusal::Malformed),
        ("GET  /x HTTP/1.1\r\n", Refusal::Malformed),
        ("GET x HTTP/1.1\r\n", Refusal::Malformed),
        ("GET /%zz HTTP/1.1\r\n", Refusal::Malformed),
        ("\r\n", Refusal::Malformed),
        ("GET /x HTTP/2.0\r\nHost: a\r\n\r\n", Refusal::Version),
        ("GET /x HTTP/0.9\r\n\r\n", Refusal::Version),
    ] {
        assert_eq!(parse(head), Err(refusal), "{head:?}");
    }
    for host in ["", "a", "a:b:c", "[::1", "[::1]:80", "a%41", "a,b;c", "a!$&'()*+=_~-."] {
        assert!(parse(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).is_ok(), "{host}");
    }
}

#[test]
fn the_body_ends_where_go_sees_its_end() {
    let coded = |version, fields: &str| {
        parse(&format!("POST / HTTP/{version}\r\nHost: a\r\n{fields}\r\n")).map(|head| head.body)
    };
    let chunked = "Transfer-Encoding: chunked\r\n";
    for (fields, expected) in [
        ("", Ok(BodyLength::Exact(0))),
        ("Content-Length: 14\r\n", Ok(BodyLength::Exact(14))),
        ("Content-Length: 014\r\n", Ok(BodyLength::Exact(14))),
        ("Content-Length: 14 \r\nContent-Length: 14\r\n", Ok(BodyLength::Exact(14))),
        ("Content-Length: 14\r\nContent-Length: 15\r\n", Err(Refusal::Malformed)),
        ("Content-Length: 14, 14\r\n", Err(Refusal::Malformed)),
        ("Content-Length: +14\r\n", Err(Refusal::Malformed)),
        ("Content-Length: -1\r\n", Err(Refusal::Malformed)),
        ("Content-Length: 0x0e\r\n", Err(Refusal::Malformed)),
        ("Content-Length:\r\n", Err(Refusal::Malformed)),
        ("Content-Length: 9223372036854775808\r\n", Err(Refusal::Malformed)),
        (chunked, Ok(BodyLength::Chunked)),
        ("Transfer-Encoding:\tChunked \r\n", Ok(BodyLength::Chunked)),
        ("Content-Length: 14\r\nTransfer-Encoding: chunked\r\n", Ok(BodyLength::Chunked)),
        ("Content-Length: x\r\nTransfer-Encoding: chunked\r\n", Err(Refusal::Malformed)),
        ("Trailer: a, Content-Length\r\nTransfer-Encoding: chunked\r\n", Err(Refusal::Malformed)),
        ("Transfer-Encoding: identity\r\n", Err(Refusal::TransferEncoding)),
        ("Transfer-Encoding: gzip, chunked\r\n", Err(Refusal::TransferEncoding)),
        ("Transfer-Encoding: chunked, chunked\r\n", Err(Refusal::TransferEncoding)),
        ("Transfer-Encoding: \"chunked\"\r\n", Err(Refusal::TransferEncoding)),
        ("Transfer-Encoding:\r\n", Err(Refusal::TransferEncoding)),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            Err(Refusal::TransferEncoding),
        ),
    ] {
        assert_eq!(coded("1.1", fields), expected, "{fields:?}");
    }
    for fields in [chunked, "Transfer-Encoding: gzip\r\n"] {
        assert_eq!(coded("1.0", fields), Ok(BodyLength::Exact(0)), "{fields:?}");
    }
    // hyper gets one length or one coding, never both.
    let both = text(&format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n{chunked}\r\n"));
    assert_eq!(both, "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n");
}

#[test]
fn unknown_expectations_fail() {
    let expecting = |fields: &str| parse(&format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    for (fields, fails, continues) in [
        ("Expect: 100-continue\r\n", false, false),
        ("Expect: 100-Continue, x\r\nContent-Length: 1\r\n", false, true),
        ("Expect:\r\nContent-Length: 1\r\n", false, false),
        ("Expect: x\r\n", true, false),
        ("Expect: x\r\nExpect: 100-continue\r\n", true, false),
        ("Expect: 100-continue\r\nExpect: x\r\nTransfer-Encoding: chunked\r\n", false, true),
    ] {
        let head = expecting(fields).unwrap();
        assert_eq!(head.expectation_failed, fails, "{fields:?}");
        let text = String::from_utf8(head.bytes).unwrap();
        assert_eq!(text.contains("expect: 100-continue\r\n"), continues, "{fields:?}");
    }
}

#[test]
fn the_first_line_of_a_connection_must_be_http1_if_so_configured() {
    let first = |line: &str| HeadParser::new(true).parse(&mut BytesMut::from(line));
    for line in ["SSH-2.0-x\r\n", "GET / HTTP/2.0\r\n", "GET / HTTP/1.1 \r\n", "\r\n", "\0\u{1}\n"]
    {
        assert_eq!(first(line), Err(Refusal::NotHttp1), "{line:?}");
    }
    let long = format!("GET /{} HTTP/1.1\r\n", "a".repeat(FIRST_LINE_BYTES_MAX));
    assert_eq!(first(&long), Err(Refusal::NotHttp1));
    assert_eq!(first(&long[..FIRST_LINE_BYTES_MAX + 1]), Err(Refusal::NotHttp1));
    assert_eq!(first(&long[..FIRST_LINE_BYTES_MAX]), Ok(None));
    // Other errors, and later requests, are answered.
    assert_eq!(first("G@T / HTTP/1.1\r\n"), Err(Refusal::Malformed));
    let mut parser = HeadParser::new(true);
    assert!(parser.parse(&mut "GET / HTTP/1.1\r\nHost: a\r\n\r\n".into()).unwrap().is_some());
    assert_eq!(parser.parse(&mut "what\r\n".into()), Err(Refusal::Malformed));
}

#[test]
fn a_head_that_is_cut_off_is_refused() {
    let cut = |must_be_http1, head: &str| {
        let (mut parser, mut input) = (HeadParser::new(must_be_http1), BytesMut::from(head));
        assert_eq!(parser.parse(&mut input), Ok(None), "{head:?}");
        parser.refuse_cut(&input)
    };
    for (head, of_first_line) in [
        ("GET /x", Refusal::NotHttp1),
        ("GET /x HTTP/1.1\r", Refusal::NotHttp1),
        ("GET /x HTTP/1.1", Refusal::Malformed),
        ("GET /x HTTP/1.1\r\n", Refusal::Malformed),
        ("GET /x HTTP/1.1\r\nHost: a", Refusal::Malformed),
    ] {
        assert_eq!(cut(true, head), Some(of_first_line), "{head:?}");
        assert_eq!(cut(false, head), Some(Refusal::Malformed), "{head:?}");
    }
    assert_eq!(cut(true, ""), None);
    assert_eq!(cut(false, ""), None);
}

#[test]
fn line_ends_are_skipped_after_a_post() {
    let mut parser = HeadParser::new(false);
    let post = "POST / HTTP/1.1\r\nHost: a\r\n\r\n";
    let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut input = BytesMut::from(format!("{post}\r\n\r\n{get}\r\n{get}").as_str());
    assert!(parser.parse(&mut input).unwrap().is_some());
    assert!(parser.parse(&mut input).unwrap().is_some());
    assert_eq!(parser.parse(&mut input), Err(Refusal::Malformed), "not after a GET");
}

#[test]
fn long_heads_are_refused() {
    let field = |length| format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "a".repeat(length));
    let max = HEADER_BYTES_MAX as usize;
    assert_eq!(parse(&(field(max) + "\r\n\r\n")), Err(Refusal::TooLarge));
    assert!(parse(&(field(max / 2) + "\r\n\r\n")).is_ok());
    let unfinished = HeadParser::new(false).parse(&mut field(max).as_str().into());
    assert_eq!(unfinished, Err(Refusal::TooLarge));
    let many = |count| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: 1\r\n".repeat(count));
    assert!(parse(&many(crate::config::HTTP1_HEADERS_MAX - 1)).is_ok());
    assert_eq!(parse(&many(crate::config::HTTP1_HEADERS_MAX)), Err(Refusal::TooLarge));
}
