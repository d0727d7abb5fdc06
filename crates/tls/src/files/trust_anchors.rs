//! Trusted CAs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::error::LoadError;

/// The CA bundles of common systems. The first that exists is used.
const SYSTEM_BUNDLES: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Returns the system's CA bundle. As in Go, `SSL_CERT_FILE` overrides its path.
pub(crate) fn system_bundle() -> Result<PathBuf, LoadError> {
    let from_env =
        std::env::var_os("SSL_CERT_FILE").filter(|path| !path.is_empty()).map(PathBuf::from);
    let found = || SYSTEM_BUNDLES.iter().map(PathBuf::from).find(|path| path.is_file());
    from_env.or_else(found).ok_or(LoadError::NoSystemRoots)
}

/// The certificates that are trusted.
#[derive(Clone, Debug)]
pub(crate) struct TrustAnchors {
    /// As CAs.
    pub(crate) roots: RootCertStore,
    /// As whole certificates.
    certificates: BTreeSet<Box<[u8]>>,
}

impl TrustAnchors {
    /// Trusts nothing.
    pub(crate) fn none() -> TrustAnchors {
        TrustAnchors { roots: RootCertStore::empty(), certificates: BTreeSet::new() }
    }

    /// Parses a file. Unreadable certificates of a system bundle are skipped; in a given file all
    /// must be valid.
    pub(crate) fn parse(
        file: &Path,
        bytes: &[u8],
        from_system: bool,
    ) -> Result<TrustAnchors, LoadError> {
        let malformed = |reason: String| LoadError::Certificate { file: file.to_owned(), reason };
        let mut anchors = TrustAnchors::none();
        for certificate in CertificateDer::pem_slice_iter(bytes) {
            let certificate = certificate.map_err(|error| malformed(error.to_string()))?;
            match anchors.roots.add(certificate.clone()) {
                Ok(()) => drop(anchors.certificates.insert(certificate.as_ref().into())),
                Err(error) if !from_system => return Err(malformed(error.to_string())),
                Err(_) => {}
            }
        }
        // Compat: etcd would start, and refuse every client.
        if anchors.roots.is_empty() {
            return Err(LoadError::NoCertificate { file: file.to_owned() });
        }
        Ok(anchors)
    }

    /// Returns whether a certificate is itself an anchor, such as a self-signed one that all
    /// members share.
    pub(crate) fn contains(&self, certificate: &CertificateDer<'_>) -> bool {
        self.certificates.contains(certificate.as_ref())
    }
}
