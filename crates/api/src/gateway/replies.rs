//! From the answer of gRPC to its messages, and how it ended.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use http::Response;
use http_body::Body as _;

use crate::body::Body;
use crate::grpc::{Code, PREFIX, Status};

/// The replies to a call.
#[derive(Debug)]
pub(crate) struct Replies {
    body: Body,
    /// Messages that came together.
    rest: Bytes,
    ended: Option<Status>,
}

impl Replies {
    pub(super) fn new(response: Response<Body>) -> Replies {
        // One that has nothing but a status has it in its headers.
        let ended = Status::read_from(response.headers());
        Replies { body: response.into_body(), rest: Bytes::new(), ended }
    }

    /// Those to a call that was not made.
    pub(super) fn none(ended: Status) -> Replies {
        Replies { body: Body::default(), rest: Bytes::new(), ended: Some(ended) }
    }

    /// Whether there was more to the answer than how it ended.
    pub(super) fn is_begun(&self) -> bool {
        self.ended.is_none()
    }

    /// The next message; none at the end of a call that went well.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    pub(super) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, Status>> {
        loop {
            if let Some(message) = self.take() {
                return Poll::Ready(Ok(Some(message)));
            }
            if let Some(ended) = &self.ended {
                let went_well = ended.code == Code::Ok;
                return Poll::Ready(if went_well { Ok(None) } else { Err(ended.clone()) });
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(frame) => {
                        let trailers = frame.into_trailers().unwrap_or_default();
                        self.ended = Status::read_from(&trailers);
                    }
                },
                Some(Err(never)) => match never {},
                None => self.ended = Some(Status::new(Code::Internal, "the call has no end")),
            }
        }
    }

    /// A message of those that are there. Only whole ones come.
    fn take(&mut self) -> Option<Bytes> {
        if self.rest.len() < PREFIX {
            return None;
        }
        self.rest.advance(1);
        let length = self.rest.get_u32() as usize;
        Some(self.rest.split_to(length.min(self.rest.len())))
    }
}
