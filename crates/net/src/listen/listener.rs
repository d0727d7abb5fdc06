//! Listening sockets, and the connections they accept.
//!
//! TCP options are set once, on the listening socket: accepted sockets inherit them.
//!
//! ```text
//!   SO_REUSEADDR    always, as Go does; etcd's flag for it has no effect there either
//!   SO_REUSEPORT    on request
//!   TCP_NODELAY     always: a response of a few hundred bytes must not wait for an acknowledgement
//!   keep-alive      after 30 s of silence, every 15 s, 9 times
//! ```
//!
//! A unix socket is a file. A stale one is removed before binding. Ours is removed when the
//! listener is dropped, unless another process has replaced it by then.

use std::fmt;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::address::{self, Address, ResolveError};
use super::server_stream::AcceptedSocket;

/// The accept backlog. The kernel caps it at `net.core.somaxconn`.
pub const BACKLOG: i32 = 4096;

/// Compat: etcd sets the idle time, Go the other two.
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEP_ALIVE_PROBES: u32 = 9;

/// The flags `--socket-reuse-*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// Lets other processes bind the same port, which then share its connections.
    pub reuse_port: bool,
    /// Binds although connections of an earlier process linger. On regardless of this setting.
    pub reuse_address: bool,
}

/// The reason a listener could not be bound. The texts are Go's.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The host is unknown, or the address is not `host:port`.
    #[error("listen tcp: {0}")]
    Resolve(#[from] ResolveError),
    /// The kernel refused the address.
    #[error("listen {network} {address}: bind: {}", gocompat::os_error_text(source))]
    Bind {
        /// `tcp` or `unix`.
        network: &'static str,
        /// The address that was bound.
        address: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The path exists and is not a socket. etcd would delete it.
    #[error("listen unix {}: bind: the path exists and is not a socket", path.display())]
    Occupied {
        /// The path.
        path: PathBuf,
    },
}

/// A listening socket. Accepts nothing until it is [served](crate::serve()).
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

/// The bound address of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalAddr {
    /// With the port that the kernel chose, if port 0 was requested.
    Tcp(SocketAddr),
    /// The path of the socket.
    Unix(PathBuf),
}

impl LocalAddr {
    /// Returns the address, if it is a TCP one.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }
}

impl fmt::Display for LocalAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

impl Listener {
    /// Binds an address and listens. Needs no runtime.
    pub fn bind(address: &Address, options: SocketOptions) -> Result<Self, BindError> {
        let socket = match address {
            Address::Tcp(host_port) => bind_tcp(host_port, options)?,
            Address::Unix(path) => bind_unix(path)?,
        };
        Ok(Self { socket })
    }

    /// Returns the bound address.
    pub fn local(&self) -> LocalAddr {
        match &self.socket {
            // Fails only for file descriptors that are not sockets.
            Socket::Tcp(listener) => LocalAddr::Tcp(
                listener.local_addr().unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0))),
            ),
            Socket::Unix(_, file) => LocalAddr::Unix(file.path.clone()),
        }
    }

    /// Returns the socket, for a server that does not speak HTTP.
    ///
    /// # Errors
    /// If it is a unix socket.
    pub fn into_tcp(self) -> io::Result<TcpListener> {
        match self.socket {
            Socket::Tcp(listener) => Ok(listener),
            Socket::Unix(..) => Err(io::Error::other("not a TCP address")),
        }
    }

    /// Registers the socket with the caller's runtime.
    pub(crate) fn into_acceptor(self) -> io::Result<Acceptor> {
        let socket = match self.socket {
            Socket::Tcp(listener) => AsyncSocket::Tcp(tokio::net::TcpListener::from_std(listener)?),
            Socket::Unix(listener, file) => {
                AsyncSocket::Unix(tokio::net::UnixListener::from_std(listener)?, file)
            }
        };
        Ok(Acceptor { socket })
    }
}

/// A listener that is registered with a runtime.
#[derive(Debug)]
pub(crate) struct Acceptor {
    socket: AsyncSocket,
}

#[derive(Debug)]
enum AsyncSocket {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener, #[expect(dead_code, reason = "removed on drop")] SocketFile),
}

impl Acceptor {
    /// Accepts the next connection. Cancel-safe.
    pub(crate) async fn accept(&self) -> io::Result<AcceptedSocket> {
        match &self.socket {
            AsyncSocket::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok(AcceptedSocket::Tcp(stream.into_std()?, peer))
            }
            AsyncSocket::Unix(listener, _) => {
                Ok(AcceptedSocket::Unix(listener.accept().await?.0.into_std()?))
            }
        }
    }
}

fn bind_tcp(host_port: &str, options: SocketOptions) -> Result<Socket, BindError> {
    let address = address::resolve(host_port)?;
    let mut refused = io::Error::other("no address to bind");
    for candidate in address::candidates(address) {
        match bind_socket(candidate, options) {
            Ok(socket) => return Ok(Socket::Tcp(TcpListener::from(socket))),
            Err(error) => {
                refused = error;
                // The port is taken: binding the other family alone would hide that. Any other
                // error may mean a machine without IPv6.
                if refused.kind() == io::ErrorKind::AddrInUse {
                    break;
                }
            }
        }
    }
    Err(BindError::Bind { network: "tcp", address: address.to_string(), source: refused })
}

fn bind_socket(address: SocketAddr, options: SocketOptions) -> io::Result<OwnedFd> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if options.reuse_port {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    set_tcp_options(&socket)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

pub(crate) fn set_tcp_options(socket: impl AsFd) -> io::Result<()> {
    sockopt::set_tcp_nodelay(&socket, true)?;
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, KEEP_ALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(&socket, KEEP_ALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(&socket, KEEP_ALIVE_PROBES)?;
    Ok(())
}

fn bind_unix(path: &Path) -> Result<Socket, BindError> {
    remove_stale(path)?;
    let refused =
        |source| BindError::Bind { network: "unix", address: path.display().to_string(), source };
    let listener = UnixListener::bind(path).map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    Ok(Socket::Unix(listener, SocketFile::new(path).map_err(refused)?))
}

/// Compat: etcd removes whatever is there, even the socket of a process that still listens. We
/// remove sockets only.
fn remove_stale(path: &Path) -> Result<(), BindError> {
    match fs::symlink_metadata(path) {
        Ok(file) if file.file_type().is_socket() => fs::remove_file(path).map_err(|source| {
            BindError::Bind { network: "unix", address: path.display().to_string(), source }
        }),
        Ok(_) => Err(BindError::Occupied { path: path.to_owned() }),
        // The path is missing or cannot be examined; bind reports the error.
        Err(_) => Ok(()),
    }
}

/// The file of a unix socket, removed on drop.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// Device and inode number.
    identity: (u64, u64),
}

impl SocketFile {
    fn new(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), identity: identity(path)? })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Another process may have bound the same path meanwhile.
        if identity(&self.path).is_ok_and(|identity| identity == self.identity)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "could not remove the unix socket");
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}

#[cfg(test)]
mod tests;
