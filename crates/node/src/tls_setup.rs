//! TLS for the ports of a member and for dialing peers.

use std::sync::Arc;

use net::TlsMode;
use tls::{ClientTls, Info, ServerTls};

use config::url::{ListenUrl, Scheme};
use config::{Config, Tls};

/// TLS of the client and metrics ports.
pub(crate) struct ClientTlsSetup {
    info: Info,
    /// `None` if no port uses TLS.
    server_tls: Option<Arc<ServerTls>>,
    checks_origin: bool,
}

/// TLS that cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsSetupError {
    #[error(transparent)]
    Load(#[from] tls::LoadError),
    #[error("failed to get client self-signed certs: {0}")]
    ClientAuto(tls::SelfSignedError),
    #[error("failed to get peer self-signed certs: {0}")]
    PeerAuto(tls::SelfSignedError),
    #[error("cannot listen on TLS for {0}: KeyFile and CertFile are not presented")]
    NoCertificate(String),
}

impl ClientTlsSetup {
    /// Generates a certificate if configured, and loads all files if a port uses TLS.
    pub(crate) fn load(
        config: &Config,
        metrics: &tls::Metrics,
    ) -> Result<ClientTlsSetup, TlsSetupError> {
        let info =
            certificate_info(config, &config.tls, "client").map_err(TlsSetupError::ClientAuto)?;
        let listen = &config.listen;
        let mut urls = listen.client.iter().chain(&listen.client_http).chain(&listen.metrics);
        let server_tls = match urls.any(ListenUrl::is_secure) {
            true => Some(Arc::new(ServerTls::load("client", info.clone(), metrics)?)),
            false => None,
        };
        Ok(ClientTlsSetup { info, server_tls, checks_origin: config.tls.checks_origin })
    }

    /// Logs the TLS settings as etcd does, if there is a certificate.
    pub(crate) fn log_settings(&self) {
        if !self.info.is_empty() {
            let (tls_info, cipher_suites) = (&self.info, self.info.suites.names());
            tracing::info!(%tls_info, ?cipher_suites, "starting with client TLS");
        }
    }

    /// Warns about TLS flags that have no effect on a port without TLS.
    pub(crate) fn warn_ignored(&self, url: &ListenUrl) {
        if !self.info.is_empty() {
            tracing::warn!(
                client_url = %url,
                "scheme is http or unix while key and cert files are present; ignoring key and cert files"
            );
        }
        if self.info.client_cert_auth {
            tracing::warn!(
                client_url = %url,
                "scheme is http or unix while --client-cert-auth is enabled; ignoring client cert auth for this URL"
            );
        }
    }

    /// Returns the TLS mode of a client port.
    pub(crate) fn client_port(&self, port: PortTls) -> TlsMode {
        match (&self.server_tls, port) {
            (None, _) | (Some(_), PortTls::Plain) => TlsMode::Disabled,
            (Some(server_tls), PortTls::Tls) => TlsMode::Required(tls(server_tls, false)),
            (Some(server_tls), PortTls::Both) => TlsMode::Optional(tls(server_tls, false)),
        }
    }

    /// Returns the TLS mode of a metrics port.
    ///
    /// Compat: as in etcd, of these ports only metrics ports compare the names in a client's
    /// certificate with its address.
    pub(crate) fn metrics_port(&self, port: PortTls) -> TlsMode {
        match (&self.server_tls, port) {
            (None, _) | (Some(_), PortTls::Plain) => TlsMode::Disabled,
            (Some(server_tls), _) => TlsMode::Required(tls(server_tls, self.checks_origin)),
        }
    }
}

/// TLS of the peer ports and of dialing peers.
pub(crate) struct PeerTlsSetup {
    info: Info,
    /// `None` if no port uses TLS.
    server_tls: Option<Arc<ServerTls>>,
    client_tls: Arc<ClientTls>,
    checks_origin: bool,
}

impl PeerTlsSetup {
    /// Generates a certificate if configured, and loads all files.
    ///
    /// Compat: as in etcd, the files must be valid even if no URL uses TLS.
    pub(crate) fn load(
        config: &Config,
        metrics: &tls::Metrics,
    ) -> Result<PeerTlsSetup, TlsSetupError> {
        let info =
            certificate_info(config, &config.peer.tls, "peer").map_err(TlsSetupError::PeerAuto)?;
        let secure = config.listen.peer.iter().find(|url| url.is_secure());
        let server_tls = match secure {
            Some(url) if info.is_empty() => {
                return Err(TlsSetupError::NoCertificate(url.url().host().to_owned()));
            }
            Some(_) => Some(Arc::new(ServerTls::load("peer", info.clone(), metrics)?)),
            None => None,
        };
        let client_tls = Arc::new(ClientTls::load("peer-client", info.clone(), metrics)?);
        Ok(PeerTlsSetup {
            info,
            server_tls,
            client_tls,
            checks_origin: config.peer.tls.checks_origin,
        })
    }

    /// Returns the TLS settings for dialing peers. With a server name, their certificates must be
    /// valid for it.
    pub(crate) fn dial_tls(
        &self,
        server_name: Option<&str>,
        metrics: &tls::Metrics,
    ) -> Result<Arc<ClientTls>, TlsSetupError> {
        let Some(server_name) = server_name else { return Ok(Arc::clone(&self.client_tls)) };
        let info = Info { server_name: Some(server_name.to_owned()), ..self.info.clone() };
        Ok(Arc::new(ClientTls::load("peer-client", info, metrics)?))
    }

    /// Logs the TLS settings as etcd does, and the flags without effect for each URL.
    pub(crate) fn log_settings(&self, urls: &[ListenUrl]) {
        if !self.info.is_empty() {
            let (tls_info, cipher_suites) = (&self.info, self.info.suites.names());
            tracing::info!(%tls_info, ?cipher_suites, "starting with peer TLS");
        }
        urls.iter().filter(|url| url.url().scheme() == Scheme::Http).for_each(|url| {
            self.warn_ignored(url);
        });
    }

    fn warn_ignored(&self, url: &ListenUrl) {
        if !self.info.is_empty() {
            tracing::warn!(
                peer_url = %url,
                "scheme is HTTP while key and cert files are present; ignoring key and cert files"
            );
        }
        if self.info.client_cert_auth {
            tracing::warn!(
                peer_url = %url,
                "scheme is HTTP while --peer-client-cert-auth is enabled; ignoring client cert auth for this URL"
            );
        }
    }

    /// Returns the TLS mode of a peer port.
    pub(crate) fn peer_port(&self, port: PortTls) -> TlsMode {
        match (&self.server_tls, port) {
            (None, _) | (Some(_), PortTls::Plain) => TlsMode::Disabled,
            (Some(server_tls), _) => TlsMode::Required(tls(server_tls, self.checks_origin)),
        }
    }
}

fn tls(server_tls: &Arc<ServerTls>, checks_origin: bool) -> net::ListenerTls {
    net::ListenerTls { server: Arc::clone(server_tls), checks_origin }
}

/// Returns the TLS settings, with a generated certificate if one is configured.
fn certificate_info(
    config: &Config,
    settings: &Tls,
    audience: &str,
) -> Result<Info, tls::SelfSignedError> {
    let configured = &settings.info;
    let Some(auto) = &settings.auto else { return Ok(configured.clone()) };
    let dir = config.data_dir.join("fixtures").join(audience);
    let generated = tls::generate_self_signed(&dir, &auto.hosts, auto.validity_years)?;
    let Info { suites, versions, protocol, .. } = configured.clone();
    Ok(Info { suites, versions, protocol, ..generated })
}

/// The TLS of a port, by the URLs of its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortTls {
    Plain,
    Tls,
    Both,
}

impl PortTls {
    pub(crate) fn of(url: &ListenUrl) -> PortTls {
        if url.is_secure() { PortTls::Tls } else { PortTls::Plain }
    }

    /// Combines the URLs of one address.
    pub(crate) fn and(self, other: PortTls) -> PortTls {
        if self == other { self } else { PortTls::Both }
    }
}

#[cfg(test)]
mod tests;
