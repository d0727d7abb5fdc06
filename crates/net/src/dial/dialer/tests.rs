use std::path::PathBuf;

use testkit::certs::{Authority, Subject, write};
use tls::{Info, Protocol};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};

use super::*;

const PATIENCE: Duration = Duration::from_secs(30);

fn plain() -> Dialer {
    dialer(Info { protocol: Protocol::Http1, ..Info::default() })
}

fn dialer(info: Info) -> Dialer {
    let metrics = tls::Metrics::new(&prometheus::Registry::new()).unwrap();
    let side = ClientTls::load("peer-client", info, &metrics).unwrap();
    Dialer::new(Arc::new(side), PATIENCE)
}

fn target(url: &str) -> Target {
    Target::parse(url).unwrap()
}

/// Takes one connection and sends back what comes.
async fn echo(listener: TcpListener) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes).await.unwrap();
    stream.write_all(&bytes).await.unwrap();
}

async fn said(mut link: ClientStream) -> Vec<u8> {
    link.write_all(b"ahoy").await.unwrap();
    let mut bytes = [0; 4];
    link.read_exact(&mut bytes).await.unwrap();
    bytes.to_vec()
}

async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[tokio::test]
async fn a_name_and_an_address_are_called() {
    for host in ["127.0.0.1", "localhost"] {
        let (listener, port) = listen().await;
        let echo = tokio::spawn(echo(listener));
        let link = plain().dial(&target(&format!("http://{host}:{port}"))).await.unwrap();
        assert_eq!(link.remote().unwrap().port(), port);
        assert!(link.local().unwrap().ip().is_loopback() && !link.is_secure());
        assert_eq!(said(link).await, b"ahoy");
        echo.await.unwrap();
    }
}

#[tokio::test]
async fn a_call_can_come_from_an_address_of_choice() {
    let (listener, port) = listen().await;
    let dialer = Dialer { local: Some("127.0.0.9".parse().unwrap()), ..plain() };
    let url = format!("http://127.0.0.1:{port}");
    let link = dialer.dial(&target(&url)).await.unwrap();
    assert_eq!(link.local().unwrap().ip().to_string(), "127.0.0.9");
    let (_, from) = listener.accept().await.unwrap();
    assert_eq!(from.ip().to_string(), "127.0.0.9");

    let other_kind = Dialer { local: Some("::1".parse().unwrap()), ..plain() };
    let error = other_kind.dial(&target(&url)).await.unwrap_err();
    assert_eq!(error.to_string(), "dial tcp: address 127.0.0.1: no suitable address found");
}

#[tokio::test]
async fn the_socket_says_little_things_at_once_and_notices_when_nobody_is_there() {
    use rustix::net::sockopt;
    let (_listener, port) = listen().await;
    let address = format!("127.0.0.1:{port}").parse().unwrap();
    let stream = plain().connect(address).await.unwrap();
    assert!(sockopt::tcp_nodelay(&stream).unwrap());
    assert!(sockopt::socket_keepalive(&stream).unwrap());
    assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), Duration::from_secs(30));
}

#[tokio::test]
async fn who_is_not_there_is_told_as_in_go() {
    let (listener, port) = listen().await;
    drop(listener);
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("none").display().to_string();
    for (url, text) in [
        (
            format!("http://127.0.0.1:{port}"),
            format!("dial tcp 127.0.0.1:{port}: connect: connection refused"),
        ),
        (
            "http://nobody.invalid:1".to_owned(),
            "dial tcp: lookup nobody.invalid: no such host".to_owned(),
        ),
        (
            format!("unix://{socket}"),
            format!("dial unix {socket}: connect: no such file or directory"),
        ),
    ] {
        let error = plain().dial(&target(&url)).await.unwrap_err();
        // Where there is nobody to ask for names at all, that is what is told.
        if !error.to_string().contains("temporary failure") {
            assert_eq!(error.to_string(), text);
        }
    }
}

#[tokio::test]
async fn who_does_not_answer_is_given_up() {
    // A backlog that is full answers nobody.
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
async fn of_several_addresses_the_next_is_tried() {
    let (gone, dead) = listen().await;
    drop(gone);
    let (listener, port) = listen().await;
    let echo = tokio::spawn(echo(listener));
    let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let deadline = Instant::now() + PATIENCE;
    let stream = plain().one_by_one(&[address(dead), address(port)], deadline).await.unwrap();
    assert_eq!(said(ClientStream::tcp(stream)).await, b"ahoy");
    echo.await.unwrap();
    let error = plain().one_by_one(&[address(dead), address(dead)], deadline).await.unwrap_err();
    assert!(error.to_string().ends_with("connection refused"), "{error}");
}

#[tokio::test]
async fn the_other_kind_of_address_is_tried_when_the_first_fails() {
    let (gone, dead) = listen().await;
    drop(gone);
    let (listener, port) = listen().await;
    let echo = tokio::spawn(echo(listener));
    let deadline = Instant::now() + PATIENCE;
    let (dead, live) = (
        SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], dead)),
        SocketAddr::from(([127, 0, 0, 1], port)),
    );
    let stream = plain().race(&[dead], &[live], deadline).await.unwrap();
    assert_eq!(said(ClientStream::tcp(stream)).await, b"ahoy");
    echo.await.unwrap();
    let refused = plain().race(&[dead], &[dead], deadline).await.unwrap_err();
    assert!(refused.to_string().starts_with(&format!("dial tcp {dead}")), "{refused}");
}

#[test]
fn each_address_has_its_part_of_the_time() {
    let now = Instant::now();
    let second = Duration::from_secs(1);
    for (left, addresses, expected) in [(12, 3, 4), (12, 1, 12), (4, 4, 2), (1, 4, 1)] {
        let until = part(now, now + left * second, addresses);
        assert_eq!(until - now, expected * second, "{left} s for {addresses}");
    }
}

/// Someone who speaks TLS, and the files to trust them.
struct Secure {
    folder: tempfile::TempDir,
    authority: Authority,
}

impl Secure {
    fn new() -> Secure {
        let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new("members"));
        authority.issue(&Subject::default()).write(folder.path(), "m1");
        write(&folder.path().join("ca.pem"), authority.pem().as_bytes());
        Secure { folder, authority }
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        Some(self.folder.path().join(name))
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

/// Takes one connection over TLS and sends back what comes.
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
async fn tls_is_spoken_over_tcp_and_unix_sockets() {
    let secure = Secure::new();
    let (acceptor, dialer) = (secure.acceptor(), dialer(secure.info()));
    let (listener, port) = listen().await;
    let server = tokio::spawn(async move {
        secure_echo(acceptor, listener.accept().await.unwrap().0).await;
    });
    let link = dialer.dial(&target(&format!("https://127.0.0.1:{port}"))).await.unwrap();
    assert!(link.is_secure() && link.remote().unwrap().port() == port);
    assert_eq!(said(link).await, b"ahoy");
    server.await.unwrap();

    let path = secure.path("sock").unwrap();
    let (acceptor, listener) = (secure.acceptor(), UnixListener::bind(&path).unwrap());
    let server = tokio::spawn(async move {
        secure_echo(acceptor, listener.accept().await.unwrap().0).await;
    });
    let link = dialer.dial(&target(&format!("unixs://{}", path.display()))).await.unwrap();
    assert!(link.is_secure() && link.remote().is_none());
    assert_eq!(said(link).await, b"ahoy");
    server.await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_not_trusted_or_silent_is_told_as_in_go() {
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

    let silent = server.await.unwrap();
    let patience = Duration::from_millis(50);
    let dialer = Dialer { handshake_timeout: patience, ..dialer(secure.info()) };
    let error = dialer.dial(&target(&url)).await.unwrap_err();
    assert_eq!(error.to_string(), "net/http: TLS handshake timeout");
    drop((silent, secure.authority));
}
