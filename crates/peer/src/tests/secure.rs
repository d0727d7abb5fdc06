//! Members with TLS.

use bytes::Bytes;
use server::{PeerRequestError, Transport as _};
use tempfile::TempDir;
use testkit::certs::{Authority, Subject, write};

use super::fixture::{FixtureConfig, PATIENCE, TransportFixture, append, heartbeat};
use crate::wait;

/// Writes a certificate and its CA to a directory.
fn certificates(of: &Authority) -> (TempDir, tls::Info) {
    let folder = tempfile::tempdir().unwrap();
    of.issue(&Subject::default()).write(folder.path(), "m");
    write(&folder.path().join("ca.pem"), of.pem().as_bytes());
    let path = |name: &str| Some(folder.path().join(name));
    let info = tls::Info {
        cert_file: path("m.pem"),
        key_file: path("m.key"),
        trusted_ca_file: path("ca.pem"),
        client_cert_auth: true,
        ..tls::Info::default()
    };
    (folder, info)
}

#[test]
fn members_with_certificates_exchange_messages() {
    let (_folder, info) = certificates(&Authority::new("members"));
    let rigs = [1, 2]
        .map(|id| FixtureConfig { info: Some(info.clone()), ..FixtureConfig::of(id) }.start());
    let members = rigs.each_ref().map(TransportFixture::member);
    for fixture in &rigs {
        fixture.set_members(&members);
        fixture.attach();
    }
    let [one, two] = &rigs;
    assert!(one.url().starts_with("https://"));
    one.until_streams(2);
    one.transport.send(vec![append(1, 2, 1, Bytes::from(vec![7; 1 << 20])), heartbeat(1, 2, 7)]);
    let mut received = [two.received().kind.as_str(), two.received().kind.as_str()];
    received.sort_unstable();
    assert_eq!(received, ["MsgApp", "MsgHeartbeat"]);
    assert_eq!(
        wait(one.transport.request_lease_renewal(&two.member(), types::LeaseId(7), PATIENCE)),
        Ok(60)
    );
}

#[test]
fn members_of_another_authority_are_refused() {
    let (_folder, info) = certificates(&Authority::new("members"));
    let (_other_folder, other_info) = certificates(&Authority::new("others"));
    let one = FixtureConfig { info: Some(info), ..FixtureConfig::of(1) }.start();
    let other = FixtureConfig { info: Some(other_info), ..FixtureConfig::of(2) }.start();
    one.attach();
    other.attach();
    let result = wait(one.transport.request_versions(&other.member(), PATIENCE));
    assert!(
        matches!(&result, Err(PeerRequestError::Failed(text)) if text.contains("certificate")),
        "{result:?}"
    );
    let result = wait(other.transport.request_versions(&one.member(), PATIENCE));
    assert!(result.is_err(), "{result:?}");
}
