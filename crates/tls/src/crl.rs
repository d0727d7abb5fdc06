//! Certificates that were revoked.
//!
//! Compat: as in etcd, a certificate counts as revoked if its serial number is in the list, whoever issued either; nobody looks at the signature of the list, or at
//! how old it is.

use std::collections::BTreeSet;
use std::path::Path;

use rustls::pki_types::CertificateRevocationListDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::prelude::FromDer;
use x509_parser::revocation_list::CertificateRevocationList;

use crate::error::LoadError;

const PEM: &[u8] = b"-----BEGIN";

/// The serial numbers of revoked certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Revoked(BTreeSet<Box<[u8]>>);

impl Revoked {
    /// From the bytes of a file: DER as etcd wants it, or PEM, which it does not take.
    pub(crate) fn parse(file: &Path, bytes: &[u8]) -> Result<Revoked, LoadError> {
        let malformed = |reason: String| LoadError::Crl { file: file.to_owned(), reason };
        let der = if bytes.trim_ascii_start().starts_with(PEM) {
            CertificateRevocationListDer::from_pem_slice(bytes)
                .map_err(|error| malformed(error.to_string()))?
        } else {
            CertificateRevocationListDer::from(bytes)
        };
        let (_, list) = CertificateRevocationList::from_der(der.as_ref())
            .map_err(|error| malformed(error.to_string()))?;
        let serials =
            list.iter_revoked_certificates().map(|entry| plain(entry.raw_serial()).into());
        Ok(Revoked(serials.collect()))
    }

    /// Whether a serial number is among them.
    pub(crate) fn has(&self, serial: &[u8]) -> bool {
        self.0.contains(plain(serial))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// A number without zeros before it: `00 f1` is `f1`.
pub(crate) fn plain(serial: &[u8]) -> &[u8] {
    let zeros = serial.iter().take_while(|byte| **byte == 0).count();
    &serial[zeros..]
}
