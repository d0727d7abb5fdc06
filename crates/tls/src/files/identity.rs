//! A certificate and its private key.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SigningKey};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use crate::error::LoadError;

/// A certificate with its matching private key.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) certified: CertifiedKey,
    /// The validity in seconds since 1970, both ends included.
    not_before: i64,
    pub(crate) not_after: i64,
    /// The roles that the extended key usage allows.
    roles: Vec<Role>,
}

/// A problem of a certificate that is used nevertheless. Compat: as in etcd, which leaves it to the
/// other end to reject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CertificateWarning {
    Expired { since: String },
    NotYetValid { until: String },
    NotFor(Role),
}

/// The end of a connection that presents a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The end that accepts connections.
    Server,
    /// The end that connects.
    Client,
}

impl Role {
    /// Returns the name of the role and of its extended key usage.
    pub(crate) fn texts(self) -> (&'static str, &'static str) {
        match self {
            Role::Server => ("servers", "serverAuth"),
            Role::Client => ("clients", "clientAuth"),
        }
    }

    /// Returns whether a certificate allows this role. Without an extended key usage it allows all.
    pub(crate) fn is_allowed_by(self, certificate: &X509Certificate<'_>) -> bool {
        match (certificate.extended_key_usage(), self) {
            (Ok(Some(usage)), _) if usage.value.any => true,
            (Ok(Some(usage)), Role::Server) => usage.value.server_auth,
            (Ok(Some(usage)), Role::Client) => usage.value.client_auth,
            (Ok(None) | Err(_), _) => true,
        }
    }
}

impl Identity {
    /// Parses the contents of both files.
    pub(crate) fn parse(
        (cert_file, cert): (&Path, &[u8]),
        (key_file, key): (&Path, &[u8]),
        provider: &CryptoProvider,
    ) -> Result<Identity, LoadError> {
        let chain = chain(cert_file, cert)?;
        let key = private_key(key_file, key, provider)?;
        let malformed =
            |reason: String| LoadError::Certificate { file: cert_file.to_owned(), reason };
        let first = chain.first().ok_or_else(|| malformed("nothing there".to_owned()))?;
        let (_, parsed) =
            X509Certificate::from_der(first).map_err(|error| malformed(error.to_string()))?;
        // Not checked by rustls, because it cannot read certificates of version 1.
        let belongs = key.public_key().is_none_or(|spki| *spki == *parsed.public_key().raw);
        if !belongs {
            let (cert, key) = (cert_file.to_owned(), key_file.to_owned());
            return Err(LoadError::Mismatch { cert, key });
        }
        let validity = parsed.validity();
        let (not_before, not_after) =
            (validity.not_before.timestamp(), validity.not_after.timestamp());
        let roles = [Role::Server, Role::Client].into_iter();
        let roles = roles.filter(|role| role.is_allowed_by(&parsed)).collect();
        Ok(Identity { certified: CertifiedKey::new(chain, key), not_before, not_after, roles })
    }

    /// Returns the problems at a time, if the certificate is presented in this role.
    pub(crate) fn warnings(&self, role: Role, now: i64) -> Vec<CertificateWarning> {
        let mut warnings = Vec::new();
        if now > self.not_after {
            warnings.push(CertificateWarning::Expired { since: date(self.not_after) });
        }
        if now < self.not_before {
            warnings.push(CertificateWarning::NotYetValid { until: date(self.not_before) });
        }
        if !self.roles.contains(&role) {
            warnings.push(CertificateWarning::NotFor(role));
        }
        warnings
    }
}

fn chain(file: &Path, bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, LoadError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    match found {
        Ok(chain) if chain.is_empty() && PrivateKeyDer::from_pem_slice(bytes).is_ok() => {
            Err(LoadError::KeyAsCertificate { file: file.to_owned() })
        }
        Ok(chain) if chain.is_empty() => Err(LoadError::NoCertificate { file: file.to_owned() }),
        Ok(chain) => Ok(chain),
        Err(error) => {
            Err(LoadError::Certificate { file: file.to_owned(), reason: error.to_string() })
        }
    }
}

fn private_key(
    file: &Path,
    bytes: &[u8],
    provider: &CryptoProvider,
) -> Result<Arc<dyn SigningKey>, LoadError> {
    use rustls::pki_types::pem::Error;
    let unreadable = |reason: String| LoadError::Key { file: file.to_owned(), reason };
    let key = PrivateKeyDer::from_pem_slice(bytes).map_err(|error| match error {
        Error::NoItemsFound if CertificateDer::from_pem_slice(bytes).is_ok() => {
            LoadError::CertificateAsKey { file: file.to_owned() }
        }
        Error::NoItemsFound => LoadError::NoKey { file: file.to_owned() },
        other => unreadable(other.to_string()),
    })?;
    provider.key_provider.load_private_key(key).map_err(|error| unreadable(error.to_string()))
}

/// Formats a time: `2027-03-01T00:00:00Z`.
pub(crate) fn date(seconds: i64) -> String {
    let date = OffsetDateTime::from_unix_timestamp(seconds).ok();
    date.and_then(|date| date.format(&Rfc3339).ok()).unwrap_or_else(|| seconds.to_string())
}
