//! A socket in memory that transfers a number of bytes at a time.

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[derive(Debug)]
pub(crate) struct Socket {
    input: Vec<u8>,
    piece: usize,
    /// The bytes that were read.
    pub(crate) read: usize,
    /// The bytes that were written.
    pub(crate) sent: Rc<RefCell<Vec<u8>>>,
    /// Whether the peer has not closed the connection: behind the input, reads block.
    pub(crate) is_open: Rc<Cell<bool>>,
}

impl Socket {
    pub(crate) fn new(input: &[u8], piece: usize) -> Socket {
        Socket {
            input: input.to_vec(),
            piece,
            read: 0,
            sent: Rc::default(),
            is_open: Rc::default(),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let size = self.piece.min(buffer.remaining()).min(self.input.len() - self.read);
        if size == 0 && self.is_open.get() {
            return Poll::Pending;
        }
        buffer.put_slice(&self.input[self.read..][..size]);
        self.read += size;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let size = self.piece.min(bytes.len());
        self.sent.borrow_mut().extend_from_slice(&bytes[..size]);
        Poll::Ready(Ok(size))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
