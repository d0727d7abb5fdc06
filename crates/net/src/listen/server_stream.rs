//! Accepted sockets: TCP or unix, encrypted or not.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

use super::listener::LocalAddr;
use crate::connection::RemoteAddr;
use crate::open::ReplayStream;

/// A non-blocking socket that was accepted on one runtime and moves to another.
#[derive(Debug)]
pub(crate) enum AcceptedSocket {
    Tcp(std::net::TcpStream, SocketAddr),
    Unix(std::os::unix::net::UnixStream),
}

impl AcceptedSocket {
    pub(crate) fn remote(&self) -> RemoteAddr {
        match self {
            Self::Tcp(_, address) => RemoteAddr::Tcp(*address),
            Self::Unix(_) => RemoteAddr::Unix,
        }
    }

    /// Returns the local address.
    pub(crate) fn local(&self) -> Option<LocalAddr> {
        match self {
            Self::Tcp(stream, _) => stream.local_addr().ok().map(LocalAddr::Tcp),
            Self::Unix(stream) => {
                let address = stream.local_addr().ok()?;
                Some(LocalAddr::Unix(address.as_pathname()?.to_owned()))
            }
        }
    }

    /// Registers the socket with the caller's runtime.
    pub(crate) fn register(self) -> io::Result<ServerStream> {
        match self {
            Self::Tcp(stream, _) => TcpStream::from_std(stream).map(ServerStream::Tcp),
            Self::Unix(stream) => UnixStream::from_std(stream).map(ServerStream::Unix),
        }
    }
}

/// The stream of a connection on its runtime.
#[derive(Debug)]
pub(crate) enum ServerStream {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// TLS over one of the other two.
    Tls(Box<TlsStream<ReplayStream<ServerStream>>>),
}

/// Calls the same method on each variant.
macro_rules! each {
    ($stream:expr, $io:ident => $call:expr) => {
        match $stream {
            ServerStream::Tcp($io) => $call,
            ServerStream::Unix($io) => $call,
            ServerStream::Tls($io) => $call,
        }
    };
}

impl AsyncRead for ServerStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        each!(self.get_mut(), io => Pin::new(io).poll_read(cx, buffer))
    }
}

impl AsyncWrite for ServerStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        each!(self.get_mut(), io => Pin::new(io).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self.get_mut(), io => Pin::new(io).poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self.get_mut(), io => Pin::new(io).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self.get_mut(), io => Pin::new(io).poll_shutdown(cx))
    }
}
