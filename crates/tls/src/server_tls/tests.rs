use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use prometheus::Registry;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, HandshakeKind, NamedGroup,
    RootCertStore, ServerConnection,
};
use testkit::certs::{Authority, Issued, Subject, Usage, write};
use testkit::waiting::STEPS_MAX;

use super::*;
use crate::cipher_suites::CipherSuites;
use crate::{ClientTls, Version, Versions};

/// A directory with a server certificate, and CAs.
struct Fixture {
    dir: tempfile::TempDir,
    servers: Authority,
    clients: Authority,
    registry: Registry,
}

impl Fixture {
    fn new() -> Fixture {
        let fixture = Fixture {
            dir: tempfile::tempdir().unwrap(),
            servers: Authority::new("servers"),
            clients: Authority::new("clients"),
            registry: Registry::new(),
        };
        fixture.replace_certificate(&Subject::default());
        write(&fixture.path("ca.pem"), fixture.clients.pem().as_bytes());
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Replaces the server certificate.
    fn replace_certificate(&self, subject: &Subject<'_>) {
        self.servers.issue(subject).write(self.dir.path(), "server");
    }

    /// Requires no client certificates.
    fn open(&self) -> Info {
        Info {
            cert_file: Some(self.path("server.pem")),
            key_file: Some(self.path("server.key")),
            ..Info::default()
        }
    }

    /// Requires client certificates.
    fn strict(&self) -> Info {
        Info { trusted_ca_file: Some(self.path("ca.pem")), ..self.open() }
    }

    fn load(&self, info: Info) -> ServerTls {
        self.try_load(info).unwrap()
    }

    fn try_load(&self, info: Info) -> Result<ServerTls, LoadError> {
        ServerTls::load("client", info, &Metrics::new(&self.registry).unwrap())
    }

    fn rejection(&self, info: Info) -> String {
        // The fixture's metrics are registered once.
        let metrics = Metrics::new(&Registry::new()).unwrap();
        let error = ServerTls::load("client", info, &metrics).unwrap_err();
        error.to_string().replace(&self.dir.path().display().to_string(), "{dir}")
    }

    fn client(&self, certificate: Option<&Issued>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.servers.pem().as_bytes()).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        Arc::new(match certificate {
            None => builder.with_no_client_auth(),
            Some(issued) => {
                let chain =
                    vec![CertificateDer::from_pem_slice(issued.cert_pem.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(issued.key_pem.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        })
    }

    /// A client with a certificate of this name.
    fn client_named(&self, common_name: &str, serial: u64) -> Arc<ClientConfig> {
        let subject = Subject { common_name, serial, hosts: &[], ..Subject::default() };
        self.client(Some(&self.clients.issue(&subject)))
    }

    fn metric(&self, series: &str) -> i64 {
        let text =
            prometheus::TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {series} in {text}")).parse().unwrap()
    }

    fn reloads(&self, result: &str) -> i64 {
        self.metric(&format!(
            "bowline_tls_reloads_total{{listener=\"client\",result=\"{result}\"}}"
        ))
    }
}

/// The outcome of a handshake: the client's common name and the serial number of the server
/// certificate.
#[derive(Debug, PartialEq, Eq)]
struct Admitted {
    name: Option<String>,
    server_serial: u64,
    resumed: bool,
}

#[derive(Debug, PartialEq)]
enum HandshakeRejection {
    /// During the handshake.
    InHandshake(rustls::Error),
    /// After the handshake.
    AfterHandshake(Rejection),
}

/// Performs a handshake in memory, as `net` does.
fn handshake(tls: &ServerTls, client: &Arc<ClientConfig>) -> Result<Admitted, HandshakeRejection> {
    let generation = tls.current();
    let mut server = Connection::Server(ServerConnection::new(generation.config()).unwrap());
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = Connection::Client(ClientConnection::new(Arc::clone(client), name).unwrap());
    for round in 0.. {
        assert!(round < STEPS_MAX, "the handshake does not end");
        let moved = pass(&mut client, &mut server)? + pass(&mut server, &mut client)?;
        if moved == 0 {
            break;
        }
    }
    let admitted = tls.admit(&generation, server.peer_certificates(), None);
    let name = admitted.map_err(|rejected| HandshakeRejection::AfterHandshake(rejected.reason))?;
    let serial = peer_certificate::serial(&client.peer_certificates().unwrap()[0]).unwrap();
    Ok(Admitted {
        name: name.map(|name| name.to_string()),
        server_serial: serial.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)),
        resumed: server.handshake_kind() == Some(HandshakeKind::Resumed),
    })
}

fn pass(from: &mut Connection, to: &mut Connection) -> Result<usize, HandshakeRejection> {
    let mut bytes = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut bytes).unwrap();
    }
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        to.read_tls(&mut rest).unwrap();
        match to.process_new_packets() {
            // The server knows the reason; the client only receives an alert.
            Err(error @ rustls::Error::AlertReceived(_)) => {
                panic!("the client failed first: {error}")
            }
            Err(error) => return Err(HandshakeRejection::InHandshake(error)),
            Ok(_) => {}
        }
    }
    Ok(bytes.len())
}

fn rejected(error: CertificateError) -> Result<Admitted, HandshakeRejection> {
    Err(HandshakeRejection::InHandshake(error.into()))
}

fn admitted(
    name: Option<&str>,
    server_serial: u64,
    resumed: bool,
) -> Result<Admitted, HandshakeRejection> {
    Ok(Admitted { name: name.map(ToOwned::to_owned), server_serial, resumed })
}

#[test]
fn a_server_presents_its_certificate_and_requires_none() {
    let fixture = Fixture::new();
    let server = fixture.load(fixture.open());
    assert_eq!(handshake(&server, &fixture.client(None)), admitted(None, 1, false));
    let expiry = fixture.metric("bowline_tls_certificate_expiry_seconds{listener=\"client\"}");
    assert!((expiry - now() - 86_400).abs() < 3_600, "{expiry}");
}

/// The order is Go's.
#[test]
fn a_key_exchange_that_quantum_computers_do_not_break_comes_first() {
    let fixture = Fixture::new();
    let server = fixture.load(fixture.open()).current().config();
    let metrics = Metrics::new(&Registry::new()).unwrap();
    let client = ClientTls::load("peer", Info::default(), &metrics).unwrap().current();
    for provider in [server.crypto_provider(), client.crypto_provider()] {
        let names: Vec<_> = provider.kx_groups.iter().map(|group| group.name()).collect();
        let [x25519, p256, p384] =
            [NamedGroup::X25519, NamedGroup::secp256r1, NamedGroup::secp384r1];
        assert_eq!(names, [NamedGroup::X25519MLKEM768, x25519, p256, p384]);
    }
}

#[test]
fn trusted_clients_are_admitted_with_their_common_name() {
    let fixture = Fixture::new();
    let server = fixture.load(fixture.strict());
    assert_eq!(
        handshake(&server, &fixture.client_named("alice", 2)),
        admitted(Some("alice"), 1, false)
    );
    assert_eq!(handshake(&server, &fixture.client_named("", 3)), admitted(Some(""), 1, false));
    assert_eq!(
        handshake(&server, &fixture.client(None)),
        Err(HandshakeRejection::InHandshake(rustls::Error::NoCertificatesPresented))
    );
    let untrusted = Authority::new("strangers").issue(&Subject::default());
    assert_eq!(
        handshake(&server, &fixture.client(Some(&untrusted))),
        rejected(CertificateError::UnknownIssuer)
    );
}

#[test]
fn invalid_client_certificates_are_rejected() {
    let fixture = Fixture::new();
    let server = fixture.load(fixture.strict());
    let with = |subject: Subject<'_>| {
        handshake(&server, &fixture.client(Some(&fixture.clients.issue(&subject)))).map_err(
            |turned| match turned {
                HandshakeRejection::InHandshake(error) => {
                    crate::handshake_error_text(&io::Error::other(error))
                }
                HandshakeRejection::AfterHandshake(why) => why.to_string(),
            },
        )
    };
    let expired = with(Subject { days: (-3, -1), ..Subject::default() }).unwrap_err();
    assert!(expired.contains("x509: certificate has expired or is not yet valid"), "{expired}");
    let early = with(Subject { days: (1, 2), ..Subject::default() }).unwrap_err();
    assert!(early.contains("x509: certificate has expired or is not yet valid"), "{early}");
    let usage = with(Subject { usage: Usage::Server, ..Subject::default() }).unwrap_err();
    assert!(usage.contains("x509: certificate specifies an incompatible key usage"), "{usage}");
    assert!(with(Subject { usage: Usage::Unspecified, ..Subject::default() }).is_ok());
}

#[test]
fn a_client_certificate_for_any_purpose_is_verified_like_others() {
    let fixture = Fixture::new();
    let server = fixture.load(fixture.strict());
    let any = Subject { usage: Usage::Any, ..Subject::default() };
    let with = |authority: &Authority, subject: &Subject<'_>| {
        handshake(&server, &fixture.client(Some(&authority.issue(subject))))
    };
    assert!(with(&fixture.clients, &any).is_ok());
    assert!(with(&Authority::new("strangers"), &any).is_err());
    assert!(with(&Authority::new("clients"), &any).is_err(), "only the name is right");
    assert!(with(&fixture.clients, &Subject { days: (-3, -1), ..any }).is_err());
    assert!(with(&fixture.clients, &Subject { days: (1, 2), ..any }).is_err());
}

#[test]
fn only_allowed_names_are_admitted() {
    let fixture = Fixture::new();
    let by_name = Info { allowed_cns: vec!["bob".into(), "alice".into()], ..fixture.strict() };
    let server = fixture.load(by_name);
    assert_eq!(
        handshake(&server, &fixture.client_named("alice", 2)),
        admitted(Some("alice"), 1, false)
    );
    let other = fixture.client_named("eve", 3);
    assert_eq!(handshake(&server, &other), rejected(CertificateError::NotValidForName));

    let fixture = Fixture::new();
    let by_host = Info { allowed_hostnames: vec!["a.example".into()], ..fixture.strict() };
    let server = fixture.load(by_host);
    let from = |hosts: &[&str]| {
        let subject = Subject { common_name: "a.example", hosts, ..Subject::default() };
        handshake(&server, &fixture.client(Some(&fixture.clients.issue(&subject)))).is_ok()
    };
    assert!(from(&["*.example"]));
    assert!(!from(&["b.example"]));
    assert!(!from(&[]), "a common name is not a host");
}

#[test]
fn revoked_clients_are_rejected() {
    let fixture = Fixture::new();
    write(&fixture.path("crl"), &fixture.clients.revoke(&[0xf1, 7]));
    let server = fixture.load(Info { crl_file: Some(fixture.path("crl")), ..fixture.strict() });
    let revoked = handshake(&server, &fixture.client_named("alice", 0xf1)).unwrap_err();
    assert_eq!(revoked, HandshakeRejection::AfterHandshake(Rejection::Revoked("f1".to_owned())));
    assert_eq!(
        handshake(&server, &fixture.client_named("alice", 8)),
        admitted(Some("alice"), 1, false)
    );
}

#[test]
fn a_revocation_list_may_be_pem() {
    let fixture = Fixture::new();
    let der = fixture.clients.revoke(&[7]);
    let base64: String = {
        // A minimal PEM encoder, to avoid a dependency.
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let group = |bytes: &[u8]| {
            let number =
                (0..3).fold(0_u32, |n, at| n << 8 | u32::from(*bytes.get(at).unwrap_or(&0)));
            let letter = |at: usize| match at <= bytes.len() {
                true => char::from(LETTERS[(number >> (18 - 6 * at) & 63) as usize]),
                false => '=',
            };
            (0..4).map(letter).collect::<String>()
        };
        der.chunks(3).map(group).collect()
    };
    let pem = format!("-----BEGIN X509 CRL-----\n{base64}\n-----END X509 CRL-----\n");
    write(&fixture.path("crl"), pem.as_bytes());
    let server = fixture.load(Info { crl_file: Some(fixture.path("crl")), ..fixture.strict() });
    assert!(handshake(&server, &fixture.client_named("alice", 7)).is_err());
}

#[test]
fn a_resumed_session_keeps_its_common_name() {
    let fixture = Fixture::new();
    let server = fixture.load(fixture.strict());
    let alice = fixture.client_named("alice", 2);
    assert_eq!(handshake(&server, &alice), admitted(Some("alice"), 1, false));
    assert_eq!(handshake(&server, &alice), admitted(Some("alice"), 1, true));
}

#[test]
fn a_session_of_a_revoked_client_is_rejected() {
    let fixture = Fixture::new();
    write(&fixture.path("crl"), &fixture.clients.revoke(&[]));
    let server = fixture.load(Info { crl_file: Some(fixture.path("crl")), ..fixture.strict() });
    let alice = fixture.client_named("alice", 2);
    assert_eq!(handshake(&server, &alice), admitted(Some("alice"), 1, false));
    write(&fixture.path("crl"), &fixture.clients.revoke(&[2]));
    assert_eq!(
        handshake(&server, &alice),
        Err(HandshakeRejection::AfterHandshake(Rejection::Revoked("02".to_owned())))
    );
}

#[test]
fn changed_files_are_used_by_the_next_handshake() {
    let fixture = Fixture::new();
    let server = fixture.load(fixture.open());
    let client = fixture.client(None);
    assert_eq!(handshake(&server, &client), admitted(None, 1, false));
    fixture.replace_certificate(&Subject { serial: 2, days: (-1, 30), ..Subject::default() });
    assert_eq!(handshake(&server, &client), admitted(None, 2, false));
    assert_eq!((fixture.reloads("ok"), fixture.reloads("failed")), (1, 0));
    let expiry = fixture.metric("bowline_tls_certificate_expiry_seconds{listener=\"client\"}");
    assert!(expiry > now() + 29 * 86_400);
    assert_eq!(handshake(&server, &client), admitted(None, 2, true));
    assert_eq!(fixture.reloads("ok"), 1);
}

#[test]
fn files_overwritten_in_place_are_reloaded() {
    let fixture = Fixture::new();
    let server = fixture.load(fixture.open());
    let other = fixture.servers.issue(&Subject { serial: 2, ..Subject::default() });
    fs::write(fixture.path("server.key"), &other.key_pem).unwrap();
    fs::write(fixture.path("server.pem"), &other.cert_pem).unwrap();
    assert_eq!(handshake(&server, &fixture.client(None)), admitted(None, 2, false));
}

#[test]
fn invalid_files_are_ignored_and_counted_once() {
    let fixture = Fixture::new();
    let server = fixture.load(fixture.strict());
    let alice = fixture.client_named("alice", 2);
    let good = fixture.servers.issue(&Subject { serial: 5, ..Subject::default() });
    // The certificate changes first, its key later.
    write(&fixture.path("server.pem"), good.cert_pem.as_bytes());
    for _ in 0..3 {
        assert_eq!(handshake(&server, &alice).unwrap().server_serial, 1);
    }
    assert_eq!((fixture.reloads("ok"), fixture.reloads("failed")), (0, 1));
    write(&fixture.path("server.key"), good.key_pem.as_bytes());
    assert_eq!(handshake(&server, &alice).unwrap().server_serial, 5);
    assert_eq!((fixture.reloads("ok"), fixture.reloads("failed")), (1, 1));
    // A missing file.
    fs::remove_file(fixture.path("ca.pem")).unwrap();
    assert_eq!(handshake(&server, &alice).unwrap().server_serial, 5);
    assert_eq!(handshake(&server, &alice).unwrap().server_serial, 5);
    assert_eq!((fixture.reloads("ok"), fixture.reloads("failed")), (1, 2));
    // The contents in use again: nothing is counted.
    write(&fixture.path("ca.pem"), fixture.clients.pem().as_bytes());
    assert_eq!(handshake(&server, &alice).unwrap().server_serial, 5);
    assert_eq!((fixture.reloads("ok"), fixture.reloads("failed")), (1, 2));
}

#[test]
fn a_new_ca_bundle_invalidates_old_sessions() {
    let fixture = Fixture::new();
    let server = fixture.load(fixture.strict());
    let alice = fixture.client_named("alice", 2);
    assert_eq!(handshake(&server, &alice), admitted(Some("alice"), 1, false));
    let others = Authority::new("others");
    write(&fixture.path("ca.pem"), others.pem().as_bytes());
    assert_eq!(handshake(&server, &alice), rejected(CertificateError::UnknownIssuer));
    let bob = others.issue(&Subject { common_name: "bob", ..Subject::default() });
    assert_eq!(handshake(&server, &fixture.client(Some(&bob))), admitted(Some("bob"), 1, false));
}

#[test]
fn load_errors_name_the_file() {
    let fixture = Fixture::new();
    let other = fixture.servers.issue(&Subject::default());
    other.write(fixture.dir.path(), "other");
    write(&fixture.path("empty"), b"");
    write(&fixture.path("text"), b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    write(
        &fixture.path("badkey"),
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
    );
    let file = |name: &str| Some(fixture.path(name));
    let with = |change: &dyn Fn(&mut Info)| {
        let mut info = fixture.strict();
        change(&mut info);
        fixture.rejection(info)
    };
    for (text, info) in [
        (
            "KeyFile and CertFile must both be present[key: , cert: {dir}/server.pem]",
            with(&|info| info.key_file = None),
        ),
        ("open {dir}/no: no such file or directory", with(&|info| info.cert_file = file("no"))),
        ("open {dir}/no: no such file or directory", with(&|info| info.key_file = file("no"))),
        (
            "open {dir}/no: no such file or directory",
            with(&|info| info.trusted_ca_file = file("no")),
        ),
        ("open {dir}/no: no such file or directory", with(&|info| info.crl_file = file("no"))),
        (
            "{dir}/empty: tls: failed to find any PEM data in certificate input",
            with(&|info| info.cert_file = file("empty")),
        ),
        (
            "{dir}/empty: tls: failed to find any PEM data in key input",
            with(&|info| info.key_file = file("empty")),
        ),
        (
            "{dir}/empty: tls: failed to find any PEM data in certificate input",
            with(&|info| info.trusted_ca_file = file("empty")),
        ),
        (
            "{dir}/server.key: tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched",
            with(&|info| info.cert_file = file("server.key")),
        ),
        (
            "{dir}/server.pem: tls: found a certificate rather than a key in the PEM for the private key",
            with(&|info| info.key_file = file("server.pem")),
        ),
        (
            "{dir}/server.pem and {dir}/other.key: tls: private key does not match public key",
            with(&|info| info.key_file = file("other.key")),
        ),
        (
            "ClientKeyFile and ClientCertFile must both be present or both absent: key: , cert: {dir}/other.pem]",
            with(&|info| info.client_cert_file = file("other.pem")),
        ),
        (
            "AllowedCNs and AllowedHostnames are mutually exclusive (cns=[\"a\" \"b\"], hostnames=[\"h\"])",
            with(&|info| {
                info.allowed_cns = vec!["a".into(), "b".into()];
                info.allowed_hostnames = vec!["h".into()];
            }),
        ),
        (
            "http2: TLSConfig.CipherSuites is missing an HTTP/2-required AES_128_GCM_SHA256 cipher \
             (need at least one of TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 or TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256)",
            with(&|info| {
                info.suites =
                    CipherSuites::from_names(&["TLS_RSA_WITH_AES_128_CBC_SHA".into()]).unwrap();
            }),
        ),
    ] {
        assert_eq!(info, text);
    }
    for (start, info) in [
        ("{dir}/text: x509: malformed certificate: ", with(&|info| info.cert_file = file("text"))),
        (
            "{dir}/text: x509: malformed certificate: ",
            with(&|info| info.trusted_ca_file = file("text")),
        ),
        (
            "{dir}/badkey: tls: failed to parse private key: ",
            with(&|info| info.key_file = file("badkey")),
        ),
        ("{dir}/text: x509: malformed crl: ", with(&|info| info.crl_file = file("text"))),
        ("{dir}/empty: x509: malformed crl: ", with(&|info| info.crl_file = file("empty"))),
    ] {
        assert!(info.starts_with(start), "{info}");
    }
}

#[test]
fn versions_and_suites_are_enforced() {
    let fixture = Fixture::new();
    let suites =
        CipherSuites::from_names(&["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256".into()]).unwrap();
    let versions = Versions { min: Version::Tls12, max: Version::Tls12 };
    let server = fixture.load(Info { suites, versions, ..fixture.open() });
    let config = server.current().config();
    let suites = &config.crypto_provider().cipher_suites;
    assert_eq!(suites.iter().filter(|suite| suite.tls13().is_none()).count(), 1);
    assert!(handshake(&server, &fixture.client(None)).is_ok());

    let fixture = Fixture::new();
    let versions = Versions { min: Version::Tls13, max: Version::Tls13 };
    let server = fixture.load(Info { versions, ..fixture.open() });
    assert!(handshake(&server, &fixture.client(None)).is_ok());
}

#[test]
fn certificates_with_warnings_are_still_presented() {
    let identity = |subject: &Subject<'_>| {
        let issued = Authority::new("any").issue(subject);
        let (cert, key) = (issued.cert_pem.into_bytes(), issued.key_pem.into_bytes());
        let path = Path::new("x");
        Identity::parse((path, &cert), (path, &key), &aws_lc_rs::default_provider()).unwrap()
    };
    let subject = |days, usage| Subject { days, usage, ..Subject::default() };
    assert_eq!(identity(&subject((-1, 1), Usage::Unspecified)).warnings(Role::Server, now()), []);
    assert_eq!(
        identity(&subject((-1, 1), Usage::Client)).warnings(Role::Server, now()),
        [CertificateWarning::NotFor(Role::Server)]
    );
    let expired = identity(&subject((-3, -1), Usage::Server));
    assert_eq!(
        expired.warnings(Role::Server, now()),
        [CertificateWarning::Expired { since: date(expired.not_after) }]
    );
    let early = identity(&subject((1, 2), Usage::Server)).warnings(Role::Server, now());
    assert!(matches!(early.as_slice(), [CertificateWarning::NotYetValid { .. }]));
    assert_eq!(date(1_803_859_200), "2027-03-01T00:00:00Z");
}

#[test]
fn the_client_certificate_must_be_for_its_origin() {
    let fixture = Fixture::new();
    let server = fixture.load(fixture.strict());
    let generation = server.current();
    let from = |hosts: &[&str], origin: &str| {
        let issued =
            fixture.clients.issue(&Subject { common_name: "a", hosts, ..Subject::default() });
        let chain = [CertificateDer::from_pem_slice(issued.cert_pem.as_bytes()).unwrap()];
        let admitted = server.admit(&generation, Some(&chain), Some(origin.parse().unwrap()));
        admitted
            .map(|name| name.unwrap().to_string())
            .map_err(|rejected| rejected.reason.to_string())
    };
    let accepted = Ok("a".to_owned());
    assert_eq!(from(&[], "10.0.0.7"), accepted);
    assert_eq!(from(&["10.0.0.7"], "10.0.0.7"), accepted);
    assert_eq!(from(&["localhost"], "127.0.0.1"), accepted);
    assert_eq!(from(&["10.0.0.8", "localhost"], "::ffff:127.0.0.1"), accepted);
    assert_eq!(
        from(&["10.0.0.8"], "10.0.0.7"),
        Err("x509: certificate is valid for 10.0.0.8, not 10.0.0.7".to_owned())
    );
    assert_eq!(
        from(&["localhost"], "10.0.0.7"),
        Err("tls: \"10.0.0.7\" does not match any of DNSNames [\"localhost\"]".to_owned())
    );
}
