//! Reasons for which TLS files cannot be loaded. Each names the file.

use std::io;
use std::path::{Path, PathBuf};

use crate::cipher_suites::CipherSuiteError;
use crate::files::file_stamps::FILE_BYTES_MAX;

/// The reason TLS settings cannot be loaded. The texts contain etcd's, which mostly do not name the
/// file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A certificate without a key, or a key without a certificate.
    #[error("KeyFile and CertFile must both be present[key: {key}, cert: {cert}]")]
    IncompletePair {
        /// The key.
        key: String,
        /// The certificate.
        cert: String,
    },
    /// A client certificate without a key, or a key without a certificate.
    #[error(
        "ClientKeyFile and ClientCertFile must both be present or both absent: key: {key}, cert: {cert}]"
    )]
    IncompleteClientPair {
        /// The key.
        key: String,
        /// The certificate.
        cert: String,
    },
    /// A server without a certificate.
    #[error("KeyFile and CertFile are not presented")]
    NoCertificateFile,
    /// Both common names and hosts are restricted.
    #[error(
        "AllowedCNs and AllowedHostnames are mutually exclusive (cns={cns}, hostnames={hostnames})"
    )]
    BothAllowed {
        /// The common names.
        cns: String,
        /// The hosts.
        hostnames: String,
    },
    /// A file is missing or cannot be read.
    #[error("open {}: {}", file.display(), gocompat::os_error_text(source))]
    Open {
        /// The file.
        file: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file is too long.
    #[error("open {}: longer than {FILE_BYTES_MAX} bytes", file.display())]
    TooLong {
        /// The file.
        file: PathBuf,
    },
    /// A file contains no certificate.
    #[error("{}: tls: failed to find any PEM data in certificate input", file.display())]
    NoCertificate {
        /// The file.
        file: PathBuf,
    },
    /// A file of a certificate contains a key instead.
    #[error(
        "{}: tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched",
        file.display()
    )]
    KeyAsCertificate {
        /// The file.
        file: PathBuf,
    },
    /// A certificate is malformed.
    #[error("{}: x509: malformed certificate: {reason}", file.display())]
    Certificate {
        /// The file.
        file: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A file contains no key.
    #[error("{}: tls: failed to find any PEM data in key input", file.display())]
    NoKey {
        /// The file.
        file: PathBuf,
    },
    /// A file of a key contains a certificate instead.
    #[error(
        "{}: tls: found a certificate rather than a key in the PEM for the private key",
        file.display()
    )]
    CertificateAsKey {
        /// The file.
        file: PathBuf,
    },
    /// A key is malformed or of an unknown type.
    #[error("{}: tls: failed to parse private key: {reason}", file.display())]
    Key {
        /// The file.
        file: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The key does not belong to the certificate.
    #[error("{} and {}: tls: private key does not match public key", cert.display(), key.display())]
    Mismatch {
        /// The file of the certificate.
        cert: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
    /// The system has no CA bundle.
    #[error("no CA to trust: the system has no CA bundle, and --trusted-ca-file is not set")]
    NoSystemRoots,
    /// A revocation list is malformed.
    #[error("{}: x509: malformed crl: {reason}", file.display())]
    Crl {
        /// The file.
        file: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The cipher suites cannot be used.
    #[error(transparent)]
    CipherSuites(#[from] CipherSuiteError),
    /// An error of rustls.
    #[error("tls: {0}")]
    Library(#[from] rustls::Error),
}

impl LoadError {
    pub(crate) fn open(file: &Path, source: io::Error) -> LoadError {
        LoadError::Open { file: file.to_owned(), source }
    }
}
