//! The body of an answer: whole, a stream, or what somebody else answers.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use net::BoxError;

use crate::stream::writer::Writer;

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum Body<R> {
    Whole(Bytes),
    Stream(Box<Writer>),
    Rest(Pin<Box<R>>),
}

impl<R> Body<R> {
    pub(super) fn whole(bytes: Bytes) -> Body<R> {
        Body::Whole(bytes)
    }

    pub(super) fn stream(writer: Writer) -> Body<R> {
        Body::Stream(Box::new(writer))
    }

    pub(super) fn rest(body: R) -> Body<R> {
        Body::Rest(Box::pin(body))
    }
}

impl<R> http_body::Body for Body<R>
where
    R: http_body::Body<Data = Bytes, Error: Into<BoxError>>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut *self {
            Body::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Body::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Body::Stream(writer) => {
                let frame = Pin::new(writer.as_mut()).poll_frame(cx);
                frame.map(|frame| frame.map(|frame| frame.map_err(|never| match never {})))
            }
            Body::Rest(body) => body
                .as_mut()
                .poll_frame(cx)
                .map(|frame| frame.map(|frame| frame.map_err(Into::into))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Whole(bytes) => bytes.is_empty(),
            Body::Stream(_) => false,
            Body::Rest(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Body::Stream(_) => SizeHint::default(),
            Body::Rest(body) => body.size_hint(),
        }
    }
}
