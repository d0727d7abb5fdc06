//! Members with certificates.

use bytes::Bytes;
use server::{PeerRequestError, Transport as _};
use tempfile::TempDir;
use testkit::certs::{Authority, Subject, write};

use super::rig::{Made, PATIENCE, Rig, append, heartbeat};
use crate::wait;

/// A folder with a certificate of an authority that is trusted.
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
fn members_show_each_other_certificates() {
    let (_folder, info) = certificates(&Authority::new("members"));
    let rigs = [1, 2].map(|id| Made { info: Some(info.clone()), ..Made::of(id) }.start());
    let members = rigs.each_ref().map(Rig::member);
    for rig in &rigs {
        rig.set_members(&members);
        rig.attach();
    }
    let [one, two] = &rigs;
    assert!(one.url().starts_with("https://"));
    one.until_streams(2);
    one.transport.send(vec![append(1, 2, 1, Bytes::from(vec![7; 1 << 20])), heartbeat(1, 2, 7)]);
    let mut heard = [two.heard().kind.as_str(), two.heard().kind.as_str()];
    heard.sort_unstable();
    assert_eq!(heard, ["MsgApp", "MsgHeartbeat"]);
    assert_eq!(
        wait(one.transport.request_lease_renewal(&two.member(), types::LeaseId(7), PATIENCE)),
        Ok(60)
    );
}

#[test]
fn who_is_not_trusted_is_not_spoken_with() {
    let (_folder, info) = certificates(&Authority::new("members"));
    let (_other_folder, other_info) = certificates(&Authority::new("others"));
    let one = Made { info: Some(info), ..Made::of(1) }.start();
    let other = Made { info: Some(other_info), ..Made::of(2) }.start();
    one.attach();
    other.attach();
    let asked = wait(one.transport.request_versions(&other.member(), PATIENCE));
    assert!(
        matches!(&asked, Err(PeerRequestError::Failed(text)) if text.contains("certificate")),
        "{asked:?}"
    );
    let asked = wait(other.transport.request_versions(&one.member(), PATIENCE));
    assert!(asked.is_err(), "{asked:?}");
}
