//! The server configuration made from one state of the files.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::SingleCertAndKey;

use crate::error::LoadError;
use crate::files::crl::RevokedSerials;
use crate::files::identity::Identity;
use crate::files::tls_files::{FileContents, TlsFiles};
use crate::info::{Info, Protocol};
use crate::verify::client_verifier::{AllowedNames, client_verifier};

/// Returns the ALPN protocols, in order of preference.
///
/// Compat: etcd announces only the first, and still speaks HTTP/1 with clients that send no ALPN,
/// even where it speaks HTTP/1 only.
fn protocols(protocol: Protocol) -> Vec<Vec<u8>> {
    match protocol {
        Protocol::Http2 => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        Protocol::Http1 => vec![b"http/1.1".to_vec()],
    }
}

/// The server configuration made from one state of the files.
#[derive(Debug)]
pub struct ServerGeneration {
    config: Arc<ServerConfig>,
    pub(crate) identity: Identity,
    pub(crate) revoked: Option<RevokedSerials>,
}

impl ServerGeneration {
    /// Returns the rustls configuration.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    pub(crate) fn new(
        files: &TlsFiles,
        contents: &FileContents,
        info: &Info,
    ) -> Result<ServerGeneration, LoadError> {
        let provider = Arc::new(provider(info)?);
        // The files of a server always include a certificate.
        let identity = files.identity(contents, &provider)?.ok_or(LoadError::NoCertificateFile)?;
        let verifier = match files.anchors(contents)? {
            Some(anchors) => {
                let sends_ca_names = !files.uses_system_roots();
                Some(client_verifier(anchors, AllowedNames::new(info)?, sends_ca_names, &provider)?)
            }
            None => None,
        };
        let revoked = files.revoked(contents)?;
        let config = Arc::new(config(&identity, verifier, info, provider)?);
        Ok(ServerGeneration { config, identity, revoked })
    }
}

fn provider(info: &Info) -> Result<CryptoProvider, LoadError> {
    let provider = aws_lc_rs::default_provider();
    let needs_http2 = info.protocol == Protocol::Http2;
    let cipher_suites = info.suites.select(info.versions, needs_http2, &provider.cipher_suites)?;
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
    config.alpn_protocols = protocols(info.protocol);
    // Clients hold their sessions, sealed with a key of this generation: none outlives it, and none
    // takes memory here.
    config.ticketer = aws_lc_rs::Ticketer::new()?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 1;
    Ok(config)
}
