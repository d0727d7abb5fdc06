//! The body of a gRPC response.
//!
//! ```text
//!   refused call    nothing: the status is in the headers; or an HTTP error page
//!   unary           one message, then trailers with the status
//!   streaming       messages as they are produced, then trailers
//! ```

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};

use crate::observer::Observer;
use crate::status::Status;
use crate::stream_task::{StreamOutput, StreamTask};

/// The body of a gRPC response. `O` observes streams.
#[derive(Debug)]
pub struct Body<O>(Inner<O>);

#[derive(Debug)]
enum Inner<O> {
    Empty,
    Page(Bytes),
    Unary { message: Bytes, trailers: HeaderMap },
    Trailers(HeaderMap),
    Stream(Arc<StreamTask<O>>),
}

impl<O> Default for Body<O> {
    fn default() -> Body<O> {
        Body(Inner::Empty)
    }
}

impl<O> Body<O> {
    /// Creates a body of one message and the final status.
    pub(crate) fn unary(message: Bytes, status: &Status) -> Body<O> {
        Body(Inner::Unary { message, trailers: trailers(status) })
    }

    /// Creates a body of the messages that a stream task produces.
    pub(crate) fn stream(task: Arc<StreamTask<O>>) -> Body<O> {
        Body(Inner::Stream(task))
    }

    /// Creates the body of an HTTP error page.
    pub(crate) fn page(text: String) -> Body<O> {
        Body(Inner::Page(text.into()))
    }
}

impl<O: Observer> http_body::Body for Body<O> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let (frame, rest) = match std::mem::take(&mut *self).0 {
            Inner::Empty => return Poll::Ready(None),
            Inner::Page(bytes) => (Frame::data(bytes), Inner::Empty),
            Inner::Unary { message, trailers } => (Frame::data(message), Inner::Trailers(trailers)),
            Inner::Trailers(trailers) => (Frame::trailers(trailers), Inner::Empty),
            Inner::Stream(task) => match task.poll_output(cx) {
                Poll::Pending => {
                    self.0 = Inner::Stream(task);
                    return Poll::Pending;
                }
                Poll::Ready(StreamOutput::Chunk(bytes)) => {
                    (Frame::data(bytes), Inner::Stream(task))
                }
                Poll::Ready(StreamOutput::Last(bytes, status)) if bytes.is_empty() => {
                    (Frame::trailers(trailers(&status)), Inner::Empty)
                }
                Poll::Ready(StreamOutput::Last(bytes, status)) => {
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
            Inner::Page(bytes) => SizeHint::with_exact(bytes.len() as u64),
            // An exact length would announce that no trailers follow.
            Inner::Unary { .. } | Inner::Stream(_) => SizeHint::default(),
        }
    }
}

fn trailers(status: &Status) -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(2);
    status.write_to(&mut trailers);
    trailers
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::observer::tests::CodeObserver;

    #[tokio::test]
    async fn a_unary_body_is_a_message_and_trailers() {
        let mut body = Body::<CodeObserver>::unary(Bytes::from_static(b"reply"), &Status::OK);
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "reply");
        let trailers = body.frame().await.unwrap().unwrap().into_trailers().unwrap();
        assert_eq!(trailers["grpc-status"], "0");
        assert!(body.frame().await.is_none());
    }

    #[test]
    fn a_body_with_trailers_has_no_exact_length() {
        let unary = Body::<CodeObserver>::unary(Bytes::new(), &Status::OK);
        assert_eq!(unary.size_hint().exact(), None);
        assert_eq!(Body::<CodeObserver>::page("page".into()).size_hint().exact(), Some(4));
        assert!(Body::<CodeObserver>::default().is_end_stream());
    }
}
