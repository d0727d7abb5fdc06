//! Checks on the HTTP/2 frames of a client that hyper and h2 do not make.
//!
//! [`Http2Guard`] sits between the socket and h2, passes all bytes through, and scans the frames in
//! both directions:
//!
//! ```text
//!   client ──► PING, HEADERS 7 ──►┌────────────┐──► unchanged ──► h2
//!                                 │ Http2Guard │
//!   client ◄── HEADERS 5 end  ◄───└────────────┘◄── unchanged ◄── h2
//!              └ a response: resets the ping strikes, ends call 5
//! ```
//!
//! - Pings that come too often end the connection as in grpc-go (`pings`, `goaway`).
//! - A request whose path has a fragment ends the connection: h2 would drop it (`path_fragments`).
//! - The first frame, and a header block that has begun, must be complete within a timeout.
//!
//! Invariant: the client reads whole frames in order, even if the last one is not h2's: the GOAWAY
//! is written only at a frame boundary, and what h2 writes after it is discarded.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::frames::{BlockPayload, Frame, FramePart, FrameScanner, kind};
use super::goaway::{GoAway, Violation};
use super::path_fragments::PathFragments;
use super::pings::Pings;
use super::streams::Streams;
use crate::open::PREFACE;

/// The limits that a guard enforces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GuardLimits {
    /// The least time between pings during a call; `None` allows any number.
    pub(crate) ping_min_time: Option<Duration>,
    /// The time until the first frame is complete.
    pub(crate) first_frame_timeout: Duration,
    /// The time until a header block is complete.
    pub(crate) headers_timeout: Duration,
}

/// An HTTP/2 stream whose frames are checked.
#[derive(Debug)]
pub(crate) struct Http2Guard<S> {
    stream: S,
    received: FrameScanner,
    sent: FrameScanner,
    frame_state: FrameState,
    headers_timeout: Duration,
    /// The deadline of the first frame or of an unfinished header block.
    deadline: Option<Pin<Box<Sleep>>>,
    goaway: Option<GoAway>,
}

/// The state derived from the frames.
#[derive(Debug)]
struct FrameState {
    pings: Pings,
    streams: Streams,
    /// Whether a frame was received.
    received_any: bool,
    /// Whether the frames of the last read began a header block.
    block_began: bool,
    block: BlockPayload,
    paths: PathFragments,
    /// The rule that the client has broken.
    violation: Option<Violation>,
}

impl FrameState {
    fn on_received(&mut self, part: FramePart<'_>) {
        match part {
            FramePart::Header(frame) => self.on_frame(frame),
            FramePart::BlockPayload(payload) => {
                if self.paths.feed(self.block.fields(payload)) {
                    self.violation = Some(Violation::PathFragment);
                }
            }
        }
    }

    fn on_frame(&mut self, frame: Frame) {
        self.received_any = true;
        self.block_began |= frame.kind == kind::HEADERS;
        self.block = BlockPayload::new(frame);
        self.streams.on_received(frame);
        if frame.asks_pong() && self.pings.on_ping(Instant::now(), self.streams.any_running()) {
            self.violation = Some(Violation::TooManyPings);
        }
    }

    fn on_sent(&mut self, part: FramePart<'_>) {
        let FramePart::Header(frame) = part else { return };
        if frame.carries_message() {
            self.pings.on_response();
        }
        self.streams.on_sent(frame);
    }
}

impl<S> Http2Guard<S> {
    /// Wraps a stream that begins with the HTTP/2 preface.
    pub(crate) fn new(stream: S, limits: GuardLimits) -> Self {
        let frame_state = FrameState {
            pings: Pings::new(limits.ping_min_time),
            streams: Streams::default(),
            received_any: false,
            block_began: false,
            block: BlockPayload::default(),
            paths: PathFragments::default(),
            violation: None,
        };
        Self {
            stream,
            received: FrameScanner::new(PREFACE.len()),
            sent: FrameScanner::new(0),
            frame_state,
            headers_timeout: limits.headers_timeout,
            deadline: Some(after(limits.first_frame_timeout)),
            goaway: None,
        }
    }

    fn on_received(&mut self, bytes: &[u8]) {
        self.frame_state.block_began = false;
        self.received.feed(bytes, |part| self.frame_state.on_received(part));
        self.set_deadline();
        if let Some(violation) = self.frame_state.violation {
            self.goaway = Some(GoAway::new(violation, self.frame_state.streams.last()));
        }
    }

    fn on_sent(&mut self, bytes: &[u8]) {
        self.sent.feed(bytes, |part| self.frame_state.on_sent(part));
    }

    /// Sets or clears the deadline. Nearly always there is none: header blocks arrive in one piece.
    fn set_deadline(&mut self) {
        if self.received.headers_unfinished() {
            if self.frame_state.block_began {
                self.deadline = Some(after(self.headers_timeout));
            }
        } else if self.frame_state.received_any {
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
    fn poll_goaway(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let Some(goaway) = &mut self.goaway else { return Poll::Pending };
        goaway.poll(cx, &mut self.stream, self.sent.at_boundary())
    }

    /// Handles writes of h2 once the GOAWAY is due: sends the bytes that complete a frame and
    /// discards all others.
    fn poll_write_before_goaway(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let not_started = self.goaway.as_ref().is_some_and(GoAway::is_not_started);
        let mut taken = bytes.len();
        if not_started && !self.sent.at_boundary() {
            // Polled first, since the socket may never accept the rest of the frame.
            if let Poll::Ready(error) = self.poll_goaway(cx) {
                return Poll::Ready(Err(error));
            }
            let size = self.sent.until_boundary(bytes);
            taken = ready!(Pin::new(&mut self.stream).poll_write(cx, &bytes[..size]))?;
            self.on_sent(&bytes[..taken]);
        }
        match self.poll_goaway(cx) {
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
            // h2 sees nothing of this read, nor of the calls that begin in it. The GOAWAY counts
            // them as processed, which is the safe side: clients do not retry them on their own.
            buffer.set_filled(before);
        }
        me.poll_goaway(cx).map(Err)
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
            return me.poll_write_before_goaway(cx, bytes);
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
            return me.poll_write_before_goaway(cx, first.map_or(&[], |slice| slice));
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
