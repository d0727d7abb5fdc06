//! A connection of HTTP/2, and what has to be done beside the library that speaks it.
//!
//! ```text
//!   each turn     h2 ─► what it left to be flushed ─► is the client still there?
//! ```
//!
//! *Is the client there?* The library pings a client that has been silent, and gives a connection up whose client does not answer. But then it says so, and waits until
//! that is written: with a socket that takes no more, because the client has stopped or its machine has, that is never. So the connection is cut here
//! if nothing was read for longer than any client that answers pings can be silent.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::AsyncWrite;
use tokio::time::{Instant, Sleep, sleep_until};

use super::write_coalescer::Flusher;

/// A connection that is flushed after each of its turns, and cut when its client is gone.
pub(crate) struct Http2Driver<C, S> {
    connection: Pin<Box<C>>,
    flusher: Flusher<S>,
    silence: SilenceTimer,
}

impl<C, S> Http2Driver<C, S> {
    /// Cuts a connection that nothing was read from for so long.
    pub(crate) fn new(connection: C, flusher: Flusher<S>, silence_max: Duration) -> Self {
        Self { connection: Box::pin(connection), flusher, silence: SilenceTimer::new(silence_max) }
    }

    /// The connection itself.
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

/// How long a client may be silent.
struct SilenceTimer {
    max: Duration,
    timer: Pin<Box<Sleep>>,
}

impl SilenceTimer {
    fn new(max: Duration) -> Self {
        Self { max, timer: Box::pin(sleep_until(Instant::now() + max)) }
    }

    /// Ready once it was silent for too long. What was read meanwhile is looked at only when the time is up.
    fn poll(&mut self, cx: &mut Context<'_>, last_read: impl Fn() -> Instant) -> Poll<DriverError> {
        loop {
            ready!(self.timer.as_mut().poll(cx));
            let end = last_read() + self.max;
            if end <= Instant::now() {
                return Poll::Ready(DriverError::Gone);
            }
            self.timer.as_mut().reset(end);
        }
    }
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DriverError {
    #[error("the client does not answer, and takes nothing either")]
    Gone,
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Http(#[from] hyper::Error),
}
