use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use prometheus::Registry;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, HandshakeKind, RootCertStore,
    ServerConnection,
};
use testkit::certs::{Authority, Issued, Subject, Usage, write};

use super::*;
use crate::suites::CipherSuites;
use crate::{Version, Versions};

/// A folder with a certificate for a server, and authorities.
struct Place {
    folder: tempfile::TempDir,
    servers: Authority,
    clients: Authority,
    registry: Registry,
}

impl Place {
    fn new() -> Place {
        let place = Place {
            folder: tempfile::tempdir().unwrap(),
            servers: Authority::new("servers"),
            clients: Authority::new("clients"),
            registry: Registry::new(),
        };
        place.show(&Subject::default());
        write(&place.path("ca.pem"), place.clients.pem().as_bytes());
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The server has another certificate from now on.
    fn show(&self, subject: &Subject<'_>) {
        self.servers.issue(subject).write(self.folder.path(), "server");
    }

    /// No client needs a certificate.
    fn open(&self) -> Info {
        Info {
            cert_file: Some(self.path("server.pem")),
            key_file: Some(self.path("server.key")),
            ..Info::default()
        }
    }

    /// Every client needs one.
    fn strict(&self) -> Info {
        Info { trusted_ca_file: Some(self.path("ca.pem")), ..self.open() }
    }

    fn load(&self, info: Info) -> ServerTls {
        self.try_load(info).unwrap()
    }

    fn try_load(&self, info: Info) -> Result<ServerTls, LoadError> {
        ServerTls::load("client", info, &Metrics::new(&self.registry).unwrap())
    }

    fn refusal(&self, info: Info) -> String {
        // Metrics are registered once for a place, and this may be asked often.
        let metrics = Metrics::new(&Registry::new()).unwrap();
        let error = ServerTls::load("client", info, &metrics).unwrap_err();
        error.to_string().replace(&self.folder.path().display().to_string(), "{dir}")
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

    /// A client that has a certificate with this name.
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

/// How a handshake went: the name of the client, and the serial number of the certificate that it was shown.
#[derive(Debug, PartialEq, Eq)]
struct Met {
    name: Option<String>,
    shown: u64,
    resumed: bool,
}

#[derive(Debug, PartialEq)]
enum Turned {
    /// In the handshake.
    Away(rustls::Error),
    /// After it.
    Out(Rejection),
}

/// A handshake in memory, as `net` would run it.
fn meet(side: &ServerTls, client: &Arc<ClientConfig>) -> Result<Met, Turned> {
    let generation = side.current();
    let mut server = Connection::Server(ServerConnection::new(generation.config()).unwrap());
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = Connection::Client(ClientConnection::new(Arc::clone(client), name).unwrap());
    loop {
        let moved = pass(&mut client, &mut server)? + pass(&mut server, &mut client)?;
        if moved == 0 {
            break;
        }
    }
    let admitted = side.admit(&generation, server.peer_certificates(), None);
    let name = admitted.map_err(|rejected| Turned::Out(rejected.why))?;
    let serial = peer::serial(&client.peer_certificates().unwrap()[0]).unwrap();
    Ok(Met {
        name: name.map(|name| name.to_string()),
        shown: serial.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)),
        resumed: server.handshake_kind() == Some(HandshakeKind::Resumed),
    })
}

fn pass(from: &mut Connection, to: &mut Connection) -> Result<usize, Turned> {
    let mut bytes = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut bytes).unwrap();
    }
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        to.read_tls(&mut rest).unwrap();
        match to.process_new_packets() {
            // What the server says is why; the client only hears of it.
            Err(error @ rustls::Error::AlertReceived(_)) => {
                panic!("told before it was asked: {error}")
            }
            Err(error) => return Err(Turned::Away(error)),
            Ok(_) => {}
        }
    }
    Ok(bytes.len())
}

fn away(error: CertificateError) -> Result<Met, Turned> {
    Err(Turned::Away(error.into()))
}

fn met(name: Option<&str>, shown: u64, resumed: bool) -> Result<Met, Turned> {
    Ok(Met { name: name.map(ToOwned::to_owned), shown, resumed })
}

#[test]
fn a_certificate_is_shown_and_none_is_asked_for() {
    let place = Place::new();
    let side = place.load(place.open());
    assert_eq!(meet(&side, &place.client(None)), met(None, 1, false));
    let expiry = place.metric("bowline_tls_certificate_expiry_seconds{listener=\"client\"}");
    assert!((expiry - now() - 86_400).abs() < 3_600, "{expiry}");
}

#[test]
fn whoever_is_trusted_is_let_in_by_name() {
    let place = Place::new();
    let side = place.load(place.strict());
    assert_eq!(meet(&side, &place.client_named("alice", 2)), met(Some("alice"), 1, false));
    assert_eq!(meet(&side, &place.client_named("", 3)), met(Some(""), 1, false));
    assert_eq!(
        meet(&side, &place.client(None)),
        Err(Turned::Away(rustls::Error::NoCertificatesPresented))
    );
    let stranger = Authority::new("strangers").issue(&Subject::default());
    assert_eq!(meet(&side, &place.client(Some(&stranger))), away(CertificateError::UnknownIssuer));
}

#[test]
fn a_certificate_that_does_not_fit_is_turned_away() {
    let place = Place::new();
    let side = place.load(place.strict());
    let with = |subject: Subject<'_>| {
        meet(&side, &place.client(Some(&place.clients.issue(&subject)))).map_err(|turned| {
            match turned {
                Turned::Away(error) => crate::reason(&io::Error::other(error)),
                Turned::Out(why) => why.to_string(),
            }
        })
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
fn of_those_who_are_trusted_only_some_may_be_allowed() {
    let place = Place::new();
    let by_name = Info { allowed_cns: vec!["bob".into(), "alice".into()], ..place.strict() };
    let side = place.load(by_name);
    assert_eq!(meet(&side, &place.client_named("alice", 2)), met(Some("alice"), 1, false));
    let other = place.client_named("eve", 3);
    assert_eq!(meet(&side, &other), away(CertificateError::NotValidForName));

    let place = Place::new();
    let by_host = Info { allowed_hostnames: vec!["a.example".into()], ..place.strict() };
    let side = place.load(by_host);
    let from = |hosts: &[&str]| {
        let subject = Subject { common_name: "a.example", hosts, ..Subject::default() };
        meet(&side, &place.client(Some(&place.clients.issue(&subject)))).is_ok()
    };
    assert!(from(&["*.example"]));
    assert!(!from(&["b.example"]));
    assert!(!from(&[]), "a common name is no host");
}

#[test]
fn revoked_certificates_are_turned_out() {
    let place = Place::new();
    write(&place.path("crl"), &place.clients.revoke(&[0xf1, 7]));
    let side = place.load(Info { crl_file: Some(place.path("crl")), ..place.strict() });
    let revoked = meet(&side, &place.client_named("alice", 0xf1)).unwrap_err();
    assert_eq!(revoked, Turned::Out(Rejection::Revoked("f1".to_owned())));
    assert_eq!(meet(&side, &place.client_named("alice", 8)), met(Some("alice"), 1, false));
}

#[test]
fn a_list_of_revoked_certificates_may_be_pem() {
    let place = Place::new();
    let der = place.clients.revoke(&[7]);
    let base64: String = {
        // Just enough of it, for what has no dependency on another crate.
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
    write(&place.path("crl"), pem.as_bytes());
    let side = place.load(Info { crl_file: Some(place.path("crl")), ..place.strict() });
    assert!(meet(&side, &place.client_named("alice", 7)).is_err());
}

#[test]
fn a_session_is_resumed_and_keeps_its_name() {
    let place = Place::new();
    let side = place.load(place.strict());
    let alice = place.client_named("alice", 2);
    assert_eq!(meet(&side, &alice), met(Some("alice"), 1, false));
    assert_eq!(meet(&side, &alice), met(Some("alice"), 1, true));
}

#[test]
fn a_session_of_a_client_that_was_revoked_since_is_not_resumed() {
    let place = Place::new();
    write(&place.path("crl"), &place.clients.revoke(&[]));
    let side = place.load(Info { crl_file: Some(place.path("crl")), ..place.strict() });
    let alice = place.client_named("alice", 2);
    assert_eq!(meet(&side, &alice), met(Some("alice"), 1, false));
    write(&place.path("crl"), &place.clients.revoke(&[2]));
    assert_eq!(meet(&side, &alice), Err(Turned::Out(Rejection::Revoked("02".to_owned()))));
}

#[test]
fn new_files_are_seen_by_the_next_handshake() {
    let place = Place::new();
    let side = place.load(place.open());
    let client = place.client(None);
    assert_eq!(meet(&side, &client), met(None, 1, false));
    place.show(&Subject { serial: 2, days: (-1, 30), ..Subject::default() });
    assert_eq!(meet(&side, &client), met(None, 2, false));
    assert_eq!((place.reloads("ok"), place.reloads("failed")), (1, 0));
    let expiry = place.metric("bowline_tls_certificate_expiry_seconds{listener=\"client\"}");
    assert!(expiry > now() + 29 * 86_400);
    assert_eq!(meet(&side, &client), met(None, 2, true));
    assert_eq!(place.reloads("ok"), 1);
}

#[test]
fn a_file_that_is_written_in_place_is_seen_too() {
    let place = Place::new();
    let side = place.load(place.open());
    let other = place.servers.issue(&Subject { serial: 2, ..Subject::default() });
    fs::write(place.path("server.key"), &other.key_pem).unwrap();
    fs::write(place.path("server.pem"), &other.cert_pem).unwrap();
    assert_eq!(meet(&side, &place.client(None)), met(None, 2, false));
}

#[test]
fn files_that_became_bad_change_nothing_and_are_counted_once() {
    let place = Place::new();
    let side = place.load(place.strict());
    let alice = place.client_named("alice", 2);
    let good = place.servers.issue(&Subject { serial: 5, ..Subject::default() });
    // The certificate comes first, and its key a moment later.
    write(&place.path("server.pem"), good.cert_pem.as_bytes());
    for _ in 0..3 {
        assert_eq!(meet(&side, &alice).unwrap().shown, 1);
    }
    assert_eq!((place.reloads("ok"), place.reloads("failed")), (0, 1));
    write(&place.path("server.key"), good.key_pem.as_bytes());
    assert_eq!(meet(&side, &alice).unwrap().shown, 5);
    assert_eq!((place.reloads("ok"), place.reloads("failed")), (1, 1));
    // A file that is gone.
    fs::remove_file(place.path("ca.pem")).unwrap();
    assert_eq!(meet(&side, &alice).unwrap().shown, 5);
    assert_eq!(meet(&side, &alice).unwrap().shown, 5);
    assert_eq!((place.reloads("ok"), place.reloads("failed")), (1, 2));
    // Back to what is served: nothing to be counted.
    write(&place.path("ca.pem"), place.clients.pem().as_bytes());
    assert_eq!(meet(&side, &alice).unwrap().shown, 5);
    assert_eq!((place.reloads("ok"), place.reloads("failed")), (1, 2));
}

#[test]
fn another_bundle_of_authorities_counts_at_once_and_old_sessions_do_not() {
    let place = Place::new();
    let side = place.load(place.strict());
    let alice = place.client_named("alice", 2);
    assert_eq!(meet(&side, &alice), met(Some("alice"), 1, false));
    let others = Authority::new("others");
    write(&place.path("ca.pem"), others.pem().as_bytes());
    assert_eq!(meet(&side, &alice), away(CertificateError::UnknownIssuer));
    let bob = others.issue(&Subject { common_name: "bob", ..Subject::default() });
    assert_eq!(meet(&side, &place.client(Some(&bob))), met(Some("bob"), 1, false));
}

#[test]
fn what_is_wrong_is_told_with_its_file() {
    let place = Place::new();
    let other = place.servers.issue(&Subject::default());
    other.write(place.folder.path(), "other");
    write(&place.path("empty"), b"");
    write(&place.path("text"), b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    write(&place.path("badkey"), b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
    let file = |name: &str| Some(place.path(name));
    let with = |change: &dyn Fn(&mut Info)| {
        let mut info = place.strict();
        change(&mut info);
        place.refusal(info)
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
                    CipherSuites::named(&["TLS_RSA_WITH_AES_128_CBC_SHA".into()]).unwrap();
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
fn versions_and_suites_are_kept_to() {
    let place = Place::new();
    let suites = CipherSuites::named(&["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256".into()]).unwrap();
    let versions = Versions { min: Version::Tls12, max: Version::Tls12 };
    let side = place.load(Info { suites, versions, ..place.open() });
    let config = side.current().config();
    let suites = &config.crypto_provider().cipher_suites;
    assert_eq!(suites.iter().filter(|suite| suite.tls13().is_none()).count(), 1);
    assert!(meet(&side, &place.client(None)).is_ok());

    let place = Place::new();
    let versions = Versions { min: Version::Tls13, max: Version::Tls13 };
    let side = place.load(Info { versions, ..place.open() });
    assert!(meet(&side, &place.client(None)).is_ok());
}

#[test]
fn what_is_odd_about_a_certificate_does_not_keep_it_from_being_shown() {
    let identity = |subject: &Subject<'_>| {
        let issued = Authority::new("any").issue(subject);
        let (cert, key) = (issued.cert_pem.into_bytes(), issued.key_pem.into_bytes());
        let path = Path::new("x");
        Identity::parse((path, &cert), (path, &key), &aws_lc_rs::default_provider()).unwrap()
    };
    let subject = |days, usage| Subject { days, usage, ..Subject::default() };
    assert_eq!(identity(&subject((-1, 1), Usage::Unspecified)).oddities(Role::Server, now()), []);
    assert_eq!(
        identity(&subject((-1, 1), Usage::Client)).oddities(Role::Server, now()),
        [Oddity::NotFor(Role::Server)]
    );
    let expired = identity(&subject((-3, -1), Usage::Server));
    assert_eq!(
        expired.oddities(Role::Server, now()),
        [Oddity::Expired { since: date(expired.not_after) }]
    );
    let early = identity(&subject((1, 2), Usage::Server)).oddities(Role::Server, now());
    assert!(matches!(early.as_slice(), [Oddity::NotYetValid { .. }]));
    assert_eq!(date(1_803_859_200), "2027-03-01T00:00:00Z");
}

#[test]
fn a_client_may_have_to_come_from_where_its_certificate_is_for() {
    let place = Place::new();
    let side = place.load(place.strict());
    let generation = side.current();
    let from = |hosts: &[&str], origin: &str| {
        let issued =
            place.clients.issue(&Subject { common_name: "a", hosts, ..Subject::default() });
        let chain = [CertificateDer::from_pem_slice(issued.cert_pem.as_bytes()).unwrap()];
        let admitted = side.admit(&generation, Some(&chain), Some(origin.parse().unwrap()));
        admitted.map(|name| name.unwrap().to_string()).map_err(|rejected| rejected.why.to_string())
    };
    let fine = Ok("a".to_owned());
    assert_eq!(from(&[], "10.0.0.7"), fine);
    assert_eq!(from(&["10.0.0.7"], "10.0.0.7"), fine);
    assert_eq!(from(&["localhost"], "127.0.0.1"), fine);
    assert_eq!(from(&["10.0.0.8", "localhost"], "::ffff:127.0.0.1"), fine);
    assert_eq!(
        from(&["10.0.0.8"], "10.0.0.7"),
        Err("x509: certificate is valid for 10.0.0.8, not 10.0.0.7".to_owned())
    );
    assert_eq!(
        from(&["localhost"], "10.0.0.7"),
        Err("tls: \"10.0.0.7\" does not match any of DNSNames [\"localhost\"]".to_owned())
    );
}
