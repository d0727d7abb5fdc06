//! The GOAWAY that ends the connection of a client that pings too often.
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
const REASON: &[u8; 14] = b"too_many_pings";
/// The last stream, the error code and the debug data.
const GOAWAY_BYTES: u32 = 4 + 4 + 14;
const ENHANCE_YOUR_CALM: u32 = 0xb;

/// The progress of the shutdown.
#[derive(Debug)]
pub(super) struct GoAway {
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
    pub(super) fn new(last: u32) -> Self {
        Self {
            step: Step::Write { frame: goaway(last), written: 0 },
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
            return Poll::Ready(too_many_pings());
        }
        if self.is_not_started() && !at_boundary {
            return Poll::Pending;
        }
        loop {
            match ready!(self.step.poll(cx, Pin::new(stream))) {
                Ok(Some(next)) => self.step = next,
                Ok(None) => return Poll::Ready(too_many_pings()),
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

fn too_many_pings() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "got too many pings from the client")
}

fn goaway(last: u32) -> Vec<u8> {
    let header = Frame { length: GOAWAY_BYTES, kind: kind::GOAWAY, flags: 0, stream: 0 }.encode();
    [&header[..], &last.to_be_bytes(), &ENHANCE_YOUR_CALM.to_be_bytes(), REASON].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_goaway_frame_is_encoded_as_documented() {
        let mut expected = vec![0, 0, 0x16, 7, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0x0b];
        expected.extend_from_slice(b"too_many_pings");
        assert_eq!(goaway(5), expected);
    }
}
