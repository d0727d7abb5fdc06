//! TLS for the listeners of one kind, with files that may change.
//!
//! ```text
//!   handshake   files                                   served        told
//!   1           as they were read at the start          generation 1
//!   2           a new certificate, and still the old key generation 1  error, once: key does not match
//!   3           a new key, too                          generation 2  taken
//!   4           the CA bundle is gone                   generation 2  error, once: no such file
//! ```
//!
//! Looking at the files costs a system call each, so that is done at every handshake and nothing is missed; reading them, only when they have
//! changed or are [young](crate::files::Stamps::is_young).

use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;

use crate::error::LoadError;
use crate::files::{self, Stamps};
use crate::generation::{Contents, Generation, Sources};
use crate::identity::{Identity, Oddity, date};
use crate::info::{Info, text};
use crate::metrics::Metrics;
use crate::peer::{self, PeerCertificate, Rejected, Rejection};

/// TLS for the listeners of one kind.
#[derive(Debug)]
pub struct ServerSide {
    listener: &'static str,
    info: Info,
    sources: Sources,
    metrics: Metrics,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    served: Arc<Generation>,
    /// What `served` was made of.
    contents: Contents,
    /// The files when they were last read.
    stamps: Stamps,
    /// Whether those stamps tell every change.
    is_settled: bool,
    /// Why what was last read is not served.
    failure: Option<String>,
}

impl ServerSide {
    /// Reads all files. `listener` is what they are for, in logs and metrics: `client`, or `peer`.
    ///
    /// # Errors
    /// What is wrong, and with which file.
    pub fn load(
        listener: &'static str,
        info: Info,
        metrics: &Metrics,
    ) -> Result<ServerSide, LoadError> {
        let sources = Sources::new(&info)?;
        let (stamps, is_settled) = look(&sources);
        let contents = Contents::read(&sources)?;
        let served = Arc::new(Generation::new(&sources, &contents, &info)?);
        check_client_pair(&info)?;
        tell_lacking(&info);
        metrics.shows(listener, served.identity.not_after);
        tell_oddities(&sources.cert, &served.identity);
        let state = State { served, contents, stamps, is_settled, failure: None };
        let (metrics, state) = (metrics.clone(), Mutex::new(state));
        Ok(ServerSide { listener, info, sources, metrics, state })
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
        let mut state = self.lock();
        let (stamps, is_settled) = look(&self.sources);
        if stamps != state.stamps || !state.is_settled {
            self.read_again(&mut state, stamps);
            state.is_settled = is_settled;
        }
        Arc::clone(&state.served)
    }

    fn read_again(&self, state: &mut State, stamps: Stamps) {
        let has_changed = stamps != state.stamps;
        state.stamps = stamps;
        match self.try_read(state) {
            Ok(None) => state.failure = None,
            Ok(Some((contents, served))) => {
                self.tell_reloaded(&served);
                (state.contents, state.served, state.failure) = (contents, served, None);
            }
            Err(error) => {
                let failure = Some(error.to_string());
                if has_changed || failure != state.failure {
                    self.tell_failed(&error);
                }
                state.failure = failure;
            }
        }
    }

    /// What the files hold now, unless that is what is served anyhow.
    fn try_read(&self, state: &State) -> Result<Option<(Contents, Arc<Generation>)>, LoadError> {
        let contents = Contents::read(&self.sources)?;
        if contents == state.contents {
            return Ok(None);
        }
        let generation = Generation::new(&self.sources, &contents, &self.info)?;
        Ok(Some((contents, Arc::new(generation))))
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
        tell_oddities(&self.sources.cert, &served.identity);
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

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn judge(
    generation: &Generation,
    peer: &PeerCertificate,
    chain: &[CertificateDer<'_>],
    origin: Option<IpAddr>,
) -> Result<(), Rejection> {
    if let Some(origin) = origin {
        peer.check_origin(origin)?;
    }
    if peer.not_after < now() {
        return Err(Rejection::Expired);
    }
    let Some(revoked) = &generation.revoked else { return Ok(()) };
    for certificate in chain {
        let serial = peer::serial(certificate)?;
        if revoked.has(&serial) {
            let hex: Vec<String> = serial.iter().map(|byte| format!("{byte:02x}")).collect();
            return Err(Rejection::Revoked(hex.concat()));
        }
    }
    Ok(())
}

/// The files as they are, and whether that tells every change from now on.
fn look(sources: &Sources) -> (Stamps, bool) {
    // The clock first: a file that is written in between is young.
    let now = SystemTime::now();
    let stamps = Stamps::of(&sources.files());
    let is_settled = !stamps.is_young(now);
    (stamps, is_settled)
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Nobody uses this pair yet; but as in etcd, one that is given must be sound.
fn check_client_pair(info: &Info) -> Result<(), LoadError> {
    match (&info.client_cert_file, &info.client_key_file) {
        (None, None) => Ok(()),
        (Some(cert), Some(key)) => {
            let (cert_bytes, key_bytes) = (files::read(cert)?, files::read(key)?);
            let provider = aws_lc_rs::default_provider();
            Identity::parse((cert, &cert_bytes), (key, &key_bytes), &provider).map(drop)
        }
        (cert, key) => {
            Err(LoadError::ClientHalf { key: text(key.as_deref()), cert: text(cert.as_deref()) })
        }
    }
}

fn tell_lacking(info: &Info) {
    let lacking = info.suites.lacking();
    if !lacking.is_empty() {
        tracing::warn!(cipher_suites = ?lacking, "ignoring cipher suites that are not supported by Bowline");
    }
}

fn tell_oddities(cert_file: &Path, identity: &Identity) {
    let cert_file = cert_file.display();
    for oddity in identity.oddities(now()) {
        match oddity {
            Oddity::Expired { since } => {
                tracing::warn!(%cert_file, not_after = since, "the certificate has expired");
            }
            Oddity::NotYetValid { until } => {
                tracing::warn!(%cert_file, not_before = until, "the certificate is not valid yet");
            }
            Oddity::NotForServers => {
                tracing::warn!(%cert_file, "the certificate is not for servers: its extended key usage has no serverAuth");
            }
        }
    }
}

#[cfg(test)]
mod tests;
