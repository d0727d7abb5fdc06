//! The body of a response.
//!
//! ```text
//!   HTTP            one piece
//!   JSON gateway    pieces as they are written
//!   unary gRPC      one message, then trailers with the status
//!   streaming gRPC  messages as they come, then trailers
//! ```
//!
//! How the messages of a stream come about is told in `grpc::running`.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};

use crate::gateway::Json;
use crate::grpc::{Running, Status, Written};

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
    Stream(Arc<Running>),
    Json(Box<Json>),
}

impl Body {
    /// One message of gRPC, and how the call ended.
    pub(crate) fn unary(message: Bytes, status: &Status) -> Body {
        Body(Inner::Unary { message, trailers: trailers(status) })
    }

    /// JSON, as it is written.
    pub(crate) fn json(json: Json) -> Body {
        Body(Inner::Json(Box::new(json)))
    }

    /// The messages of a stream, and how it ended.
    pub(crate) fn stream(running: Arc<Running>) -> Body {
        Body(Inner::Stream(running))
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
            Inner::Json(mut json) => match json.poll_piece(cx) {
                Poll::Pending => {
                    self.0 = Inner::Json(json);
                    return Poll::Pending;
                }
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(piece)) => (Frame::data(piece), Inner::Json(json)),
            },
            Inner::Stream(running) => match running.poll_written(cx) {
                Poll::Pending => {
                    self.0 = Inner::Stream(running);
                    return Poll::Pending;
                }
                Poll::Ready(Written::Piece(bytes)) => (Frame::data(bytes), Inner::Stream(running)),
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
            Inner::Unary { .. } | Inner::Stream(_) | Inner::Json(_) => SizeHint::default(),
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

    #[test]
    fn only_a_whole_body_has_a_length() {
        use http_body::Body as _;
        assert_eq!(Body::from(Bytes::from_static(b"page")).size_hint().exact(), Some(4));
        assert_eq!(Body::unary(Bytes::new(), &Status::OK).size_hint().exact(), None);
        assert!(Body::default().is_end_stream());
    }
}
