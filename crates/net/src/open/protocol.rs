//! The first bytes of a connection say what it speaks.
//!
//! ```text
//!   50 52 49 20 2a 20 48 54 54 50 2f 32 2e 30 0d 0a 0d 0a 53 4d 0d 0a 0d 0a    HTTP/2: all 24 of them
//!   16                                                                         TLS: a handshake record
//!   50 4f                                                                      HTTP/1: "PO" is not "PR"
//! ```
//!
//! They are read, kept, and read again by whoever speaks that protocol ([`ReplayStream`]).

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What a client of HTTP/2 says first.
pub(crate) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The first byte of a TLS connection.
const TLS_HANDSHAKE: u8 = 0x16;

/// What a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
    Tls,
}

/// Reads until it is known what the connection speaks; `None` if it ends before that.
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

/// What a connection speaks that begins like this, if that much tells.
fn decide(bytes: &[u8]) -> Option<Protocol> {
    match bytes {
        [] => None,
        [TLS_HANDSHAKE, ..] => Some(Protocol::Tls),
        _ if bytes == PREFACE => Some(Protocol::Http2),
        _ if PREFACE.starts_with(bytes) => None,
        _ => Some(Protocol::Http1),
    }
}

/// A stream whose first bytes have been looked at.
#[derive(Debug)]
pub(crate) struct ReplayStream<S> {
    stream: S,
    bytes: [u8; PREFACE.len()],
    /// As many were read.
    filled: usize,
    /// As many were handed out again.
    taken: usize,
}

impl<S: AsyncRead + Unpin> ReplayStream<S> {
    /// Reads some more; how many.
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
        let kept = &me.bytes[me.taken..me.filled];
        if kept.is_empty() {
            return Pin::new(&mut me.stream).poll_read(cx, buffer);
        }
        let size = kept.len().min(buffer.remaining());
        buffer.put_slice(&kept[..size]);
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

    /// What is made of these bytes when they come in two parts, and everything that can be read afterwards.
    async fn detected(bytes: &[u8], split: usize) -> Option<(Protocol, Vec<u8>)> {
        // The pipe holds no more than the first part, so that is all the first read can see.
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
    async fn the_protocol_is_known_however_the_bytes_come() {
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
    async fn a_connection_that_ends_first_speaks_nothing() {
        for length in 0..PREFACE.len() {
            assert_eq!(detected(&PREFACE[..length], length).await, None);
        }
    }

    #[tokio::test]
    async fn what_was_kept_is_handed_out_in_any_portions() {
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
