//! Protocol detection from the first bytes of a connection.
//!
//! ```text
//!   50 52 49 20 2a 20 48 54 54 50 2f 32 2e 30 0d 0a 0d 0a 53 4d 0d 0a 0d 0a    HTTP/2: 24 bytes
//!   16                                                                         TLS: a handshake
//!   50 4f                                                                      HTTP/1: not "PR"
//! ```
//!
//! The bytes are buffered and read again by the protocol's implementation ([`ReplayStream`]).

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The connection preface of HTTP/2 clients.
pub(crate) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The first byte of a TLS connection.
const TLS_HANDSHAKE: u8 = 0x16;

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
    Tls,
}

/// Reads until the protocol is known. Returns `None` if the connection ends first.
pub(crate) async fn detect<S: AsyncRead + Unpin>(
    stream: S,
) -> io::Result<Option<(Protocol, ReplayStream<S>)>> {
    let mut replay = ReplayStream { stream, bytes: [0; PREFACE.len()], filled: 0, taken: 0 };
    loop {
        if replay.fill().await? == 0 {
            return Ok(None);
        }
        if let Some(protocol) = decide(&replay.bytes[..replay.filled]) {
            return Ok(Some((protocol, replay)));
        }
    }
}

/// Returns the protocol of a connection that begins with these bytes, if they suffice.
fn decide(bytes: &[u8]) -> Option<Protocol> {
    match bytes {
        [] => None,
        [TLS_HANDSHAKE, ..] => Some(Protocol::Tls),
        _ if bytes == PREFACE => Some(Protocol::Http2),
        _ if PREFACE.starts_with(bytes) => None,
        _ => Some(Protocol::Http1),
    }
}

/// A stream whose first bytes were read and are read again.
#[derive(Debug)]
pub(crate) struct ReplayStream<S> {
    stream: S,
    bytes: [u8; PREFACE.len()],
    /// The number of bytes read from the stream.
    filled: usize,
    /// The number of bytes read again.
    taken: usize,
}

impl<S: AsyncRead + Unpin> ReplayStream<S> {
    /// Reads more bytes from the stream and returns how many.
    async fn fill(&mut self) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(&mut self.bytes[self.filled..]);
        poll_fn(|cx| Pin::new(&mut self.stream).poll_read(cx, &mut buffer)).await?;
        let read = buffer.filled().len();
        self.filled += read;
        Ok(read)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ReplayStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let me = self.get_mut();
        let buffered = &me.bytes[me.taken..me.filled];
        if buffered.is_empty() {
            return Pin::new(&mut me.stream).poll_read(cx, buffer);
        }
        let size = buffered.len().min(buffer.remaining());
        buffer.put_slice(&buffered[..size]);
        me.taken += size;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ReplayStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    /// Returns the protocol detected when the bytes arrive in two parts, and all bytes read
    /// afterwards.
    async fn detected(bytes: &[u8], split: usize) -> Option<(Protocol, Vec<u8>)> {
        // The pipe holds only the first part, so the first read cannot see more.
        let (mut client, server) = duplex(split.max(1));
        let bytes = bytes.to_vec();
        let writer = tokio::spawn(async move {
            client.write_all(&bytes).await.unwrap();
        });
        let (protocol, mut replay) = detect(server).await.unwrap()?;
        let mut all = Vec::new();
        replay.read_to_end(&mut all).await.unwrap();
        writer.await.unwrap();
        Some((protocol, all))
    }

    #[tokio::test]
    async fn the_protocol_is_detected_however_the_bytes_are_split() {
        let http2 = [PREFACE.as_slice(), b"\0\0\0\x04\0\0\0\0\0"].concat();
        let http1 = b"GET /health HTTP/1.1\r\n\r\n".to_vec();
        let almost = b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n".to_vec();
        let put = b"PUT / HTTP/1.1\r\n\r\n".to_vec();
        let tls = b"\x16\x03\x01\x02\x00".to_vec();
        for (bytes, protocol) in [
            (http2, Protocol::Http2),
            (http1, Protocol::Http1),
            (almost, Protocol::Http1),
            (put, Protocol::Http1),
            (tls, Protocol::Tls),
        ] {
            for split in 1..=bytes.len() {
                assert_eq!(detected(&bytes, split).await, Some((protocol, bytes.clone())));
            }
        }
    }

    #[tokio::test]
    async fn a_connection_that_ends_before_detection_has_no_protocol() {
        for length in 0..PREFACE.len() {
            assert_eq!(detected(&PREFACE[..length], length).await, None);
        }
    }

    #[tokio::test]
    async fn buffered_bytes_can_be_read_again_in_any_portions() {
        let (mut client, server) = duplex(64);
        client.write_all(PREFACE).await.unwrap();
        client.write_all(b"rest").await.unwrap();
        drop(client);
        let (_, mut replay) = detect(server).await.unwrap().unwrap();
        let (mut all, mut portion) = (Vec::new(), [0; 5]);
        loop {
            let read = replay.read(&mut portion).await.unwrap();
            if read == 0 {
                break;
            }
            all.extend_from_slice(&portion[..read]);
        }
        assert_eq!(all, [PREFACE.as_slice(), b"rest"].concat());
    }
}
