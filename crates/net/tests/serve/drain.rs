//! Draining and dropping a listener.

use std::time::Duration;

use net::{Address, Config, Listener, SocketOptions};
use testkit::ports::ReservedPort;
use testkit::waiting::yield_until_async;
use tokio::net::TcpStream;

use crate::client::{Http1, Http2, Raw};
use crate::handler::{Ending, SHORT, Server, TEST_TIMEOUT};

#[tokio::test]
async fn a_drain_closes_idle_connections() {
    let server = Server::start(Config::default());
    let (mut http1, http2) =
        (Http1::connect(&server.address()).await, Http2::connect(&server.address()).await);
    http1.get("/whoami").await.unwrap();
    http2.get("/whoami").await.unwrap();
    let mut silent = Raw::connect(&server.address()).await;
    server.has_connections(3).await;

    server.handle.drain(TEST_TIMEOUT).await;
    assert_eq!(server.handle.connections(), 0);
    http1.wait_for_end().await;
    http2.wait_for_end().await;
    assert_eq!(silent.read_to_end().await, "");
}

#[tokio::test]
async fn a_drain_lets_requests_in_flight_finish() {
    let mut server = Server::start(Config::default());
    let (mut http1, http2) =
        (Http1::connect(&server.address()).await, Http2::connect(&server.address()).await);
    let calls = async { tokio::join!(http1.get("/hold"), http2.get("/hold")) };
    let draining = async {
        server.next_started().await;
        server.next_started().await;
        let drain = server.handle.drain(TEST_TIMEOUT);
        let rest = async {
            // Once the drain has started, no further connection is accepted.
            let is_refused = async || TcpStream::connect(server.address()).await.is_err();
            yield_until_async("connections are refused", is_refused).await;
            assert_eq!(server.handle.connections(), 2);
            server.release();
            server.release();
        };
        tokio::join!(drain, rest);
    };
    let ((over_http1, over_http2), ()) = tokio::join!(calls, draining);
    assert_eq!(over_http1.unwrap(), "held");
    assert_eq!(over_http2.unwrap(), "held");
    assert_eq!(server.handle.connections(), 0);
}

#[tokio::test]
async fn a_drain_cuts_requests_that_do_not_finish_in_time() {
    let mut server = Server::start(Config::default());
    let (mut http1, http2) =
        (Http1::connect(&server.address()).await, Http2::connect(&server.address()).await);
    let calls = async { tokio::join!(http1.get("/hold"), http2.get("/hold")) };
    let draining = async {
        let mut endings = [server.next_started().await, server.next_started().await];
        server.handle.drain(SHORT).await;
        assert_eq!(server.handle.connections(), 0);
        for ending in &mut endings {
            ending.wait().await;
        }
    };
    let ((over_http1, over_http2), ()) = tokio::join!(calls, draining);
    assert!(over_http1.is_err());
    assert!(over_http2.is_err());
}

#[tokio::test]
async fn the_address_is_free_after_a_drain() {
    // Outgoing connections of other tests do not use a reserved port.
    let port = ReservedPort::new();
    let address = port.address().to_string();
    let server = Server::listen(&Address::Tcp(address.clone()), Config::default());
    Http1::connect(&address).await.get("/whoami").await.unwrap();
    server.handle.drain(TEST_TIMEOUT).await;
    assert!(TcpStream::connect(&address).await.is_err());
    Listener::bind(&Address::Tcp(address), SocketOptions::default()).unwrap();
}

#[tokio::test]
async fn a_drain_removes_the_unix_socket() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("client.sock");
    let server = Server::listen(&Address::Unix(path.clone()), Config::default());
    assert!(path.exists());
    server.handle.drain(TEST_TIMEOUT).await;
    assert!(!path.exists());
}

#[tokio::test]
async fn a_second_drain_can_shorten_the_first() {
    let mut server = Server::start(Config::default());
    let client = Http2::connect(&server.address()).await;
    let calls = client.get("/hold");
    let draining = async {
        server.next_started().await;
        tokio::join!(server.handle.drain(TEST_TIMEOUT), server.handle.drain(Duration::ZERO));
    };
    assert!(tokio::join!(calls, draining).0.is_err());
}

#[tokio::test]
async fn dropping_the_handle_cuts_all_connections() {
    let mut server = Server::start(Config::default());
    let client = Http2::connect(&server.address()).await;
    let calls = client.get("/hold");
    let dropping = async {
        let mut ending = server.next_started().await;
        drop(server.handle);
        ending.wait().await;
    };
    assert!(tokio::join!(calls, dropping).0.is_err());
}

/// Opens a connection that is upgraded to an echo protocol.
async fn upgraded(server: &mut Server) -> (Raw, Ending) {
    let mut raw = Raw::connect(&server.address()).await;
    let head =
        b"GET /switch HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\nhello";
    raw.send(head).await;
    let ending = server.next_started().await;
    let received = raw.read_until(b"hello").await;
    assert!(received.starts_with(b"HTTP/1.1 101 "));
    (raw, ending)
}

#[tokio::test]
async fn an_upgraded_connection_counts_until_it_ends() {
    let mut server = Server::start(Config::default());
    let (raw, mut ending) = upgraded(&mut server).await;
    assert_eq!(server.handle.connections(), 1);
    drop(raw);
    ending.wait().await;
    server.has_connections(0).await;
}

#[tokio::test]
async fn a_drain_cuts_an_upgraded_connection() {
    let mut server = Server::start(Config::default());
    let (mut raw, mut ending) = upgraded(&mut server).await;
    server.handle.drain(SHORT).await;
    assert_eq!(server.handle.connections(), 0);
    ending.wait().await;
    assert_eq!(raw.read_to_end().await, "");
}
