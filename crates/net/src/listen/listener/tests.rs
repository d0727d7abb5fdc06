use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use super::*;

fn tcp(host_port: &str) -> Result<Listener, BindError> {
    Listener::bind(&Address::Tcp(host_port.to_owned()), SocketOptions::default())
}

fn unix(path: &Path) -> Result<Listener, BindError> {
    Listener::bind(&Address::Unix(path.to_owned()), SocketOptions::default())
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn an_accepted_socket_inherits_the_options_of_its_listener() {
    let listener = tcp("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local().tcp().unwrap()).unwrap();
    let accepted =
        runtime().block_on(async { listener.into_acceptor().unwrap().accept().await }).unwrap();
    let AcceptedSocket::Tcp(stream, peer) = accepted else { panic!("{accepted:?}") };
    assert_eq!(peer, client.local_addr().unwrap());
    assert!(stream.nodelay().unwrap());
    assert!(sockopt::socket_keepalive(&stream).unwrap());
    assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), Duration::from_secs(30));
    assert_eq!(sockopt::tcp_keepintvl(&stream).unwrap(), Duration::from_secs(15));
    assert_eq!(sockopt::tcp_keepcnt(&stream).unwrap(), 9);
}

#[test]
fn a_wildcard_accepts_connections_of_both_families() {
    let listener = tcp("0.0.0.0:0").unwrap();
    let local = listener.local().tcp().unwrap();
    TcpStream::connect(("127.0.0.1", local.port())).unwrap();
    if local.is_ipv6() {
        TcpStream::connect(("::1", local.port())).unwrap();
    }
}

#[test]
fn the_error_for_a_taken_port_reads_as_gos() {
    let first = tcp("localhost:0").unwrap();
    let local = first.local();
    let error = tcp(&local.to_string()).unwrap_err();
    assert_eq!(error.to_string(), format!("listen tcp {local}: bind: address already in use"));
}

#[test]
fn a_taken_wildcard_is_not_bound_in_the_other_family() {
    let first = tcp("0.0.0.0:0").unwrap();
    let port = first.local().tcp().unwrap().port();
    let error = tcp(&format!("0.0.0.0:{port}")).unwrap_err().to_string();
    assert_eq!(error, format!("listen tcp 0.0.0.0:{port}: bind: address already in use"));
}

#[test]
fn a_port_is_shared_only_if_all_listeners_set_reuse_port() {
    let options = SocketOptions { reuse_port: true, ..SocketOptions::default() };
    let first = Listener::bind(&Address::Tcp("127.0.0.1:0".into()), options).unwrap();
    let address = Address::Tcp(first.local().to_string());
    let second = Listener::bind(&address, options).unwrap();
    assert_eq!(first.local(), second.local());
    assert!(Listener::bind(&address, SocketOptions::default()).is_err());
}

#[test]
fn a_malformed_address_is_a_resolve_error() {
    let error = tcp("no port").unwrap_err();
    assert!(matches!(error, BindError::Resolve(_)), "{error:?}");
}

#[test]
fn the_socket_file_exists_until_the_listener_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("client.sock");
    let listener = unix(&path).unwrap();
    UnixStream::connect(&path).unwrap();
    assert_eq!(listener.local(), LocalAddr::Unix(path.clone()));
    drop(listener);
    assert!(!path.exists());
}

#[tokio::test]
async fn an_accepted_connection_has_the_path_of_its_socket() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("client.sock");
    let listener = unix(&path).unwrap().into_acceptor().unwrap();
    let _client = UnixStream::connect(&path).unwrap();
    assert_eq!(listener.accept().await.unwrap().local(), Some(LocalAddr::Unix(path)));
}

#[test]
fn a_stale_socket_file_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("client.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(UnixStream::connect(&path).is_err(), "no process listens on a stale socket");

    let _listener = unix(&path).unwrap();
    UnixStream::connect(&path).unwrap();
}

#[test]
fn the_socket_file_of_a_successor_is_not_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("client.sock");
    let old = unix(&path).unwrap();
    let _new = unix(&path).unwrap();
    drop(old);
    UnixStream::connect(&path).unwrap();
}

#[test]
fn a_regular_file_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("client.sock");
    fs::write(&path, "precious").unwrap();
    assert!(matches!(unix(&path), Err(BindError::Occupied { .. })));
    assert_eq!(fs::read(&path).unwrap(), b"precious");
}

#[test]
fn the_error_for_a_missing_directory_reads_as_gos() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("missing/client.sock");
    let text = format!("listen unix {}: bind: no such file or directory", path.display());
    assert_eq!(unix(&path).unwrap_err().to_string(), text);
}
