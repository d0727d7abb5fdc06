//! The authorities that others have their certificates from.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::error::LoadError;

/// Where systems have the authorities that they trust. The first that is there counts.
const SYSTEM_BUNDLES: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The authorities of the system. A variable may say where they are, as it may to Go.
pub(crate) fn system_bundle() -> Result<PathBuf, LoadError> {
    let told = std::env::var_os("SSL_CERT_FILE").filter(|path| !path.is_empty()).map(PathBuf::from);
    let found = || SYSTEM_BUNDLES.iter().map(PathBuf::from).find(|path| path.is_file());
    told.or_else(found).ok_or(LoadError::NoSystemRoots)
}

/// Who is trusted, by a file.
#[derive(Clone, Debug)]
pub(crate) struct Anchors {
    /// As authorities.
    pub(crate) roots: RootCertStore,
    /// Whole certificates.
    itself: BTreeSet<Box<[u8]>>,
}

impl Anchors {
    /// Nobody.
    pub(crate) fn none() -> Anchors {
        Anchors { roots: RootCertStore::empty(), itself: BTreeSet::new() }
    }

    /// The authorities in a file. A file of the system may have some that cannot be read, which are left out; in one that was given, all must be
    /// sound.
    pub(crate) fn parse(file: &Path, bytes: &[u8], of_system: bool) -> Result<Anchors, LoadError> {
        let malformed = |reason: String| LoadError::Certificate { file: file.to_owned(), reason };
        let mut anchors = Anchors::none();
        for certificate in CertificateDer::pem_slice_iter(bytes) {
            let certificate = certificate.map_err(|error| malformed(error.to_string()))?;
            match anchors.roots.add(certificate.clone()) {
                Ok(()) => drop(anchors.itself.insert(certificate.as_ref().into())),
                Err(error) if !of_system => return Err(malformed(error.to_string())),
                Err(_) => {}
            }
        }
        // Compat: etcd would start, and let in nobody.
        if anchors.roots.is_empty() {
            return Err(LoadError::NoCertificate { file: file.to_owned() });
        }
        Ok(anchors)
    }

    /// Whether a certificate is trusted by itself, and needs nobody to vouch for it: one that is its own authority, shown by all members alike.
    pub(crate) fn has(&self, certificate: &CertificateDer<'_>) -> bool {
        self.itself.contains(certificate.as_ref())
    }
}
