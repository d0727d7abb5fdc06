use std::ffi::OsString;

use prometheus::Registry;
use testkit::certs::{Authority, Subject, write};

use super::*;
use config::{HostInfo, NoDefaultHost, parse};

const HOST_INFO: HostInfo = HostInfo { arch: "amd64", default_host: || Err(NoDefaultHost) };

/// A directory with the certificate of a member.
struct CertDir(tempfile::TempDir);

impl CertDir {
    fn new() -> CertDir {
        let (dir, authority) = (tempfile::tempdir().unwrap(), Authority::new("members"));
        authority.issue(&Subject::default()).write(dir.path(), "m1");
        write(&dir.path().join("ca.pem"), authority.pem().as_bytes());
        CertDir(dir)
    }

    /// Returns the configuration for flags, where `{}` is the directory.
    fn config(&self, flags: &[&str]) -> Config {
        let dir = self.0.path().display().to_string();
        let flags = flags.iter().map(|flag| flag.replace("{}", &dir));
        let args = ["bowline".to_owned(), format!("--data-dir={dir}/data")].into_iter();
        let args = args.chain(flags).map(OsString::from);
        parse(args, [], &HOST_INFO).expect("valid flags").config
    }

    fn load(&self, flags: &[&str]) -> Result<PeerTlsSetup, String> {
        let metrics = tls::Metrics::new(&Registry::new()).unwrap();
        let loaded = PeerTlsSetup::load(&self.config(flags), &metrics);
        loaded
            .map_err(|error| error.to_string().replace(&self.0.path().display().to_string(), "{}"))
    }
}

const SECURE: &str = "--listen-peer-urls=https://127.0.0.1:2380";
const PAIR: [&str; 2] = ["--peer-cert-file={}/m1.pem", "--peer-key-file={}/m1.key"];

#[test]
fn a_peer_port_uses_tls_if_its_url_is_secure() {
    let dir = CertDir::new();
    let plain = dir.load(&PAIR).unwrap();
    assert!(matches!(plain.peer_port(PortTls::Plain), TlsMode::Disabled));
    let secure = dir.load(&[PAIR[0], PAIR[1], SECURE]).unwrap();
    let TlsMode::Required(tls) = secure.peer_port(PortTls::Tls) else { panic!("no TLS") };
    assert!(tls.checks_origin && tls.server.listener() == "peer");
    assert!(matches!(secure.peer_port(PortTls::Plain), TlsMode::Disabled));
    let skips = [PAIR[0], PAIR[1], SECURE, "--peer-skip-client-san-verification"];
    let TlsMode::Required(tls) = dir.load(&skips).unwrap().peer_port(PortTls::Tls) else {
        panic!("no TLS")
    };
    assert!(!tls.checks_origin);
}

#[test]
fn peer_auto_tls_trusts_all_peers() {
    let dir = CertDir::new();
    let made = dir.load(&[SECURE, "--peer-auto-tls", "--peer-client-cert-auth"]).unwrap();
    let info = made.client_tls.info();
    assert_eq!(info.cert_file, Some(dir.0.path().join("data/fixtures/peer/cert.pem")));
    assert!(info.insecure_skip_verify && !info.requires_client_cert());
    assert!(matches!(made.peer_port(PortTls::Tls), TlsMode::Required(_)));
}

#[test]
fn missing_and_bad_files_are_rejected() {
    let dir = CertDir::new();
    let rejected = |flags: &[&str]| dir.load(flags).err().expect("rejected");
    assert_eq!(
        rejected(&[SECURE]),
        "cannot listen on TLS for 127.0.0.1:2380: KeyFile and CertFile are not presented"
    );
    assert_eq!(
        rejected(&[SECURE, PAIR[0]]),
        "KeyFile and CertFile must both be present[key: , cert: {}/m1.pem]"
    );
    // Even if no URL uses TLS.
    assert_eq!(
        rejected(&["--peer-trusted-ca-file={}/no"]),
        "open {}/no: no such file or directory"
    );
    assert_eq!(
        rejected(&[
            PAIR[0],
            PAIR[1],
            "--peer-cert-allowed-cn=a,b",
            "--peer-cert-allowed-hostname=h"
        ]),
        "AllowedCNs and AllowedHostnames are mutually exclusive (cns=[\"a\" \"b\"], hostnames=[\"h\"])"
    );
    assert_eq!(
        rejected(&["--peer-auto-tls", "--self-signed-cert-validity=0"]),
        "failed to get peer self-signed certs: selfSignedCertValidity is invalid,it should be greater than 0"
    );
}
