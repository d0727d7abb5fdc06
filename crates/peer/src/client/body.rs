//! The body of a request: whole, or in pieces that come while it is sent.

use std::io::{self, Write};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// The length of a piece.
const PIECE_BYTES: usize = 128 << 10;
/// Pieces that wait to be sent.
const PIECES_MAX: usize = 4;

/// The body of a request.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// It is there.
    Whole(Bytes),
    /// It is being written.
    Pieces(Sending),
}

/// A body that is being sent.
#[derive(Debug)]
pub(crate) struct Sending {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    progress: Arc<Progress>,
    is_over: bool,
}

/// When the last piece was taken, and whether that was the end.
#[derive(Debug)]
pub(crate) struct Progress(Mutex<(Instant, bool)>);

impl Progress {
    /// How long nothing has been taken.
    pub(crate) fn stalled_for(&self) -> Duration {
        self.lock().0.elapsed()
    }

    /// Whether all has been taken, so that only an answer is missing.
    pub(crate) fn is_over(&self) -> bool {
        self.lock().1
    }

    fn tell(&self, is_over: bool) {
        *self.lock() = (Instant::now(), is_over);
    }

    fn lock(&self) -> MutexGuard<'_, (Instant, bool)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a body is written to, by a thread that may wait. It has to be [finished](Pieces::finish), or else it breaks off, and whoever reads it knows.
#[derive(Debug)]
pub(crate) struct Pieces {
    to: mpsc::Sender<io::Result<Bytes>>,
    begun: BytesMut,
}

/// A body, and where it is written to.
pub(crate) fn pieces() -> (Pieces, Outgoing, Arc<Progress>) {
    let (to, pieces) = mpsc::channel(PIECES_MAX);
    let progress = Arc::new(Progress(Mutex::new((Instant::now(), false))));
    let sending = Sending { pieces, progress: Arc::clone(&progress), is_over: false };
    (Pieces { to, begun: BytesMut::new() }, Outgoing::Pieces(sending), progress)
}

impl Pieces {
    /// All has been written.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        // An empty piece is the end.
        self.send(Ok(Bytes::new()))
    }

    /// It cannot be written to its end.
    pub(crate) fn fail(self, error: io::Error) {
        // Nobody may be there to hear it, who then knows anyway.
        let _ = self.send(Err(error));
    }

    fn send(&self, piece: io::Result<Bytes>) -> io::Result<()> {
        self.to.blocking_send(piece).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let now = bytes.len().min(PIECE_BYTES - self.begun.len());
        self.begun.extend_from_slice(&bytes[..now]);
        if self.begun.len() == PIECE_BYTES {
            self.flush()?;
        }
        Ok(now)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.begun.is_empty() {
            return Ok(());
        }
        let piece = std::mem::take(&mut self.begun).freeze();
        self.send(Ok(piece))
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &mut *self {
            Outgoing::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Outgoing::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Outgoing::Pieces(sending) => sending.poll_piece(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Outgoing::Whole(bytes) => bytes.is_empty(),
            Outgoing::Pieces(sending) => sending.is_over,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Outgoing::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Outgoing::Pieces(_) => SizeHint::default(),
        }
    }
}

impl Sending {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let piece = ready!(self.pieces.poll_recv(cx));
        self.progress.tell(matches!(&piece, Some(Ok(piece)) if piece.is_empty()));
        match piece {
            Some(Ok(piece)) if piece.is_empty() => {
                self.is_over = true;
                Poll::Ready(None)
            }
            Some(Ok(piece)) => Poll::Ready(Some(Ok(Frame::data(piece)))),
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
    async fn what_is_written_is_sent_in_pieces() {
        let (mut to, body, progress) = pieces();
        let written: Vec<u8> = (0..3 * PIECE_BYTES + 7).map(|at| at.to_le_bytes()[1]).collect();
        let expected = written.clone();
        let writer = tokio::task::spawn_blocking(move || {
            to.write_all(&written)?;
            to.finish()
        });
        let sent = body.collect().await.unwrap().to_bytes();
        writer.await.unwrap().unwrap();
        assert_eq!(sent, expected);
        assert!(progress.is_over() && progress.stalled_for() < Duration::from_secs(10));
    }

    #[tokio::test]
    async fn what_breaks_off_is_no_whole_body() {
        let (mut to, body, _) = pieces();
        to.write_all(b"half").unwrap();
        let writer = tokio::task::spawn_blocking(move || drop(to));
        assert!(body.collect().await.is_err());
        writer.await.unwrap();

        let (to, body, _) = pieces();
        let writer = tokio::task::spawn_blocking(move || to.fail(io::Error::other("bad page")));
        assert_eq!(body.collect().await.unwrap_err().to_string(), "bad page");
        writer.await.unwrap();
    }

    #[tokio::test]
    async fn who_writes_for_nobody_is_told() {
        let (mut to, body, _) = pieces();
        drop(body);
        let writer = tokio::task::spawn_blocking(move || to.write_all(&vec![0; 2 * PIECE_BYTES]));
        assert_eq!(writer.await.unwrap().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
