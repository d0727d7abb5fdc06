//! Reads arbitrary bytes as the files of a TLS configuration. The first byte selects the file:
//!
//! ```text
//!   0   the certificate and the trusted CAs
//!   1   the same, from DER that is put into PEM
//!   2   the private key
//!   3   the same, from DER that is put into PEM
//!   4   the revocation list
//!   5   the certificate of a client, after a handshake
//! ```
//!
//! The other files are valid. They go through the file system, as `tls` reads them by path.
//!
//! Invariants: no panic. An error names the file. A certificate and a key are accepted together
//! only if they belong together. A revocation list never admits a revoked client by being damaged:
//! it is refused, or a client is rejected for its own serial number only.

#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use libfuzzer_sys::fuzz_target;
use tls::rustls::pki_types::CertificateDer;
use tls::{Info, LoadError, Metrics, Rejection, ServerTls};

const CERTIFICATE: &[u8] = include_bytes!("../seeds/tls_files/certificate");
const KEY: &[u8] = include_bytes!("../seeds/tls_files/key");
const REVOCATION_LIST: &[u8] = include_bytes!("../seeds/tls_files/revocation_list");
/// The serial number of the certificate, which is revoked.
const SERIAL: &str = "4f7a";
/// The position of the private number in the key, and of the public point in the certificate.
const SECRET_AT: std::ops::Range<usize> = 36..68;
const POINT_BYTES: usize = 65;

fuzz_target!(|input: &[u8]| {
    let Some((selector, bytes)) = input.split_first() else { return };
    match selector {
        0 => check_certificate(bytes, bytes),
        1 => check_certificate(&pem("CERTIFICATE", bytes), bytes),
        2 => check_key(bytes, None),
        3 => check_key(&pem("PRIVATE KEY", bytes), Some(bytes)),
        4 => check_revocation_list(bytes),
        5 => check_client(bytes),
        _ => {}
    }
});

/// The files of one process, all of them valid.
struct Files {
    folder: PathBuf,
    info: Info,
    metrics: Metrics,
}

static FILES: LazyLock<Files> = LazyLock::new(|| {
    let shared = PathBuf::from("/dev/shm");
    let parent = if shared.is_dir() { shared } else { std::env::temp_dir() };
    let folder = parent.join(format!("bowline-fuzz-tls-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("create a directory");
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, bytes).expect("write a file");
        Some(path)
    };
    let info = Info {
        cert_file: file("cert.pem", &pem("CERTIFICATE", &CERTIFICATE[1..])),
        key_file: file("key.pem", &pem("PRIVATE KEY", &KEY[1..])),
        crl_file: file("list.crl", &REVOCATION_LIST[1..]),
        ..Info::default()
    };
    let metrics = Metrics::new(&prometheus::Registry::new()).expect("a new registry");
    Files { folder, info, metrics }
});

impl Files {
    /// Loads the settings with one more file.
    fn load(
        &self,
        bytes: &[u8],
        set: impl FnOnce(&mut Info, PathBuf),
    ) -> Result<ServerTls, LoadError> {
        let fuzzed = self.folder.join("fuzzed");
        fs::write(&fuzzed, bytes).expect("write a file");
        let mut info = self.info.clone();
        set(&mut info, fuzzed.clone());
        let loaded = ServerTls::load("client", info, &self.metrics);
        if let Err(error) = &loaded {
            let text = error.to_string();
            assert!(text.contains(&*fuzzed.to_string_lossy()), "{text}");
        }
        loaded
    }
}

fn pem(label: &str, der: &[u8]) -> Vec<u8> {
    let body = STANDARD.encode(der);
    format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n").into_bytes()
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

/// The public point of the key: the last bytes of a PKCS #8 key.
fn public_point() -> &'static [u8] {
    &KEY[KEY.len() - POINT_BYTES..]
}

fn check_certificate(file: &[u8], der: &[u8]) {
    if FILES.load(file, |info, path| info.cert_file = Some(path)).is_ok() && file != der {
        assert!(contains(der, public_point()), "accepted with the key of another certificate");
    }
    let _ = FILES.load(file, |info, path| info.trusted_ca_file = Some(path));
}

fn check_key(file: &[u8], der: Option<&[u8]>) {
    let loaded = FILES.load(file, |info, path| info.key_file = Some(path)).is_ok();
    if let Some(der) = der.filter(|_| loaded) {
        assert!(contains(der, &KEY[1..][SECRET_AT]), "accepted with another certificate");
    }
}

fn check_revocation_list(file: &[u8]) {
    let Ok(tls) = FILES.load(file, |info, path| info.crl_file = Some(path)) else { return };
    let chain = [CertificateDer::from(&CERTIFICATE[1..])];
    match tls.admit(&tls.current(), Some(&chain), None) {
        Ok(name) => assert_eq!(name.as_deref(), Some("fuzz")),
        Err(rejected) => assert_eq!(rejected.reason, Rejection::Revoked(SERIAL.to_owned())),
    }
}

fn check_client(der: &[u8]) {
    static LOADED: LazyLock<ServerTls> = LazyLock::new(|| {
        ServerTls::load("client", FILES.info.clone(), &FILES.metrics).expect("valid files")
    });
    let admit = |chain: &[CertificateDer<'_>]| {
        LOADED.admit(&LOADED.current(), Some(chain), None).map_err(|rejected| rejected.reason)
    };
    let revoked = CertificateDer::from(&CERTIFICATE[1..]);
    let client = CertificateDer::from(der);
    // A revoked certificate of the chain rejects every client.
    assert!(admit(&[client.clone(), revoked]).is_err());
    assert_eq!(admit(&[client.clone(), client.clone()]), admit(&[client]));
}
