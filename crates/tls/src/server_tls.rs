//! TLS for accepted connections, with files that may change ([`ReloadingFiles`]).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::pki_types::CertificateDer;

use crate::error::LoadError;
use crate::files::identity::{CertificateWarning, Identity, Role, date};
use crate::files::reloading_files::{ReloadOutcome, ReloadingFiles};
use crate::files::tls_files::{FileContents, TlsFiles, check_client_pair};
use crate::generation::ServerGeneration;
use crate::info::{Info, text};
use crate::metrics::Metrics;
use crate::verify::peer_certificate::{self, PeerCertificate, RejectedClient, Rejection};

/// TLS for the listeners of one kind.
#[derive(Debug)]
pub struct ServerTls {
    listener: &'static str,
    info: Info,
    metrics: Metrics,
    files: ReloadingFiles<ServerGeneration>,
}

impl ServerTls {
    /// Reads all files. `listener` identifies them in logs and metrics: `client` or `peer`.
    ///
    /// # Errors
    /// Names the invalid file and the reason.
    pub fn load(
        listener: &'static str,
        info: Info,
        metrics: &Metrics,
    ) -> Result<ServerTls, LoadError> {
        let files = ReloadingFiles::load(TlsFiles::for_server(&info)?, |files, contents| {
            ServerGeneration::new(files, contents, &info)
        })?;
        check_client_pair(&info)?;
        log_unsupported_suites(&info);
        let identity = &files.last().identity;
        metrics.set_expiry(listener, identity.not_after);
        log_warnings(files.files(), identity, Role::Server);
        Ok(ServerTls { listener, info, metrics: metrics.clone(), files })
    }

    /// Returns the kind of listener: `client` or `peer`.
    pub fn listener(&self) -> &'static str {
        self.listener
    }

    /// Returns the settings.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Returns the current generation. Reloads the files if they have changed.
    pub fn current(&self) -> Arc<ServerGeneration> {
        let make = |files: &TlsFiles, contents: &FileContents| {
            ServerGeneration::new(files, contents, &self.info)
        };
        self.files.current(make, |news| match news {
            ReloadOutcome::Reloaded(served) => self.on_reloaded(served),
            ReloadOutcome::Failed(error) => self.on_reload_failed(error),
        })
    }

    fn on_reloaded(&self, served: &ServerGeneration) {
        self.metrics.count_reload(self.listener, true);
        self.metrics.set_expiry(self.listener, served.identity.not_after);
        tracing::info!(
            listener = self.listener,
            tls_info = %self.info,
            not_after = date(served.identity.not_after),
            revoked = served.revoked.as_ref().map(crate::files::crl::RevokedSerials::len),
            "reloaded TLS files"
        );
        log_warnings(self.files.files(), &served.identity, Role::Server);
    }

    fn on_reload_failed(&self, error: &LoadError) {
        self.metrics.count_reload(self.listener, false);
        tracing::error!(
            listener = self.listener,
            %error,
            "TLS files have changed and are invalid; the previous ones stay in use"
        );
    }

    /// Decides whether a client is admitted after a successful handshake or resumption. Returns the
    /// common name of its certificate, which may be empty, if one was required.
    ///
    /// `origin` is the client's address, if the certificate must be for it. That check may resolve
    /// names, which can take long.
    ///
    /// # Errors
    /// The reason for a rejection, and the client's certificate.
    pub fn admit(
        &self,
        generation: &ServerGeneration,
        chain: Option<&[CertificateDer<'_>]>,
        origin: Option<IpAddr>,
    ) -> Result<Option<Arc<str>>, Box<RejectedClient>> {
        let Some((chain, first)) = chain.and_then(|chain| Some((chain, chain.first()?))) else {
            return Ok(None);
        };
        let rejected = |reason, certificate| Box::new(RejectedClient { reason, certificate });
        let peer = PeerCertificate::parse(first)
            .map_err(|reason| rejected(reason, PeerCertificate::default()))?;
        match check_client(generation, &peer, chain, origin) {
            Ok(()) => Ok(Some(peer.common_name.into())),
            Err(reason) => Err(rejected(reason, peer)),
        }
    }
}

fn check_client(
    generation: &ServerGeneration,
    peer: &PeerCertificate,
    chain: &[CertificateDer<'_>],
    origin: Option<IpAddr>,
) -> Result<(), Rejection> {
    if let Some(origin) = origin {
        peer.check_origin(origin, env::host_name)?;
    }
    if peer.not_after < now() {
        return Err(Rejection::Expired);
    }
    let Some(revoked) = &generation.revoked else { return Ok(()) };
    chain.iter().try_for_each(|certificate| peer_certificate::check_revoked(certificate, revoked))
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

pub(crate) fn log_unsupported_suites(info: &Info) {
    let unsupported = info.suites.unsupported();
    if !unsupported.is_empty() {
        tracing::warn!(cipher_suites = ?unsupported, "ignoring cipher suites that are not supported by Bowline");
    }
}

pub(crate) fn log_warnings(files: &TlsFiles, identity: &Identity, role: Role) {
    let cert_file = text(files.cert());
    for warning in identity.warnings(role, now()) {
        match warning {
            CertificateWarning::Expired { since } => {
                tracing::warn!(%cert_file, not_after = since, "the certificate has expired");
            }
            CertificateWarning::NotYetValid { until } => {
                tracing::warn!(%cert_file, not_before = until, "the certificate is not valid yet");
            }
            CertificateWarning::NotFor(role) => {
                let (role, usage) = role.texts();
                tracing::warn!(%cert_file, "the certificate is not for {role}: its extended key usage has no {usage}");
            }
        }
    }
}

#[cfg(test)]
mod tests;
