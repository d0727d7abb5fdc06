//! What the flags say about TLS. Names only: no file is opened here.

use super::refusal::Refusal;
use super::table::Flags;

/// A version of TLS that one can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl TlsVersion {
    /// Nothing leaves the choice to others.
    pub(crate) fn parse(text: &str) -> Result<Option<Self>, Refusal> {
        match text {
            "" => Ok(None),
            "TLS1.2" => Ok(Some(Self::Tls12)),
            "TLS1.3" => Ok(Some(Self::Tls13)),
            _ => Err(Refusal::TlsVersion(text.to_owned())),
        }
    }
}

/// TLS for clients and for other members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// What clients see.
    pub client: TlsSide,
    /// What other members see.
    pub peer: TlsSide,
    /// The oldest version that is spoken.
    pub version_min: Option<TlsVersion>,
    /// The newest version that is spoken.
    pub version_max: Option<TlsVersion>,
    /// The cipher suites of TLS 1.2, by Go's names; none is all sound ones.
    pub cipher_suites: Vec<String>,
    /// Years that certificates made here are good for.
    pub validity_years: u64,
}

/// TLS on one side. Empty paths are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSide {
    /// The certificate of the server.
    pub cert_file: String,
    /// Its key.
    pub key_file: String,
    /// The certificate shown when dialling.
    pub client_cert_file: String,
    /// Its key.
    pub client_key_file: String,
    /// The authorities that are trusted.
    pub trusted_ca_file: String,
    /// Certificates that were revoked.
    pub crl_file: String,
    /// Whoever dials must show a certificate.
    pub client_cert_auth: bool,
    /// Make a certificate if there is none.
    pub auto: bool,
    /// Common names of which a certificate must have one.
    pub allowed_cns: Vec<String>,
    /// Names of which a certificate must have one.
    pub allowed_hostnames: Vec<String>,
    /// Do not compare the names in a certificate with where it comes from.
    pub skip_san_verification: bool,
}

impl TlsSide {
    /// Whether there is neither a certificate nor a key.
    pub fn is_empty(&self) -> bool {
        self.cert_file.is_empty() && self.key_file.is_empty()
    }
}

impl Tls {
    pub(crate) fn from_flags(flags: &Flags) -> Result<Self, Refusal> {
        Ok(Self {
            client: client_side(flags),
            peer: peer_side(flags),
            version_min: TlsVersion::parse(&flags.tls_min_version)?,
            version_max: TlsVersion::parse(&flags.tls_max_version)?,
            cipher_suites: cipher_suites(flags)?,
            validity_years: flags.self_signed_cert_validity,
        })
    }
}

fn client_side(flags: &Flags) -> TlsSide {
    TlsSide {
        cert_file: flags.cert_file.clone(),
        key_file: flags.key_file.clone(),
        client_cert_file: flags.client_cert_file.clone(),
        client_key_file: flags.client_key_file.clone(),
        trusted_ca_file: flags.trusted_ca_file.clone(),
        crl_file: flags.client_crl_file.clone(),
        client_cert_auth: flags.client_cert_auth,
        auto: flags.auto_tls,
        allowed_cns: Vec::new(),
        allowed_hostnames: flags.client_cert_allowed_hostname.clone(),
        skip_san_verification: false,
    }
}

fn peer_side(flags: &Flags) -> TlsSide {
    TlsSide {
        cert_file: flags.peer_cert_file.clone(),
        key_file: flags.peer_key_file.clone(),
        client_cert_file: flags.peer_client_cert_file.clone(),
        client_key_file: flags.peer_client_key_file.clone(),
        trusted_ca_file: flags.peer_trusted_ca_file.clone(),
        crl_file: flags.peer_crl_file.clone(),
        client_cert_auth: flags.peer_client_cert_auth,
        auto: flags.peer_auto_tls,
        allowed_cns: flags.peer_cert_allowed_cn.clone(),
        allowed_hostnames: flags.peer_cert_allowed_hostname.clone(),
        skip_san_verification: flags.peer_skip_client_san_verification,
    }
}

fn cipher_suites(flags: &Flags) -> Result<Vec<String>, Refusal> {
    match flags.cipher_suites.iter().find(|suite| !CIPHER_SUITES.contains(&suite.as_str())) {
        Some(suite) => Err(Refusal::CipherSuite(suite.clone())),
        None => Ok(flags.cipher_suites.clone()),
    }
}

/// The cipher suites that Go has names for, sound or not, and two names of other times.
const CIPHER_SUITES: [&str; 27] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];
