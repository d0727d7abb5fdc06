//! Calls others.
//!
//! ```text
//!   https://m1.example:2380
//!      │  names                    10.0.0.7, 10.0.1.7, fd00::7
//!      ▼
//!   10.0.0.7 ── no answer in its part of the time ──► 10.0.1.7 ──► ...        those of the kind of the first
//!   fd00::7  ── begun 300 ms later, if nobody has answered by then              those of the other kind
//!      │
//!      ▼  handshake, with the certificates of this moment
//!   ClientStream
//! ```
//!
//! Compat: all of it, the times too, is what Go does for etcd. What is not: etcd heeds the variables `HTTP_PROXY` and `HTTPS_PROXY`
//! for its peers, and nobody is asked here.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use gocompat::os_error_text;
use tls::{ClientTls, InvalidServerName};
use tokio::net::{TcpSocket, TcpStream, UnixStream};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;

use super::client_stream::ClientStream;
use super::target::{Endpoint, Target};
use crate::listen::set_tcp_options;
use crate::runtime::resolver::{self, Purpose};

/// The most addresses of one name that are tried.
pub const ADDRESSES_MAX: usize = 64;
/// How long a handshake may take. That of Go.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the addresses of one kind are tried alone.
const FALLBACK_DELAY: Duration = Duration::from_millis(300);
/// The least time for one of several addresses, if there is as much.
const ATTEMPT_MIN: Duration = Duration::from_secs(2);

/// Calls others. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Dialer {
    /// Certificates, and whom to speak with.
    pub tls: Arc<ClientTls>,
    /// How long it may take until somebody answers, the time to find out where they are included.
    pub connect_timeout: Duration,
    /// How long a handshake may take.
    pub handshake_timeout: Duration,
    /// The address to call from, if it matters.
    pub local: Option<IpAddr>,
}

/// Why there is no connection. The texts are those of Go.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The name is unknown.
    #[error("dial tcp: lookup {host}: {reason}")]
    Lookup {
        /// The name.
        host: String,
        /// What is said about it.
        reason: String,
    },
    /// It has no address of the kind of the one to call from.
    #[error("dial tcp: address {0}: no suitable address found")]
    Unsuitable(String),
    /// Nobody answered in time.
    #[error("dial {network} {address}: i/o timeout")]
    Late {
        /// `tcp` or `unix`.
        network: &'static str,
        /// Who was called last.
        address: String,
    },
    /// Nobody is there.
    #[error("dial {network} {address}: connect: {}", os_error_text(source))]
    Connect {
        /// `tcp` or `unix`.
        network: &'static str,
        /// Who was called first.
        address: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// It is called by a name that no certificate can be for.
    #[error(transparent)]
    Name(#[from] InvalidServerName),
    /// Somebody is there, with whom TLS cannot be spoken.
    #[error("{}", tls::reason(.0))]
    Handshake(io::Error),
    /// Somebody is there, who does not finish the handshake.
    #[error("net/http: TLS handshake timeout")]
    HandshakeLate,
}

impl Dialer {
    /// One that waits for an answer for so long.
    pub fn new(tls: Arc<ClientTls>, connect_timeout: Duration) -> Dialer {
        Dialer { tls, connect_timeout, handshake_timeout: HANDSHAKE_TIMEOUT, local: None }
    }

    /// Calls somebody, on the runtime of the caller.
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn dial(&self, target: &Target) -> Result<ClientStream, DialError> {
        let deadline = Instant::now() + self.connect_timeout;
        let link = match target.endpoint() {
            Endpoint::Tcp(host, port) => {
                ClientStream::tcp(self.dial_tcp(host, *port, deadline).await?)
            }
            Endpoint::Unix(path) => ClientStream::unix(dial_unix(path.clone(), deadline).await?),
        };
        match target.is_secure() {
            true => self.secure(link, target.host()).await,
            false => Ok(link),
        }
    }

    async fn secure(&self, link: ClientStream, host: &str) -> Result<ClientStream, DialError> {
        let name = self.tls.server_name(host)?;
        let connector = TlsConnector::from(self.tls.current());
        let agreed = timeout(self.handshake_timeout, connector.connect(name, link)).await;
        match agreed {
            Ok(Ok(stream)) => Ok(ClientStream::tls(stream)),
            Ok(Err(error)) => Err(DialError::Handshake(error)),
            Err(_) => Err(DialError::HandshakeLate),
        }
    }

    async fn dial_tcp(
        &self,
        host: &str,
        port: u16,
        deadline: Instant,
    ) -> Result<TcpStream, DialError> {
        let addresses = self.suitable(lookup(host, port, deadline).await?);
        let Some(first) = addresses.first() else {
            return Err(DialError::Unsuitable(host.to_owned()));
        };
        let kind = first.is_ipv4();
        let (first, other): (Vec<_>, Vec<_>) =
            addresses.iter().partition(|address| address.is_ipv4() == kind);
        if other.is_empty() {
            return self.one_by_one(&first, deadline).await;
        }
        self.race(&first, &other, deadline).await
    }

    /// Those that can be called from the address to call from.
    fn suitable(&self, mut addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
        if let Some(local) = self.local {
            addresses.retain(|address| address.is_ipv4() == local.is_ipv4());
        }
        addresses.truncate(ADDRESSES_MAX);
        addresses
    }

    /// Addresses of two kinds; the second ones have to wait a little. If nobody answers, the first to be called say why.
    async fn race(
        &self,
        first: &[SocketAddr],
        other: &[SocketAddr],
        deadline: Instant,
    ) -> Result<TcpStream, DialError> {
        let mut first = pin!(self.one_by_one(first, deadline));
        match timeout(FALLBACK_DELAY, first.as_mut()).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => return self.one_by_one(other, deadline).await.map_err(|_| error),
            Err(_) => {}
        }
        let mut other = pin!(self.one_by_one(other, deadline));
        tokio::select! {
            answered = first.as_mut() => match answered {
                Ok(stream) => Ok(stream),
                Err(error) => other.await.map_err(|_| error),
            },
            answered = other.as_mut() => match answered {
                Ok(stream) => Ok(stream),
                Err(_) => first.await,
            },
        }
    }

    /// Tries addresses in their order, each for its part of the time. If nobody answers, the first one says why.
    async fn one_by_one(
        &self,
        addresses: &[SocketAddr],
        deadline: Instant,
    ) -> Result<TcpStream, DialError> {
        let mut refused = None;
        for (at, address) in addresses.iter().enumerate() {
            let until = part(Instant::now(), deadline, addresses.len() - at);
            let error = match timeout_at(until, self.connect(*address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(source)) => {
                    DialError::Connect { network: "tcp", address: address.to_string(), source }
                }
                Err(_) => DialError::Late { network: "tcp", address: address.to_string() },
            };
            refused.get_or_insert(error);
        }
        Err(refused.unwrap_or_else(|| DialError::Unsuitable(String::new())))
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        set_tcp_options(&socket)?;
        if let Some(local) = self.local {
            socket.bind(SocketAddr::new(local, 0))?;
        }
        socket.connect(address).await
    }
}

/// Until when one of as many addresses is tried.
fn part(now: Instant, deadline: Instant, addresses: usize) -> Instant {
    let left = deadline.saturating_duration_since(now);
    let share = left / u32::try_from(addresses.max(1)).unwrap_or(u32::MAX);
    now + share.max(ATTEMPT_MIN).min(left)
}

async fn lookup(host: &str, port: u16, deadline: Instant) -> Result<Vec<SocketAddr>, DialError> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let unknown = |reason: String| DialError::Lookup { host: host.to_owned(), reason };
    let name = host.to_owned();
    let asked = resolver::run_lookup(Purpose::Dial, move || (name, port).to_socket_addrs());
    let found = timeout_at(deadline, asked).await;
    let found = found.map_err(|_| unknown("i/o timeout".to_owned()))?;
    // An error of the task itself: the runtime stops.
    let found = found.map_err(|error| unknown(error.to_string()))?;
    Ok(found.map_err(|error| unknown(lookup_reason(&error)))?.collect())
}

/// What Go says of a name that nobody knows.
fn lookup_reason(error: &io::Error) -> String {
    let reason = os_error_text(error);
    if reason.contains("not known") || reason.contains("No address") {
        return "no such host".to_owned();
    }
    reason
}

async fn dial_unix(path: PathBuf, deadline: Instant) -> Result<UnixStream, DialError> {
    let text = |path: &Path| path.display().to_string();
    match timeout_at(deadline, UnixStream::connect(&path)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(source)) => {
            Err(DialError::Connect { network: "unix", address: text(&path), source })
        }
        Err(_) => Err(DialError::Late { network: "unix", address: text(&path) }),
    }
}

#[cfg(test)]
mod tests;
