//! Members with TLS.

use bytes::Bytes;
use server::{PeerRequestError, Transport as _};
use tempfile::TempDir;
use testkit::certs::{Authority, Subject, write};
use testkit::waiting::TIMEOUT;

use super::fixture::{FixtureConfig, TransportFixture, append, heartbeat};
use crate::wait;

/// Writes a certificate and its CA to a directory.
fn certificates(of: &Authority) -> (TempDir, tls::Info) {
    let dir = tempfile::tempdir().unwrap();
    of.issue(&Subject::default()).write(dir.path(), "m");
    write(&dir.path().join("ca.pem"), of.pem().as_bytes());
    let path = |name: &str| Some(dir.path().join(name));
    let info = tls::Info {
        cert_file: path("m.pem"),
        key_file: path("m.key"),
        trusted_ca_file: path("ca.pem"),
        client_cert_auth: true,
        ..tls::Info::default()
    };
    (dir, info)
}

#[test]
fn members_with_certificates_exchange_messages() {
    let (_dir, info) = certificates(&Authority::new("members"));
    let fixtures = [1, 2]
        .map(|id| FixtureConfig { info: Some(info.clone()), ..FixtureConfig::of(id) }.start());
    let members = fixtures.each_ref().map(TransportFixture::member);
    for fixture in &fixtures {
        fixture.set_members(&members);
        fixture.attach();
    }
    let [one, two] = &fixtures;
    assert!(one.url().starts_with("https://"));
    one.until_streams(2);
    one.transport.send(vec![append(1, 2, 1, Bytes::from(vec![7; 1 << 20])), heartbeat(1, 2, 7)]);
    let mut received = [two.received().kind.as_str(), two.received().kind.as_str()];
    received.sort_unstable();
    assert_eq!(received, ["MsgApp", "MsgHeartbeat"]);
    assert_eq!(
        wait(one.transport.request_lease_renewal(&two.member(), types::LeaseId(7), TIMEOUT)),
        Ok(60)
    );
}

#[test]
fn members_of_another_authority_are_refused() {
    let (_dir, info) = certificates(&Authority::new("members"));
    let (_other_dir, other_info) = certificates(&Authority::new("others"));
    let one = FixtureConfig { info: Some(info), ..FixtureConfig::of(1) }.start();
    let other = FixtureConfig { info: Some(other_info), ..FixtureConfig::of(2) }.start();
    one.attach();
    other.attach();
    let result = wait(one.transport.request_versions(&other.member(), TIMEOUT));
    assert!(
        matches!(&result, Err(PeerRequestError::Failed(text)) if text.contains("certificate")),
        "{result:?}"
    );
    let result = wait(other.transport.request_versions(&one.member(), TIMEOUT));
    assert!(result.is_err(), "{result:?}");
}
