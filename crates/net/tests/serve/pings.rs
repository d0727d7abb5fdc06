//! HTTP/2 pings, in both directions.

use std::time::Duration;

use net::{Config, KeepAlive};

use crate::client::{Frame, GOAWAY, PING, PREFACE, Raw, SETTINGS};
use crate::handler::{SHORT, Server, within};

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const WINDOW_UPDATE: u8 = 8;
/// The largest HTTP/2 window.
const WINDOW_MAX: u32 = (1 << 31) - 1;

fn too_many_pings(last_stream: u8) -> Frame {
    let payload = [&[0, 0, 0, last_stream, 0, 0, 0, 0xb][..], b"too_many_pings"].concat();
    Frame::new(GOAWAY, 0, 0, &payload)
}

#[tokio::test]
async fn too_many_pings_are_answered_with_a_goaway() {
    let server = Server::start(Config::default());
    let mut raw = Raw::connect_http2(&server.address()).await;
    // The first is free and two strikes are tolerated; all are answered.
    for _ in 0..3 {
        raw.ping().await;
        assert_eq!(raw.frame_of(PING).await, Frame::new(PING, ACK, 0, b"8 bytes!"));
    }
    raw.ping().await;
    assert_eq!(raw.frame_of(GOAWAY).await, too_many_pings(0));
    assert_eq!(raw.frame().await, None);
}

#[tokio::test]
async fn pings_are_free_while_responses_are_sent() {
    let server = Server::start(Config::default());
    let mut raw = Raw::connect_http2(&server.address()).await;
    let get = b"\x82\x86\x04\x07/whoami\x01\x09localhost";
    for stream in (1..100).step_by(2) {
        raw.send(&Frame::new(1, 0x5, stream, get).encode()).await;
        let response = async { while raw.frame().await.unwrap().flags & END_STREAM == 0 {} };
        within("the end of the response", response).await;
        raw.ping().await;
        raw.ping().await;
        raw.frame_of(PING).await;
        raw.frame_of(PING).await;
    }
    // Without responses they count again.
    for _ in 0..4 {
        raw.ping().await;
    }
    assert_eq!(raw.frame_of(GOAWAY).await, too_many_pings(99));
}

#[tokio::test]
async fn the_ping_interval_during_a_call_is_configurable() {
    let keep_alive = KeepAlive { min_time: Duration::from_nanos(1), ..KeepAlive::default() };
    let mut server = Server::start(Config { keep_alive, ..Config::default() });
    let mut raw = Raw::connect_http2(&server.address()).await;
    raw.send(&Frame::new(1, 0x5, 1, b"\x82\x86\x04\x05/hold\x01\x09localhost").encode()).await;
    let _ending = server.next_started().await;
    for _ in 0..20 {
        raw.ping().await;
        raw.frame_of(PING).await;
    }
}

#[tokio::test]
async fn a_silent_client_is_pinged_and_kept_if_it_answers() {
    let keep_alive = KeepAlive { interval: SHORT, ..KeepAlive::default() };
    let server = Server::start(Config { keep_alive, ..Config::default() });
    let mut raw = Raw::connect_http2(&server.address()).await;
    for _ in 0..3 {
        let ping = raw.frame_of(PING).await;
        assert_eq!((ping.flags, ping.payload.len()), (0, 8));
        raw.send(&Frame { flags: ACK, ..ping }.encode()).await;
    }
    assert_eq!(server.handle.connections(), 1);
}

#[tokio::test]
async fn a_client_that_does_not_answer_pings_is_disconnected() {
    let keep_alive = KeepAlive { interval: SHORT, timeout: SHORT, ..KeepAlive::default() };
    let server = Server::start(Config { keep_alive, ..Config::default() });
    let mut raw = Raw::connect_http2(&server.address()).await;
    raw.frame_of(PING).await;
    raw.skip_to_end().await;
    server.has_connections(0).await;
}

#[tokio::test]
async fn a_client_that_stopped_reading_is_disconnected_despite_a_full_socket() {
    let keep_alive = KeepAlive { interval: SHORT, timeout: SHORT, ..KeepAlive::default() };
    let server = Server::start(Config { keep_alive, ..Config::default() });
    let mut raw = Raw::connect(&server.address()).await;
    server.has_connections(1).await;
    // The client requests more than both socket buffers hold, and reads nothing. It sends all at
    // once: the server pings, and may disconnect, from the preface on.
    let window = [&[0, 4][..], &WINDOW_MAX.to_be_bytes()].concat();
    let request = [
        PREFACE.to_vec(),
        Frame::new(SETTINGS, 0, 0, &window).encode(),
        Frame::new(WINDOW_UPDATE, 0, 0, &(WINDOW_MAX - 65_535).to_be_bytes()).encode(),
        Frame::new(1, 0x5, 1, b"\x82\x86\x04\x06/flood\x01\x09localhost").encode(),
    ];
    raw.send(&request.concat()).await;
    server.has_connections(0).await;
}
