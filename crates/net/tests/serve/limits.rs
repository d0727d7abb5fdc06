//! Limits on clients.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use net::{Config, HEADER_BYTES_MAX};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::client::{Frame, Http1, Http2, PREFACE, Raw, SETTINGS};
use crate::handler::{LONG_BYTES, SHORT, Server, TEST_TIMEOUT, within};

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// The id of a setting.
const MAX_CONCURRENT_STREAMS: u16 = 3;
/// An error code.
const REFUSED_STREAM: [u8; 4] = [0, 0, 0, 7];

/// `GET http://localhost/hold` in HPACK, with the static table only.
const GET_HOLD: &[u8] = b"\x82\x86\x04\x05/hold\x01\x09localhost";

#[tokio::test]
async fn protocol_detection_times_out() {
    let config = Config { detection_timeout: SHORT, ..Config::default() };
    let server = Server::start(config);
    for beginning in [&b""[..], &PREFACE[..10], &PREFACE[..23]] {
        let mut raw = Raw::connect(&server.address()).await;
        raw.send(beginning).await;
        assert_eq!(raw.read_to_end().await, "", "closed without an answer");
    }
    // HTTP/2 also needs its first frame.
    let mut raw = Raw::connect(&server.address()).await;
    raw.send(PREFACE).await;
    raw.skip_to_end().await;
}

#[tokio::test]
async fn http1_headers_time_out() {
    let config = Config { headers_timeout: SHORT, ..Config::default() };
    let server = Server::start(config);
    let mut raw = Raw::connect(&server.address()).await;
    raw.send(b"GET /whoami HTTP/1.1\r\nHost: loc").await;
    assert_eq!(raw.read_to_end().await, "");
}

#[tokio::test]
async fn http2_headers_time_out() {
    let config = Config { headers_timeout: SHORT, ..Config::default() };
    let server = Server::start(config);
    let mut raw = Raw::connect_http2(&server.address()).await;
    raw.send(&Frame::new(HEADERS, END_STREAM, 1, GET_HOLD).encode()).await;
    raw.skip_to_end().await;
}

#[tokio::test]
async fn the_headers_timeout_does_not_limit_the_call() {
    // Enough time for an honest client on a busy machine.
    let config =
        Config { headers_timeout: 40 * SHORT, detection_timeout: 40 * SHORT, ..Config::default() };
    let mut server = Server::start(config);
    let (mut http1, http2) =
        (Http1::connect(&server.address()).await, Http2::connect(&server.address()).await);
    let calls = async { tokio::join!(http1.get("/hold"), http2.get("/hold")) };
    let releasing = async {
        server.next_started().await;
        server.next_started().await;
        // The timeout has passed when a later, silent connection is closed by it.
        assert_eq!(Raw::connect(&server.address()).await.read_to_end().await, "");
        server.release();
        server.release();
    };
    let ((over_http1, over_http2), ()) = tokio::join!(calls, releasing);
    assert_eq!(over_http1.unwrap(), "held");
    assert_eq!(over_http2.unwrap(), "held");
}

#[tokio::test]
async fn oversized_headers_are_refused() {
    let server = Server::start(Config::default());
    let mut raw = Raw::connect(&server.address()).await;
    let long = "x".repeat(HEADER_BYTES_MAX as usize);
    // The server closes before it has read everything, so the write may fail.
    let head = format!("GET /whoami HTTP/1.1\r\nLong: {long}\r\n\r\n");
    let _ = within("the server to close", raw.0.write_all(head.as_bytes())).await;
    let mut start = [0; 12];
    within("the status line", raw.0.read_exact(&mut start)).await.unwrap();
    assert_eq!(&start, b"HTTP/1.1 431");

    let client = Http2::connect(&server.address()).await;
    let request = http::Request::get("http://localhost/whoami").header("long", long);
    let request = request.body(Full::<Bytes>::default()).unwrap();
    let mut sender = client.sender.clone();
    let response = within("the response", sender.send_request(request)).await.unwrap();
    assert_eq!(response.status(), 431);
    assert!(
        client.get("/whoami").await.unwrap().starts_with("HTTP/2.0"),
        "the connection survives"
    );
}

#[tokio::test]
async fn streams_above_the_configured_maximum_are_refused() {
    let config = Config { streams_max: 2, ..Config::default() };
    let mut server = Server::start(config);
    let mut raw = Raw::connect_http2(&server.address()).await;
    let settings = raw.frame_of(SETTINGS).await;
    assert_eq!(setting(&settings, MAX_CONCURRENT_STREAMS), Some(2));
    for stream in [1, 3, 5] {
        let flags = END_STREAM | END_HEADERS;
        raw.send(&Frame::new(HEADERS, flags, stream, GET_HOLD).encode()).await;
    }
    let refused = Frame::new(RST_STREAM, 0, 5, &REFUSED_STREAM);
    assert_eq!(raw.frame_of(RST_STREAM).await, refused);
    server.next_started().await;
    server.next_started().await;
    server.release();
    let ended = raw.frame_of(HEADERS).await;
    assert!([1, 3].contains(&ended.stream));
}

#[tokio::test]
async fn no_stream_limit_is_announced_by_default() {
    let server = Server::start(Config::default());
    let mut raw = Raw::connect_http2(&server.address()).await;
    let settings = raw.frame_of(SETTINGS).await;
    assert_eq!(setting(&settings, MAX_CONCURRENT_STREAMS), None);
}

fn setting(frame: &Frame, id: u16) -> Option<u32> {
    let settings = frame.payload.chunks(6).map(|setting| {
        let (id, value) = setting.split_at(2);
        (u16::from_be_bytes(id.try_into().unwrap()), u32::from_be_bytes(value.try_into().unwrap()))
    });
    settings.into_iter().find(|(found, _)| *found == id).map(|(_, value)| value)
}

#[tokio::test]
async fn connections_above_the_maximum_wait_in_the_backlog() {
    let config = Config { connections_max: 2, ..Config::default() };
    let mut server = Server::start(config);
    let (first, mut second) =
        (Http2::connect(&server.address()).await, Http1::connect(&server.address()).await);
    first.get("/whoami").await.unwrap();
    second.get("/whoami").await.unwrap();

    // The kernel completes the connection; the server does not accept it.
    let mut third = Http1::connect(&server.address()).await;
    let mut call = std::pin::pin!(third.get("/whoami"));
    let waited = tokio::time::timeout(SHORT, call.as_mut()).await;
    assert!(waited.is_err());
    assert_eq!(server.handle.connections(), 2);

    // Open connections are served meanwhile.
    let calls = first.get("/hold");
    let others = async {
        server.next_started().await;
        drop(second);
        assert!(call.await.unwrap().starts_with("HTTP/1.1"));
        server.release();
    };
    assert_eq!(tokio::join!(calls, others).0.unwrap(), "held");
    assert_eq!(server.handle.connections(), 2);
}

#[tokio::test]
async fn silent_connections_time_out_and_make_room() {
    // Enough time for the client that is not silent, on a busy machine.
    let config = Config { connections_max: 1, detection_timeout: 4 * SHORT, ..Config::default() };
    let server = Server::start(config);
    let mut silent = Vec::new();
    for _ in 0..5 {
        silent.push(Raw::connect(&server.address()).await);
    }
    let mut client = Http1::connect(&server.address()).await;
    assert!(client.get("/whoami").await.unwrap().starts_with("HTTP/1.1"));
}

#[tokio::test]
async fn too_many_pending_connections_evict_the_oldest() {
    let config = Config { pending_max: 4, detection_timeout: TEST_TIMEOUT, ..Config::default() };
    let server = Server::start(config);
    let mut silent = Vec::new();
    for count in 1..=4 {
        silent.push(Raw::connect(&server.address()).await);
        server.has_connections(count).await;
    }
    let mut client = Http1::connect(&server.address()).await;
    assert!(client.get("/whoami").await.unwrap().starts_with("HTTP/1.1"));
    assert_eq!(silent.remove(0).read_to_end().await, "");
    // Three silent connections, and the one that spoke.
    server.has_connections(4).await;
}

#[tokio::test]
async fn connections_that_do_not_read_long_responses_are_closed_when_there_are_too_many() {
    // One response does not fill the limit, two do.
    let unsent_total_bytes_max = LONG_BYTES + 1;
    let unsent_grace = Duration::from_secs(2);
    let server =
        Server::start(Config { unsent_total_bytes_max, unsent_grace, ..Config::default() });
    let mut silent = Vec::new();
    for _ in 0..2 {
        let mut raw = Raw::connect(&server.address()).await;
        raw.send(b"GET /long HTTP/1.1\r\nHost: a\r\n\r\n").await;
        silent.push(raw);
    }
    let mut reading = Http1::connect(&server.address()).await;
    assert_eq!(reading.post("/long", Bytes::new()).await.unwrap().len(), LONG_BYTES);
    // At least one had to be closed for it. The other fills the limit with the next response.
    assert_eq!(reading.post("/long", Bytes::new()).await.unwrap().len(), LONG_BYTES);
    let mut closed = 0;
    for mut raw in silent {
        let mut bytes = Vec::new();
        // An open connection is not closed after its response.
        let read = tokio::time::timeout(unsent_grace, raw.0.read_to_end(&mut bytes)).await;
        closed += usize::from(read.is_ok() && bytes.len() < LONG_BYTES);
    }
    assert!(closed > 0, "both connections received the whole response");
    assert!(reading.get("/whoami").await.unwrap().starts_with("HTTP/1.1"));
}
