//! What is served between two changes of the files.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::SingleCertAndKey;

use crate::crl::Revoked;
use crate::error::LoadError;
use crate::identity::Identity;
use crate::info::{Info, Protocol};
use crate::sources::{Contents, Sources};
use crate::verifier::{Allowed, verifier};

/// What a client may want to speak over TLS, the best first.
///
/// Compat: etcd names the first alone, and speaks the other all the same with whoever knows no better. It does so too where it speaks
/// nothing but HTTP/1.
fn protocols(protocol: Protocol) -> Vec<Vec<u8>> {
    match protocol {
        Protocol::Http2 => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        Protocol::Http1 => vec![b"http/1.1".to_vec()],
    }
}

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
        // The sources of a server have one, or there are none.
        let identity = sources.identity(contents, &provider)?.ok_or(LoadError::NothingToShow)?;
        let verifier = match sources.anchors(contents)? {
            Some(anchors) => {
                let tells_names = !sources.is_roots_of_system();
                Some(verifier(anchors, Allowed::new(info)?, tells_names, &provider)?)
            }
            None => None,
        };
        let revoked = sources.revoked(contents)?;
        let config = Arc::new(config(&identity, verifier, info, provider)?);
        Ok(Generation { config, identity, revoked })
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
    // Sessions are kept by clients, sealed with keys of this generation: none outlives it, and none costs memory here.
    config.ticketer = aws_lc_rs::Ticketer::new()?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 1;
    Ok(config)
}
