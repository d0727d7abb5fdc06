//! Listeners with TLS.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use net::{Config, ListenerTls, TlsMode};
use prometheus::Registry;
use testkit::certs::{Authority, Issued, Subject, write};
use tls::rustls::crypto::aws_lc_rs;
use tls::rustls::pki_types::pem::PemObject;
use tls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tls::rustls::{self, ClientConfig, RootCertStore};
use tls::{Info, ServerTls};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::client::{Frame, Http1, Http2, PING, PREFACE, Raw, SETTINGS};
use crate::handler::{SHORT, Server, TEST_TIMEOUT, within};

/// The beginning of a ClientHello: a handshake record with 512 bytes to come.
const HALF_A_HELLO: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

/// Certificate authorities, and the directory with their files.
struct Issuers {
    dir: tempfile::TempDir,
    servers: Authority,
    clients: Authority,
}

impl Issuers {
    fn new() -> Issuers {
        let (dir, servers, clients) =
            (tempfile::tempdir().unwrap(), Authority::new("servers"), Authority::new("clients"));
        servers.issue(&Subject::default()).write(dir.path(), "server");
        write(&dir.path().join("ca"), clients.pem().as_bytes());
        write(&dir.path().join("crl"), &clients.revoke(&[7]));
        Issuers { dir, servers, clients }
    }

    fn tls(&self, requires_client_cert: bool) -> ListenerTls {
        let file = |name: &str| Some(self.dir.path().join(name));
        let info = Info {
            cert_file: file("server.pem"),
            key_file: file("server.key"),
            trusted_ca_file: file("ca").filter(|_| requires_client_cert),
            crl_file: file("crl"),
            ..Info::default()
        };
        let metrics = tls::Metrics::new(&Registry::new()).unwrap();
        ListenerTls {
            server: Arc::new(ServerTls::load("client", info, &metrics).unwrap()),
            checks_origin: false,
        }
    }

    fn config(&self) -> Config {
        Config { tls: TlsMode::Required(self.tls(false)), ..Config::default() }
    }

    fn strict(&self) -> Config {
        Config { tls: TlsMode::Required(self.tls(true)), ..Config::default() }
    }

    fn client(&self, protocols: &[&str], certificate: Option<&Issued>) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.servers.pem().as_bytes()).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match certificate {
            None => builder.with_no_client_auth(),
            Some(issued) => {
                let chain =
                    vec![CertificateDer::from_pem_slice(issued.cert_pem.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(issued.key_pem.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        config.alpn_protocols =
            protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        TlsConnector::from(Arc::new(config))
    }

    fn named(&self, common_name: &str, serial: u64) -> Issued {
        self.clients.issue(&Subject { common_name, serial, ..Subject::default() })
    }
}

async fn connect(client: &TlsConnector, address: &str) -> io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    within("the TLS handshake", client.connect(name, stream)).await
}

/// Returns the error that a rejected client sees: with TLS 1.3, after its own handshake.
async fn rejection(client: &TlsConnector, address: &str) -> Option<rustls::Error> {
    let received = match connect(client, address).await {
        Ok(mut stream) => {
            let read = within("the server to close", stream.read(&mut [0])).await;
            read.map(|read| assert_eq!(read, 0))
        }
        Err(error) => Err(error),
    };
    let error = received.err()?;
    error.into_inner().and_then(|inner| inner.downcast::<rustls::Error>().ok()).map(|error| *error)
}

#[tokio::test]
async fn http1_and_http2_are_served_over_tls() {
    let issuers = Issuers::new();
    let server = Server::start(issuers.config());
    for protocols in [&["h2", "http/1.1"][..], &["h2"], &[]] {
        let stream = connect(&issuers.client(protocols, None), &server.address()).await.unwrap();
        let agreed = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        assert_eq!(agreed.as_deref(), protocols.first().map(|first| first.as_bytes()));
        let client = Http2::over(stream).await;
        let answer = client.get("/whoami").await.unwrap();
        assert!(
            answer.starts_with("HTTP/2.0 from 127.0.0.1:") && answer.ends_with(", tls true"),
            "{answer}"
        );
        let long = Bytes::from(vec![7; 3 << 20]);
        assert_eq!(client.post("/echo", long.clone()).await.unwrap(), long);
    }
    for protocols in [&["http/1.1"][..], &[]] {
        let stream = connect(&issuers.client(protocols, None), &server.address()).await.unwrap();
        let mut client = Http1::over(stream).await;
        let answer = client.get("/whoami").await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 from") && answer.ends_with(", tls true"), "{answer}");
        let long = Bytes::from(vec![7; 3 << 20]);
        assert_eq!(client.post("/echo", long.clone()).await.unwrap(), long);
    }
    let unsupported = rejection(&issuers.client(&["spdy/3"], None), &server.address()).await;
    assert_eq!(
        unsupported,
        Some(rustls::Error::AlertReceived(rustls::AlertDescription::NoApplicationProtocol))
    );
}

#[tokio::test]
async fn the_common_name_of_a_client_certificate_reaches_the_handler() {
    let issuers = Issuers::new();
    let server = Server::start(issuers.strict());
    let connector = issuers.client(&["h2"], Some(&issuers.named("alice", 2)));
    // The second handshake resumes the session.
    for _ in 0..2 {
        let client = Http2::over(connect(&connector, &server.address()).await.unwrap()).await;
        let answer = client.get("/whoami").await.unwrap();
        assert!(answer.ends_with(", tls true, named \"alice\""), "{answer}");
    }
}

#[tokio::test]
async fn rejected_clients_receive_an_alert() {
    let issuers = Issuers::new();
    let server = Server::start(issuers.strict());
    let address = server.address();
    let alert = |alert| Some(rustls::Error::AlertReceived(alert));
    assert_eq!(
        rejection(&issuers.client(&["h2"], None), &address).await,
        alert(rustls::AlertDescription::CertificateRequired)
    );
    let stranger = Authority::new("strangers").issue(&Subject::default());
    assert_eq!(
        rejection(&issuers.client(&["h2"], Some(&stranger)), &address).await,
        alert(rustls::AlertDescription::UnknownCA)
    );
    // Compat: as in etcd, a revoked client is disconnected without an alert.
    let revoked = issuers.named("alice", 7);
    assert_eq!(rejection(&issuers.client(&["h2"], Some(&revoked)), &address).await, None);
}

#[tokio::test]
async fn a_tls_listener_rejects_plain_clients() {
    let issuers = Issuers::new();
    let server = Server::start(issuers.config());
    for request in [&b"GET /whoami HTTP/1.1\r\nHost: a\r\n\r\n"[..], PREFACE, b"garbage"] {
        let mut raw = Raw::connect(&server.address()).await;
        raw.send(request).await;
        assert_eq!(raw.read_to_end().await, "", "closed without an answer");
    }
}

#[tokio::test]
async fn one_port_serves_tls_and_plain_clients() {
    let issuers = Issuers::new();
    let security = TlsMode::Optional(issuers.tls(true));
    let server = Server::start(Config { tls: security, ..Config::default() });
    let address = server.address();
    let (mut http1, http2) = (Http1::connect(&address).await, Http2::connect(&address).await);
    assert!(http1.get("/whoami").await.unwrap().ends_with(", tls false"));
    assert!(http2.get("/whoami").await.unwrap().ends_with(", tls false"));
    let connector = issuers.client(&["h2"], Some(&issuers.named("alice", 2)));
    let secure = Http2::over(connect(&connector, &address).await.unwrap()).await;
    assert!(secure.get("/whoami").await.unwrap().ends_with(", tls true, named \"alice\""));
}

#[tokio::test]
async fn a_handshake_times_out() {
    let issuers = Issuers::new();
    let server = Server::start(Config { handshake_timeout: SHORT, ..issuers.config() });
    for beginning in [&b""[..], b"\x16", HALF_A_HELLO] {
        let mut raw = Raw::connect(&server.address()).await;
        raw.send(beginning).await;
        assert_eq!(raw.read_to_end().await, "", "closed without an answer");
    }
}

#[tokio::test]
async fn garbage_ends_only_its_own_connection() {
    let issuers = Issuers::new();
    let server = Server::start(issuers.config());
    let connector = issuers.client(&["h2"], None);
    let client = Http2::over(connect(&connector, &server.address()).await.unwrap()).await;
    let too_long: Vec<u8> = [b"\x16\x03\x01\xff\xff".as_slice(), &[1; 70_000]].concat();
    for garbage in
        [b"\x16\x03\x01\x00\x04\x14\x00\x00\x00".as_slice(), b"\x16\x16\x16\x16\x16\x16", &too_long]
    {
        let mut raw = Raw::connect(&server.address()).await;
        // The server may close before everything was written.
        let _ = within("the server to close", raw.0.write_all(garbage)).await;
        let mut received = Vec::new();
        let _ = within("the server to close", raw.0.read_to_end(&mut received)).await;
        assert!(
            received.first().is_none_or(|kind| *kind == 0x15),
            "at most an alert: {received:?}"
        );
    }
    assert!(client.get("/whoami").await.unwrap().ends_with(", tls true"));
}

#[tokio::test]
async fn a_client_that_is_silent_after_the_handshake_times_out() {
    let issuers = Issuers::new();
    let server = Server::start(Config { detection_timeout: 10 * SHORT, ..issuers.config() });
    let mut silent = connect(&issuers.client(&["h2"], None), &server.address()).await.unwrap();
    // With or without a close_notify.
    let read = within("the server to close", silent.read(&mut [0])).await;
    assert_eq!(read.unwrap_or(0), 0);
    server.has_connections(0).await;
}

#[tokio::test]
async fn silent_handshakes_do_not_delay_other_clients() {
    let issuers = Issuers::new();
    let server = Server::start(Config { handshake_timeout: TEST_TIMEOUT, ..issuers.config() });
    let mut silent = Vec::new();
    for _ in 0..200 {
        let mut raw = Raw::connect(&server.address()).await;
        raw.send(HALF_A_HELLO).await;
        silent.push(raw);
    }
    server.has_connections(200).await;
    let connector = issuers.client(&["h2"], None);
    let client = Http2::over(connect(&connector, &server.address()).await.unwrap()).await;
    assert!(client.get("/whoami").await.unwrap().ends_with(", tls true"));
    assert_eq!(server.handle.connections(), 201, "the silent ones are still open");
}

#[tokio::test]
async fn too_many_silent_handshakes_evict_the_oldest() {
    let issuers = Issuers::new();
    let config = Config { pending_max: 4, handshake_timeout: TEST_TIMEOUT, ..issuers.config() };
    let server = Server::start(config);
    let mut silent = Vec::new();
    for _ in 0..8 {
        let mut raw = Raw::connect(&server.address()).await;
        raw.send(HALF_A_HELLO).await;
        silent.push(raw);
    }
    let connector = issuers.client(&["h2"], None);
    let client = Http2::over(connect(&connector, &server.address()).await.unwrap()).await;
    assert!(client.get("/whoami").await.unwrap().ends_with(", tls true"));
}

#[tokio::test]
async fn many_handshakes_do_not_delay_established_connections() {
    let issuers = Issuers::new();
    let server = Server::start(issuers.config());
    let connector = issuers.client(&["h2"], None);
    let established = Http2::over(connect(&connector, &server.address()).await.unwrap()).await;
    let mut handshakes = tokio::task::JoinSet::new();
    for _ in 0..100 {
        // Each has its own session cache, so none resumes.
        let (connector, address) = (issuers.client(&["h2"], None), server.address());
        handshakes.spawn(async move {
            let client = Http2::over(connect(&connector, &address).await.unwrap()).await;
            client.get("/whoami").await.unwrap()
        });
    }
    while !handshakes.is_empty() {
        assert!(established.get("/whoami").await.unwrap().ends_with(", tls true"));
        while let Some(answer) = handshakes.try_join_next() {
            assert!(answer.unwrap().ends_with(", tls true"));
        }
    }
}

#[tokio::test]
async fn a_drain_does_not_wait_for_handshakes() {
    let issuers = Issuers::new();
    let server = Server::start(Config { handshake_timeout: TEST_TIMEOUT, ..issuers.config() });
    let mut raw = Raw::connect(&server.address()).await;
    raw.send(HALF_A_HELLO).await;
    let connector = issuers.client(&["h2"], None);
    let client = Http2::over(connect(&connector, &server.address()).await.unwrap()).await;
    client.get("/whoami").await.unwrap();
    server.handle.drain(TEST_TIMEOUT).await;
    assert_eq!(server.handle.connections(), 0);
    assert_eq!(raw.read_to_end_or_reset().await, "");
    client.wait_for_end().await;
}

#[tokio::test]
async fn pings_are_unlimited_over_tls() {
    const PINGS: usize = 20;
    let issuers = Issuers::new();
    let server = Server::start(issuers.config());
    let mut stream = connect(&issuers.client(&["h2"], None), &server.address()).await.unwrap();
    stream.write_all(PREFACE).await.unwrap();
    stream.write_all(&Frame::new(SETTINGS, 0, 0, &[]).encode()).await.unwrap();
    for _ in 0..PINGS {
        stream.write_all(&Frame::new(PING, 0, 0, b"8 bytes!").encode()).await.unwrap();
    }
    stream.flush().await.unwrap();
    let mut answered = 0;
    while answered < PINGS {
        let mut header = [0; 9];
        within("a frame", stream.read_exact(&mut header)).await.unwrap();
        let mut payload = vec![0; usize::from(header[2]) | usize::from(header[1]) << 8];
        within("a payload", stream.read_exact(&mut payload)).await.unwrap();
        assert_ne!(header[3], crate::client::GOAWAY);
        answered += usize::from(header[3] == PING);
    }
}
