//! HTTP/1 and HTTP/2, over TCP and unix sockets.

use bytes::Bytes;
use net::{Address, Config};
use tokio::net::{TcpStream, UnixStream};

use crate::client::{Frame, Http1, Http2, PREFACE, Raw, SETTINGS};
use crate::handler::Server;

#[tokio::test]
async fn one_port_serves_both_protocols() {
    let server = Server::start(Config::default());
    let stream = TcpStream::connect(server.address()).await.unwrap();
    let me = stream.local_addr().unwrap();
    let answer = Http1::over(stream).await.get("/whoami").await.unwrap();
    assert_eq!(answer, format!("HTTP/1.1 from {me}, tls false"));

    let stream = TcpStream::connect(server.address()).await.unwrap();
    let me = stream.local_addr().unwrap();
    let answer = Http2::over(stream).await.get("/whoami").await.unwrap();
    assert_eq!(answer, format!("HTTP/2.0 from {me}, tls false"));
}

#[tokio::test]
async fn a_unix_socket_serves_both_protocols() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("client.sock");
    let server = Server::listen(&Address::Unix(path.clone()), Config::default());
    assert_eq!(server.address(), path.display().to_string());

    let mut http1 = Http1::over(UnixStream::connect(&path).await.unwrap()).await;
    assert_eq!(http1.get("/whoami").await.unwrap(), "HTTP/1.1 from @, tls false");
    let http2 = Http2::over(UnixStream::connect(&path).await.unwrap()).await;
    assert_eq!(http2.get("/whoami").await.unwrap(), "HTTP/2.0 from @, tls false");
}

/// Sizes on both sides of every bound: frames, the write coalescer, windows.
const SIZES: [usize; 7] = [0, 1, 255, 257, 16_384, 70_000, 3 << 20];

#[tokio::test]
async fn bodies_of_any_size_are_transferred_in_both_directions() {
    let server = Server::start(Config::default());
    let http2 = Http2::connect(&server.address()).await;
    let mut http1 = Http1::connect(&server.address()).await;
    for size in SIZES {
        let body: Bytes = (0..size).map(|n| u8::try_from(n % 251).unwrap()).collect();
        assert!(http2.post("/echo", body.clone()).await.unwrap() == body, "{size}");
        assert!(http1.post("/echo", body.clone()).await.unwrap() == body, "{size}");
    }
}

#[tokio::test]
async fn calls_on_a_connection_are_concurrent() {
    let mut server = Server::start(Config::default());
    let client = Http2::connect(&server.address()).await;
    let held = client.get("/hold");
    let others = async {
        server.next_started().await;
        for n in 0..100 {
            let body = Bytes::from(vec![n; 500]);
            assert_eq!(client.post("/echo", body.clone()).await.unwrap(), body);
        }
        server.release();
    };
    assert_eq!(tokio::join!(held, others).0.unwrap(), "held");
}

#[tokio::test]
async fn concurrent_calls_get_their_own_responses() {
    let server = Server::start(Config::default());
    let client = Http2::connect(&server.address()).await;
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..200_u8 {
        let (sender, ended) = (client.sender.clone(), tokio::spawn(async { Ok(()) }));
        calls.spawn(async move {
            let body = Bytes::from(vec![n; usize::from(n) * 10]);
            let echo = Http2 { sender, ended }.post("/echo", body.clone()).await.unwrap();
            assert_eq!(echo, body);
        });
    }
    assert_eq!(calls.join_all().await.len(), 200);
}

#[tokio::test]
async fn http1_header_names_are_written_as_in_go() {
    let server = Server::start(Config::default());
    let mut raw = Raw::connect(&server.address()).await;
    raw.send(b"GET /whoami HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
    let answer = raw.read_to_end().await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("\r\nContent-Type: text/plain\r\n"), "{answer}");
    assert!(answer.contains("\r\nDate: "), "{answer}");
}

#[tokio::test]
async fn a_tls_client_of_a_plain_listener_is_disconnected() {
    let server = Server::start(Config::default());
    let mut raw = Raw::connect(&server.address()).await;
    raw.send(b"\x16").await;
    assert_eq!(raw.read_to_end().await, "");
}

#[tokio::test]
async fn an_http1_client_of_an_http2_listener_is_disconnected() {
    let server = Server::without_http1();
    let mut raw = Raw::connect(&server.address()).await;
    raw.send(b"GET").await;
    assert_eq!(raw.read_to_end().await, "");
    let answer = Http2::connect(&server.address()).await.get("/whoami").await.unwrap();
    assert!(answer.starts_with("HTTP/2.0"), "{answer}");
}

/// GET, http, `/long` and an authority, as HPACK encodes them.
const GET_LONG: &[u8] = b"\x82\x86\x04\x05/long\x01\x09localhost";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const WINDOW_UPDATE: u8 = 8;
/// The flags END_STREAM and END_HEADERS.
const WHOLE_REQUEST: u8 = 1 | 4;

/// If bodies were not sliced, the response that is sent first would take the whole window.
#[tokio::test]
async fn responses_of_a_connection_share_its_window() {
    let server = Server::start(Config::default());
    let mut raw = Raw::connect(&server.address()).await;
    raw.send(PREFACE).await;
    // SETTINGS_INITIAL_WINDOW_SIZE: the window of the connection is the only limit.
    let windows = [&[0, 4][..], &(1u32 << 26).to_be_bytes()].concat();
    raw.send(&Frame::new(SETTINGS, 0, 0, &windows).encode()).await;
    for stream in [1, 3] {
        raw.send(&Frame::new(HEADERS, WHOLE_REQUEST, stream, GET_LONG).encode()).await;
    }
    for _ in [1, 3] {
        raw.frame_of(HEADERS).await;
    }
    raw.send(&Frame::new(WINDOW_UPDATE, 0, 0, &(8u32 << 20).to_be_bytes()).encode()).await;
    let (mut first, mut second) = (0, 0);
    while first + second < 2 << 20 {
        let frame = raw.frame_of(DATA).await;
        *(if frame.stream == 1 { &mut first } else { &mut second }) += frame.payload.len();
    }
    assert!(first.min(second) > 512 << 10, "{first} and {second} bytes");
}
