//! Response bodies in slices, so that the responses of a connection share it.
//!
//! h2 gives the connection's window to streams in turn, and each stream takes as much as it has
//! data for. A client that reads ten responses of 5 MB and watches keys on one connection would
//! receive events after all of them:
//!
//! ```text
//!   window update of 4 MB    whole chunks   A 4 MB | B 4 MB | … | J 4 MB | event
//!                            in slices      A 32 KB | B 32 KB | … | J 32 KB | event | A 32 KB | …
//! ```
//!
//! A slice shares the memory of its chunk.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// The longest slice: two frames.
pub(crate) const SLICE_BYTES: usize = 32 << 10;

/// A body whose chunks are handed over in slices.
#[derive(Debug)]
pub(crate) struct SlicedBody<B> {
    body: B,
    /// The rest of the last chunk.
    rest: Bytes,
}

impl<B> SlicedBody<B> {
    pub(crate) fn new(body: B) -> Self {
        Self { body, rest: Bytes::new() }
    }

    fn slice(&mut self, mut chunk: Bytes) -> Frame<Bytes> {
        let slice = chunk.split_to(chunk.len().min(SLICE_BYTES));
        self.rest = chunk;
        Frame::data(slice)
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for SlicedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            return Poll::Ready(Some(Ok(self.slice(rest))));
        }
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        frame.map_ok(|frame| match frame.into_data() {
            Ok(chunk) => self.slice(chunk),
            Err(other) => other,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut size, rest) = (self.body.size_hint(), self.rest.len() as u64);
        if let Some(upper) = size.upper() {
            size.set_upper(upper + rest);
        }
        size.set_lower(size.lower() + rest);
        size
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, Full};

    use super::*;

    #[tokio::test]
    async fn a_long_chunk_becomes_slices_of_the_same_memory() {
        let chunk = Bytes::from(vec![7; 2 * SLICE_BYTES + 1]);
        let mut body = SlicedBody::new(Full::new(chunk.clone()));
        assert_eq!(body.size_hint().exact(), Some(chunk.len() as u64));
        for (at, length) in [(0, SLICE_BYTES), (SLICE_BYTES, SLICE_BYTES), (2 * SLICE_BYTES, 1)] {
            assert!(!body.is_end_stream());
            let slice = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert_eq!((slice.as_ptr(), slice.len()), (chunk[at..].as_ptr(), length));
            let left = chunk.len() - at - length;
            assert_eq!(body.size_hint().exact(), Some(left as u64));
        }
        assert!(body.is_end_stream());
        assert!(body.frame().await.is_none());
    }

    #[tokio::test]
    async fn trailers_follow_the_last_slice() {
        let chunk = Bytes::from(vec![7; SLICE_BYTES + 1]);
        let trailers = http::HeaderMap::from_iter([(http::header::AGE, 1.into())]);
        let whole = Full::new(chunk).with_trailers(std::future::ready(Some(Ok(trailers.clone()))));
        let mut body = SlicedBody::new(whole);
        for length in [SLICE_BYTES, 1] {
            let slice = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert_eq!(slice.len(), length);
        }
        assert_eq!(body.frame().await.unwrap().unwrap().into_trailers().unwrap(), trailers);
    }
}
