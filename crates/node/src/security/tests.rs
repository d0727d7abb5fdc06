use std::ffi::OsString;

use prometheus::Registry;
use testkit::certs::{Authority, Subject, write};

use super::*;
use config::{Machine, NoDefaultHost, parse};

const MACHINE: Machine = Machine { arch: "amd64", default_host: || Err(NoDefaultHost) };

/// A folder with the certificate of a member.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::new("members"));
        authority.issue(&Subject::default()).write(folder.path(), "m1");
        write(&folder.path().join("ca.pem"), authority.pem().as_bytes());
        Place(folder)
    }

    /// The configuration of these flags, where `{}` is the folder.
    fn config(&self, flags: &[&str]) -> Config {
        let folder = self.0.path().display().to_string();
        let flags = flags.iter().map(|flag| flag.replace("{}", &folder));
        let args = ["bowline".to_owned(), format!("--data-dir={folder}/data")].into_iter();
        let args = args.chain(flags).map(OsString::from);
        parse(args, [], &MACHINE).expect("sound").config
    }

    fn load(&self, flags: &[&str]) -> Result<PeerSecurity, String> {
        let metrics = tls::Metrics::new(&Registry::new()).unwrap();
        let loaded = PeerSecurity::load(&self.config(flags), &metrics);
        loaded
            .map_err(|error| error.to_string().replace(&self.0.path().display().to_string(), "{}"))
    }
}

const SECURE: &str = "--listen-peer-urls=https://127.0.0.1:2380";
const PAIR: [&str; 2] = ["--peer-cert-file={}/m1.pem", "--peer-key-file={}/m1.key"];

#[test]
fn members_speak_tls_where_a_url_says_so() {
    let place = Place::new();
    let plain = place.load(&PAIR).unwrap();
    assert!(matches!(plain.of_peers(Speaks::Plain), TlsMode::Disabled));
    let secure = place.load(&[PAIR[0], PAIR[1], SECURE]).unwrap();
    let TlsMode::Required(tls) = secure.of_peers(Speaks::Tls) else { panic!("no TLS") };
    assert!(tls.checks_origin && tls.server.listener() == "peer");
    assert!(matches!(secure.of_peers(Speaks::Plain), TlsMode::Disabled));
    let skips = [PAIR[0], PAIR[1], SECURE, "--peer-skip-client-san-verification"];
    let TlsMode::Required(tls) = place.load(&skips).unwrap().of_peers(Speaks::Tls) else {
        panic!("no TLS")
    };
    assert!(!tls.checks_origin);
}

#[test]
fn a_member_that_makes_its_own_certificate_trusts_all_others() {
    let place = Place::new();
    let made = place.load(&[SECURE, "--peer-auto-tls", "--peer-client-cert-auth"]).unwrap();
    let info = made.caller.info();
    assert_eq!(info.cert_file, Some(place.0.path().join("data/fixtures/peer/cert.pem")));
    assert!(info.insecure_skip_verify && !info.requires_client_cert());
    assert!(matches!(made.of_peers(Speaks::Tls), TlsMode::Required(_)));
}

#[test]
fn what_is_missing_or_bad_is_told_of() {
    let place = Place::new();
    let refused = |flags: &[&str]| place.load(flags).err().expect("refused");
    assert_eq!(
        refused(&[SECURE]),
        "cannot listen on TLS for 127.0.0.1:2380: KeyFile and CertFile are not presented"
    );
    assert_eq!(
        refused(&[SECURE, PAIR[0]]),
        "KeyFile and CertFile must both be present[key: , cert: {}/m1.pem]"
    );
    // Also where nothing is to be spoken with it.
    assert_eq!(refused(&["--peer-trusted-ca-file={}/no"]), "open {}/no: no such file or directory");
    assert_eq!(
        refused(&[
            PAIR[0],
            PAIR[1],
            "--peer-cert-allowed-cn=a,b",
            "--peer-cert-allowed-hostname=h"
        ]),
        "AllowedCNs and AllowedHostnames are mutually exclusive (cns=[\"a\" \"b\"], hostnames=[\"h\"])"
    );
    assert_eq!(
        refused(&["--peer-auto-tls", "--self-signed-cert-validity=0"]),
        "failed to get peer self-signed certs: selfSignedCertValidity is invalid,it should be greater than 0"
    );
}
