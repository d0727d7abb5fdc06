//! Why TLS cannot be spoken with these files. Each names the file and the reason.

use std::io;
use std::path::{Path, PathBuf};

use crate::files::FILE_BYTES_MAX;
use crate::suites::CipherSuiteError;

/// Why TLS cannot be spoken with these settings. The texts hold etcd's, which mostly do not say which file it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A certificate without a key, or a key without a certificate.
    #[error("KeyFile and CertFile must both be present[key: {key}, cert: {cert}]")]
    Half {
        /// The key.
        key: String,
        /// The certificate.
        cert: String,
    },
    /// The same, of what is shown to other servers.
    #[error(
        "ClientKeyFile and ClientCertFile must both be present or both absent: key: {key}, cert: {cert}]"
    )]
    ClientHalf {
        /// The key.
        key: String,
        /// The certificate.
        cert: String,
    },
    /// A server without a certificate.
    #[error("KeyFile and CertFile are not presented")]
    NothingToShow,
    /// Names and hosts cannot both be asked for.
    #[error(
        "AllowedCNs and AllowedHostnames are mutually exclusive (cns={cns}, hostnames={hostnames})"
    )]
    BothAllowed {
        /// The names.
        cns: String,
        /// The hosts.
        hostnames: String,
    },
    /// A file is not there, or cannot be read.
    #[error("open {}: {}", file.display(), gocompat::os_error_text(source))]
    Open {
        /// The file.
        file: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file is longer than any that makes sense.
    #[error("open {}: longer than {FILE_BYTES_MAX} bytes", file.display())]
    TooLong {
        /// The file.
        file: PathBuf,
    },
    /// There is no certificate in it.
    #[error("{}: tls: failed to find any PEM data in certificate input", file.display())]
    NoCertificate {
        /// The file.
        file: PathBuf,
    },
    /// A certificate is damaged.
    #[error("{}: x509: malformed certificate: {reason}", file.display())]
    Certificate {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no key in it.
    #[error("{}: tls: failed to find any PEM data in key input", file.display())]
    NoKey {
        /// The file.
        file: PathBuf,
    },
    /// A key is damaged, or of an unknown kind.
    #[error("{}: tls: failed to parse private key: {reason}", file.display())]
    Key {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The key is another's.
    #[error("{} and {}: tls: private key does not match public key", cert.display(), key.display())]
    Mismatch {
        /// The file of the certificate.
        cert: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
    /// There are no authorities of the system.
    #[error(
        "no authorities to trust: the system has no bundle of them, and --trusted-ca-file is not given"
    )]
    NoSystemRoots,
    /// A list of revoked certificates is damaged.
    #[error("{}: x509: malformed crl: {reason}", file.display())]
    Crl {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Cipher suites that do not work out.
    #[error(transparent)]
    CipherSuites(#[from] CipherSuiteError),
    /// What the library says.
    #[error("tls: {0}")]
    Library(#[from] rustls::Error),
}

impl LoadError {
    pub(crate) fn open(file: &Path, source: io::Error) -> LoadError {
        LoadError::Open { file: file.to_owned(), source }
    }
}
