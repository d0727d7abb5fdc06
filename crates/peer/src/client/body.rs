//! The body of a request: complete, or in chunks that are written while it is sent.

use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// The size of a chunk.
const CHUNK_BYTES: usize = 128 << 10;
/// The most queued chunks.
const CHUNKS_MAX: usize = 4;

/// The body of a request.
#[derive(Debug)]
pub(crate) enum RequestBody {
    /// A complete body.
    Whole(Bytes),
    /// A body that a thread writes through a channel.
    Channel(ChannelBody),
}

/// The receiving half of a body channel.
#[derive(Debug)]
pub(crate) struct ChannelBody {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    progress: Arc<SendProgress>,
    is_finished: bool,
}

/// The time at which the last chunk was taken, and whether it was the end.
#[derive(Debug)]
pub(crate) struct SendProgress(Mutex<(Instant, bool)>);

impl SendProgress {
    /// Returns the time since a chunk was last taken.
    pub(crate) fn stalled_for(&self) -> Duration {
        self.0.lock().0.elapsed()
    }

    /// Returns whether the whole body was taken, so that only the response is missing.
    pub(crate) fn is_finished(&self) -> bool {
        self.0.lock().1
    }

    fn record(&self, is_finished: bool) {
        *self.0.lock() = (Instant::now(), is_finished);
    }
}

/// The writing half of a body channel, for a blocking thread. Unless it is
/// [finished](BodyWriter::finish), the body ends with an error.
#[derive(Debug)]
pub(crate) struct BodyWriter {
    to: mpsc::Sender<io::Result<Bytes>>,
    buffer: BytesMut,
}

/// Creates a body and its writer.
pub(crate) fn body_channel() -> (BodyWriter, RequestBody, Arc<SendProgress>) {
    let (to, chunks) = mpsc::channel(CHUNKS_MAX);
    let progress = Arc::new(SendProgress(Mutex::new((Instant::now(), false))));
    let body = ChannelBody { chunks, progress: Arc::clone(&progress), is_finished: false };
    (BodyWriter { to, buffer: BytesMut::new() }, RequestBody::Channel(body), progress)
}

impl BodyWriter {
    /// Flushes and marks the end of the body.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        // An empty chunk marks the end.
        self.send(Ok(Bytes::new()))
    }

    /// Ends the body with an error.
    pub(crate) fn fail(self, error: io::Error) {
        // Fails if the request was dropped.
        let _ = self.send(Err(error));
    }

    fn send(&self, chunk: io::Result<Bytes>) -> io::Result<()> {
        self.to.blocking_send(chunk).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for BodyWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let now = bytes.len().min(CHUNK_BYTES - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..now]);
        if self.buffer.len() == CHUNK_BYTES {
            self.flush()?;
        }
        Ok(now)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::take(&mut self.buffer).freeze();
        self.send(Ok(chunk))
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &mut *self {
            RequestBody::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            RequestBody::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            RequestBody::Channel(body) => body.poll_chunk(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            RequestBody::Whole(bytes) => bytes.is_empty(),
            RequestBody::Channel(body) => body.is_finished,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            RequestBody::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            RequestBody::Channel(_) => SizeHint::default(),
        }
    }
}

impl ChannelBody {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.is_finished {
            return Poll::Ready(None);
        }
        let chunk = ready!(self.chunks.poll_recv(cx));
        self.progress.record(matches!(&chunk, Some(Ok(chunk)) if chunk.is_empty()));
        match chunk {
            Some(Ok(chunk)) if chunk.is_empty() => {
                self.is_finished = true;
                Poll::Ready(None)
            }
            Some(Ok(chunk)) => Poll::Ready(Some(Ok(Frame::data(chunk)))),
            Some(Err(error)) => Poll::Ready(Some(Err(error))),
            None => Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn written_bytes_are_sent_in_chunks() {
        let (mut to, body, progress) = body_channel();
        let written: Vec<u8> = (0..3 * CHUNK_BYTES + 7).map(|at| at.to_le_bytes()[1]).collect();
        let expected = written.clone();
        let writer = tokio::task::spawn_blocking(move || {
            to.write_all(&written)?;
            to.finish()
        });
        let sent = body.collect().await.unwrap().to_bytes();
        writer.await.unwrap().unwrap();
        assert_eq!(sent, expected);
        assert!(progress.is_finished() && progress.stalled_for() < Duration::from_secs(10));
    }

    #[tokio::test]
    async fn an_unfinished_body_ends_with_an_error() {
        let (mut to, body, _) = body_channel();
        to.write_all(b"half").unwrap();
        let writer = tokio::task::spawn_blocking(move || drop(to));
        assert!(body.collect().await.is_err());
        writer.await.unwrap();

        let (to, body, _) = body_channel();
        let writer = tokio::task::spawn_blocking(move || to.fail(io::Error::other("bad page")));
        assert_eq!(body.collect().await.unwrap_err().to_string(), "bad page");
        writer.await.unwrap();
    }

    #[tokio::test]
    async fn writing_to_a_dropped_body_fails() {
        let (mut to, body, _) = body_channel();
        drop(body);
        let writer = tokio::task::spawn_blocking(move || to.write_all(&vec![0; 2 * CHUNK_BYTES]));
        assert_eq!(writer.await.unwrap().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
