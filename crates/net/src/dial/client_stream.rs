//! The stream of an outgoing connection, encrypted or not.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

/// The stream of an outgoing connection. Dropping it closes the connection.
#[derive(Debug)]
pub struct ClientStream {
    io: Io,
    local: Option<SocketAddr>,
    remote: Option<SocketAddr>,
    forwarding: Option<Forwarding>,
}

/// A proxy at the other end of a stream, which forwards requests by their URLs.
#[derive(Clone, PartialEq, Eq)]
pub struct Forwarding {
    /// The value of the header `Proxy-Authorization`, if the proxy wants one.
    pub authorization: Option<String>,
}

/// The authorization is a secret.
impl std::fmt::Debug for Forwarding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forwarding").finish_non_exhaustive()
    }
}

#[derive(Debug)]
enum Io {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// TLS over one of the other two.
    Tls(Box<TlsStream<ClientStream>>),
}

impl ClientStream {
    pub(crate) fn tcp(stream: TcpStream) -> ClientStream {
        let (local, remote) = (stream.local_addr().ok(), stream.peer_addr().ok());
        ClientStream { io: Io::Tcp(stream), local, remote, forwarding: None }
    }

    pub(crate) fn unix(stream: UnixStream) -> ClientStream {
        ClientStream { io: Io::Unix(stream), local: None, remote: None, forwarding: None }
    }

    pub(crate) fn tls(stream: TlsStream<ClientStream>) -> ClientStream {
        let (local, remote) = (stream.get_ref().0.local, stream.get_ref().0.remote);
        ClientStream { io: Io::Tls(Box::new(stream)), local, remote, forwarding: None }
    }

    pub(crate) fn forwarded(self, authorization: Option<String>) -> ClientStream {
        ClientStream { forwarding: Some(Forwarding { authorization }), ..self }
    }

    /// Returns the proxy at the other end that forwards requests, if there is one.
    pub fn forwarding(&self) -> Option<&Forwarding> {
        self.forwarding.as_ref()
    }

    /// Returns the local address, over TCP.
    pub fn local(&self) -> Option<SocketAddr> {
        self.local
    }

    /// Returns the remote address, over TCP.
    pub fn remote(&self) -> Option<SocketAddr> {
        self.remote
    }

    /// Returns whether the stream is encrypted.
    pub fn is_secure(&self) -> bool {
        matches!(self.io, Io::Tls(_))
    }
}

/// Calls the same method on each variant.
macro_rules! each {
    ($link:expr, $io:ident => $call:expr) => {
        match &mut $link.get_mut().io {
            Io::Tcp($io) => $call,
            Io::Unix($io) => $call,
            Io::Tls($io) => $call,
        }
    };
}

impl AsyncRead for ClientStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        each!(self, io => Pin::new(io).poll_read(cx, buffer))
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        each!(self, io => Pin::new(io).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self, io => Pin::new(io).poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, io => Pin::new(io).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, io => Pin::new(io).poll_shutdown(cx))
    }
}
