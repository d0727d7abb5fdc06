//! The body of a response.
//!
//! ```text
//!   HTTP            one piece
//!   unary gRPC      one message, then trailers with the status
//!   streaming gRPC  messages as they come, then trailers
//! ```
//!
//! A streaming body *is* the work that makes it: whoever sends the response polls the body when the client can take more, and that runs the work until it has
//! written something or has to wait ([`Sink`]). So a client that does not read holds up its own stream and nothing else, and no task or
//! queue stands between the work and the connection.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Frame, SizeHint};

use crate::grpc::Status;

/// Work does not go on before the connection has taken what it wrote, once that is so much. A single message may be larger.
const PIECE: usize = 32 << 10;

/// The body of a response.
#[derive(Debug, Default)]
pub struct Body(Inner);

#[derive(Debug, Default)]
enum Inner {
    #[default]
    Empty,
    Whole(Bytes),
    Unary {
        message: Bytes,
        trailers: HeaderMap,
    },
    Trailers(HeaderMap),
    Stream(Stream),
}

impl Body {
    /// One message of gRPC, and how the call ended.
    pub(crate) fn unary(message: Bytes, status: &Status) -> Body {
        Body(Inner::Unary { message, trailers: trailers(status) })
    }

    /// Messages of gRPC that `work` writes into `sink`, and how the call ended.
    pub(crate) fn stream(sink: &Sink, work: impl Future<Output = Status> + Send + 'static) -> Body {
        Body(Inner::Stream(Stream { slot: Arc::clone(&sink.slot), work: Box::pin(work) }))
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Body {
        Body(if bytes.is_empty() { Inner::Empty } else { Inner::Whole(bytes) })
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let (frame, rest) = match std::mem::take(&mut self.0) {
            Inner::Empty => return Poll::Ready(None),
            Inner::Whole(bytes) => (Frame::data(bytes), Inner::Empty),
            Inner::Unary { message, trailers } => (Frame::data(message), Inner::Trailers(trailers)),
            Inner::Trailers(trailers) => (Frame::trailers(trailers), Inner::Empty),
            Inner::Stream(mut stream) => match stream.poll(cx) {
                Poll::Pending => {
                    self.0 = Inner::Stream(stream);
                    return Poll::Pending;
                }
                Poll::Ready(Written::Piece(bytes)) => (Frame::data(bytes), Inner::Stream(stream)),
                Poll::Ready(Written::Last(bytes, status)) if bytes.is_empty() => {
                    (Frame::trailers(trailers(&status)), Inner::Empty)
                }
                Poll::Ready(Written::Last(bytes, status)) => {
                    (Frame::data(bytes), Inner::Trailers(trailers(&status)))
                }
            },
        };
        self.0 = rest;
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Inner::Empty)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Empty | Inner::Trailers(_) => SizeHint::with_exact(0),
            Inner::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            // A length would say that nothing follows.
            Inner::Unary { .. } | Inner::Stream(_) => SizeHint::default(),
        }
    }
}

fn trailers(status: &Status) -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(2);
    status.write_to(&mut trailers);
    trailers
}

/// Work that writes messages.
struct Stream {
    slot: Arc<Slot>,
    work: Pin<Box<dyn Future<Output = Status> + Send>>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}

enum Written {
    Piece(Bytes),
    Last(Bytes, Status),
}

impl Stream {
    /// Runs the work as far as it goes, and takes what it wrote.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Written> {
        let done = self.work.as_mut().poll(cx);
        let written = self.slot.lock().split().freeze();
        match done {
            Poll::Ready(status) => Poll::Ready(Written::Last(written, status)),
            Poll::Pending if written.is_empty() => Poll::Pending,
            Poll::Pending => Poll::Ready(Written::Piece(written)),
        }
    }
}

/// What was written and not yet taken. Never contended: work and body are polled by the same task.
#[derive(Default)]
struct Slot(Mutex<BytesMut>);

impl Slot {
    fn lock(&self) -> MutexGuard<'_, BytesMut> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where work writes its messages. To be used by the work of the one body that it was given to.
#[derive(Clone, Default)]
pub(crate) struct Sink {
    slot: Arc<Slot>,
}

impl Sink {
    /// Appends to what goes out next.
    pub(crate) fn write<T>(&self, write: impl FnOnce(&mut BytesMut) -> T) -> T {
        write(&mut self.slot.lock())
    }

    /// Returns once there is room for more.
    pub(crate) async fn room(&self) {
        // Nobody has to be woken: room is made when the body is polled, and that polls the work.
        std::future::poll_fn(|_| match self.slot.lock().len() < PIECE {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sink").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    async fn frames(mut body: Body) -> Vec<Result<Bytes, HeaderMap>> {
        let mut all = Vec::new();
        while let Some(frame) = body.frame().await {
            all.push(match frame.unwrap().into_data() {
                Ok(data) => Ok(data),
                Err(frame) => Err(frame.into_trailers().unwrap()),
            });
        }
        all
    }

    #[tokio::test]
    async fn a_unary_answer_is_a_message_and_trailers() {
        let frames = frames(Body::unary(Bytes::from_static(b"answer"), &Status::OK)).await;
        assert_eq!(frames[0].as_ref().unwrap(), "answer");
        assert_eq!(frames[1].as_ref().unwrap_err()["grpc-status"], "0");
        assert_eq!(frames.len(), 2);
    }

    #[tokio::test]
    async fn what_is_written_at_once_goes_out_at_once() {
        let sink = Sink::default();
        let writer = sink.clone();
        let body = Body::stream(&sink, async move {
            for text in ["a", "b"] {
                writer.write(|out| out.extend_from_slice(text.as_bytes()));
                writer.room().await;
            }
            tokio::task::yield_now().await;
            writer.write(|out| out.extend_from_slice(b"c"));
            Status::OK
        });
        let frames = frames(body).await;
        assert_eq!(frames[0].as_ref().unwrap(), "ab");
        assert_eq!(frames[1].as_ref().unwrap(), "c");
        assert_eq!(frames[2].as_ref().unwrap_err()["grpc-status"], "0");
    }

    #[tokio::test]
    async fn work_waits_for_room() {
        let sink = Sink::default();
        let writer = sink.clone();
        let body = Body::stream(&sink, async move {
            for _ in 0..3 {
                writer.write(|out| out.resize(out.len() + PIECE, 0));
                writer.room().await;
            }
            Status::OK
        });
        let frames = frames(body).await;
        assert_eq!(
            frames.iter().map(|frame| frame.as_ref().map_or(0, Bytes::len)).collect::<Vec<_>>(),
            [PIECE, PIECE, PIECE, 0]
        );
    }

    #[test]
    fn only_a_whole_body_has_a_length() {
        use http_body::Body as _;
        assert_eq!(Body::from(Bytes::from_static(b"page")).size_hint().exact(), Some(4));
        assert_eq!(Body::unary(Bytes::new(), &Status::OK).size_hint().exact(), None);
        assert!(Body::default().is_end_stream());
    }
}
