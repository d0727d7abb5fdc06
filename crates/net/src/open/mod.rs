//! Opens a connection: protocol detection, and a TLS handshake if the client begins with one.
//!
//! ```text
//!   accepted ─► detect ─┬─► HTTP/1 or HTTP/2 ─────────────────────► OpenedConnection
//!                       └─► TLS ─► handshake ─► detect (inside TLS) ─► OpenedConnection
//! ```
//!
//! Until then the connection is *pending*: it holds a [`PendingPermit`], and the oldest pending
//! connection is evicted when there are too many.

mod handshake;
mod protocol;
mod serialized_polls;
mod tls_mode;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use self::handshake::{Handshake, linger};
use crate::connection::{Connection, RemoteAddr};
use crate::handler::Handler;
use crate::limits::{Evicted, EvictingLimit, Permit};
use crate::listen::ServerStream;
use crate::runtime::AssignedRuntime;
use crate::serve::{ConnectionError, Server};

pub(crate) use self::handshake::HandshakeError;
pub(crate) use self::protocol::{PREFACE, Protocol, ReplayStream};
pub use self::tls_mode::{ListenerTls, TlsMode};

/// A connection whose protocol is known and whose client is admitted.
pub(crate) type OpenedConnection = (Protocol, ReplayStream<ServerStream>, Connection);

/// A connection's place among the pending ones.
pub(crate) struct PendingPermit {
    evicted: Arc<Evicted>,
    _permit: Permit,
}

impl PendingPermit {
    pub(crate) fn acquire(limit: &Arc<EvictingLimit>) -> Self {
        let evicted = Arc::<Evicted>::default();
        Self { _permit: limit.acquire(1, Arc::clone(&evicted)), evicted }
    }
}

impl<H: Handler> Server<H> {
    /// Opens a connection. Returns `None` if the client disconnects first or the listener drains.
    pub(crate) async fn open(
        &self,
        pending: PendingPermit,
        stream: ServerStream,
        remote: RemoteAddr,
        runtime: &AssignedRuntime,
    ) -> Result<Option<OpenedConnection>, ConnectionError> {
        let mut phase = self.phase.clone();
        tokio::select! {
            biased;
            _ = phase.changed() => Ok(None),
            opened = self.open_any(stream, remote, runtime) => opened,
            () = pending.evicted.evicted() => Err(ConnectionError::Evicted),
        }
    }

    async fn open_any(
        &self,
        stream: ServerStream,
        remote: RemoteAddr,
        runtime: &AssignedRuntime,
    ) -> Result<Option<OpenedConnection>, ConnectionError> {
        let Some((protocol, stream)) = self.detect(stream, self.first_timeout()).await? else {
            return Ok(None);
        };
        let plain = Connection::new(remote, false).with_send_limit(&self.send_limit);
        match (&self.config.tls, protocol) {
            (TlsMode::Disabled, _) | (TlsMode::Optional(_), Protocol::Http1 | Protocol::Http2) => {
                Ok(Some((protocol, stream, plain)))
            }
            (TlsMode::Required(tls), Protocol::Http1 | Protocol::Http2) => {
                Err(reject_plain(tls, remote, stream).await.into())
            }
            (TlsMode::Required(tls) | TlsMode::Optional(tls), Protocol::Tls) => {
                let handshake = Handshake { tls, remote, server_name: String::new() };
                Box::pin(self.open_tls(handshake, stream, runtime)).await
            }
        }
    }

    async fn open_tls(
        &self,
        mut handshake: Handshake<'_>,
        stream: ReplayStream<ServerStream>,
        runtime: &AssignedRuntime,
    ) -> Result<Option<OpenedConnection>, ConnectionError> {
        let in_time = self.config.detection_timeout.min(self.config.handshake_timeout);
        let (stream, name) = handshake.run(stream, runtime.handshakes(), in_time).await?;
        let connection = Connection::new(handshake.remote, true).with_common_name(name);
        let connection = connection.with_send_limit(&self.send_limit);
        let detected = self.detect(stream, self.config.detection_timeout).await?;
        Ok(detected.map(|(protocol, stream)| (protocol, stream, connection)))
    }

    /// Compat: on a listener that requires TLS, etcd's handshake timeout includes the wait for the
    /// first byte.
    fn first_timeout(&self) -> Duration {
        let detection = self.config.detection_timeout;
        if self.config.tls.allows_plain() {
            return detection;
        }
        detection.min(self.config.handshake_timeout)
    }

    /// Detects the protocol. Returns `None` if the connection ends first.
    async fn detect(
        &self,
        stream: ServerStream,
        within: Duration,
    ) -> Result<Option<(Protocol, ReplayStream<ServerStream>)>, ConnectionError> {
        let detected = timeout(within, protocol::detect(stream)).await;
        Ok(detected.map_err(|_| ConnectionError::Silent)??)
    }
}

/// Compat: etcd closes such a connection without an answer, and logs it.
async fn reject_plain(
    tls: &ListenerTls,
    remote: RemoteAddr,
    stream: ReplayStream<ServerStream>,
) -> HandshakeError {
    let error = HandshakeError::NotTls;
    Handshake { tls, remote, server_name: String::new() }.log_rejection(&error);
    linger(Some(stream)).await;
    error
}
