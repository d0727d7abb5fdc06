//! TLS for the ports of a member.

use std::sync::Arc;

use net::{Security, Tls};
use tls::{Info, ServerSide};

use crate::config::Config;
use crate::config::url::ListenUrl;

/// What the ports for clients and metrics speak.
pub(crate) struct ClientSecurity {
    info: Info,
    /// None if no port speaks TLS.
    side: Option<Arc<ServerSide>>,
    checks_origin: bool,
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecurityError {
    #[error(transparent)]
    Load(#[from] tls::LoadError),
    #[error("failed to get client self-signed certs: {0}")]
    Auto(#[from] tls::AutoError),
}

impl ClientSecurity {
    /// Makes a certificate if one is to be made, and reads all files if any port speaks TLS. Before anything else is begun: a member that cannot be
    /// reached is none.
    pub(crate) fn load(
        config: &Config,
        metrics: &tls::Metrics,
    ) -> Result<ClientSecurity, SecurityError> {
        let info = made(config)?;
        let listen = &config.listen;
        let mut urls = listen.client.iter().chain(&listen.client_http).chain(&listen.metrics);
        let side = match urls.any(ListenUrl::is_secure) {
            true => Some(Arc::new(ServerSide::load("client", info.clone(), metrics)?)),
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
    pub(crate) fn of_clients(&self, speaks: Speaks) -> Security {
        match (&self.side, speaks) {
            (None, _) | (Some(_), Speaks::Plain) => Security::Plain,
            (Some(side), Speaks::Tls) => Security::Tls(tls(side, false)),
            (Some(side), Speaks::Both) => Security::Either(tls(side, false)),
        }
    }

    /// Of a port for metrics alone.
    ///
    /// Compat: only there does etcd compare what the certificate of a client is for with where it comes from.
    pub(crate) fn of_metrics(&self, speaks: Speaks) -> Security {
        match (&self.side, speaks) {
            (None, _) | (Some(_), Speaks::Plain) => Security::Plain,
            (Some(side), _) => Security::Tls(tls(side, self.checks_origin)),
        }
    }
}

fn tls(side: &Arc<ServerSide>, checks_origin: bool) -> Tls {
    Tls { side: Arc::clone(side), checks_origin }
}

/// The settings, with the certificate that is made if none was given.
fn made(config: &Config) -> Result<Info, tls::AutoError> {
    let given = &config.tls.info;
    let Some(auto) = &config.tls.auto else { return Ok(given.clone()) };
    let folder = config.data_dir.join("fixtures").join("client");
    let made = tls::make_certificate(&folder, &auto.hosts, auto.validity_years)?;
    Ok(Info { suites: given.suites.clone(), versions: given.versions, ..made })
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
