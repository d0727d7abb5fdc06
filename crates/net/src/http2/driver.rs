//! Drives an HTTP/2 connection of hyper: flushes after each poll, and ends it when the client no
//! longer answers.
//!
//! ```text
//!   each poll     h2 ─► flush the coalesced writes ─► has the client been silent for too long?
//! ```
//!
//! hyper pings a silent client and gives up on one that does not answer. But it then writes a
//! GOAWAY and waits until that is sent: never, if the client or its machine has stopped and the
//! socket buffer is full. So the driver ends a connection from which nothing was read for longer
//! than a client that answers pings can be silent.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::AsyncWrite;
use tokio::time::{Instant, Sleep, sleep_until};

use super::write_coalescer::Flusher;

/// A connection that is flushed after each poll and ends when its client no longer answers.
pub(crate) struct Http2Driver<C, S> {
    connection: Pin<Box<C>>,
    flusher: Flusher<S>,
    silence: SilenceTimer,
}

impl<C, S> Http2Driver<C, S> {
    /// Wraps a connection, which ends if nothing is read for `silence_max`.
    pub(crate) fn new(connection: C, flusher: Flusher<S>, silence_max: Duration) -> Self {
        Self { connection: Box::pin(connection), flusher, silence: SilenceTimer::new(silence_max) }
    }

    /// Returns the hyper connection.
    pub(crate) fn connection(&mut self) -> Pin<&mut C> {
        self.connection.as_mut()
    }
}

impl<C, S> Future for Http2Driver<C, S>
where
    C: Future<Output = hyper::Result<()>>,
    S: AsyncWrite + Unpin,
{
    type Output = Result<(), DriverError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let me = self.get_mut();
        if let Poll::Ready(result) = me.connection.as_mut().poll(cx) {
            return Poll::Ready(result.map_err(DriverError::from));
        }
        if let Poll::Ready(Err(error)) = me.flusher.poll(cx) {
            return Poll::Ready(Err(error.into()));
        }
        me.silence.poll(cx, || me.flusher.last_read()).map(Err)
    }
}

/// Times out a silent client.
struct SilenceTimer {
    max: Duration,
    timer: Pin<Box<Sleep>>,
}

impl SilenceTimer {
    fn new(max: Duration) -> Self {
        Self { max, timer: Box::pin(sleep_until(Instant::now() + max)) }
    }

    /// Ready once the client was silent for too long. The timer is reset only when it fires, not at
    /// each read.
    fn poll(&mut self, cx: &mut Context<'_>, last_read: impl Fn() -> Instant) -> Poll<DriverError> {
        loop {
            ready!(self.timer.as_mut().poll(cx));
            let end = last_read() + self.max;
            if end <= Instant::now() {
                return Poll::Ready(DriverError::Silent);
            }
            self.timer.as_mut().reset(end);
        }
    }
}

/// The reason a connection ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DriverError {
    #[error("the client answers no pings and its socket accepts no more bytes")]
    Silent,
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Http(#[from] hyper::Error),
}
