//! The stream from which hyper reads requests.

use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::chunks::{Chunks, Next};
use super::exchange::Exchange;
use super::head::{BodyLength, Head, HeadParser};
use super::refusal::Refusal;

/// The bytes that are read from the socket at once, and the most that are buffered while a response
/// is incomplete.
const READ_BYTES: usize = 8 << 10;

/// The treatment of a connection whose first line is not HTTP/1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstLine {
    /// Refuse it as any other.
    Answer,
    /// Close the connection without a response.
    Close,
}

/// Reads requests from a stream by Go's rules. Writes pass through.
#[derive(Debug)]
pub(crate) struct RequestReader<S> {
    stream: S,
    exchange: Arc<Exchange>,
    parser: HeadParser,
    position: RequestPosition,
    /// Bytes of the socket that are not parsed.
    input: BytesMut,
    /// Bytes for hyper.
    output: BytesMut,
    /// The response to a refused head, sent at the end of the connection.
    refusal: BytesMut,
    /// The time that a response has after the client has closed its side of the connection.
    half_closed_grace: Duration,
    /// The end of that time.
    half_closed: Option<Pin<Box<Sleep>>>,
}

/// The position in the stream of requests.
#[derive(Debug)]
enum RequestPosition {
    Head,
    Body(u64),
    Chunked(Chunks),
    /// No further request is read.
    End,
    /// After an upgrade: all bytes pass through.
    Upgraded,
}

impl<S> RequestReader<S> {
    pub(crate) fn new(stream: S, first_line: FirstLine, half_closed_grace: Duration) -> Self {
        Self {
            stream,
            exchange: Arc::default(),
            parser: HeadParser::new(first_line == FirstLine::Close),
            position: RequestPosition::Head,
            input: BytesMut::new(),
            output: BytesMut::new(),
            refusal: BytesMut::new(),
            half_closed_grace,
            half_closed: None,
        }
    }

    /// Returns the state that the service of the connection shares with the reader.
    pub(crate) fn exchange(&self) -> Arc<Exchange> {
        Arc::clone(&self.exchange)
    }

    fn begin(&mut self, head: &Head) {
        self.output.extend_from_slice(&head.bytes);
        self.exchange.begin(head.expectation_failed);
        self.position = match head.body {
            BodyLength::Exact(0) => RequestPosition::Head,
            BodyLength::Exact(length) => RequestPosition::Body(length),
            BodyLength::Chunked => RequestPosition::Chunked(Chunks::default()),
        };
    }

    fn refuse(&mut self, refusal: Refusal) {
        self.refusal.extend_from_slice(&refusal.response());
        self.exchange.set_refused(refusal.reason());
        self.input.clear();
        self.position = RequestPosition::End;
    }

    /// Counts bytes of a body that were passed to hyper.
    fn pass(&mut self, size: usize) {
        match &mut self.position {
            RequestPosition::Body(left) => {
                *left = left.saturating_sub(size as u64);
                if *left == 0 {
                    self.position = RequestPosition::Head;
                }
            }
            RequestPosition::Chunked(chunks) => chunks.pass(size as u64),
            RequestPosition::Head | RequestPosition::End | RequestPosition::Upgraded => {}
        }
    }
}

impl<S: AsyncRead + Unpin> RequestReader<S> {
    /// Reads from the socket into the input. Ready with the number of bytes.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.input.reserve(READ_BYTES);
        // The future has no state of its own, so that a new one continues where the last stopped.
        pin!(self.stream.read_buf(&mut self.input)).poll(cx)
    }

    /// Makes progress in the head of a request. Ready when there is output or the stream has ended.
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.exchange.poll_idle(cx).is_pending() {
            return self.poll_busy(cx);
        }
        loop {
            match self.parser.parse(&mut self.input) {
                Ok(Some(head)) => self.begin(&head),
                Err(refusal) => self.refuse(refusal),
                Ok(None) => {
                    if ready!(self.poll_fill(cx))? > 0 {
                        continue;
                    }
                    match self.parser.refuse_cut(&self.input) {
                        None => self.position = RequestPosition::End,
                        Some(refusal) => self.refuse(refusal),
                    }
                }
            }
            return Poll::Ready(Ok(()));
        }
    }

    /// Waits for the end of the connection while a response is incomplete. Requests that arrive
    /// meanwhile are buffered up to a bound.
    ///
    /// Compat: a client that closes its side of the connection after a request is answered, as by
    /// Go. hyper drops a response at the end of its input, so the end is held back for a while. It
    /// is not held back indefinitely: a stream whose client has disconnected must end.
    fn poll_busy(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.half_closed.is_none() && self.input.len() < READ_BYTES {
            if ready!(self.poll_fill(cx))? > 0 {
                continue;
            }
            if self.half_closed_grace.is_zero() {
                self.position = RequestPosition::End;
                return Poll::Ready(Ok(()));
            }
            self.half_closed = Some(Box::pin(sleep(self.half_closed_grace)));
        }
        let Some(grace) = &mut self.half_closed else { return Poll::Pending };
        ready!(grace.as_mut().poll(cx));
        self.position = RequestPosition::End;
        Poll::Ready(Ok(()))
    }

    /// Passes on up to `left` bytes of a body.
    fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        left: u64,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let size = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.remaining());
        if self.input.is_empty() {
            let mut direct = ReadBuf::new(buffer.initialize_unfilled_to(size));
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut direct))?;
            let read = direct.filled().len();
            buffer.advance(read);
            self.pass(read);
        } else {
            let size = size.min(self.input.len());
            buffer.put_slice(&self.input[..size]);
            self.input.advance(size);
            self.pass(size);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for RequestReader<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let me = self.get_mut();
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        loop {
            if !me.output.is_empty() {
                let size = me.output.len().min(buffer.remaining());
                buffer.put_slice(&me.output[..size]);
                me.output.advance(size);
                return Poll::Ready(Ok(()));
            }
            match &mut me.position {
                RequestPosition::End => return Poll::Ready(Ok(())),
                RequestPosition::Head if me.exchange.is_upgraded() => {
                    me.position = RequestPosition::Upgraded;
                }
                RequestPosition::Head => ready!(me.poll_head(cx))?,
                RequestPosition::Upgraded => return me.poll_body(cx, u64::MAX, buffer),
                RequestPosition::Body(left) => {
                    let left = *left;
                    return me.poll_body(cx, left, buffer);
                }
                RequestPosition::Chunked(chunks) => {
                    match chunks.next(&mut me.input, &mut me.output) {
                        Err(text) => {
                            me.position = RequestPosition::End;
                            return Poll::Ready(Err(io::Error::new(
                                io::ErrorKind::InvalidData,
                                text,
                            )));
                        }
                        Ok(_) if !me.output.is_empty() => {}
                        Ok(Next::Data(left)) => return me.poll_body(cx, left, buffer),
                        Ok(Next::End) => me.position = RequestPosition::Head,
                        Ok(Next::Read) => {
                            if ready!(me.poll_fill(cx))? == 0 {
                                me.position = RequestPosition::End;
                            }
                        }
                    }
                }
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for RequestReader<S> {
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
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Sends the response to a refused head first: hyper has sent everything else by now.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let me = &mut *self;
        while !me.refusal.is_empty() {
            let written = ready!(Pin::new(&mut me.stream).poll_write(cx, &me.refusal))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            me.refusal.advance(written);
        }
        Pin::new(&mut me.stream).poll_shutdown(cx)
    }
}
