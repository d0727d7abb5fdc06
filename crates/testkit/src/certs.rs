//! Certificates for tests of TLS: authorities, issued certificates, revocation lists.
//!
//! ```
//! use testkit::certs::{Authority, Subject};
//!
//! let authority = Authority::new("clients");
//! let alice = authority.issue(&Subject { common_name: "alice", serial: 7, ..Subject::default() });
//! assert!(alice.cert_pem.starts_with("-----BEGIN CERTIFICATE-----"));
//! let list = authority.revoke(&[7]);
//! assert!(!list.is_empty());
//! ```

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer,
    DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair,
    KeyUsagePurpose, RevokedCertParams, SanType, SerialNumber,
};
use time::{Duration, OffsetDateTime};

/// A certificate authority.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// The subject of a certificate.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Common name; absent if empty.
    pub common_name: &'a str,
    /// Host names and addresses (SAN).
    pub hosts: &'a [&'a str],
    /// Serial number.
    pub serial: u64,
    /// Extended key usage.
    pub usage: Usage,
    /// Validity, in days from now: first and last.
    pub days: (i64, i64),
}

/// Extended key usage of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// Server and client authentication.
    Both,
    /// Server authentication only.
    Server,
    /// Client authentication only.
    Client,
    /// Any purpose, without naming one.
    Any,
    /// No extended key usage.
    Unspecified,
}

impl Default for Subject<'_> {
    /// A certificate for 127.0.0.1 and localhost, valid from yesterday to tomorrow.
    fn default() -> Self {
        let hosts = &["127.0.0.1", "localhost"];
        Subject { common_name: "", hosts, serial: 1, usage: Usage::Both, days: (-1, 1) }
    }
}

/// An issued certificate with its key.
#[derive(Clone, Debug)]
pub struct Issued {
    /// Certificate.
    pub cert_pem: String,
    /// Private key.
    pub key_pem: String,
}

impl Issued {
    /// Writes certificate and key to a directory, as `<name>.pem` and `<name>.key`.
    ///
    /// # Panics
    ///
    /// If a file cannot be written.
    #[track_caller]
    pub fn write(&self, dir: &Path, name: &str) {
        write(&dir.join(format!("{name}.pem")), self.cert_pem.as_bytes());
        write(&dir.join(format!("{name}.key")), self.key_pem.as_bytes());
    }
}

/// Replaces a file atomically: writes a new one and renames it.
///
/// # Panics
///
/// If the file cannot be written.
#[track_caller]
pub fn write(path: &Path, bytes: &[u8]) {
    let fresh = path.with_extension("fresh");
    let written = fs::write(&fresh, bytes).and_then(|()| fs::rename(&fresh, path));
    written.unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
}

impl Authority {
    /// Creates an authority with a new key.
    ///
    /// # Panics
    ///
    /// If key generation fails.
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name = named(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, key())
            .expect("the parameters of an authority are complete");
        Authority { issuer }
    }

    /// Returns the certificate of the authority.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Issues a certificate.
    ///
    /// # Panics
    ///
    /// If a host is invalid.
    pub fn issue(&self, subject: &Subject<'_>) -> Issued {
        let key = key();
        let certificate = params(subject).signed_by(&key, &self.issuer);
        let cert_pem = certificate.expect("the key of the authority may sign certificates").pem();
        Issued { cert_pem, key_pem: key.serialize_pem() }
    }

    /// Returns a revocation list with these serial numbers, as DER.
    ///
    /// # Panics
    ///
    /// If signing fails.
    pub fn revoke(&self, serials: &[u64]) -> Vec<u8> {
        let now = OffsetDateTime::now_utc();
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: now,
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: now,
            next_update: now + Duration::days(1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params
            .signed_by(&self.issuer)
            .expect("the key of the authority may sign lists")
            .der()
            .to_vec()
    }
}

fn key() -> KeyPair {
    KeyPair::generate().expect("the system provides randomness")
}

fn named(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, "tests");
    if !common_name.is_empty() {
        name.push(DnType::CommonName, common_name);
    }
    name
}

fn params(subject: &Subject<'_>) -> CertificateParams {
    let now = OffsetDateTime::now_utc();
    let mut params = CertificateParams::default();
    params.distinguished_name = named(subject.common_name);
    params.serial_number = Some(SerialNumber::from(subject.serial));
    (params.not_before, params.not_after) =
        (now + Duration::days(subject.days.0), now + Duration::days(subject.days.1));
    params.subject_alt_names = subject.hosts.iter().map(|host| name(host)).collect();
    params.extended_key_usages = match subject.usage {
        Usage::Both => {
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth]
        }
        Usage::Server => vec![ExtendedKeyUsagePurpose::ServerAuth],
        Usage::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
        Usage::Any => vec![ExtendedKeyUsagePurpose::Any],
        Usage::Unspecified => Vec::new(),
    };
    params
}

fn name(host: &str) -> SanType {
    match host.parse::<IpAddr>() {
        Ok(address) => SanType::IpAddress(address),
        Err(_) => {
            let name = host.try_into();
            SanType::DnsName(name.unwrap_or_else(|error| panic!("host {host:?}: {error}")))
        }
    }
}
