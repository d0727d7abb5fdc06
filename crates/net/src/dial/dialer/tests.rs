mod proxied;

use std::path::PathBuf;

use testkit::certs::{Authority, Subject, write};
use testkit::ports::ReservedPort;
use tls::{Info, Protocol};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};

use super::*;

const TEST_TIMEOUT: Duration = Duration::from_secs(30);

fn plain() -> Dialer {
    dialer(Info { protocol: Protocol::Http1, ..Info::default() })
}

fn dialer(info: Info) -> Dialer {
    let metrics = tls::Metrics::new(&prometheus::Registry::new()).unwrap();
    let side = ClientTls::load("peer-client", info, &metrics).unwrap();
    Dialer::new(Arc::new(side), TEST_TIMEOUT)
}

fn target(url: &str) -> Target {
    Target::parse(url).unwrap()
}

/// Waits for a future. `what` describes it.
async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(TEST_TIMEOUT, future).await;
    waited.unwrap_or_else(|_| panic!("timed out after {TEST_TIMEOUT:?} waiting for {what}"))
}

/// Accepts one connection and echoes four bytes.
async fn echo(listener: TcpListener) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes).await.unwrap();
    stream.write_all(&bytes).await.unwrap();
}

async fn echoed(mut stream: ClientStream) -> Vec<u8> {
    stream.write_all(b"ahoy").await.unwrap();
    let mut bytes = [0; 4];
    within("the echo", stream.read_exact(&mut bytes)).await.unwrap();
    bytes.to_vec()
}

async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[tokio::test]
async fn names_and_ip_addresses_can_be_dialed() {
    for host in ["127.0.0.1", "localhost"] {
        let (listener, port) = listen().await;
        let echo = tokio::spawn(echo(listener));
        let stream = plain().dial(&target(&format!("http://{host}:{port}"))).await.unwrap();
        assert_eq!(stream.remote().unwrap().port(), port);
        assert!(stream.local().unwrap().ip().is_loopback() && !stream.is_secure());
        assert_eq!(echoed(stream).await, b"ahoy");
        within("the end of the server", echo).await.unwrap();
    }
}

#[tokio::test]
async fn the_local_address_can_be_chosen() {
    let (listener, port) = listen().await;
    let dialer = Dialer { local: Some("127.0.0.9".parse().unwrap()), ..plain() };
    let url = format!("http://127.0.0.1:{port}");
    let stream = dialer.dial(&target(&url)).await.unwrap();
    assert_eq!(stream.local().unwrap().ip().to_string(), "127.0.0.9");
    let (_, from) = within("a connection", listener.accept()).await.unwrap();
    assert_eq!(from.ip().to_string(), "127.0.0.9");

    let other_family = Dialer { local: Some("::1".parse().unwrap()), ..plain() };
    let error = other_family.dial(&target(&url)).await.unwrap_err();
    assert_eq!(error.to_string(), "dial tcp: address 127.0.0.1: no suitable address found");
}

#[tokio::test]
async fn sockets_have_nodelay_and_keep_alive() {
    use rustix::net::sockopt;
    let (_listener, port) = listen().await;
    let address = format!("127.0.0.1:{port}").parse().unwrap();
    let stream = plain().connect(address).await.unwrap();
    assert!(sockopt::tcp_nodelay(&stream).unwrap());
    assert!(sockopt::socket_keepalive(&stream).unwrap());
    assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), Duration::from_secs(30));
}

#[tokio::test]
async fn connect_errors_read_as_gos() {
    let reserved = ReservedPort::new();
    let port = reserved.number();
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("none").display().to_string();
    for (url, text) in [
        (
            format!("http://127.0.0.1:{port}"),
            format!("dial tcp 127.0.0.1:{port}: connect: connection refused"),
        ),
        (
            "http://unknown.invalid:1".to_owned(),
            "dial tcp: lookup unknown.invalid: no such host".to_owned(),
        ),
        (
            format!("unix://{socket}"),
            format!("dial unix {socket}: connect: no such file or directory"),
        ),
    ] {
        let error = plain().dial(&target(&url)).await.unwrap_err();
        // Without any name server the lookup fails differently.
        if !error.to_string().contains("Temporary failure") {
            assert_eq!(error.to_string(), text);
        }
    }
}

#[tokio::test]
async fn a_connect_times_out() {
    // A full backlog accepts no further connection.
    let listener = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::STREAM,
        None,
    )
    .unwrap();
    rustix::net::bind(&listener, &"127.0.0.1:0".parse::<SocketAddr>().unwrap()).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let listener = std::net::TcpListener::from(listener);
    let address = listener.local_addr().unwrap();
    let _fills = std::net::TcpStream::connect(address).unwrap();
    let dialer = Dialer { connect_timeout: Duration::from_millis(100), ..plain() };
    let error = dialer.dial(&target(&format!("http://{address}"))).await.unwrap_err();
    assert_eq!(error.to_string(), format!("dial tcp {address}: i/o timeout"));
}

#[tokio::test]
async fn after_a_failure_the_next_address_is_tried() {
    let reserved = ReservedPort::new();
    let dead = reserved.address();
    let (listener, port) = listen().await;
    let echo = tokio::spawn(echo(listener));
    let live = SocketAddr::from(([127, 0, 0, 1], port));
    let deadline = Instant::now() + TEST_TIMEOUT;
    let stream = plain().try_in_order(&[dead, live], deadline).await.unwrap();
    assert_eq!(echoed(ClientStream::tcp(stream)).await, b"ahoy");
    echo.await.unwrap();
    let error = plain().try_in_order(&[dead, dead], deadline).await.unwrap_err();
    assert!(error.to_string().ends_with("connection refused"), "{error}");
}

#[tokio::test]
async fn the_other_family_is_tried_when_the_first_fails() {
    let reserved = ReservedPort::new();
    let (listener, port) = listen().await;
    let echo = tokio::spawn(echo(listener));
    let deadline = Instant::now() + TEST_TIMEOUT;
    let (dead, live) = (
        SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], reserved.number())),
        SocketAddr::from(([127, 0, 0, 1], port)),
    );
    let stream = plain().race(&[dead], &[live], deadline).await.unwrap();
    assert_eq!(echoed(ClientStream::tcp(stream)).await, b"ahoy");
    echo.await.unwrap();
    let refused = plain().race(&[dead], &[dead], deadline).await.unwrap_err();
    assert!(refused.to_string().starts_with(&format!("dial tcp {dead}")), "{refused}");
}

#[test]
fn each_address_gets_its_share_of_the_time() {
    let now = Instant::now();
    let second = Duration::from_secs(1);
    for (left, addresses, expected) in [(12, 3, 4), (12, 1, 12), (4, 4, 2), (1, 4, 1)] {
        let until = attempt_deadline(now, now + left * second, addresses);
        assert_eq!(until - now, expected * second, "{left} s for {addresses}");
    }
}

/// A TLS server's certificates, and the CA file that trusts them.
struct Secure {
    dir: tempfile::TempDir,
    authority: Authority,
}

impl Secure {
    fn new() -> Secure {
        let (dir, authority) = (tempfile::tempdir().unwrap(), Authority::new("members"));
        authority.issue(&Subject::default()).write(dir.path(), "m1");
        write(&dir.path().join("ca.pem"), authority.pem().as_bytes());
        Secure { dir, authority }
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        Some(self.dir.path().join(name))
    }

    fn info(&self) -> Info {
        Info {
            cert_file: self.path("m1.pem"),
            key_file: self.path("m1.key"),
            trusted_ca_file: self.path("ca.pem"),
            protocol: Protocol::Http1,
            ..Info::default()
        }
    }

    fn acceptor(&self) -> tokio_rustls::TlsAcceptor {
        let metrics = tls::Metrics::new(&prometheus::Registry::new()).unwrap();
        let side = tls::ServerTls::load("peer", self.info(), &metrics).unwrap();
        side.current().config().into()
    }
}

/// Accepts one TLS connection and echoes four bytes.
async fn secure_echo(
    acceptor: tokio_rustls::TlsAcceptor,
    stream: impl AsyncRead + AsyncWrite + Unpin,
) {
    let mut stream = acceptor.accept(stream).await.unwrap();
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes).await.unwrap();
    stream.write_all(&bytes).await.unwrap();
    stream.flush().await.unwrap();
}

#[tokio::test]
async fn tls_works_over_tcp_and_unix_sockets() {
    let secure = Secure::new();
    let (acceptor, dialer) = (secure.acceptor(), dialer(secure.info()));
    let (listener, port) = listen().await;
    let server = tokio::spawn(async move {
        secure_echo(acceptor, listener.accept().await.unwrap().0).await;
    });
    let stream = dialer.dial(&target(&format!("https://127.0.0.1:{port}"))).await.unwrap();
    assert!(stream.is_secure() && stream.remote().unwrap().port() == port);
    assert_eq!(echoed(stream).await, b"ahoy");
    within("the end of the server", server).await.unwrap();

    let path = secure.path("sock").unwrap();
    let (acceptor, listener) = (secure.acceptor(), UnixListener::bind(&path).unwrap());
    let server = tokio::spawn(async move {
        secure_echo(acceptor, listener.accept().await.unwrap().0).await;
    });
    let stream = dialer.dial(&target(&format!("unixs://{}", path.display()))).await.unwrap();
    assert!(stream.is_secure() && stream.remote().is_none());
    assert_eq!(echoed(stream).await, b"ahoy");
    within("the end of the server", server).await.unwrap();
}

#[tokio::test]
async fn handshake_errors_read_as_gos() {
    let secure = Secure::new();
    let (listener, port) = listen().await;
    let acceptor = secure.acceptor();
    let server = tokio::spawn(async move {
        for _ in 0..2 {
            let (stream, _) = listener.accept().await.unwrap();
            assert!(acceptor.accept(stream).await.is_err());
        }
        listener
    });
    let url = format!("https://127.0.0.1:{port}");
    let others = Authority::new("others");
    write(&secure.path("other.pem").unwrap(), others.pem().as_bytes());
    let strict = Info { trusted_ca_file: secure.path("other.pem"), ..secure.info() };
    let error = dialer(strict).dial(&target(&url)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "tls: failed to verify certificate: x509: certificate signed by unknown authority"
    );
    let misnamed = Info { server_name: Some("m2.example".into()), ..secure.info() };
    let error = dialer(misnamed).dial(&target(&url)).await.unwrap_err();
    assert!(error.to_string().ends_with("not m2.example"), "{error}");

    let silent = within("the end of the server", server).await.unwrap();
    let timeout = Duration::from_millis(50);
    let dialer = Dialer { handshake_timeout: timeout, ..dialer(secure.info()) };
    let error = dialer.dial(&target(&url)).await.unwrap_err();
    assert_eq!(error.to_string(), "net/http: TLS handshake timeout");
    drop((silent, secure.authority));
}
