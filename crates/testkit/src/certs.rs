//! Certificates for tests of TLS: an authority, what it issues, what it revokes.
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

/// Someone who issues certificates.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// Whom a certificate is for.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The name; none if empty.
    pub common_name: &'a str,
    /// Names and addresses of hosts.
    pub hosts: &'a [&'a str],
    /// The serial number.
    pub serial: u64,
    /// What it may be used for.
    pub usage: Usage,
    /// From when and until when, in days from now.
    pub days: (i64, i64),
}

/// What a certificate may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// By servers and by clients.
    Both,
    /// By servers alone.
    Server,
    /// By clients alone.
    Client,
    /// It does not say.
    Unsaid,
}

impl Default for Subject<'_> {
    /// For 127.0.0.1 and localhost, good from yesterday to tomorrow.
    fn default() -> Self {
        let hosts = &["127.0.0.1", "localhost"];
        Subject { common_name: "", hosts, serial: 1, usage: Usage::Both, days: (-1, 1) }
    }
}

/// A certificate and its key.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The certificate.
    pub cert_pem: String,
    /// Its key.
    pub key_pem: String,
}

impl Issued {
    /// Writes both to a folder, as `<name>.pem` and `<name>.key`.
    ///
    /// # Panics
    ///
    /// If they cannot be written.
    #[track_caller]
    pub fn write(&self, folder: &Path, name: &str) {
        write(&folder.join(format!("{name}.pem")), self.cert_pem.as_bytes());
        write(&folder.join(format!("{name}.key")), self.key_pem.as_bytes());
    }
}

/// Writes a file as careful people do: another takes the place of the one that is there.
///
/// # Panics
///
/// If it cannot be written.
#[track_caller]
pub fn write(path: &Path, bytes: &[u8]) {
    let fresh = path.with_extension("fresh");
    fs::write(&fresh, bytes).expect("a file can be written");
    fs::rename(&fresh, path).expect("a file can be renamed");
}

impl Authority {
    /// An authority of this name, with a key of its own.
    ///
    /// # Panics
    ///
    /// If there is no key to be had.
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name = named(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, key()).expect("an authority is made");
        Authority { issuer }
    }

    /// Its own certificate.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Issues a certificate.
    ///
    /// # Panics
    ///
    /// If a host is none.
    pub fn issue(&self, subject: &Subject<'_>) -> Issued {
        let key = key();
        let certificate = params(subject).signed_by(&key, &self.issuer);
        let cert_pem = certificate.expect("a certificate is issued").pem();
        Issued { cert_pem, key_pem: key.serialize_pem() }
    }

    /// The list of certificates that were revoked, as DER.
    ///
    /// # Panics
    ///
    /// If it cannot be signed.
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
        params.signed_by(&self.issuer).expect("a list is signed").der().to_vec()
    }
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key is made")
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
        Usage::Unsaid => Vec::new(),
    };
    params
}

fn name(host: &str) -> SanType {
    match host.parse::<IpAddr>() {
        Ok(address) => SanType::IpAddress(address),
        Err(_) => SanType::DnsName(host.try_into().expect("it is the name of a host")),
    }
}
