//! The TLS handshake of a listener, and the admission of the client.
//!
//! ```text
//!   ClientHello ──► current generation ──► keys, certificates ──► revoked? expired? origin?
//!        │                                        │                       │
//!        └ not TLS                                └ alert                 └ close_notify
//! ```
//!
//! Rejections are logged with etcd's messages, and sent to the client where TLS has an alert for
//! them. Our tls is then shut down, and what the client still sends is read for a moment: closing
//! with unread bytes would make the kernel reset the connection and discard the alert.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tls::rustls::server::Acceptor;
use tls::{PeerCertificate, RejectedClient, Rejection, ServerGeneration};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::{LazyConfigAcceptor, server::TlsStream};
use tracing::{debug, warn};

use super::protocol::ReplayStream;
use super::serialized_polls::serialize_polls;
use super::tls_mode::ListenerTls;
use crate::connection::RemoteAddr;
use crate::listen::ServerStream;
use crate::runtime::resolver::{self, Purpose};

/// The time, and the number of bytes, for which a rejected client is still read.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES_MAX: usize = 64 << 10;

/// The reason a handshake failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeError {
    #[error("{}", tls::handshake_error_text(.0))]
    Failed(io::Error),
    #[error("i/o timeout")]
    Late,
    #[error("tls: first record does not look like a TLS handshake")]
    NotTls,
    #[error("{}", .0.reason)]
    Rejected(Box<RejectedClient>),
}

/// An encrypted stream, and the common name in the client's certificate.
pub(crate) type Secured = (ServerStream, Option<Arc<str>>);

/// A handshake in progress, with what its log line needs.
pub(crate) struct Handshake<'a> {
    pub(crate) tls: &'a ListenerTls,
    pub(crate) remote: RemoteAddr,
    pub(crate) server_name: String,
}

impl Handshake<'_> {
    /// Performs the handshake, admits the client, and logs a rejection.
    pub(crate) async fn run(
        &mut self,
        stream: ReplayStream<ServerStream>,
        handshakes: &Semaphore,
        time_limit: Duration,
    ) -> Result<Secured, HandshakeError> {
        let secured = self.handshake_and_admit(stream, handshakes, time_limit).await;
        if let Err(error) = &secured {
            self.log_rejection(error);
        }
        secured
    }

    async fn handshake_and_admit(
        &mut self,
        stream: ReplayStream<ServerStream>,
        handshakes: &Semaphore,
        time_limit: Duration,
    ) -> Result<Secured, HandshakeError> {
        let result = timeout(time_limit, serialize_polls(handshakes, self.handshake(stream))).await;
        let result = match result.map_err(|_| HandshakeError::Late)? {
            Ok(result) => result,
            Err((error, stream)) => {
                linger(stream).await;
                return Err(HandshakeError::Failed(error));
            }
        };
        let (stream, generation) = result;
        match self.admit(&stream, generation).await {
            Ok(name) => Ok((ServerStream::Tls(Box::new(stream)), name)),
            Err(rejected) => {
                linger(Some(stream)).await;
                Err(HandshakeError::Rejected(rejected))
            }
        }
    }

    /// Performs the TLS handshake. On failure, returns the stream if an alert can still be sent.
    async fn handshake(
        &mut self,
        stream: ReplayStream<ServerStream>,
    ) -> Result<HandshakeOutput, HandshakeFailure> {
        let mut acceptor = LazyConfigAcceptor::new(Acceptor::default(), stream);
        let start = match (&mut acceptor).await {
            Ok(start) => start,
            Err(error) => return Err((error, acceptor.take_io())),
        };
        self.server_name = start.client_hello().server_name().unwrap_or_default().to_owned();
        let generation = self.tls.server.current();
        match start.into_stream(generation.config()).into_fallible().await {
            Ok(stream) => Ok((stream, generation)),
            Err((error, stream)) => Err((error, Some(stream))),
        }
    }

    /// Decides whether the client is admitted, and returns its common name.
    async fn admit(
        &self,
        stream: &TlsStream<ReplayStream<ServerStream>>,
        generation: Arc<ServerGeneration>,
    ) -> Result<Option<Arc<str>>, Box<RejectedClient>> {
        let chain = stream.get_ref().1.peer_certificates();
        let tls = &self.tls.server;
        let Some(origin) = self.origin() else {
            return tls.admit(&generation, chain, None);
        };
        let Some(chain) = chain else { return Ok(None) };
        // The check resolves names, which can take long.
        let chain: Vec<_> =
            chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
        let tls = Arc::clone(tls);
        let admitted = resolver::run_lookup(Purpose::Admit, move || {
            tls.admit(&generation, Some(&chain), Some(origin))
        });
        // The closure does not panic, and is canceled only with the runtime.
        admitted.await.unwrap_or_else(|error| {
            let reason = Rejection::Malformed(error.to_string());
            Err(Box::new(RejectedClient { reason, certificate: PeerCertificate::default() }))
        })
    }

    /// Returns the address that the client's certificate must be for, if that is checked.
    fn origin(&self) -> Option<IpAddr> {
        match self.remote {
            RemoteAddr::Tcp(address) if self.tls.checks_origin => Some(address.ip()),
            RemoteAddr::Tcp(_) | RemoteAddr::Unix => None,
        }
    }

    /// Logs a rejection. Compat: as in etcd, a client that just disconnects is not worth a warning.
    pub(crate) fn log_rejection(&self, error: &HandshakeError) {
        let Handshake { tls, remote, server_name } = self;
        let listener = tls.server.listener();
        match error {
            HandshakeError::Failed(failed) if failed.kind() == io::ErrorKind::UnexpectedEof => {
                debug!(remote_addr = %remote, server_name, %error, "rejected connection on {listener} endpoint");
            }
            HandshakeError::Rejected(rejected) => {
                let certificate = &rejected.certificate;
                let addresses: Vec<String> =
                    certificate.addresses.iter().map(ToString::to_string).collect();
                warn!(
                    remote_addr = %remote,
                    server_name,
                    ip_addresses = ?addresses,
                    dns_names = ?certificate.dns_names,
                    %error,
                    "rejected connection on {listener} endpoint"
                );
            }
            _ => {
                warn!(remote_addr = %remote, server_name, %error, "rejected connection on {listener} endpoint");
            }
        }
    }
}

type HandshakeOutput = (TlsStream<ReplayStream<ServerStream>>, Arc<ServerGeneration>);
type HandshakeFailure = (io::Error, Option<ReplayStream<ServerStream>>);

/// Shuts down our tls and reads for a moment. Errors end it silently.
pub(crate) async fn linger<S: AsyncRead + AsyncWrite + Unpin>(stream: Option<S>) {
    let Some(mut stream) = stream else { return };
    let closing = async {
        std::future::poll_fn(|cx| Pin::new(&mut stream).poll_shutdown(cx)).await?;
        let (mut bytes, mut total) = ([0; 1024], 0);
        while total < LINGER_BYTES_MAX {
            let mut buffer = ReadBuf::new(&mut bytes);
            std::future::poll_fn(|cx| Pin::new(&mut stream).poll_read(cx, &mut buffer)).await?;
            match buffer.filled().len() {
                0 => break,
                read => total += read,
            }
        }
        io::Result::Ok(())
    };
    let _ = timeout(LINGER, closing).await;
}
