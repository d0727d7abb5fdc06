//! Peers that violate the protocol.

use std::io::{BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use testkit::waiting::step_until;
use types::ETCD_VERSION;

use super::fixture::{FixtureConfig, TransportFixture, accept, append, member, read_head};
use crate::codec::msgapp::MsgAppEncoder;

const OK: &str = "HTTP/1.1 200 OK\r\nX-Server-Version: 3.7.0\r\nTransfer-Encoding: chunked\r\n\r\n";

/// A member, and the listener of a peer that the test simulates.
fn with_listener(timeout: Duration) -> (TransportFixture, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let one = FixtureConfig { timeout, ..FixtureConfig::of(1) }.start();
    one.set_members(&[one.member(), member(2, &[&url])]);
    one.attach();
    (one, listener)
}

/// Accepts the next request for a kind of stream.
fn accept_stream(listener: &TcpListener, kind: &str) -> BufReader<TcpStream> {
    let path = format!("GET /raft/stream/{kind}/1 HTTP/1.1");
    let mut stream = accept(listener);
    step_until("a stream is requested", || {
        let is_requested = read_head(&mut stream)[0] == path;
        if !is_requested {
            stream = accept(listener);
        }
        is_requested
    });
    stream
}

fn send_chunk(stream: &mut BufReader<TcpStream>, head: &str, body: &[u8]) {
    let stream = stream.get_mut();
    stream.write_all(head.as_bytes()).unwrap();
    write!(stream, "{:x}\r\n", body.len()).unwrap();
    stream.write_all(body).unwrap();
    stream.write_all(b"\r\n").unwrap();
}

#[test]
fn a_stream_request_has_etcds_headers() {
    let (one, listener) = with_listener(crate::TIMEOUT_DEFAULT);
    let mut heads = [Vec::new(), Vec::new()];
    for head in &mut heads {
        *head = read_head(&mut accept(&listener));
        head[1..].sort();
    }
    heads.sort();
    for (head, kind) in heads.iter().zip(["message", "msgapp"]) {
        let expected = [
            format!("GET /raft/stream/{kind}/1 HTTP/1.1"),
            format!("Host: {}", listener.local_addr().unwrap()),
            "X-Etcd-Cluster-Id: c1".to_owned(),
            "X-Min-Cluster-Version: 3.0.0".to_owned(),
            format!("X-Peerurls: {}", one.url()),
            "X-Raft-To: 2".to_owned(),
            "X-Server-From: 1".to_owned(),
            format!("X-Server-Version: {ETCD_VERSION}"),
        ];
        assert_eq!(*head, expected);
    }
}

#[test]
fn a_stream_is_dialed_again_after_garbage() {
    let (one, listener) = with_listener(crate::TIMEOUT_DEFAULT);
    for garbage in
        [&b"\x03"[..], b"\x02\xff\xff\xff\xff\xff\xff\xff\xff", b"\x02\0\0\0\0\0\0\0\x01\xff"]
    {
        let mut stream = accept_stream(&listener, "msgapp");
        send_chunk(&mut stream, OK, garbage);
    }
    // Not HTTP, an error status, and a response without a version.
    for head in ["hello\r\n\r\n", "HTTP/1.1 500 Oh\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"] {
        let mut stream = accept_stream(&listener, "msgapp");
        stream.get_mut().write_all(head.as_bytes()).unwrap();
    }
    let mut stream = accept_stream(&listener, "msgapp");
    let (mut bytes, mut encoder) = (BytesMut::new(), MsgAppEncoder::default());
    let messages = [append(2, 1, 5, Bytes::from_static(b"a")), append(2, 1, 6, Bytes::new())];
    messages.iter().for_each(|message| encoder.encode(message.clone(), &mut bytes));
    send_chunk(&mut stream, OK, &bytes);
    assert_eq!([one.received(), one.received()], messages);
}

#[test]
fn a_silent_stream_times_out() {
    let timeout = Duration::from_millis(300);
    let (_one, listener) = with_listener(timeout);
    let mut silent = accept_stream(&listener, "message");
    // The member's timeout starts with the response, which may be read before `write_all` returns.
    let started = Instant::now();
    silent.get_mut().write_all(OK.as_bytes()).unwrap();
    // The member dials again.
    let _next = accept_stream(&listener, "message");
    assert!(started.elapsed() >= timeout / 2);
}
