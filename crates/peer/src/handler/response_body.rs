//! The body of a response: complete, a stream, or that of the fallback handler.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use net::BoxError;

use crate::stream::writer::StreamWriter;

/// The body of a response.
#[derive(Debug)]
pub(crate) enum ResponseBody<R> {
    Whole(Bytes),
    Stream(Box<StreamWriter>),
    Fallback(Pin<Box<R>>),
}

impl<R> ResponseBody<R> {
    pub(super) fn whole(bytes: Bytes) -> ResponseBody<R> {
        ResponseBody::Whole(bytes)
    }

    pub(super) fn stream(writer: StreamWriter) -> ResponseBody<R> {
        ResponseBody::Stream(Box::new(writer))
    }

    pub(super) fn fallback(body: R) -> ResponseBody<R> {
        ResponseBody::Fallback(Box::pin(body))
    }
}

impl<R> http_body::Body for ResponseBody<R>
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
            ResponseBody::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            ResponseBody::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            ResponseBody::Stream(writer) => {
                let frame = Pin::new(writer.as_mut()).poll_frame(cx);
                frame.map(|frame| frame.map(|frame| frame.map_err(|never| match never {})))
            }
            ResponseBody::Fallback(body) => body
                .as_mut()
                .poll_frame(cx)
                .map(|frame| frame.map(|frame| frame.map_err(Into::into))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ResponseBody::Whole(bytes) => bytes.is_empty(),
            ResponseBody::Stream(_) => false,
            ResponseBody::Fallback(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            ResponseBody::Stream(_) => SizeHint::default(),
            ResponseBody::Fallback(body) => body.size_hint(),
        }
    }
}
