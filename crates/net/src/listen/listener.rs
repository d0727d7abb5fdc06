//! A socket that listens, and the connections it accepts.
//!
//! TCP options are set once, on the listening socket: whatever it accepts inherits them.
//!
//! ```text
//!   SO_REUSEADDR    always; Go does that, so etcd's flag for it changes nothing there either
//!   SO_REUSEPORT    if asked for
//!   TCP_NODELAY     always: a reply of a few hundred bytes must not wait for an acknowledgement
//!   keep-alive      after 30 s of silence, every 15 s, 9 times
//! ```
//!
//! A unix socket is a file. One that is left over from earlier is removed before binding, and ours when the listener is dropped, unless
//! somebody else has put another in its place by then.

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

use super::address::{self, Address};
use super::server_stream::AcceptedSocket;

/// Connections that the kernel completes before they are accepted. It takes less where `net.core.somaxconn` says so.
pub const BACKLOG: i32 = 4096;

/// Compat: what etcd sets, and for the others what Go does.
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEP_ALIVE_PROBES: u32 = 9;

/// The flags `--socket-reuse-*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// Let other processes bind the same port, which shares its connections among them.
    pub reuse_port: bool,
    /// Bind although connections of an earlier process linger. True whatever is set here.
    pub reuse_address: bool,
}

/// Why nothing listens there. The texts are those of Go.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The host is unknown, or this is no `host:port`.
    #[error("listen tcp: lookup {address}: {}", gocompat::os_error_text(source))]
    Resolve {
        /// As it was given.
        address: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// The kernel refused.
    #[error("listen {network} {address}: bind: {}", gocompat::os_error_text(source))]
    Bind {
        /// `tcp` or `unix`.
        network: &'static str,
        /// What was to be bound.
        address: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// There is a file which is not a socket. etcd would delete it.
    #[error("listen unix {}: bind: a file that is no socket is in the way", path.display())]
    Occupied {
        /// That file.
        path: PathBuf,
    },
}

/// A socket that listens. Nothing is accepted before it is [served](crate::serve()).
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

/// Where a listener is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalAddr {
    /// With the port that the kernel chose, if it was asked to.
    Tcp(SocketAddr),
    /// The path of the socket.
    Unix(PathBuf),
}

impl LocalAddr {
    /// The address, if it is one of TCP.
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
    /// Starts to listen. Needs no runtime.
    pub fn bind(address: &Address, options: SocketOptions) -> Result<Self, BindError> {
        let socket = match address {
            Address::Tcp(host_port) => bind_tcp(host_port, options)?,
            Address::Unix(path) => bind_unix(path)?,
        };
        Ok(Self { socket })
    }

    /// Where it is.
    pub fn local(&self) -> LocalAddr {
        match &self.socket {
            // The call fails only for what is no socket.
            Socket::Tcp(listener) => LocalAddr::Tcp(
                listener.local_addr().unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0))),
            ),
            Socket::Unix(_, file) => LocalAddr::Unix(file.path.clone()),
        }
    }

    /// Registers with the runtime of the caller.
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

/// A listener on a runtime.
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
    /// The next connection. Nothing is lost if the future is dropped.
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
    let address = address::resolve(host_port)
        .map_err(|source| BindError::Resolve { address: host_port.to_owned(), source })?;
    let mut refused = io::Error::other("no address to bind");
    for candidate in address::candidates(address) {
        match bind_socket(candidate, options) {
            Ok(socket) => return Ok(Socket::Tcp(TcpListener::from(socket))),
            Err(error) => {
                refused = error;
                // Somebody has that port; the other family would hide it. Any other error may be a machine without IPv6.
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

/// Compat: etcd removes whatever is there, also the socket of a process that still listens. We do that with sockets alone.
fn remove_stale(path: &Path) -> Result<(), BindError> {
    match fs::symlink_metadata(path) {
        Ok(file) if file.file_type().is_socket() => fs::remove_file(path).map_err(|source| {
            BindError::Bind { network: "unix", address: path.display().to_string(), source }
        }),
        Ok(_) => Err(BindError::Occupied { path: path.to_owned() }),
        // Nothing there, or nothing that can be looked at: binding will tell.
        Err(_) => Ok(()),
    }
}

/// The file of a unix socket, gone when this is dropped.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// Device and number of the file.
    identity: (u64, u64),
}

impl SocketFile {
    fn new(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), identity: identity(path)? })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // A successor may have bound the same path already. Its socket is not ours to remove.
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
