use std::io;
use std::path::PathBuf;

use prometheus::Registry;
use rustls::{ClientConnection, Connection, HandshakeKind, ServerConnection};
use testkit::certs::{Authority, Subject, Usage, write};

use super::*;
use crate::peer;
use crate::server_tls::ServerTls;

/// A member that listens and one that calls it, each with a folder of files.
struct Place {
    folder: tempfile::TempDir,
    members: Authority,
}

impl Place {
    fn new() -> Place {
        let place =
            Place { folder: tempfile::tempdir().unwrap(), members: Authority::new("members") };
        write(&place.path("ca.pem"), place.members.pem().as_bytes());
        place.issue("called", &Subject { serial: 1, ..Subject::default() });
        place.issue("caller", &Subject { serial: 2, ..Subject::default() });
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn issue(&self, name: &str, subject: &Subject<'_>) {
        self.members.issue(subject).write(self.folder.path(), name);
    }

    /// Shows what is in the files of this name, and trusts the members.
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

    fn refusal(&self, info: Info) -> String {
        let metrics = Metrics::new(&Registry::new()).unwrap();
        let error = ClientTls::load("peer-client", info, &metrics).unwrap_err();
        error.to_string().replace(&self.folder.path().display().to_string(), "{dir}")
    }
}

/// The serial numbers that both have seen: that of the one who called, if it was asked, and that of the one who was called.
type Seen = (Option<u64>, u64);

/// A handshake in memory. What went wrong is told by whoever found it.
fn call(caller: &ClientTls, called: &ServerTls, host: &str) -> Result<Seen, String> {
    let generation = called.current();
    let mut server = Connection::Server(ServerConnection::new(generation.config()).unwrap());
    let name = caller.server_name(host).map_err(|error| error.to_string())?;
    let client = ClientConnection::new(caller.current(), name).unwrap();
    let mut client = Connection::Client(client);
    while pass(&mut client, &mut server)? + pass(&mut server, &mut client)? > 0 {}
    assert_eq!(client.handshake_kind(), Some(HandshakeKind::Full), "nothing is resumed");
    let admitted = called.admit(&generation, server.peer_certificates(), None);
    admitted.map_err(|rejected| rejected.why.to_string())?;
    Ok((serial(&server), serial(&client).unwrap()))
}

fn serial(connection: &Connection) -> Option<u64> {
    let serial = peer::serial(connection.peer_certificates()?.first()?).unwrap();
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
        to.process_new_packets().map_err(|error| crate::reason(&io::Error::other(error)))?;
    }
    Ok(bytes.len())
}

#[test]
fn members_of_one_authority_call_each_other() {
    let place = Place::new();
    let (caller, called) = (place.caller(place.info("caller")), place.called(place.info("called")));
    assert_eq!(call(&caller, &called, "localhost"), Ok((Some(2), 1)));
    assert_eq!(call(&caller, &called, "127.0.0.1"), Ok((Some(2), 1)));
    assert_eq!(call(&caller, &called, "localhost."), Ok((Some(2), 1)));
}

#[test]
fn a_member_may_show_another_certificate_to_those_it_calls() {
    let place = Place::new();
    place.issue("client", &Subject { serial: 7, usage: Usage::Client, ..Subject::default() });
    let info = Info {
        client_cert_file: Some(place.path("client.pem")),
        client_key_file: Some(place.path("client.key")),
        ..place.info("caller")
    };
    let (caller, called) = (place.caller(info), place.called(place.info("called")));
    assert_eq!(call(&caller, &called, "localhost"), Ok((Some(7), 1)));
}

#[test]
fn whoever_is_called_must_be_who_was_meant() {
    let place = Place::new();
    let (caller, called) = (place.caller(place.info("caller")), place.called(place.info("called")));
    let refused = |host| call(&caller, &called, host).unwrap_err();
    let start = "tls: failed to verify certificate: x509: ";
    assert_eq!(
        refused("m2.example"),
        format!("{start}certificate is valid for 127.0.0.1, localhost, not m2.example")
    );
    assert_eq!(
        refused("127.0.0.2"),
        format!("{start}certificate is valid for 127.0.0.1, localhost, not 127.0.0.2")
    );
    assert_eq!(refused("no name"), "tls: \"no name\" is no name of a server");
    // All are called by one name, whatever their addresses are.
    let named = Info { server_name: Some("localhost".into()), ..place.info("caller") };
    assert_eq!(call(&place.caller(named), &called, "10.0.0.7"), Ok((Some(2), 1)));
}

#[test]
fn a_server_that_nobody_vouches_for_is_not_spoken_with() {
    let place = Place::new();
    let caller = place.caller(place.info("caller"));
    let refused = |subject: &Subject<'_>, authority: &Authority| {
        authority.issue(subject).write(place.folder.path(), "odd");
        let open = Info { trusted_ca_file: None, ..place.info("odd") };
        call(&caller, &place.called(open), "localhost").unwrap_err()
    };
    let start = "tls: failed to verify certificate: x509: certificate";
    let stranger = refused(&Subject::default(), &Authority::new("strangers"));
    assert_eq!(stranger, format!("{start} signed by unknown authority"));
    let expired = refused(&Subject { days: (-3, -1), ..Subject::default() }, &place.members);
    assert!(expired.starts_with(&format!("{start} has expired or is not yet valid")), "{expired}");
    let usage = refused(&Subject { usage: Usage::Client, ..Subject::default() }, &place.members);
    assert_eq!(usage, format!("{start} specifies an incompatible key usage"));
}

#[test]
fn those_who_are_called_must_be_allowed_too() {
    let place = Place::new();
    let subject = |common_name| Subject { common_name, ..Subject::default() };
    place.issue("called", &subject("member"));
    let called = place.called(place.info("called"));
    let with = |name: &str| {
        let info = Info { allowed_cns: vec![name.to_owned()], ..place.info("caller") };
        call(&place.caller(info), &called, "localhost").map(|(_, shown)| shown)
    };
    assert_eq!(with("member"), Ok(1));
    assert_eq!(with("other"), Err("client certificate authentication failed".to_owned()));
    let hosts = Info { allowed_hostnames: vec!["m1.example".into()], ..place.info("caller") };
    assert!(call(&place.caller(hosts), &called, "localhost").is_err());
}

#[test]
fn a_server_whose_certificate_was_revoked_is_not_spoken_with() {
    let place = Place::new();
    write(&place.path("crl"), &place.members.revoke(&[]));
    let caller = place.caller(Info { crl_file: Some(place.path("crl")), ..place.info("caller") });
    let called = place.called(place.info("called"));
    assert_eq!(call(&caller, &called, "localhost"), Ok((Some(2), 1)));
    write(&place.path("crl"), &place.members.revoke(&[1]));
    let refused = call(&caller, &called, "localhost").unwrap_err();
    assert_eq!(refused, "transport: certificate serial 01 revoked");
}

#[test]
fn certificates_that_members_make_for_themselves_are_trusted_by_all() {
    let place = Place::new();
    let hosts = ["127.0.0.1".to_owned()];
    let made = |name: &str| {
        let info = crate::generate_self_signed(&place.path(name), &hosts, 1).unwrap();
        Info { protocol: Protocol::Http1, ..info }
    };
    let (caller, called) = (place.caller(made("a")), place.called(made("b")));
    let (shown, _) = call(&caller, &called, "m1.example").unwrap();
    assert_eq!(shown, None, "nobody is asked");
    // Those that are not made so do not trust them.
    let strict = place.caller(place.info("caller"));
    assert!(call(&strict, &called, "127.0.0.1").is_err());
}

#[test]
fn one_certificate_that_is_its_own_authority_may_do_for_all() {
    let place = Place::new();
    let info =
        crate::generate_self_signed(&place.path("one"), &["127.0.0.1".to_owned()], 1).unwrap();
    let info =
        Info { insecure_skip_verify: false, trusted_ca_file: info.cert_file.clone(), ..info };
    // It is for servers alone, so it is not asked for here.
    let open = Info { trusted_ca_file: None, ..info.clone() };
    let (caller, called) = (place.caller(info.clone()), place.called(open));
    assert!(call(&caller, &called, "127.0.0.1").is_ok());
    let name = call(&caller, &called, "127.0.0.2").unwrap_err();
    assert!(name.ends_with("certificate is valid for 127.0.0.1, not 127.0.0.2"), "{name}");
    let asked = call(&caller, &place.called(info), "127.0.0.1").unwrap_err();
    assert!(asked.ends_with("certificate specifies an incompatible key usage"), "{asked}");
}

#[test]
fn without_files_the_system_is_trusted_and_nothing_is_shown() {
    let place = Place::new();
    let nothing = Info { protocol: Protocol::Http1, ..Info::default() };
    let caller = place.caller(nothing.clone());
    let called = place.called(Info { trusted_ca_file: None, ..place.info("called") });
    let refused = call(&caller, &called, "localhost").unwrap_err();
    assert!(refused.ends_with("certificate signed by unknown authority"), "{refused}");
    let trusting = place.caller(Info { insecure_skip_verify: true, ..nothing });
    assert_eq!(call(&trusting, &called, "localhost"), Ok((None, 1)));
    let asked = call(&trusting, &place.called(place.info("called")), "localhost").unwrap_err();
    assert_eq!(asked, "tls: client didn't provide a certificate");
}

#[test]
fn new_files_are_seen_by_the_next_call_and_bad_ones_change_nothing() {
    let place = Place::new();
    let (caller, called) = (place.caller(place.info("caller")), place.called(place.info("called")));
    assert_eq!(call(&caller, &called, "localhost"), Ok((Some(2), 1)));
    place.issue("caller", &Subject { serial: 3, ..Subject::default() });
    assert_eq!(call(&caller, &called, "localhost"), Ok((Some(3), 1)));
    write(&place.path("caller.key"), b"nothing");
    assert_eq!(call(&caller, &called, "localhost"), Ok((Some(3), 1)));
    place.issue("caller", &Subject { serial: 4, ..Subject::default() });
    write(&place.path("ca.pem"), Authority::new("others").pem().as_bytes());
    let refused = call(&caller, &called, "localhost").unwrap_err();
    assert!(refused.ends_with("certificate signed by unknown authority"), "{refused}");
}

#[test]
fn what_is_wrong_is_told_with_its_file() {
    let place = Place::new();
    let half = Info { key_file: None, ..place.info("caller") };
    assert_eq!(
        place.refusal(half),
        "KeyFile and CertFile must both be present[key: , cert: {dir}/caller.pem]"
    );
    let missing = Info { trusted_ca_file: Some(place.path("no")), ..Info::default() };
    assert_eq!(place.refusal(missing), "open {dir}/no: no such file or directory");
    let client_half = Info { client_key_file: Some(place.path("x")), ..place.info("caller") };
    assert_eq!(
        place.refusal(client_half),
        "ClientKeyFile and ClientCertFile must both be present or both absent: key: {dir}/x, cert: ]"
    );
}
