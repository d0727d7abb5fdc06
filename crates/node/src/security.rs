//! TLS for the ports of a member, and for calls to others.

use std::sync::Arc;

use net::TlsMode;
use tls::{ClientTls, Info, ServerTls};

use config::url::{ListenUrl, Scheme};
use config::{Config, Tls};

/// What the ports for clients and metrics speak.
pub(crate) struct ClientSecurity {
    info: Info,
    /// None if no port speaks TLS.
    side: Option<Arc<ServerTls>>,
    checks_origin: bool,
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecurityError {
    #[error(transparent)]
    Load(#[from] tls::LoadError),
    #[error("failed to get client self-signed certs: {0}")]
    ClientAuto(tls::SelfSignedError),
    #[error("failed to get peer self-signed certs: {0}")]
    PeerAuto(tls::SelfSignedError),
    #[error("cannot listen on TLS for {0}: KeyFile and CertFile are not presented")]
    NothingToShow(String),
}

impl ClientSecurity {
    /// Makes a certificate if one is to be made, and reads all files if any port speaks TLS. Before
    /// anything else is begun: a member that cannot be reached is none.
    pub(crate) fn load(
        config: &Config,
        metrics: &tls::Metrics,
    ) -> Result<ClientSecurity, SecurityError> {
        let info = made(config, &config.tls, "client").map_err(SecurityError::ClientAuto)?;
        let listen = &config.listen;
        let mut urls = listen.client.iter().chain(&listen.client_http).chain(&listen.metrics);
        let side = match urls.any(ListenUrl::is_secure) {
            true => Some(Arc::new(ServerTls::load("client", info.clone(), metrics)?)),
            false => None,
        };
        Ok(ClientSecurity { info, side, checks_origin: config.tls.checks_origin })
    }

    /// Tells how TLS is spoken, as etcd does, if there is a certificate to speak it with.
    pub(crate) fn tell(&self) {
        if !self.info.is_empty() {
            let (tls_info, cipher_suites) = (&self.info, self.info.suites.names());
            tracing::info!(%tls_info, ?cipher_suites, "starting with client TLS");
        }
    }

    /// Tells what has no effect on a port without TLS.
    pub(crate) fn tell_plain(&self, url: &ListenUrl) {
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

    /// Of a port for clients.
    pub(crate) fn of_clients(&self, speaks: Speaks) -> TlsMode {
        match (&self.side, speaks) {
            (None, _) | (Some(_), Speaks::Plain) => TlsMode::Disabled,
            (Some(side), Speaks::Tls) => TlsMode::Required(tls(side, false)),
            (Some(side), Speaks::Both) => TlsMode::Optional(tls(side, false)),
        }
    }

    /// Of a port for metrics alone.
    ///
    /// Compat: of these ports, only there does etcd compare what the certificate of a client is for
    /// with where it comes from.
    pub(crate) fn of_metrics(&self, speaks: Speaks) -> TlsMode {
        match (&self.side, speaks) {
            (None, _) | (Some(_), Speaks::Plain) => TlsMode::Disabled,
            (Some(side), _) => TlsMode::Required(tls(side, self.checks_origin)),
        }
    }
}

/// What the ports for other members speak, and what is spoken with them when they are called.
pub(crate) struct PeerSecurity {
    info: Info,
    /// None if no port speaks TLS.
    side: Option<Arc<ServerTls>>,
    caller: Arc<ClientTls>,
    checks_origin: bool,
}

impl PeerSecurity {
    /// Makes a certificate if one is to be made, and reads all files.
    ///
    /// Compat: files have to be sound even if no URL asks for TLS, as in etcd.
    pub(crate) fn load(
        config: &Config,
        metrics: &tls::Metrics,
    ) -> Result<PeerSecurity, SecurityError> {
        let info = made(config, &config.peer.tls, "peer").map_err(SecurityError::PeerAuto)?;
        let secure = config.listen.peer.iter().find(|url| url.is_secure());
        let side = match secure {
            Some(url) if info.is_empty() => {
                return Err(SecurityError::NothingToShow(url.url().host().to_owned()));
            }
            Some(_) => Some(Arc::new(ServerTls::load("peer", info.clone(), metrics)?)),
            None => None,
        };
        let caller = Arc::new(ClientTls::load("peer-client", info.clone(), metrics)?);
        Ok(PeerSecurity { info, side, caller, checks_origin: config.peer.tls.checks_origin })
    }

    /// What other members are called with. If there is a name, their certificates have to be for
    /// that.
    pub(crate) fn caller(
        &self,
        server_name: Option<&str>,
        metrics: &tls::Metrics,
    ) -> Result<Arc<ClientTls>, SecurityError> {
        let Some(server_name) = server_name else { return Ok(Arc::clone(&self.caller)) };
        let info = Info { server_name: Some(server_name.to_owned()), ..self.info.clone() };
        Ok(Arc::new(ClientTls::load("peer-client", info, metrics)?))
    }

    /// Tells how TLS is spoken, as etcd does, and what has no effect on which URL.
    pub(crate) fn tell(&self, urls: &[ListenUrl]) {
        if !self.info.is_empty() {
            let (tls_info, cipher_suites) = (&self.info, self.info.suites.names());
            tracing::info!(%tls_info, ?cipher_suites, "starting with peer TLS");
        }
        urls.iter().filter(|url| url.url().scheme() == Scheme::Http).for_each(|url| {
            self.tell_plain(url);
        });
    }

    fn tell_plain(&self, url: &ListenUrl) {
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

    /// Of a port for other members.
    pub(crate) fn of_peers(&self, speaks: Speaks) -> TlsMode {
        match (&self.side, speaks) {
            (None, _) | (Some(_), Speaks::Plain) => TlsMode::Disabled,
            (Some(side), _) => TlsMode::Required(tls(side, self.checks_origin)),
        }
    }
}

fn tls(side: &Arc<ServerTls>, checks_origin: bool) -> net::ListenerTls {
    net::ListenerTls { server: Arc::clone(side), checks_origin }
}

/// The settings, with the certificate that is made if none was given.
fn made(config: &Config, asked: &Tls, whose: &str) -> Result<Info, tls::SelfSignedError> {
    let given = &asked.info;
    let Some(auto) = &asked.auto else { return Ok(given.clone()) };
    let folder = config.data_dir.join("fixtures").join(whose);
    let made = tls::generate_self_signed(&folder, &auto.hosts, auto.validity_years)?;
    let Info { suites, versions, protocol, .. } = given.clone();
    Ok(Info { suites, versions, protocol, ..made })
}

/// What the URLs of an address ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    Plain,
    Tls,
    Both,
}

impl Speaks {
    pub(crate) fn of(url: &ListenUrl) -> Speaks {
        if url.is_secure() { Speaks::Tls } else { Speaks::Plain }
    }

    /// What two URLs of one address ask for.
    pub(crate) fn and(self, other: Speaks) -> Speaks {
        if self == other { self } else { Speaks::Both }
    }
}

#[cfg(test)]
mod tests;
