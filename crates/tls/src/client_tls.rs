//! TLS for calling other servers, with files that may change ([`Kept`]).
//!
//! ```text
//!   --peer-cert-file m1.pem --peer-key-file m1.key --peer-trusted-ca-file ca.pem      shows m1.pem, trusts ca.pem
//!   the same, and --peer-client-cert-file c.pem --peer-client-key-file c.key          shows c.pem
//!   --peer-auto-tls                                                                   shows what was made, trusts everybody
//!   nothing                                                                           shows nothing, trusts whom the system trusts
//! ```
//!
//! A session is never resumed: connections between servers last, and each new one is judged anew.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;

use crate::error::LoadError;
use crate::identity::{Identity, Role};
use crate::info::{Info, Protocol, Versions};
use crate::kept::{Kept, News};
use crate::metrics::Metrics;
use crate::server_tls::{tell_lacking, tell_oddities};
use crate::server_verifier::ServerVerifier;
use crate::sources::{Contents, Sources, check_client_pair};
use crate::trust::Anchors;
use crate::verifier::Allowed;

/// TLS for calling other servers.
#[derive(Debug)]
pub struct ClientTls {
    name: &'static str,
    info: Info,
    metrics: Metrics,
    kept: Kept<Calling>,
}

/// What calls are made with between two changes of the files.
#[derive(Debug)]
struct Calling {
    config: Arc<ClientConfig>,
    identity: Option<Identity>,
}

/// A host that cannot be one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tls: {0:?} is no name of a server")]
pub struct InvalidServerName(pub String);

impl ClientTls {
    /// Reads all files. `name` is what they are for, in logs and metrics, such as `peer-client`.
    ///
    /// # Errors
    /// What is wrong, and with which file.
    pub fn load(name: &'static str, info: Info, metrics: &Metrics) -> Result<ClientTls, LoadError> {
        let make = |sources: &Sources, contents: &Contents| Calling::new(sources, contents, &info);
        let kept = Kept::load(Sources::of_client(&info)?, make)?;
        check_client_pair(&info)?;
        tell_lacking(&info);
        let side = ClientTls { name, info, metrics: metrics.clone(), kept };
        side.tell_shown(&side.kept.made());
        Ok(side)
    }

    /// How TLS is spoken.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// What to shake hands with now. Looks whether the files have changed.
    pub fn current(&self) -> Arc<ClientConfig> {
        let make =
            |sources: &Sources, contents: &Contents| Calling::new(sources, contents, &self.info);
        let calling = self.kept.current(make, |news| match news {
            News::Taken(calling) => self.tell_reloaded(calling),
            News::Failed(error) => self.tell_failed(error),
        });
        Arc::clone(&calling.config)
    }

    /// What the certificate of a server must be for that is called by this name or address.
    ///
    /// # Errors
    /// If there is nothing that it could be for.
    pub fn server_name(&self, host: &str) -> Result<ServerName<'static>, InvalidServerName> {
        let host = self.info.server_name.as_deref().unwrap_or(host);
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(ServerName::IpAddress(address.into()));
        }
        let name = ServerName::try_from(host.trim_end_matches('.').to_owned());
        name.map_err(|_| InvalidServerName(host.to_owned()))
    }

    fn tell_reloaded(&self, calling: &Calling) {
        self.metrics.reloaded(self.name, true);
        self.tell_shown(calling);
        tracing::info!(caller = self.name, tls_info = %self.info, "reloaded TLS files");
    }

    fn tell_shown(&self, calling: &Calling) {
        let Some(identity) = &calling.identity else { return };
        self.metrics.shows(self.name, identity.not_after);
        // One that was made for servers is shown all the same, to others that ask for none.
        if !self.info.insecure_skip_verify {
            tell_oddities(self.kept.sources(), identity, Role::Client);
        }
    }

    fn tell_failed(&self, error: &LoadError) {
        self.metrics.reloaded(self.name, false);
        tracing::error!(
            caller = self.name,
            %error,
            "TLS files have changed and cannot be used; what was read before is used on"
        );
    }
}

impl Calling {
    fn new(sources: &Sources, contents: &Contents, info: &Info) -> Result<Calling, LoadError> {
        let provider = Arc::new(provider(info)?);
        let identity = sources.identity(contents, &provider)?;
        let anchors = match info.insecure_skip_verify {
            true => None,
            false => Some(sources.anchors(contents)?.unwrap_or_else(Anchors::none)),
        };
        let verifier = ServerVerifier {
            provider: Arc::clone(&provider),
            anchors,
            allowed: Allowed::new(info)?,
            revoked: sources.revoked(contents)?,
        };
        let config = Arc::new(config(identity.as_ref(), verifier, info, provider)?);
        Ok(Calling { config, identity })
    }
}

/// Compat: as in etcd, versions and suites count only where there is a certificate.
fn versions(info: &Info) -> Versions {
    if info.is_empty() { Versions::default() } else { info.versions }
}

fn provider(info: &Info) -> Result<CryptoProvider, LoadError> {
    let provider = aws_lc_rs::default_provider();
    if info.is_empty() {
        return Ok(provider);
    }
    let cipher_suites = info.suites.select(info.versions, false, &provider.cipher_suites)?;
    Ok(CryptoProvider { cipher_suites, ..provider })
}

fn config(
    identity: Option<&Identity>,
    verifier: ServerVerifier,
    info: &Info,
    provider: Arc<CryptoProvider>,
) -> Result<ClientConfig, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions(info).supported())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match identity {
        Some(identity) => builder.with_client_cert_resolver(shown(identity)),
        None => builder.with_no_client_auth(),
    };
    config.resumption = Resumption::disabled();
    // Compat: members of etcd say nothing about what they are going to speak.
    config.alpn_protocols = match info.protocol {
        Protocol::Http2 => vec![b"h2".to_vec()],
        Protocol::Http1 => Vec::new(),
    };
    Ok(config)
}

fn shown(identity: &Identity) -> Arc<dyn ResolvesClientCert> {
    Arc::new(SingleCertAndKey::from(identity.certified.clone()))
}

#[cfg(test)]
mod tests;
