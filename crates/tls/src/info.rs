//! The TLS settings of flags. Named after etcd's `TLSInfo`.

use std::fmt;
use std::path::{Path, PathBuf};

use rustls::SupportedProtocolVersion;

use crate::cipher_suites::CipherSuites;

/// The TLS settings of one kind of listener. The files are not read yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// The certificate chain to present.
    pub cert_file: Option<PathBuf>,
    /// The private key of the certificate.
    pub key_file: Option<PathBuf>,
    /// The certificate to present to other servers, if different.
    pub client_cert_file: Option<PathBuf>,
    /// The private key of that certificate.
    pub client_key_file: Option<PathBuf>,
    /// The CAs of client certificates. If set, clients must present one.
    pub trusted_ca_file: Option<PathBuf>,
    /// Requires client certificates, whose common names are user names. Without a CA file, the
    /// system's CAs are trusted.
    pub client_cert_auth: bool,
    /// The revocation list.
    pub crl_file: Option<PathBuf>,
    /// If not empty, a client certificate must have one of these common names.
    pub allowed_cns: Vec<String>,
    /// If not empty, a client certificate must be for one of these names or addresses.
    pub allowed_hostnames: Vec<String>,
    /// Connects to servers without verifying their certificates, as self-signed ones require.
    pub insecure_skip_verify: bool,
    /// The name that the certificates of other servers must be for, if not the host that is dialed.
    pub server_name: Option<String>,
    /// The application protocol.
    pub protocol: Protocol,
    /// The cipher suites.
    pub suites: CipherSuites,
    /// The TLS versions.
    pub versions: Versions,
}

impl Info {
    /// Returns whether there is no certificate to present.
    pub fn is_empty(&self) -> bool {
        self.cert_file.is_none() && self.key_file.is_none()
    }

    /// Returns whether clients must present a certificate.
    pub fn requires_client_cert(&self) -> bool {
        self.trusted_ca_file.is_some() || self.client_cert_auth
    }
}

/// Prints the settings as etcd does.
impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cert = {}, key = {}, client-cert={}, client-key={}, trusted-ca = {}, client-cert-auth = {}, crl-file = {}",
            text(self.cert_file.as_deref()),
            text(self.key_file.as_deref()),
            text(self.client_cert_file.as_deref()),
            text(self.client_key_file.as_deref()),
            text(self.trusted_ca_file.as_deref()),
            self.client_cert_auth,
            text(self.crl_file.as_deref()),
        )
    }
}

/// Returns a path as text, or an empty text.
pub(crate) fn text(path: Option<&Path>) -> String {
    path.map(|path| path.display().to_string()).unwrap_or_default()
}

/// The application protocol over TLS. Decides ALPN and the required cipher suites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/2, and HTTP/1 with clients that do not negotiate.
    #[default]
    Http2,
    /// HTTP/1, as between members.
    Http1,
}

/// A TLS version. Older ones are insecure and not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// The range of TLS versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The oldest.
    pub min: Version,
    /// The newest.
    pub max: Version,
}

impl Default for Versions {
    fn default() -> Self {
        Self { min: Version::Tls12, max: Version::Tls13 }
    }
}

impl Versions {
    pub(crate) fn supported(self) -> Vec<&'static SupportedProtocolVersion> {
        let all =
            [(Version::Tls12, &rustls::version::TLS12), (Version::Tls13, &rustls::version::TLS13)];
        let within = all.into_iter().filter(|(version, _)| (self.min..=self.max).contains(version));
        within.map(|(_, supported)| supported).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_printed_as_in_etcd() {
        let info = Info {
            cert_file: Some("/a/cert.pem".into()),
            key_file: Some("/a/key.pem".into()),
            client_cert_auth: true,
            crl_file: Some("/a/crl".into()),
            ..Info::default()
        };
        assert_eq!(
            info.to_string(),
            "cert = /a/cert.pem, key = /a/key.pem, client-cert=, client-key=, trusted-ca = , client-cert-auth = true, crl-file = /a/crl"
        );
        assert!(info.requires_client_cert() && !info.is_empty());
        assert!(!Info::default().requires_client_cert() && Info::default().is_empty());
    }

    #[test]
    fn versions_are_a_range() {
        let count = |min, max| Versions { min, max }.supported().len();
        assert_eq!(count(Version::Tls12, Version::Tls13), 2);
        assert_eq!(count(Version::Tls13, Version::Tls13), 1);
        assert_eq!(count(Version::Tls12, Version::Tls12), 1);
    }
}
