//! The files that matter, and what is in them.

use std::fmt;
use std::path::{Path, PathBuf};

use rustls::crypto::{CryptoProvider, aws_lc_rs};

use crate::crl::Revoked;
use crate::error::LoadError;
use crate::files;
use crate::identity::Identity;
use crate::info::{Info, text};
use crate::trust::{self, Anchors};

/// Where the files are that matter.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    /// A certificate and its key.
    pair: Option<(PathBuf, PathBuf)>,
    roots: Option<PathBuf>,
    /// Whether nobody said whom to trust.
    is_roots_of_system: bool,
    crl: Option<PathBuf>,
}

impl Sources {
    /// Of one who is called.
    pub(crate) fn of_server(info: &Info) -> Result<Sources, LoadError> {
        let Some(pair) = info.cert_file.clone().zip(info.key_file.clone()) else {
            return Err(half(info));
        };
        let roots = match &info.trusted_ca_file {
            Some(file) => Some(file.clone()),
            None if info.client_cert_auth => Some(trust::system_bundle()?),
            None => None,
        };
        let is_roots_of_system = info.trusted_ca_file.is_none();
        Ok(Sources { pair: Some(pair), roots, is_roots_of_system, crl: info.crl_file.clone() })
    }

    /// Of one who calls. A system that trusts nobody is nothing to complain of before somebody is to be trusted.
    ///
    /// Compat: as in etcd, a pair for this side alone counts only if there is one for the other side.
    pub(crate) fn of_client(info: &Info) -> Result<Sources, LoadError> {
        let pair = match (info.is_empty(), info.cert_file.clone().zip(info.key_file.clone())) {
            (true, _) => None,
            (false, None) => return Err(half(info)),
            (false, own) => info.client_cert_file.clone().zip(info.client_key_file.clone()).or(own),
        };
        let roots = info.trusted_ca_file.clone().or_else(|| trust::system_bundle().ok());
        let is_roots_of_system = info.trusted_ca_file.is_none();
        Ok(Sources { pair, roots, is_roots_of_system, crl: info.crl_file.clone() })
    }

    /// All of them.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let pair = self.pair.iter().flat_map(|(cert, key)| [cert, key]);
        pair.chain(&self.roots).chain(&self.crl).cloned().collect()
    }

    /// The file of the certificate.
    pub(crate) fn cert(&self) -> Option<&Path> {
        self.pair.as_ref().map(|(cert, _)| cert.as_path())
    }

    pub(crate) fn is_roots_of_system(&self) -> bool {
        self.is_roots_of_system
    }

    /// The certificate and its key.
    pub(crate) fn identity(
        &self,
        contents: &Contents,
        provider: &CryptoProvider,
    ) -> Result<Option<Identity>, LoadError> {
        let (Some((cert_file, key_file)), Some((cert, key))) = (&self.pair, &contents.pair) else {
            return Ok(None);
        };
        Identity::parse((cert_file, cert), (key_file, key), provider).map(Some)
    }

    /// Who is trusted.
    pub(crate) fn anchors(&self, contents: &Contents) -> Result<Option<Anchors>, LoadError> {
        let (Some(file), Some(bytes)) = (&self.roots, &contents.roots) else { return Ok(None) };
        Anchors::parse(file, bytes, self.is_roots_of_system).map(Some)
    }

    /// Who is not any more.
    pub(crate) fn revoked(&self, contents: &Contents) -> Result<Option<Revoked>, LoadError> {
        let (Some(file), Some(bytes)) = (&self.crl, &contents.crl) else { return Ok(None) };
        Revoked::parse(file, bytes).map(Some)
    }
}

fn half(info: &Info) -> LoadError {
    let (key, cert) = (text(info.key_file.as_deref()), text(info.cert_file.as_deref()));
    LoadError::Half { key, cert }
}

/// As in etcd, a pair to show to other servers must be sound wherever it is given, used or not.
pub(crate) fn check_client_pair(info: &Info) -> Result<(), LoadError> {
    match (&info.client_cert_file, &info.client_key_file) {
        (None, None) => Ok(()),
        (Some(cert), Some(key)) => {
            let (cert_bytes, key_bytes) = (files::read(cert)?, files::read(key)?);
            let provider = aws_lc_rs::default_provider();
            Identity::parse((cert, &cert_bytes), (key, &key_bytes), &provider).map(drop)
        }
        (cert, key) => {
            Err(LoadError::ClientHalf { key: text(key.as_deref()), cert: text(cert.as_deref()) })
        }
    }
}

/// What is in the files.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Contents {
    pair: Option<(Vec<u8>, Vec<u8>)>,
    roots: Option<Vec<u8>>,
    crl: Option<Vec<u8>>,
}

impl Contents {
    pub(crate) fn read(sources: &Sources) -> Result<Contents, LoadError> {
        let read = |file: &Option<PathBuf>| file.as_deref().map(files::read).transpose();
        let pair = match &sources.pair {
            Some((cert, key)) => Some((files::read(cert)?, files::read(key)?)),
            None => None,
        };
        Ok(Contents { pair, roots: read(&sources.roots)?, crl: read(&sources.crl)? })
    }
}

/// A key is nothing to print.
impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contents").finish_non_exhaustive()
    }
}
