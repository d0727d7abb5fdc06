//! TLS for outgoing connections, with files that may change ([`ReloadingFiles`]).
//!
//! ```text
//!   --peer-cert-file m1.pem --peer-key-file m1.key      presents m1.pem
//!   .. and --peer-client-cert-file c.pem (and key)      presents c.pem instead
//!   --peer-trusted-ca-file ca.pem                       trusts ca.pem
//!   --peer-auto-tls                                     presents a self-signed one, trusts any
//!   no flags                                            presents none, trusts the system's CAs
//! ```
//!
//! Sessions are never resumed: connections between servers are long-lived, and each new one is
//! verified.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;

use crate::error::LoadError;
use crate::files::identity::{Identity, Role};
use crate::files::reloading_files::{ReloadOutcome, ReloadingFiles};
use crate::files::tls_files::{FileContents, TlsFiles, check_client_pair};
use crate::files::trust_anchors::TrustAnchors;
use crate::info::{Info, Protocol, Versions};
use crate::metrics::Metrics;
use crate::server_tls::{log_unsupported_suites, log_warnings};
use crate::verify::client_verifier::AllowedNames;
use crate::verify::server_verifier::ServerVerifier;

/// TLS for outgoing connections.
#[derive(Debug)]
pub struct ClientTls {
    name: &'static str,
    info: Info,
    metrics: Metrics,
    files: ReloadingFiles<ClientGeneration>,
}

/// The configuration made from one state of the files.
#[derive(Debug)]
struct ClientGeneration {
    config: Arc<ClientConfig>,
    identity: Option<Identity>,
}

/// A host for which no certificate can be issued.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tls: {0:?} is not a valid server name")]
pub struct InvalidServerName(pub String);

impl ClientTls {
    /// Reads all files. `name` identifies them in logs and metrics, for example `peer-client`.
    ///
    /// # Errors
    /// Names the invalid file and the reason.
    pub fn load(name: &'static str, info: Info, metrics: &Metrics) -> Result<ClientTls, LoadError> {
        let make = |files: &TlsFiles, contents: &FileContents| {
            ClientGeneration::new(files, contents, &info)
        };
        let files = ReloadingFiles::load(TlsFiles::for_client(&info)?, make)?;
        check_client_pair(&info)?;
        log_unsupported_suites(&info);
        let side = ClientTls { name, info, metrics: metrics.clone(), files };
        side.record_expiry(&side.files.last());
        Ok(side)
    }

    /// Returns the settings.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Returns the current configuration. Reloads the files if they have changed.
    pub fn current(&self) -> Arc<ClientConfig> {
        let make = |files: &TlsFiles, contents: &FileContents| {
            ClientGeneration::new(files, contents, &self.info)
        };
        let generation = self.files.current(make, |news| match news {
            ReloadOutcome::Reloaded(generation) => self.on_reloaded(generation),
            ReloadOutcome::Failed(error) => self.on_reload_failed(error),
        });
        Arc::clone(&generation.config)
    }

    /// Returns the name that the certificate of a server must be for, if it is dialed by this host.
    ///
    /// # Errors
    /// If the host is not a valid server name.
    pub fn server_name(&self, host: &str) -> Result<ServerName<'static>, InvalidServerName> {
        let host = self.info.server_name.as_deref().unwrap_or(host);
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(ServerName::IpAddress(address.into()));
        }
        let name = ServerName::try_from(host.trim_end_matches('.').to_owned());
        name.map_err(|_| InvalidServerName(host.to_owned()))
    }

    fn on_reloaded(&self, generation: &ClientGeneration) {
        self.metrics.count_reload(self.name, true);
        self.record_expiry(generation);
        tracing::info!(caller = self.name, tls_info = %self.info, "reloaded TLS files");
    }

    fn record_expiry(&self, generation: &ClientGeneration) {
        let Some(identity) = &generation.identity else { return };
        self.metrics.set_expiry(self.name, identity.not_after);
        // A self-signed certificate is for servers, and is presented to servers that require none.
        if !self.info.insecure_skip_verify {
            log_warnings(self.files.files(), identity, Role::Client);
        }
    }

    fn on_reload_failed(&self, error: &LoadError) {
        self.metrics.count_reload(self.name, false);
        tracing::error!(
            caller = self.name,
            %error,
            "TLS files have changed and are invalid; the previous ones stay in use"
        );
    }
}

impl ClientGeneration {
    fn new(
        files: &TlsFiles,
        contents: &FileContents,
        info: &Info,
    ) -> Result<ClientGeneration, LoadError> {
        let provider = Arc::new(provider(info)?);
        let identity = files.identity(contents, &provider)?;
        let anchors = match info.insecure_skip_verify {
            true => None,
            false => Some(files.anchors(contents)?.unwrap_or_else(TrustAnchors::none)),
        };
        let verifier = ServerVerifier {
            provider: Arc::clone(&provider),
            anchors,
            allowed: AllowedNames::new(info)?,
            revoked: files.revoked(contents)?,
        };
        let config = Arc::new(config(identity.as_ref(), verifier, info, provider)?);
        Ok(ClientGeneration { config, identity })
    }
}

/// Compat: as in etcd, versions and suites apply only if there is a certificate.
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
        Some(identity) => builder.with_client_cert_resolver(cert_resolver(identity)),
        None => builder.with_no_client_auth(),
    };
    config.resumption = Resumption::disabled();
    // Compat: etcd's members send no ALPN.
    config.alpn_protocols = match info.protocol {
        Protocol::Http2 => vec![b"h2".to_vec()],
        Protocol::Http1 => Vec::new(),
    };
    Ok(config)
}

fn cert_resolver(identity: &Identity) -> Arc<dyn ResolvesClientCert> {
    Arc::new(SingleCertAndKey::from(identity.certified.clone()))
}

#[cfg(test)]
mod tests;
