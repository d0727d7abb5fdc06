//! Certificate revocation lists.
//!
//! Compat: as in etcd, a certificate is revoked if its serial number is in the list, regardless of
//! the issuer. The signature and age of the list are not checked.

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
pub(crate) struct RevokedSerials(BTreeSet<Box<[u8]>>);

impl RevokedSerials {
    /// Parses a file: DER, as etcd requires, or PEM, which etcd rejects.
    pub(crate) fn parse(file: &Path, bytes: &[u8]) -> Result<RevokedSerials, LoadError> {
        let malformed = |reason: String| LoadError::Crl { file: file.to_owned(), reason };
        let der = if bytes.trim_ascii_start().starts_with(PEM) {
            CertificateRevocationListDer::from_pem_slice(bytes)
                .map_err(|error| malformed(error.to_string()))?
        } else {
            CertificateRevocationListDer::from(bytes)
        };
        let (_, list) = CertificateRevocationList::from_der(der.as_ref())
            .map_err(|error| malformed(error.to_string()))?;
        let serials = list
            .iter_revoked_certificates()
            .map(|entry| strip_leading_zeros(entry.raw_serial()).into());
        Ok(RevokedSerials(serials.collect()))
    }

    /// Returns whether a serial number is revoked.
    pub(crate) fn contains(&self, serial: &[u8]) -> bool {
        self.0.contains(strip_leading_zeros(serial))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Strips leading zeros: `00 f1` is `f1`.
pub(crate) fn strip_leading_zeros(serial: &[u8]) -> &[u8] {
    let zeros = serial.iter().take_while(|byte| **byte == 0).count();
    &serial[zeros..]
}
