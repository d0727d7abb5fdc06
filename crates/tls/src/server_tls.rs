//! TLS for the listeners of one kind, with files that may change ([`Kept`]).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::pki_types::CertificateDer;

use crate::error::LoadError;
use crate::generation::Generation;
use crate::identity::{Identity, Oddity, Role, date};
use crate::info::{Info, text};
use crate::kept::{Kept, News};
use crate::metrics::Metrics;
use crate::peer::{self, PeerCertificate, Rejected, Rejection};
use crate::sources::{Contents, Sources, check_client_pair};

/// TLS for the listeners of one kind.
#[derive(Debug)]
pub struct ServerTls {
    listener: &'static str,
    info: Info,
    metrics: Metrics,
    kept: Kept<Generation>,
}

impl ServerTls {
    /// Reads all files. `listener` is what they are for, in logs and metrics: `client`, or `peer`.
    ///
    /// # Errors
    /// What is wrong, and with which file.
    pub fn load(
        listener: &'static str,
        info: Info,
        metrics: &Metrics,
    ) -> Result<ServerTls, LoadError> {
        let kept = Kept::load(Sources::of_server(&info)?, |sources, contents| {
            Generation::new(sources, contents, &info)
        })?;
        check_client_pair(&info)?;
        tell_lacking(&info);
        let identity = &kept.made().identity;
        metrics.shows(listener, identity.not_after);
        tell_oddities(kept.sources(), identity, Role::Server);
        Ok(ServerTls { listener, info, metrics: metrics.clone(), kept })
    }

    /// What it is for: `client`, or `peer`.
    pub fn listener(&self) -> &'static str {
        self.listener
    }

    /// How TLS is spoken.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// What to shake hands with now. Looks whether the files have changed.
    pub fn current(&self) -> Arc<Generation> {
        let make =
            |sources: &Sources, contents: &Contents| Generation::new(sources, contents, &self.info);
        self.kept.current(make, |news| match news {
            News::Taken(served) => self.tell_reloaded(served),
            News::Failed(error) => self.tell_failed(error),
        })
    }

    fn tell_reloaded(&self, served: &Generation) {
        self.metrics.reloaded(self.listener, true);
        self.metrics.shows(self.listener, served.identity.not_after);
        tracing::info!(
            listener = self.listener,
            tls_info = %self.info,
            not_after = date(served.identity.not_after),
            revoked = served.revoked.as_ref().map(crate::crl::Revoked::len),
            "reloaded TLS files"
        );
        tell_oddities(self.kept.sources(), &served.identity, Role::Server);
    }

    fn tell_failed(&self, error: &LoadError) {
        self.metrics.reloaded(self.listener, false);
        tracing::error!(
            listener = self.listener,
            %error,
            "TLS files have changed and cannot be used; what was read before is served on"
        );
    }

    /// Whether a client whose handshake went well, also if it resumed a session, may stay; with the name in its certificate, which may be
    /// empty, if it had to show one.
    ///
    /// `origin`: where it comes from, if its certificate must be for that. Then names may be looked up, which can take long.
    ///
    /// # Errors
    /// Why not, and whose certificate it was.
    pub fn admit(
        &self,
        generation: &Generation,
        chain: Option<&[CertificateDer<'_>]>,
        origin: Option<IpAddr>,
    ) -> Result<Option<Arc<str>>, Box<Rejected>> {
        let Some((chain, first)) = chain.and_then(|chain| Some((chain, chain.first()?))) else {
            return Ok(None);
        };
        let rejected = |why, certificate| Box::new(Rejected { why, certificate });
        let peer = PeerCertificate::parse(first)
            .map_err(|why| rejected(why, PeerCertificate::default()))?;
        match judge(generation, &peer, chain, origin) {
            Ok(()) => Ok(Some(peer.common_name.into())),
            Err(why) => Err(rejected(why, peer)),
        }
    }
}

fn judge(
    generation: &Generation,
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
    chain.iter().try_for_each(|certificate| peer::check_revoked(certificate, revoked))
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

pub(crate) fn tell_lacking(info: &Info) {
    let lacking = info.suites.lacking();
    if !lacking.is_empty() {
        tracing::warn!(cipher_suites = ?lacking, "ignoring cipher suites that are not supported by Bowline");
    }
}

pub(crate) fn tell_oddities(sources: &Sources, identity: &Identity, role: Role) {
    let cert_file = text(sources.cert());
    for oddity in identity.oddities(role, now()) {
        match oddity {
            Oddity::Expired { since } => {
                tracing::warn!(%cert_file, not_after = since, "the certificate has expired");
            }
            Oddity::NotYetValid { until } => {
                tracing::warn!(%cert_file, not_before = until, "the certificate is not valid yet");
            }
            Oddity::NotFor(role) => {
                let (whom, usage) = role.texts();
                tracing::warn!(%cert_file, "the certificate is not for {whom}: its extended key usage has no {usage}");
            }
        }
    }
}

#[cfg(test)]
mod tests;
