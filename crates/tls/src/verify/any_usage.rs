//! Accepts certificates for any purpose.
//!
//! ```text
//!   extended key usage           as a client    as a server
//!   none                         accepted       accepted
//!   clientAuth                   accepted       rejected
//!   anyExtendedKeyUsage          accepted       accepted
//! ```
//!
//! Compat: Go, and so etcd, accepts the last line; rustls rejects it. So a chain that rustls
//! rejects for its purpose alone is verified once more, by the same library with that one rule
//! changed.

use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{CertificateError, Error};
use webpki::{
    EndEntityCert, ExtendedKeyUsageValidator, KeyPurposeId, KeyPurposeIdIter, KeyUsage,
    RequiredEkuNotFoundContext,
};

use crate::files::identity::Role;
use crate::files::trust_anchors::TrustAnchors;

/// The object identifier of anyExtendedKeyUsage, 2.5.29.37.0, as DER has it.
const ANY: KeyPurposeId<'static> = KeyPurposeId::new(&[0x55, 0x1d, 0x25, 0x00]);

/// A certificate with its chain, and the time at which it is verified.
pub(crate) struct Presented<'a> {
    pub(crate) end_entity: &'a CertificateDer<'a>,
    pub(crate) intermediates: &'a [CertificateDer<'a>],
    pub(crate) now: UnixTime,
}

/// Returns the verdict of rustls, unless it is about the purpose alone and the certificates are for
/// any.
pub(crate) fn or_any_usage(
    verdict: Result<(), Error>,
    role: Role,
    presented: &Presented<'_>,
    anchors: &TrustAnchors,
    provider: &CryptoProvider,
) -> Result<(), Error> {
    use CertificateError::{InvalidPurpose, InvalidPurposeContext};
    let Err(Error::InvalidCertificate(InvalidPurpose | InvalidPurposeContext { .. })) = verdict
    else {
        return verdict;
    };
    let Presented { end_entity, intermediates, now } = presented;
    let Ok(certificate) = EndEntityCert::try_from(*end_entity) else { return verdict };
    let usage = match role {
        Role::Server => KeyUsage::server_auth(),
        Role::Client => KeyUsage::client_auth(),
    };
    let verified = certificate.verify_for_usage(
        provider.signature_verification_algorithms.all,
        &anchors.roots.roots,
        intermediates,
        *now,
        UsageOrAny(usage),
        None,
        None,
    );
    if verified.is_ok() { Ok(()) } else { verdict }
}

/// A purpose that each certificate of a chain has to permit, by name or as any.
struct UsageOrAny(KeyUsage);

impl ExtendedKeyUsageValidator for UsageOrAny {
    fn validate(&self, purposes: KeyPurposeIdIter<'_, '_>) -> Result<(), webpki::Error> {
        let required: Vec<usize> = self.0.oid_values().collect();
        let mut present = Vec::new();
        for purpose in purposes {
            let purpose = purpose?;
            if purpose == ANY || purpose.to_decoded_oid() == required {
                return Ok(());
            }
            present.push(purpose.to_decoded_oid());
        }
        if present.is_empty() {
            return Ok(());
        }
        let context = RequiredEkuNotFoundContext { required: self.0, present };
        Err(webpki::Error::RequiredEkuNotFoundContext(context))
    }
}
