//! How TLS is to be spoken, as meant by the flags.

use std::fmt;
use std::path::{Path, PathBuf};

use rustls::SupportedProtocolVersion;

use crate::suites::CipherSuites;

/// The settings of one kind of listener. Nothing of it has been read yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// The certificate that is shown, with those between it and its authority.
    pub cert_file: Option<PathBuf>,
    /// The key of it.
    pub key_file: Option<PathBuf>,
    /// The certificate that is shown to other servers, if it is another than that which clients see.
    pub client_cert_file: Option<PathBuf>,
    /// The key of it.
    pub client_key_file: Option<PathBuf>,
    /// The authorities that clients must have their certificates from. Given, a certificate is asked for.
    pub trusted_ca_file: Option<PathBuf>,
    /// Ask for certificates, and take the names in them for those of users. Without a file, the authorities of the system are trusted.
    pub client_cert_auth: bool,
    /// The certificates that were revoked.
    pub crl_file: Option<PathBuf>,
    /// If there are any: common names, of which a client must have one.
    pub allowed_cns: Vec<String>,
    /// If there are any: names or addresses, of which the certificate of a client must be for one.
    pub allowed_hostnames: Vec<String>,
    /// Speak with whoever is there: what was made for oneself is vouched for by nobody.
    pub insecure_skip_verify: bool,
    /// The name that the certificates of all other servers must be for, if it is another than the one they are called by.
    pub server_name: Option<String>,
    /// What is spoken.
    pub protocol: Protocol,
    /// The cipher suites.
    pub suites: CipherSuites,
    /// The versions.
    pub versions: Versions,
}

impl Info {
    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.cert_file.is_none() && self.key_file.is_none()
    }

    /// Whether clients must show a certificate.
    pub fn requires_client_cert(&self) -> bool {
        self.trusted_ca_file.is_some() || self.client_cert_auth
    }
}

/// As etcd prints it.
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

/// A path, or nothing.
pub(crate) fn text(path: Option<&Path>) -> String {
    path.map(|path| path.display().to_string()).unwrap_or_default()
}

/// What is spoken over TLS. What is chosen depends on it: HTTP/2 is agreed upon, and wants certain cipher suites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/2; with clients that know no better, HTTP/1.
    #[default]
    Http2,
    /// HTTP/1, as between members.
    Http1,
}

/// A version of TLS. There are no others: what came before is not safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// The oldest and the newest version that is spoken.
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
