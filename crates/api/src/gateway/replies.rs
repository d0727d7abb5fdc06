//! Reads the messages and the status of a gRPC response.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use grpc::{Code, PREFIX, Status};
use http::Response;
use http_body::Body as _;

use crate::body::GrpcBody;

/// The replies to a call.
#[derive(Debug)]
pub(crate) struct Replies {
    body: GrpcBody,
    /// The rest of a data frame with several messages.
    rest: Bytes,
    ended: Option<Status>,
}

impl Replies {
    pub(super) fn new(response: Response<GrpcBody>) -> Replies {
        // A response without messages has the status in its headers.
        let ended = Status::read_from(response.headers());
        Replies { body: response.into_body(), rest: Bytes::new(), ended }
    }

    /// Reports whether the response has a body.
    pub(super) fn has_started(&self) -> bool {
        self.ended.is_none()
    }

    /// Receives the next message; none at the end of a call that succeeded.
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
                let succeeded = ended.code == Code::Ok;
                return Poll::Ready(if succeeded { Ok(None) } else { Err(ended.clone()) });
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
                None => {
                    self.ended = Some(Status::new(Code::Internal, "the response has no status"));
                }
            }
        }
    }

    /// Takes a message from the data frame. A frame holds only complete messages.
    fn take(&mut self) -> Option<Bytes> {
        if self.rest.len() < PREFIX {
            return None;
        }
        self.rest.advance(1);
        let length = self.rest.get_u32() as usize;
        Some(self.rest.split_to(length.min(self.rest.len())))
    }
}
