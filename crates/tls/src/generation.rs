//! What is served between two changes of the files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::SingleCertAndKey;

use crate::crl::Revoked;
use crate::error::LoadError;
use crate::files;
use crate::identity::Identity;
use crate::info::{Info, text};
use crate::trust;
use crate::verifier::{Allowed, verifier};

/// What a client may want to speak over TLS, the best first.
///
/// Compat: etcd names the first alone, and speaks the other all the same with whoever knows no better.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// What is served between two changes of the files.
#[derive(Debug)]
pub struct Generation {
    config: Arc<ServerConfig>,
    pub(crate) identity: Identity,
    pub(crate) revoked: Option<Revoked>,
}

impl Generation {
    /// How to shake hands.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    pub(crate) fn new(
        sources: &Sources,
        contents: &Contents,
        info: &Info,
    ) -> Result<Generation, LoadError> {
        let provider = Arc::new(provider(info)?);
        let identity = Identity::parse(
            (&sources.cert, &contents.cert),
            (&sources.key, &contents.key),
            &provider,
        )?;
        let verifier = match (&sources.roots, &contents.roots) {
            (Some(file), Some(bytes)) => Some(of_roots(file, bytes, info, &provider)?),
            _ => None,
        };
        let revoked = match (&sources.crl, &contents.crl) {
            (Some(file), Some(bytes)) => Some(Revoked::parse(file, bytes)?),
            _ => None,
        };
        let config = Arc::new(config(&identity, verifier, info, provider)?);
        Ok(Generation { config, identity, revoked })
    }
}

fn of_roots(
    file: &Path,
    bytes: &[u8],
    info: &Info,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, LoadError> {
    let of_system = info.trusted_ca_file.is_none();
    let roots = trust::roots(file, bytes, of_system)?;
    Ok(verifier(roots, Allowed::new(info)?, !of_system, provider)?)
}

fn provider(info: &Info) -> Result<CryptoProvider, LoadError> {
    let provider = aws_lc_rs::default_provider();
    let cipher_suites = info.suites.select(info.versions, &provider.cipher_suites)?;
    Ok(CryptoProvider { cipher_suites, ..provider })
}

fn config(
    identity: &Identity,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    info: &Info,
    provider: Arc<CryptoProvider>,
) -> Result<ServerConfig, rustls::Error> {
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&info.versions.supported())?;
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let resolver = SingleCertAndKey::from(identity.certified.clone());
    let mut config = builder.with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = PROTOCOLS.iter().map(|protocol| protocol.to_vec()).collect();
    // Sessions are kept by clients, sealed with keys of this generation: none outlives it, and none costs memory here.
    config.ticketer = aws_lc_rs::Ticketer::new()?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 1;
    Ok(config)
}

/// The files that matter, and where they are.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) roots: Option<PathBuf>,
    pub(crate) crl: Option<PathBuf>,
}

impl Sources {
    pub(crate) fn new(info: &Info) -> Result<Sources, LoadError> {
        let (Some(cert), Some(key)) = (info.cert_file.clone(), info.key_file.clone()) else {
            let (key, cert) = (text(info.key_file.as_deref()), text(info.cert_file.as_deref()));
            return Err(LoadError::Half { key, cert });
        };
        let roots = match &info.trusted_ca_file {
            Some(file) => Some(file.clone()),
            None if info.client_cert_auth => Some(trust::system_bundle()?),
            None => None,
        };
        Ok(Sources { cert, key, roots, crl: info.crl_file.clone() })
    }

    /// All of them.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let more = self.roots.iter().chain(&self.crl);
        [&self.cert, &self.key].into_iter().chain(more).cloned().collect()
    }
}

/// What is in the files.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Contents {
    cert: Vec<u8>,
    key: Vec<u8>,
    roots: Option<Vec<u8>>,
    crl: Option<Vec<u8>>,
}

impl Contents {
    pub(crate) fn read(sources: &Sources) -> Result<Contents, LoadError> {
        let read = |file: &Option<PathBuf>| file.as_deref().map(files::read).transpose();
        Ok(Contents {
            cert: files::read(&sources.cert)?,
            key: files::read(&sources.key)?,
            roots: read(&sources.roots)?,
            crl: read(&sources.crl)?,
        })
    }
}

/// A key is nothing to print.
impl std::fmt::Debug for Contents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Contents").finish_non_exhaustive()
    }
}
