//! Self-signed certificates, for `--auto-tls` and `--peer-auto-tls`.
//!
//! ```text
//!   <data-dir>/fixtures/client/cert.pem    O=etcd, 127.0.0.1 and localhost, P-521, one year, a CA
//!   <data-dir>/fixtures/client/key.pem     readable by its owner only
//!   <data-dir>/fixtures/peer/...           for peers: each member has one and trusts all others
//! ```
//!
//! Compat: as etcd generates them, and each uses the files of the other. Existing files are used as
//! they are, even if expired.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P521_SHA512, SanType,
};
use time::{Duration, OffsetDateTime};

use crate::files::identity::date;
use crate::info::Info;

/// The longest validity. Go cannot represent more in nanoseconds, and generates an expired
/// certificate.
pub const VALIDITY_YEARS_MAX: u64 = 292;

/// The reason there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum SelfSignedError {
    /// The validity is zero. The text is etcd's.
    #[error("selfSignedCertValidity is invalid,it should be greater than 0")]
    NoValidity,
    /// The validity is too long.
    #[error("selfSignedCertValidity is invalid,it should be at most {VALIDITY_YEARS_MAX}")]
    TooLong,
    /// A file cannot be written.
    #[error("{}: {}", path.display(), gocompat::os_error_text(source))]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The certificate cannot be generated.
    #[error("cannot generate x509 certificate: {0}")]
    Make(#[from] rcgen::Error),
}

/// Generates a certificate for these names or addresses, unless `dir` has one. Returns settings
/// that present it and require none of clients.
///
/// # Errors
/// The reason there is no certificate.
pub fn generate_self_signed(
    dir: &Path,
    hosts: &[String],
    validity_years: u64,
) -> Result<Info, SelfSignedError> {
    if validity_years == 0 {
        return Err(SelfSignedError::NoValidity);
    }
    create_dir(dir)?;
    let dir = std::path::absolute(dir).map_err(|source| write_error(dir, source))?;
    let (cert_file, key_file) = (dir.join("cert.pem"), dir.join("key.pem"));
    if !(cert_file.exists() && key_file.exists()) {
        write_both(&cert_file, &key_file, hosts, validity_years)?;
    }
    Ok(Info {
        client_cert_file: Some(cert_file.clone()),
        client_key_file: Some(key_file.clone()),
        cert_file: Some(cert_file),
        key_file: Some(key_file),
        insecure_skip_verify: true,
        ..Info::default()
    })
}

fn write_error(path: &Path, source: io::Error) -> SelfSignedError {
    SelfSignedError::Write { path: path.to_owned(), source }
}

fn create_dir(dir: &Path) -> Result<(), SelfSignedError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|source| write_error(dir, source))
}

fn write_both(
    cert_file: &Path,
    key_file: &Path,
    hosts: &[String],
    validity_years: u64,
) -> Result<(), SelfSignedError> {
    let days = i64::try_from(validity_years).ok().filter(|_| validity_years <= VALIDITY_YEARS_MAX);
    let days = 365 * days.ok_or(SelfSignedError::TooLong)?;
    let params = params(hosts, OffsetDateTime::now_utc(), Duration::days(days))?;
    tracing::warn!(
        certificate_validity_bound_not_after = date(params.not_after.unix_timestamp()),
        "automatically generate certificates"
    );
    let key = KeyPair::generate_for(&PKCS_ECDSA_P521_SHA512)?;
    let certificate = params.self_signed(&key)?;
    fs::write(cert_file, certificate.pem()).map_err(|source| write_error(cert_file, source))?;
    tracing::info!(path = %cert_file.display(), "created cert file");
    write_key(key_file, &key.serialize_pem()).map_err(|source| write_error(key_file, source))?;
    tracing::info!(path = %key_file.display(), "created key file");
    Ok(())
}

fn write_key(file: &Path, pem: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(file)?;
    file.write_all(pem.as_bytes())
}

fn params(
    hosts: &[String],
    now: OffsetDateTime,
    validity: Duration,
) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "etcd");
    (params.not_before, params.not_after) = (now, now + validity);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyEncipherment,
        KeyUsagePurpose::CrlSign,
    ];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.subject_alt_names = hosts.iter().map(|host| name(host)).collect::<Result<_, _>>()?;
    Ok(params)
}

fn name(host: &str) -> Result<SanType, rcgen::Error> {
    match host.parse::<IpAddr>() {
        Ok(address) => Ok(SanType::IpAddress(address)),
        Err(_) => Ok(SanType::DnsName(host.try_into()?)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rustls::crypto::aws_lc_rs;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    use super::*;
    use crate::files::identity::{Identity, Role};
    use crate::verify::peer_certificate::PeerCertificate;

    #[test]
    fn a_certificate_is_generated_once() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("fixtures/client");
        let hosts = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let info = generate_self_signed(&dir, &hosts, 1).unwrap();
        let (cert_file, key_file) = (info.cert_file.unwrap(), info.key_file.unwrap());
        assert_eq!(cert_file, dir.join("cert.pem"));
        let (cert, key) = (fs::read(&cert_file).unwrap(), fs::read(&key_file).unwrap());
        assert_eq!(fs::metadata(&key_file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);

        let identity =
            Identity::parse((&cert_file, &cert), (&key_file, &key), &aws_lc_rs::default_provider());
        let identity = identity.unwrap();
        assert_eq!(identity.warnings(Role::Server, OffsetDateTime::now_utc().unix_timestamp()), []);
        let left = identity.not_after - OffsetDateTime::now_utc().unix_timestamp();
        assert!((left - 365 * 86_400).abs() < 3_600, "{left}");
        let der = CertificateDer::from_pem_slice(&cert).unwrap();
        let parsed = PeerCertificate::parse(&der).unwrap();
        assert!(parsed.is_for("127.0.0.1") && parsed.is_for("localhost") && !parsed.is_for("::1"));
        assert_eq!(parsed.common_name, "");

        generate_self_signed(&dir, &[], 5).unwrap();
        assert_eq!(fs::read(&cert_file).unwrap(), cert, "existing files are used");
        fs::remove_file(&key_file).unwrap();
        generate_self_signed(&dir, &hosts, 5).unwrap();
        assert_ne!(fs::read(&cert_file).unwrap(), cert, "an incomplete pair is replaced");
    }

    #[test]
    fn invalid_validity_and_directories_are_rejected() {
        let root = tempfile::tempdir().unwrap();
        let rejected = |years| {
            generate_self_signed(&root.path().join("a"), &[], years).unwrap_err().to_string()
        };
        assert_eq!(rejected(0), "selfSignedCertValidity is invalid,it should be greater than 0");
        assert_eq!(rejected(293), "selfSignedCertValidity is invalid,it should be at most 292");
        fs::write(root.path().join("file"), "in the way").unwrap();
        let dir = root.path().join("file/client");
        let text = generate_self_signed(&dir, &[], 1).unwrap_err().to_string();
        assert_eq!(text, format!("{}: not a directory", dir.display()));
    }
}
