use std::io;
use std::path::PathBuf;

use prometheus::Registry;
use rustls::{ClientConnection, Connection, HandshakeKind, ServerConnection};
use testkit::certs::{Authority, Subject, Usage, write};
use testkit::waiting::STEPS_MAX;

use super::*;
use crate::server_tls::ServerTls;
use crate::verify::peer_certificate;

/// A server and a client, each with files in a directory.
struct Fixture {
    dir: tempfile::TempDir,
    members: Authority,
}

impl Fixture {
    fn new() -> Fixture {
        let fixture =
            Fixture { dir: tempfile::tempdir().unwrap(), members: Authority::new("members") };
        write(&fixture.path("ca.pem"), fixture.members.pem().as_bytes());
        fixture.issue("called", &Subject { serial: 1, ..Subject::default() });
        fixture.issue("caller", &Subject { serial: 2, ..Subject::default() });
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn issue(&self, name: &str, subject: &Subject<'_>) {
        self.members.issue(subject).write(self.dir.path(), name);
    }

    /// Presents the certificate of this name and trusts the members' CA.
    fn info(&self, name: &str) -> Info {
        Info {
            cert_file: Some(self.path(&format!("{name}.pem"))),
            key_file: Some(self.path(&format!("{name}.key"))),
            trusted_ca_file: Some(self.path("ca.pem")),
            protocol: Protocol::Http1,
            ..Info::default()
        }
    }

    fn called(&self, info: Info) -> ServerTls {
        ServerTls::load("peer", info, &Metrics::new(&Registry::new()).unwrap()).unwrap()
    }

    fn caller(&self, info: Info) -> ClientTls {
        ClientTls::load("peer-client", info, &Metrics::new(&Registry::new()).unwrap()).unwrap()
    }

    fn rejection(&self, info: Info) -> String {
        let metrics = Metrics::new(&Registry::new()).unwrap();
        let error = ClientTls::load("peer-client", info, &metrics).unwrap_err();
        error.to_string().replace(&self.dir.path().display().to_string(), "{dir}")
    }
}

/// The serial numbers that both ends saw: that of the client, if required, and that of the server.
type Seen = (Option<u64>, u64);

/// Performs a handshake in memory. Returns the error of the end that found it.
fn call(caller: &ClientTls, called: &ServerTls, host: &str) -> Result<Seen, String> {
    let generation = called.current();
    let mut server = Connection::Server(ServerConnection::new(generation.config()).unwrap());
    let name = caller.server_name(host).map_err(|error| error.to_string())?;
    let client = ClientConnection::new(caller.current(), name).unwrap();
    let mut client = Connection::Client(client);
    for round in 0.. {
        assert!(round < STEPS_MAX, "the handshake does not end");
        if pass(&mut client, &mut server)? + pass(&mut server, &mut client)? == 0 {
            break;
        }
    }
    assert_eq!(client.handshake_kind(), Some(HandshakeKind::Full), "sessions are not resumed");
    let admitted = called.admit(&generation, server.peer_certificates(), None);
    admitted.map_err(|rejected| rejected.reason.to_string())?;
    Ok((serial(&server), serial(&client).unwrap()))
}

fn serial(connection: &Connection) -> Option<u64> {
    let serial = peer_certificate::serial(connection.peer_certificates()?.first()?).unwrap();
    Some(serial.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn pass(from: &mut Connection, to: &mut Connection) -> Result<usize, String> {
    let mut bytes = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut bytes).unwrap();
    }
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        to.read_tls(&mut rest).unwrap();
        to.process_new_packets()
            .map_err(|error| crate::handshake_error_text(&io::Error::other(error)))?;
    }
    Ok(bytes.len())
}

#[test]
fn members_of_one_ca_connect() {
    let fixture = Fixture::new();
    let (caller, called) =
        (fixture.caller(fixture.info("caller")), fixture.called(fixture.info("called")));
    assert_eq!(call(&caller, &called, "localhost"), Ok((Some(2), 1)));
    assert_eq!(call(&caller, &called, "127.0.0.1"), Ok((Some(2), 1)));
    assert_eq!(call(&caller, &called, "localhost."), Ok((Some(2), 1)));
}

#[test]
fn a_separate_client_certificate_is_presented() {
    let fixture = Fixture::new();
    fixture.issue("client", &Subject { serial: 7, usage: Usage::Client, ..Subject::default() });
    let info = Info {
        client_cert_file: Some(fixture.path("client.pem")),
        client_key_file: Some(fixture.path("client.key")),
        ..fixture.info("caller")
    };
    let (caller, called) = (fixture.caller(info), fixture.called(fixture.info("called")));
    assert_eq!(call(&caller, &called, "localhost"), Ok((Some(7), 1)));
}

#[test]
fn the_server_certificate_must_be_for_the_dialed_name() {
    let fixture = Fixture::new();
    let (caller, called) =
        (fixture.caller(fixture.info("caller")), fixture.called(fixture.info("called")));
    let rejected = |host| call(&caller, &called, host).unwrap_err();
    let start = "tls: failed to verify certificate: x509: ";
    assert_eq!(
        rejected("m2.example"),
        format!("{start}certificate is valid for 127.0.0.1, localhost, not m2.example")
    );
    assert_eq!(
        rejected("127.0.0.2"),
        format!("{start}certificate is valid for 127.0.0.1, localhost, not 127.0.0.2")
    );
    assert_eq!(rejected("no name"), "tls: \"no name\" is not a valid server name");
    // One name for all servers, whatever their addresses.
    let named = Info { server_name: Some("localhost".into()), ..fixture.info("caller") };
    assert_eq!(call(&fixture.caller(named), &called, "10.0.0.7"), Ok((Some(2), 1)));
}

#[test]
fn untrusted_server_certificates_are_rejected() {
    let fixture = Fixture::new();
    let caller = fixture.caller(fixture.info("caller"));
    let rejected = |subject: &Subject<'_>, authority: &Authority| {
        authority.issue(subject).write(fixture.dir.path(), "odd");
        let open = Info { trusted_ca_file: None, ..fixture.info("odd") };
        call(&caller, &fixture.called(open), "localhost").unwrap_err()
    };
    let start = "tls: failed to verify certificate: x509: certificate";
    let untrusted = rejected(&Subject::default(), &Authority::new("strangers"));
    assert_eq!(untrusted, format!("{start} signed by unknown authority"));
    let expired = rejected(&Subject { days: (-3, -1), ..Subject::default() }, &fixture.members);
    assert!(expired.starts_with(&format!("{start} has expired or is not yet valid")), "{expired}");
    let usage = rejected(&Subject { usage: Usage::Client, ..Subject::default() }, &fixture.members);
    assert_eq!(usage, format!("{start} specifies an incompatible key usage"));
}

#[test]
fn a_server_certificate_for_any_purpose_is_verified_like_others() {
    let fixture = Fixture::new();
    let caller = fixture.caller(fixture.info("caller"));
    let call_with = |subject: &Subject<'_>, authority: &Authority| {
        authority.issue(subject).write(fixture.dir.path(), "odd");
        let open = Info { trusted_ca_file: None, ..fixture.info("odd") };
        call(&caller, &fixture.called(open), "localhost").is_ok()
    };
    let any = Subject { usage: Usage::Any, ..Subject::default() };
    assert!(call_with(&any, &fixture.members));
    assert!(!call_with(&any, &Authority::new("strangers")));
    assert!(!call_with(&Subject { days: (-3, -1), ..any }, &fixture.members));
    assert!(!call_with(&Subject { hosts: &["elsewhere.example"], ..any }, &fixture.members));
}

#[test]
fn allowed_names_apply_to_servers() {
    let fixture = Fixture::new();
    let subject = |common_name| Subject { common_name, ..Subject::default() };
    fixture.issue("called", &subject("member"));
    let called = fixture.called(fixture.info("called"));
    let with = |name: &str| {
        let info = Info { allowed_cns: vec![name.to_owned()], ..fixture.info("caller") };
        call(&fixture.caller(info), &called, "localhost").map(|(_, client_serial)| client_serial)
    };
    assert_eq!(with("member"), Ok(1));
    assert_eq!(with("other"), Err("client certificate authentication failed".to_owned()));
    let hosts = Info { allowed_hostnames: vec!["m1.example".into()], ..fixture.info("caller") };
    assert!(call(&fixture.caller(hosts), &called, "localhost").is_err());
}

#[test]
fn revoked_servers_are_rejected() {
    let fixture = Fixture::new();
    write(&fixture.path("crl"), &fixture.members.revoke(&[]));
    let caller =
        fixture.caller(Info { crl_file: Some(fixture.path("crl")), ..fixture.info("caller") });
    let called = fixture.called(fixture.info("called"));
    assert_eq!(call(&caller, &called, "localhost"), Ok((Some(2), 1)));
    write(&fixture.path("crl"), &fixture.members.revoke(&[1]));
    let rejected = call(&caller, &called, "localhost").unwrap_err();
    assert_eq!(rejected, "transport: certificate serial 01 revoked");
}

#[test]
fn self_signed_certificates_are_trusted_by_auto_tls() {
    let fixture = Fixture::new();
    let hosts = ["127.0.0.1".to_owned()];
    let self_signed = |name: &str| {
        let info = crate::generate_self_signed(&fixture.path(name), &hosts, 1).unwrap();
        Info { protocol: Protocol::Http1, ..info }
    };
    let (caller, called) = (fixture.caller(self_signed("a")), fixture.called(self_signed("b")));
    let (client_serial, _) = call(&caller, &called, "m1.example").unwrap();
    assert_eq!(client_serial, None, "no client certificate is required");
    // Others do not trust them.
    let strict = fixture.caller(fixture.info("caller"));
    assert!(call(&strict, &called, "127.0.0.1").is_err());
}

#[test]
fn a_shared_self_signed_certificate_is_its_own_ca() {
    let fixture = Fixture::new();
    let info =
        crate::generate_self_signed(&fixture.path("one"), &["127.0.0.1".to_owned()], 1).unwrap();
    let info =
        Info { insecure_skip_verify: false, trusted_ca_file: info.cert_file.clone(), ..info };
    // It is for servers only, so clients need none here.
    let open = Info { trusted_ca_file: None, ..info.clone() };
    let (caller, called) = (fixture.caller(info.clone()), fixture.called(open));
    assert!(call(&caller, &called, "127.0.0.1").is_ok());
    let name = call(&caller, &called, "127.0.0.2").unwrap_err();
    assert!(name.ends_with("certificate is valid for 127.0.0.1, not 127.0.0.2"), "{name}");
    let result = call(&caller, &fixture.called(info), "127.0.0.1").unwrap_err();
    assert!(result.ends_with("certificate specifies an incompatible key usage"), "{result}");
}

#[test]
fn without_files_system_cas_are_trusted_and_no_certificate_is_presented() {
    let fixture = Fixture::new();
    let nothing = Info { protocol: Protocol::Http1, ..Info::default() };
    let caller = fixture.caller(nothing.clone());
    let called = fixture.called(Info { trusted_ca_file: None, ..fixture.info("called") });
    let rejected = call(&caller, &called, "localhost").unwrap_err();
    assert!(rejected.ends_with("certificate signed by unknown authority"), "{rejected}");
    let trusting = fixture.caller(Info { insecure_skip_verify: true, ..nothing });
    assert_eq!(call(&trusting, &called, "localhost"), Ok((None, 1)));
    let result = call(&trusting, &fixture.called(fixture.info("called")), "localhost").unwrap_err();
    assert_eq!(result, "tls: client didn't provide a certificate");
}

#[test]
fn changed_files_are_used_and_invalid_ones_ignored() {
    let fixture = Fixture::new();
    let (caller, called) =
        (fixture.caller(fixture.info("caller")), fixture.called(fixture.info("called")));
    assert_eq!(call(&caller, &called, "localhost"), Ok((Some(2), 1)));
    fixture.issue("caller", &Subject { serial: 3, ..Subject::default() });
    assert_eq!(call(&caller, &called, "localhost"), Ok((Some(3), 1)));
    write(&fixture.path("caller.key"), b"nothing");
    assert_eq!(call(&caller, &called, "localhost"), Ok((Some(3), 1)));
    fixture.issue("caller", &Subject { serial: 4, ..Subject::default() });
    write(&fixture.path("ca.pem"), Authority::new("others").pem().as_bytes());
    let rejected = call(&caller, &called, "localhost").unwrap_err();
    assert!(rejected.ends_with("certificate signed by unknown authority"), "{rejected}");
}

#[test]
fn load_errors_name_the_file() {
    let fixture = Fixture::new();
    let half = Info { key_file: None, ..fixture.info("caller") };
    assert_eq!(
        fixture.rejection(half),
        "KeyFile and CertFile must both be present[key: , cert: {dir}/caller.pem]"
    );
    let missing = Info { trusted_ca_file: Some(fixture.path("no")), ..Info::default() };
    assert_eq!(fixture.rejection(missing), "open {dir}/no: no such file or directory");
    let client_half = Info { client_key_file: Some(fixture.path("x")), ..fixture.info("caller") };
    assert_eq!(
        fixture.rejection(client_half),
        "ClientKeyFile and ClientCertFile must both be present or both absent: key: {dir}/x, cert: ]"
    );
}
