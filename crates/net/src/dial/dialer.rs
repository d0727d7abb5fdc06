//! Connects to other servers.
//!
//! ```text
//!   https://m1.example:2380
//!      │  lookup                   10.0.0.7, 10.0.1.7, fd00::7
//!      ▼
//!   10.0.0.7 ── no answer in its share of the time ──► 10.0.1.7 ──► ..     first address family
//!   fd00::7  ── begun 300 ms later, unless connected by then               other address family
//!      │
//!      ▼  handshake, with the current certificates
//!   ClientStream
//! ```
//!
//! Compat: procedure, times and the choice of a proxy ([`super::proxy`]) are Go's. With a proxy,
//! the lookup and the addresses are the proxy's.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use gocompat::{lookup_error_text, os_error_text};
use tls::{ClientTls, InvalidServerName};
use tokio::net::{TcpSocket, TcpStream, UnixStream};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;

use super::client_stream::ClientStream;
use super::proxy::{Proxy, ProxyKind, ProxySettings, Route, TunnelError, open_tunnel};
use super::target::{Endpoint, Target};
use crate::listen::set_tcp_options;
use crate::runtime::resolver::{self, Purpose};

/// The most addresses of a name that are tried.
pub const ADDRESSES_MAX: usize = 64;
/// The default time for a handshake. As in Go.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The time for which the addresses of the first family are tried alone.
const FALLBACK_DELAY: Duration = Duration::from_millis(300);
/// The least time for one of several addresses, if that much is left.
const ATTEMPT_MIN: Duration = Duration::from_secs(2);

/// Connects to other servers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Dialer {
    /// The certificates, and the rules by which servers are trusted.
    pub tls: Arc<ClientTls>,
    /// The time to connect, name resolution included.
    pub connect_timeout: Duration,
    /// The time for a handshake.
    pub handshake_timeout: Duration,
    /// The local address to connect from, if any.
    pub local: Option<IpAddr>,
    /// The proxies to connect through.
    pub proxies: Arc<ProxySettings>,
}

/// The reason there is no connection. The texts are Go's.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The name could not be resolved.
    #[error("dial tcp: lookup {host}: {reason}")]
    Lookup {
        /// The name.
        host: String,
        /// The reason.
        reason: String,
    },
    /// The name has no address of the local address's family.
    #[error("dial tcp: address {0}: no suitable address found")]
    Unsuitable(String),
    /// The connection timed out.
    #[error("dial {network} {address}: i/o timeout")]
    Late {
        /// `tcp` or `unix`.
        network: &'static str,
        /// The address.
        address: String,
    },
    /// The connection was refused or failed.
    #[error("dial {network} {address}: connect: {}", os_error_text(source))]
    Connect {
        /// `tcp` or `unix`.
        network: &'static str,
        /// The address.
        address: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// No certificate can be issued for the host name.
    #[error(transparent)]
    Name(#[from] InvalidServerName),
    /// The handshake failed.
    #[error("{}", tls::handshake_error_text(.0))]
    Handshake(io::Error),
    /// The handshake timed out.
    #[error("net/http: TLS handshake timeout")]
    HandshakeLate,
    /// The proxy could not be reached.
    #[error("proxyconnect tcp: {0}")]
    Proxy(Box<DialError>),
    /// The proxy opened no tunnel.
    #[error("proxyconnect tcp: {proxy} to {target}: {source}")]
    Tunnel {
        /// The proxy.
        proxy: String,
        /// The target.
        target: String,
        /// The reason.
        source: TunnelError,
    },
}

impl Dialer {
    /// Creates a dialer with this time to connect and the default time for handshakes.
    pub fn new(tls: Arc<ClientTls>, connect_timeout: Duration) -> Dialer {
        Dialer {
            tls,
            connect_timeout,
            handshake_timeout: HANDSHAKE_TIMEOUT,
            local: None,
            proxies: Arc::default(),
        }
    }

    /// Connects to a target, on the caller's runtime. If the stream
    /// [is forwarded](ClientStream::forwarding), requests must have whole URLs.
    ///
    /// # Errors
    /// The reason there is no connection.
    pub async fn dial(&self, target: &Target) -> Result<ClientStream, DialError> {
        let stream = match self.proxies.route(target) {
            Route::Direct => self.dial_directly(target).await?,
            Route::Forward(proxy) => {
                let stream = self.dial_proxy(proxy).await?;
                return Ok(stream.forwarded(proxy.authorization()));
            }
            Route::Tunnel(proxy) => self.dial_through(proxy, target).await?,
        };
        match target.is_secure() {
            true => self.secure(stream, target.host()).await,
            false => Ok(stream),
        }
    }

    async fn dial_directly(&self, target: &Target) -> Result<ClientStream, DialError> {
        let deadline = Instant::now() + self.connect_timeout;
        match target.endpoint() {
            Endpoint::Tcp(host, port) => {
                Ok(ClientStream::tcp(self.dial_tcp(host, *port, deadline).await?))
            }
            Endpoint::Unix(path) => {
                Ok(ClientStream::unix(dial_unix(path.clone(), deadline).await?))
            }
        }
    }

    /// Connects to a proxy, with TLS if it speaks that.
    async fn dial_proxy(&self, proxy: &Proxy) -> Result<ClientStream, DialError> {
        let wrap = |error| DialError::Proxy(Box::new(error));
        let deadline = Instant::now() + self.connect_timeout;
        let stream = self.dial_tcp(&proxy.host, proxy.port, deadline).await.map_err(wrap)?;
        let stream = ClientStream::tcp(stream);
        match proxy.kind {
            ProxyKind::Https => self.secure(stream, &proxy.host).await.map_err(wrap),
            ProxyKind::Http | ProxyKind::Socks5 => Ok(stream),
        }
    }

    /// Opens a tunnel to a target.
    async fn dial_through(
        &self,
        proxy: &Proxy,
        target: &Target,
    ) -> Result<ClientStream, DialError> {
        let mut stream = self.dial_proxy(proxy).await?;
        if let Endpoint::Tcp(host, port) = target.endpoint() {
            let opened = open_tunnel(&mut stream, proxy, (host, *port)).await;
            opened.map_err(|source| DialError::Tunnel {
                proxy: proxy.to_string(),
                target: target.to_string(),
                source,
            })?;
        }
        Ok(stream)
    }

    async fn secure(&self, link: ClientStream, host: &str) -> Result<ClientStream, DialError> {
        let name = self.tls.server_name(host)?;
        let connector = TlsConnector::from(self.tls.current());
        let connected = timeout(self.handshake_timeout, connector.connect(name, link)).await;
        match connected {
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
            return self.try_in_order(&first, deadline).await;
        }
        self.race(&first, &other, deadline).await
    }

    /// Returns the addresses of the local address's family.
    fn suitable(&self, mut addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
        if let Some(local) = self.local {
            addresses.retain(|address| address.is_ipv4() == local.is_ipv4());
        }
        addresses.truncate(ADDRESSES_MAX);
        addresses
    }

    /// Tries addresses of two families, the second with a delay. If all fail, returns the error of
    /// the first family.
    async fn race(
        &self,
        first: &[SocketAddr],
        other: &[SocketAddr],
        deadline: Instant,
    ) -> Result<TcpStream, DialError> {
        let mut first = pin!(self.try_in_order(first, deadline));
        match timeout(FALLBACK_DELAY, first.as_mut()).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => return self.try_in_order(other, deadline).await.map_err(|_| error),
            Err(_) => {}
        }
        let mut other = pin!(self.try_in_order(other, deadline));
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

    /// Tries addresses in order, each for its share of the time. If all fail, returns the first
    /// error.
    async fn try_in_order(
        &self,
        addresses: &[SocketAddr],
        deadline: Instant,
    ) -> Result<TcpStream, DialError> {
        let mut refused = None;
        for (at, address) in addresses.iter().enumerate() {
            let until = attempt_deadline(Instant::now(), deadline, addresses.len() - at);
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

/// Returns the deadline of one attempt if `addresses` remain to be tried.
fn attempt_deadline(now: Instant, deadline: Instant, addresses: usize) -> Instant {
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
    let lookup = resolver::run_lookup(Purpose::Dial, move || (name, port).to_socket_addrs());
    let found = timeout_at(deadline, lookup).await;
    let found = found.map_err(|_| unknown("i/o timeout".to_owned()))?;
    // The task failed: the runtime is stopping.
    let found = found.map_err(|error| unknown(error.to_string()))?;
    Ok(found.map_err(|error| unknown(lookup_error_text(&error)))?.collect())
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
