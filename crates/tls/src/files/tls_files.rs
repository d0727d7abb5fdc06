//! The files of a TLS configuration, and their contents.

use std::fmt;
use std::path::{Path, PathBuf};

use rustls::crypto::{CryptoProvider, aws_lc_rs};

use crate::error::LoadError;
use crate::files::crl::RevokedSerials;
use crate::files::file_stamps;
use crate::files::identity::Identity;
use crate::files::trust_anchors::{self, TrustAnchors};
use crate::info::{Info, text};

/// The paths of the files in use.
#[derive(Clone, Debug)]
pub(crate) struct TlsFiles {
    /// The certificate and its key.
    pair: Option<(PathBuf, PathBuf)>,
    roots: Option<PathBuf>,
    /// Whether the CAs are those of the system.
    uses_system_roots: bool,
    crl: Option<PathBuf>,
}

impl TlsFiles {
    /// Selects the files of a server.
    pub(crate) fn for_server(info: &Info) -> Result<TlsFiles, LoadError> {
        let Some(pair) = info.cert_file.clone().zip(info.key_file.clone()) else {
            return Err(incomplete_pair(info));
        };
        let roots = match &info.trusted_ca_file {
            Some(file) => Some(file.clone()),
            None if info.client_cert_auth => Some(trust_anchors::system_bundle()?),
            None => None,
        };
        let uses_system_roots = info.trusted_ca_file.is_none();
        Ok(TlsFiles { pair: Some(pair), roots, uses_system_roots, crl: info.crl_file.clone() })
    }

    /// Selects the files of a client. A system without CAs is an error only once a server must be
    /// verified.
    ///
    /// Compat: as in etcd, a separate client pair counts only if there is a server pair.
    pub(crate) fn for_client(info: &Info) -> Result<TlsFiles, LoadError> {
        let pair = match (info.is_empty(), info.cert_file.clone().zip(info.key_file.clone())) {
            (true, _) => None,
            (false, None) => return Err(incomplete_pair(info)),
            (false, own) => info.client_cert_file.clone().zip(info.client_key_file.clone()).or(own),
        };
        let roots = info.trusted_ca_file.clone().or_else(|| trust_anchors::system_bundle().ok());
        let uses_system_roots = info.trusted_ca_file.is_none();
        Ok(TlsFiles { pair, roots, uses_system_roots, crl: info.crl_file.clone() })
    }

    /// Returns all paths.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let pair = self.pair.iter().flat_map(|(cert, key)| [cert, key]);
        pair.chain(&self.roots).chain(&self.crl).cloned().collect()
    }

    /// Returns the path of the certificate.
    pub(crate) fn cert(&self) -> Option<&Path> {
        self.pair.as_ref().map(|(cert, _)| cert.as_path())
    }

    pub(crate) fn uses_system_roots(&self) -> bool {
        self.uses_system_roots
    }

    /// Parses the certificate and its key.
    pub(crate) fn identity(
        &self,
        contents: &FileContents,
        provider: &CryptoProvider,
    ) -> Result<Option<Identity>, LoadError> {
        let (Some((cert_file, key_file)), Some((cert, key))) = (&self.pair, &contents.pair) else {
            return Ok(None);
        };
        Identity::parse((cert_file, cert), (key_file, key), provider).map(Some)
    }

    /// Parses the trusted CAs.
    pub(crate) fn anchors(
        &self,
        contents: &FileContents,
    ) -> Result<Option<TrustAnchors>, LoadError> {
        let (Some(file), Some(bytes)) = (&self.roots, &contents.roots) else { return Ok(None) };
        TrustAnchors::parse(file, bytes, self.uses_system_roots).map(Some)
    }

    /// Parses the revocation list.
    pub(crate) fn revoked(
        &self,
        contents: &FileContents,
    ) -> Result<Option<RevokedSerials>, LoadError> {
        let (Some(file), Some(bytes)) = (&self.crl, &contents.crl) else { return Ok(None) };
        RevokedSerials::parse(file, bytes).map(Some)
    }
}

fn incomplete_pair(info: &Info) -> LoadError {
    let (key, cert) = (text(info.key_file.as_deref()), text(info.cert_file.as_deref()));
    LoadError::IncompletePair { key, cert }
}

/// Compat: as in etcd, a client pair must be valid wherever it is set, even if unused.
pub(crate) fn check_client_pair(info: &Info) -> Result<(), LoadError> {
    match (&info.client_cert_file, &info.client_key_file) {
        (None, None) => Ok(()),
        (Some(cert), Some(key)) => {
            let (cert_bytes, key_bytes) = (file_stamps::read(cert)?, file_stamps::read(key)?);
            let provider = aws_lc_rs::default_provider();
            Identity::parse((cert, &cert_bytes), (key, &key_bytes), &provider).map(drop)
        }
        (cert, key) => Err(LoadError::IncompleteClientPair {
            key: text(key.as_deref()),
            cert: text(cert.as_deref()),
        }),
    }
}

/// The contents of the files.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct FileContents {
    pair: Option<(Vec<u8>, Vec<u8>)>,
    roots: Option<Vec<u8>>,
    crl: Option<Vec<u8>>,
}

impl FileContents {
    pub(crate) fn read(files: &TlsFiles) -> Result<FileContents, LoadError> {
        let read = |file: &Option<PathBuf>| file.as_deref().map(file_stamps::read).transpose();
        let pair = match &files.pair {
            Some((cert, key)) => Some((file_stamps::read(cert)?, file_stamps::read(key)?)),
            None => None,
        };
        Ok(FileContents { pair, roots: read(&files.roots)?, crl: read(&files.crl)? })
    }
}

/// Omits the contents, which include a private key.
impl fmt::Debug for FileContents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileContents").finish_non_exhaustive()
    }
}
