//! The body of a response: a gRPC body, JSON that is written as it is sent, or a single piece.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body::{Frame, SizeHint};

use crate::gateway::JsonBody;
use crate::http::Unannounced;
use crate::observe::CallObserver;

/// The body of a gRPC response with our observer.
pub(crate) type GrpcBody = grpc::Body<CallObserver>;

/// The response to a gRPC call, as it is produced.
pub(crate) type GrpcResponse<'a> = grpc::ResponseFuture<'a, CallObserver>;

/// The body of a response.
#[derive(Debug, Default)]
pub struct Body(Inner);

#[derive(Debug, Default)]
enum Inner {
    #[default]
    Empty,
    Whole(Bytes),
    /// One piece, whose length is not announced.
    Page(Bytes),
    Grpc(GrpcBody),
    Json(Box<JsonBody>),
}

impl Body {
    /// Creates the body of an HTTP response.
    pub(crate) fn of_response(response: Response<Bytes>) -> Response<Body> {
        let is_page = response.extensions().get::<Unannounced>().is_some();
        response.map(|bytes| match is_page && !bytes.is_empty() {
            true => Body(Inner::Page(bytes)),
            false => Body::from(bytes),
        })
    }

    /// Creates a body of JSON that is written as it is sent.
    pub(crate) fn json(json: JsonBody) -> Body {
        Body(Inner::Json(Box::new(json)))
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Body {
        Body(if bytes.is_empty() { Inner::Empty } else { Inner::Whole(bytes) })
    }
}

impl From<GrpcBody> for Body {
    fn from(body: GrpcBody) -> Body {
        Body(Inner::Grpc(body))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Inner::Empty => Poll::Ready(None),
            Inner::Whole(bytes) | Inner::Page(bytes) => {
                let bytes = std::mem::take(bytes);
                self.0 = Inner::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Inner::Grpc(body) => Pin::new(body).poll_frame(cx),
            Inner::Json(json) => {
                json.poll_chunk(cx).map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Inner::Empty => true,
            Inner::Grpc(body) => body.is_end_stream(),
            Inner::Whole(_) | Inner::Page(_) | Inner::Json(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Empty => SizeHint::with_exact(0),
            Inner::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Inner::Grpc(body) => body.size_hint(),
            Inner::Page(_) | Inner::Json(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;

    use super::*;

    #[test]
    fn a_body_of_one_piece_has_an_exact_length() {
        assert_eq!(Body::from(Bytes::from_static(b"page")).size_hint().exact(), Some(4));
        assert!(Body::default().is_end_stream());
        let mut page = Response::new(Bytes::from_static(b"page"));
        page.extensions_mut().insert(Unannounced);
        assert_eq!(Body::of_response(page).body().size_hint().exact(), None);
        assert!(Body::from(Bytes::new()).is_end_stream());
        assert!(Body::from(GrpcBody::default()).is_end_stream());
    }
}
