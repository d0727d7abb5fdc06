//! Merges the small writes of one poll into one system call.
//!
//! h2 writes each DATA frame of 256 bytes or more separately and flushes right after: one system
//! call per response, even if eight of them are ready. [`CoalescedStream`] buffers small writes and
//! ignores flushes. After each poll of the connection, the driver flushes the buffer through the
//! [`Flusher`]:
//!
//! ```text
//!   poll of a connection                                         on the wire
//!   write 9+300, flush, write 9+300, flush, write 20, flush      nothing
//!   then: Flusher::poll                                          one write of 638 bytes
//! ```
//!
//! Large writes go out at once, together with the buffer and without a copy.
//!
//! Also records the time of the last read ([`Flusher::last_read`]).
//!
//! Invariants: bytes go out in order; at most [`COALESCED_BYTES_MAX`] are buffered; nothing stays
//! buffered while the task waits, unless the socket accepts no more.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// The most buffered bytes. As large as a frame, so that a full frame is not buffered.
const COALESCED_BYTES_MAX: usize = 16 << 10;

/// Splits a stream into one that coalesces writes and the handle that flushes it.
pub(crate) fn coalesce_writes<S>(stream: S) -> (CoalescedStream<S>, Flusher<S>) {
    // Allocates nothing yet: many connections send little.
    let buffer = BytesMut::new();
    let shared = Arc::new(Mutex::new(CoalescerState { stream, buffer, last_read: Instant::now() }));
    (CoalescedStream(Arc::clone(&shared)), Flusher(shared))
}

/// The half that is read and written.
#[derive(Debug)]
pub(crate) struct CoalescedStream<S>(Arc<Mutex<CoalescerState<S>>>);

/// The half that flushes. One task uses both, so the lock is never contended.
#[derive(Debug)]
pub(crate) struct Flusher<S>(Arc<Mutex<CoalescerState<S>>>);

#[derive(Debug)]
struct CoalescerState<S> {
    stream: S,
    buffer: BytesMut,
    last_read: Instant,
}

impl<S: AsyncWrite + Unpin> Flusher<S> {
    /// Writes the buffer and flushes the stream.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.lock();
        ready!(state.poll_flush_buffer(cx))?;
        Pin::new(&mut state.stream).poll_flush(cx)
    }

    /// Returns the time of the last read, or of the creation if nothing was read.
    pub(crate) fn last_read(&self) -> Instant {
        self.0.lock().last_read
    }
}

impl<S: AsyncWrite + Unpin> CoalescerState<S> {
    fn poll_flush_buffer(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.buffer.is_empty() {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, &self.buffer))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                size => self.advance_buffer(size),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Buffers the slices if they fit, and writes them otherwise.
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let size = slices.iter().map(|slice| slice.len()).sum();
        if self.buffer.len() + size <= COALESCED_BYTES_MAX {
            slices.iter().for_each(|slice| self.buffer.extend_from_slice(slice));
            return Poll::Ready(Ok(size));
        }
        self.poll_write_through(cx, slices)
    }

    /// Writes the buffer and the slices until at least one byte of the slices is written.
    fn poll_write_through(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            // h2 passes at most two slices, a frame header and its payload. Of more, the rest is
            // not taken.
            let mut parts = slices.iter().filter(|slice| !slice.is_empty());
            let mut part = || IoSlice::new(parts.next().map_or(&[], |slice| slice));
            let together = [IoSlice::new(&self.buffer), part(), part()];
            let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, &together))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            let of_buffer = written.min(self.buffer.len());
            self.advance_buffer(of_buffer);
            if written > of_buffer {
                return Poll::Ready(Ok(written - of_buffer));
            }
        }
    }

    /// Removes written bytes from the buffer.
    fn advance_buffer(&mut self, size: usize) {
        if size == self.buffer.len() {
            // Makes the whole capacity usable again.
            self.buffer.clear();
        } else {
            self.buffer.advance(size);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CoalescedStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.0.lock();
        ready!(Pin::new(&mut state.stream).poll_read(cx, buffer))?;
        state.last_read = Instant::now();
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CoalescedStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.lock().poll_write(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.lock().poll_write(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing: the driver flushes.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.lock();
        ready!(state.poll_flush_buffer(cx))?;
        Pin::new(&mut state.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// A socket that accepts `room` bytes in total and `portion` bytes per write.
    #[derive(Debug, Default)]
    struct Socket {
        sent: Vec<u8>,
        writes: usize,
        room: usize,
        portion: usize,
        closed: bool,
    }

    impl AsyncWrite for Socket {
        fn poll_write(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            slices: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let before = self.sent.len();
            let bytes = slices.iter().flat_map(|slice| slice.iter().copied());
            let most = self.portion.min(self.room);
            self.sent.extend(bytes.take(most));
            let size = self.sent.len() - before;
            if size == 0 {
                return Poll::Pending;
            }
            self.room -= size;
            self.writes += 1;
            Poll::Ready(Ok(size))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.closed = true;
            Poll::Ready(Ok(()))
        }
    }

    fn with(room: usize, portion: usize) -> (CoalescedStream<Socket>, Flusher<Socket>) {
        coalesce_writes(Socket { room, portion, ..Socket::default() })
    }

    fn write(stream: &mut CoalescedStream<Socket>, slices: &[&[u8]]) -> Poll<usize> {
        let slices: Vec<IoSlice<'_>> = slices.iter().map(|slice| IoSlice::new(slice)).collect();
        let mut cx = Context::from_waker(Waker::noop());
        Pin::new(stream).poll_write_vectored(&mut cx, &slices).map(Result::unwrap)
    }

    fn flush(flush: &Flusher<Socket>) -> Poll<()> {
        flush.poll(&mut Context::from_waker(Waker::noop())).map(Result::unwrap)
    }

    fn shut_down(stream: &mut CoalescedStream<Socket>) -> Poll<()> {
        let mut cx = Context::from_waker(Waker::noop());
        Pin::new(stream).poll_shutdown(&mut cx).map(Result::unwrap)
    }

    #[test]
    fn small_writes_go_out_in_one_write_on_flush() {
        let (mut stream, flusher) = with(usize::MAX, usize::MAX);
        for _ in 0..8 {
            assert_eq!(write(&mut stream, &[&[1; 9], &[2; 300]]), Poll::Ready(309));
            let mut cx = Context::from_waker(Waker::noop());
            assert!(Pin::new(&mut stream).poll_flush(&mut cx).is_ready());
        }
        assert_eq!(flusher.0.lock().stream.writes, 0);
        assert_eq!(flush(&flusher), Poll::Ready(()));
        assert_eq!(flusher.0.lock().stream.writes, 1);
        assert_eq!(flusher.0.lock().stream.sent.len(), 8 * 309);
        assert_eq!(flush(&flusher), Poll::Ready(()));
        assert_eq!(flusher.0.lock().stream.writes, 1, "the buffer is empty");
    }

    #[test]
    fn a_large_write_includes_the_buffer() {
        let (mut stream, flusher) = with(usize::MAX, usize::MAX);
        assert_eq!(write(&mut stream, &[&[1; 100]]), Poll::Ready(100));
        let large = vec![2; COALESCED_BYTES_MAX];
        assert_eq!(write(&mut stream, &[&[], &[3; 9], &large]), Poll::Ready(9 + large.len()));
        let state = flusher.0.lock();
        assert_eq!((state.stream.writes, state.buffer.len()), (1, 0));
        assert_eq!(state.stream.sent, [&[1; 100][..], &[3; 9], &large].concat());
    }

    #[test]
    fn a_full_socket_blocks_writes_once_the_buffer_is_full() {
        let (mut stream, flusher) = with(10, usize::MAX);
        let chunk = [7; 1000];
        let buffer = (0..).take_while(|_| write(&mut stream, &[&chunk]).is_ready()).count();
        // The full buffer, and ten bytes that were written.
        assert_eq!(buffer, COALESCED_BYTES_MAX / chunk.len());
        assert_eq!(flush(&flusher), Poll::Pending);
        assert!(flusher.0.lock().buffer.len() <= COALESCED_BYTES_MAX);

        flusher.0.lock().stream.room = usize::MAX;
        assert_eq!(flush(&flusher), Poll::Ready(()));
        assert_eq!(flusher.0.lock().stream.sent, vec![7; buffer * chunk.len()]);
    }

    #[test]
    fn shutdown_writes_the_buffer_first() {
        let (mut stream, flusher) = with(3, usize::MAX);
        assert_eq!(write(&mut stream, &[b"lastword"]), Poll::Ready(8));
        assert_eq!(shut_down(&mut stream), Poll::Pending);
        assert!(!flusher.0.lock().stream.closed);
        flusher.0.lock().stream.room = usize::MAX;
        assert_eq!(shut_down(&mut stream), Poll::Ready(()));
        assert_eq!(flusher.0.lock().stream.sent, b"lastword");
        assert!(flusher.0.lock().stream.closed);
    }

    #[test]
    fn bytes_keep_their_order_for_any_sizes_and_portions() {
        for portion in [1, 5, 1000, COALESCED_BYTES_MAX, usize::MAX] {
            let (mut stream, flusher) = with(usize::MAX, portion);
            let sizes = [1, 40_000, 300, 9, 16_384, 16_383, 2, 100_000, 0, 7];
            let all: Vec<u8> = sizes.iter().zip(0..).flat_map(|(size, n)| vec![n; *size]).collect();
            let mut rest = &all[..];
            for size in sizes {
                let mut piece;
                (piece, rest) = rest.split_at(size);
                while !piece.is_empty() {
                    let (head, tail) = piece.split_at(piece.len() / 3);
                    let Poll::Ready(size) = write(&mut stream, &[head, tail]) else { panic!() };
                    piece = &piece[size..];
                }
                if size % 2 == 1 {
                    assert_eq!(flush(&flusher), Poll::Ready(()));
                }
            }
            assert_eq!(flush(&flusher), Poll::Ready(()));
            assert!(flusher.0.lock().stream.sent == all, "in portions of {portion}");
        }
    }
}
