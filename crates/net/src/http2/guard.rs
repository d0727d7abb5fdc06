//! A connection of HTTP/2 that is watched for what the library which speaks it does not watch.
//!
//! [`Http2Guard`] sits between the socket and that library, hands all bytes through, and follows the frames in them on both ways:
//!
//! ```text
//!   client ──► PING, HEADERS 7 ──►┌───────┐──► the same ──► h2
//!                                 │ Http2Guard │
//!   client ◄── HEADERS 5 end  ◄───└───────┘◄── the same ◄── h2
//!              └ a response: pings are free again, call 5 is over
//! ```
//!
//! - Pings that come too often end the connection as grpc-go ends it (`pings`, `goaway`).
//! - The first frame, and a block of headers that has begun, must be complete within a time.
//!
//! *Invariant:* what the client reads is frames, whole and in order, also when the last of them is not of h2's making: it is written at a
//! boundary only. What h2 writes after it vanishes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::frames::{Frame, FrameScanner, kind};
use super::goaway::GoAway;
use super::pings::Pings;
use super::streams::Streams;
use crate::open::PREFACE;

/// What a guard allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GuardLimits {
    /// The least time between pings during a call; none if they may come as often as they like.
    pub(crate) ping_min_time: Option<Duration>,
    /// Time until the first frame is complete.
    pub(crate) first_frame_timeout: Duration,
    /// Time until a block of headers is complete.
    pub(crate) headers_timeout: Duration,
}

/// A watched stream of HTTP/2.
#[derive(Debug)]
pub(crate) struct Http2Guard<S> {
    stream: S,
    received: FrameScanner,
    sent: FrameScanner,
    watch: Watch,
    headers_timeout: Duration,
    /// When what is unfinished must be complete.
    deadline: Option<Pin<Box<Sleep>>>,
    goaway: Option<GoAway>,
}

/// What follows from frames.
#[derive(Debug)]
struct Watch {
    pings: Pings,
    streams: Streams,
    /// Whether any frame has come.
    greeted: bool,
    /// Whether the frames of the last read began a block of headers.
    block_began: bool,
    /// Whether a ping was one too many.
    too_many: bool,
}

impl Watch {
    fn on_received(&mut self, frame: Frame) {
        self.greeted = true;
        self.block_began |= frame.kind == kind::HEADERS;
        self.streams.on_received(frame);
        if frame.asks_pong() {
            self.too_many |= self.pings.on_ping(Instant::now(), self.streams.any_running());
        }
    }

    fn on_sent(&mut self, frame: Frame) {
        if frame.carries_message() {
            self.pings.on_response();
        }
        self.streams.on_sent(frame);
    }
}

impl<S> Http2Guard<S> {
    /// Expects the preface of HTTP/2 as the first thing to read.
    pub(crate) fn new(stream: S, limits: GuardLimits) -> Self {
        let watch = Watch {
            pings: Pings::new(limits.ping_min_time),
            streams: Streams::default(),
            greeted: false,
            block_began: false,
            too_many: false,
        };
        Self {
            stream,
            received: FrameScanner::new(PREFACE.len()),
            sent: FrameScanner::new(0),
            watch,
            headers_timeout: limits.headers_timeout,
            deadline: Some(after(limits.first_frame_timeout)),
            goaway: None,
        }
    }

    fn on_received(&mut self, bytes: &[u8]) {
        self.watch.block_began = false;
        self.received.feed(bytes, |frame| self.watch.on_received(frame));
        self.set_deadline();
        if self.watch.too_many {
            self.goaway = Some(GoAway::new(self.watch.streams.last()));
        }
    }

    fn on_sent(&mut self, bytes: &[u8]) {
        self.sent.feed(bytes, |frame| self.watch.on_sent(frame));
    }

    /// Nearly always there is none: headers come in one piece.
    fn set_deadline(&mut self) {
        if self.received.headers_unfinished() {
            if self.watch.block_began {
                self.deadline = Some(after(self.headers_timeout));
            }
        } else if self.watch.greeted {
            self.deadline = None;
        }
    }

    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let Some(deadline) = &mut self.deadline else { return Poll::Pending };
        deadline.as_mut().poll(cx).map(|()| io::ErrorKind::TimedOut.into())
    }
}

fn after(duration: Duration) -> Pin<Box<Sleep>> {
    Box::pin(sleep_until(Instant::now() + duration))
}

impl<S: AsyncRead + AsyncWrite + Unpin> Http2Guard<S> {
    fn poll_farewell(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let Some(goaway) = &mut self.goaway else { return Poll::Pending };
        goaway.poll(cx, &mut self.stream, self.sent.at_boundary())
    }

    /// What becomes of bytes once the end has begun: those that finish a frame are sent, and all others vanish.
    fn poll_write_last(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let waiting = self.goaway.as_ref().is_some_and(GoAway::is_waiting);
        let mut taken = bytes.len();
        if waiting && !self.sent.at_boundary() {
            // First, since the socket may never take the rest of the frame.
            if let Poll::Ready(error) = self.poll_farewell(cx) {
                return Poll::Ready(Err(error));
            }
            let size = self.sent.until_boundary(bytes);
            taken = ready!(Pin::new(&mut self.stream).poll_write(cx, &bytes[..size]))?;
            self.on_sent(&bytes[..taken]);
        }
        match self.poll_farewell(cx) {
            Poll::Ready(error) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Ready(Ok(taken)),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Http2Guard<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let me = self.get_mut();
        if me.goaway.is_none() {
            let before = buffer.filled().len();
            if Pin::new(&mut me.stream).poll_read(cx, buffer)?.is_pending() {
                return me.poll_deadline(cx).map(Err);
            }
            me.on_received(&buffer.filled()[before..]);
            if me.goaway.is_none() {
                return Poll::Ready(Ok(()));
            }
            // h2 sees nothing of this read, and with it of no call that began there. The last frame counts those as looked at, which is the
            // safe side: their clients do not try again by themselves.
            buffer.set_filled(before);
        }
        me.poll_farewell(cx).map(Err)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Http2Guard<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let me = self.get_mut();
        if me.goaway.is_some() {
            return me.poll_write_last(cx, bytes);
        }
        let size = ready!(Pin::new(&mut me.stream).poll_write(cx, bytes))?;
        me.on_sent(&bytes[..size]);
        Poll::Ready(Ok(size))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let me = self.get_mut();
        if me.goaway.is_some() {
            let first = slices.iter().find(|slice| !slice.is_empty());
            return me.poll_write_last(cx, first.map_or(&[], |slice| slice));
        }
        let size = ready!(Pin::new(&mut me.stream).poll_write_vectored(cx, slices))?;
        let mut left = size;
        for slice in slices {
            let part = left.min(slice.len());
            me.on_sent(&slice[..part]);
            left -= part;
        }
        Poll::Ready(Ok(size))
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
mod tests;
