//! The GOAWAY that ends the connection of a client that breaks a rule, such as one that pings too
//! often.
//!
//! ```text
//!   00 00 16  07      00  00 00 00 00   00 00 00 05   00 00 00 0b          74 6f 6f 5f .. 67 73
//!   length 22 GOAWAY      stream 0      last stream   ENHANCE_YOUR_CALM    too_many_pings
//! ```
//!
//! Then our side is shut down, and what the client still sends is read and discarded for a moment:
//! closing with unread bytes would make the kernel reset the connection, and the client might never
//! see the reason. grpc-go clients look for this text, and then double their ping interval.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::frames::{Frame, kind};

/// The time a client has to read the frame and close. As in grpc-go.
const LINGER: Duration = Duration::from_secs(1);
/// The last stream and the error code, before the debug data.
const GOAWAY_BYTES: usize = 4 + 4;

/// The rule that a client has broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Violation {
    TooManyPings,
    /// A `:path` with a fragment.
    PathFragment,
}

impl Violation {
    /// Returns the error code of HTTP/2.
    fn code(self) -> u32 {
        match self {
            // PROTOCOL_ERROR
            Self::PathFragment => 0x1,
            // ENHANCE_YOUR_CALM
            Self::TooManyPings => 0xb,
        }
    }

    /// Returns the debug data.
    fn debug_data(self) -> &'static str {
        match self {
            Self::TooManyPings => "too_many_pings",
            Self::PathFragment => "fragment in :path",
        }
    }

    fn error(self) -> io::Error {
        let text = match self {
            Self::TooManyPings => "got too many pings from the client",
            Self::PathFragment => "got a request with a fragment in its path",
        };
        io::Error::new(io::ErrorKind::ConnectionAborted, text)
    }
}

/// The progress of the shutdown.
#[derive(Debug)]
pub(super) struct GoAway {
    violation: Violation,
    step: Step,
    deadline: Pin<Box<Sleep>>,
}

#[derive(Debug)]
enum Step {
    /// Bytes of the frame that are written.
    Write {
        frame: Vec<u8>,
        written: usize,
    },
    Flush,
    Close,
    Linger,
}

impl GoAway {
    /// Prepares a GOAWAY that names `last` as the last processed stream.
    pub(super) fn new(violation: Violation, last: u32) -> Self {
        Self {
            violation,
            step: Step::Write { frame: goaway(violation, last), written: 0 },
            deadline: Box::pin(sleep_until(Instant::now() + LINGER)),
        }
    }

    /// Returns whether no byte of the frame is written yet, so that h2 may still finish one of its
    /// own.
    pub(super) fn is_not_started(&self) -> bool {
        matches!(self.step, Step::Write { written: 0, .. })
    }

    /// Makes progress as far as the stream allows. Ends in an error, since there is nothing more to
    /// read.
    pub(super) fn poll<S>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut S,
        at_boundary: bool,
    ) -> Poll<io::Error>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        if self.deadline.as_mut().poll(cx).is_ready() {
            return Poll::Ready(self.violation.error());
        }
        if self.is_not_started() && !at_boundary {
            return Poll::Pending;
        }
        loop {
            match ready!(self.step.poll(cx, Pin::new(stream))) {
                Ok(Some(next)) => self.step = next,
                Ok(None) => return Poll::Ready(self.violation.error()),
                Err(error) => return Poll::Ready(error),
            }
        }
    }
}

impl Step {
    /// Performs the step and returns the next one.
    fn poll<S>(
        &mut self,
        cx: &mut Context<'_>,
        stream: Pin<&mut S>,
    ) -> Poll<io::Result<Option<Self>>>
    where
        S: AsyncRead + AsyncWrite,
    {
        Poll::Ready(Ok(match self {
            Self::Write { frame, written } => {
                match ready!(stream.poll_write(cx, &frame[*written..]))? {
                    0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    size => *written += size,
                }
                let frame = std::mem::take(frame);
                let next = Self::Write { written: *written, frame };
                Some(if next.is_written() { Self::Flush } else { next })
            }
            Self::Flush => {
                ready!(stream.poll_flush(cx))?;
                Some(Self::Close)
            }
            Self::Close => {
                ready!(stream.poll_shutdown(cx))?;
                Some(Self::Linger)
            }
            Self::Linger => ready!(poll_discard(cx, stream))?.then_some(Self::Linger),
        }))
    }

    fn is_written(&self) -> bool {
        matches!(self, Self::Write { frame, written } if *written == frame.len())
    }
}

/// Reads and discards bytes; returns whether there were any.
fn poll_discard<S: AsyncRead>(cx: &mut Context<'_>, stream: Pin<&mut S>) -> Poll<io::Result<bool>> {
    let mut scratch = [0; 1024];
    let mut buffer = ReadBuf::new(&mut scratch);
    ready!(stream.poll_read(cx, &mut buffer))?;
    Poll::Ready(Ok(!buffer.filled().is_empty()))
}

fn goaway(violation: Violation, last: u32) -> Vec<u8> {
    let data = violation.debug_data().as_bytes();
    let length = u32::try_from(GOAWAY_BYTES + data.len()).unwrap_or(u32::MAX);
    let header = Frame { length, kind: kind::GOAWAY, flags: 0, stream: 0 }.encode();
    [&header[..], &last.to_be_bytes(), &violation.code().to_be_bytes(), data].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_goaway_frame_is_encoded_as_documented() {
        let mut expected = vec![0, 0, 0x16, 7, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0x0b];
        expected.extend_from_slice(b"too_many_pings");
        assert_eq!(goaway(Violation::TooManyPings, 5), expected);
    }
}
