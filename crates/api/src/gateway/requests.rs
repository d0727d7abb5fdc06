//! From the body of a request to messages of gRPC.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};
use proto::shape::Message;

use super::Rest;
use super::json::read::read;
use super::json::split::{SplitError, Values};
use crate::grpc::{Canonical, Code, Grpc, RequestBody, Status, framed};
use crate::intake::{Intake, Receiving};

/// How much is looked at before others who share the thread have their turn.
const TURN_BYTES: usize = 64 << 10;
/// Text from this length on is read by another thread, since others wait meanwhile.
const LONG_BYTES: usize = 256 << 10;

/// The one message of a body; an empty one if there is nothing in it.
pub(super) async fn one<B: RequestBody>(
    body: &mut B,
    shape: &'static Message,
    grpc: &Grpc,
    rest: Rest,
) -> Result<Bytes, Status> {
    let bytes_max = grpc.json_bytes_max();
    let mut values = Values::new(bytes_max);
    let mut found: Option<Bytes> = None;
    let mut behind = 0;
    let mut receiving = Receiving::default();
    let mut looked_at = 0;
    loop {
        let kept = found.as_ref().map_or(0, Bytes::len) + values.kept();
        let next = poll_fn(|cx| {
            if looked_at >= TURN_BYTES {
                looked_at = 0;
                cx.waker().wake_by_ref();
            } else if let Poll::Ready(piece) = poll_piece(body, cx) {
                return Poll::Ready(Ok(piece));
            }
            receiving.poll_wait(grpc.intake(), kept, cx).map(Err)
        });
        let Some(piece) = next.await? else { break };
        looked_at += piece.len();
        if found.is_none() {
            values.add(&piece);
            found = values.next().map_err(invalid)?;
            if found.is_some() && rest == Rest::Open {
                break;
            }
        } else {
            behind += piece.len();
            if behind > bytes_max {
                break;
            }
        }
    }
    let found = match found {
        None => values.last().map_err(invalid)?,
        found => found,
    };
    match found {
        None => framed(&[]),
        Some(text) if text.len() < LONG_BYTES => translated(&text, shape),
        Some(text) => {
            let done = tokio::task::spawn_blocking(move || translated(&text, shape));
            // It has panicked, or the runtime is being shut down.
            done.await.unwrap_or_else(|_| Err(Canonical::Stopped.into()))
        }
    }
}

/// A message of gRPC, from its JSON.
fn translated(text: &[u8], shape: &Message) -> Result<Bytes, Status> {
    let message = read(text, shape);
    let message = message.map_err(|error| Status::new(Code::InvalidArgument, error.to_string()))?;
    framed(&message)
}

fn invalid(error: SplitError) -> Status {
    let code = match error {
        SplitError::TooLarge { .. } => Code::ResourceExhausted,
        _ => Code::InvalidArgument,
    };
    Status::new(code, error.to_string())
}

/// The next piece of a body; none at its end, whichever it is.
fn poll_piece<B: RequestBody>(body: &mut B, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
    loop {
        match ready!(Pin::new(&mut *body).poll_frame(cx)) {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Poll::Ready(Some(data));
                }
            }
            Some(Err(_)) | None => return Poll::Ready(None),
        }
    }
}

/// A body of one message.
#[derive(Debug)]
pub(super) struct One(Option<Bytes>);

impl One {
    pub(super) fn new(framed: Bytes) -> One {
        One(Some(framed))
    }
}

impl Body for One {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// A body of messages, as they come.
///
/// Compat: what is no message ends them, without a word; and so does one that is given up, because it never becomes whole.
#[derive(Debug)]
pub(super) struct Requests<B> {
    body: Option<B>,
    values: Values,
    shape: &'static Message,
    intake: Intake,
    receiving: Receiving,
}

impl<B: RequestBody> Requests<B> {
    pub(super) fn new(body: B, shape: &'static Message, grpc: &Grpc) -> Requests<B> {
        let (values, intake) = (Values::new(grpc.json_bytes_max()), grpc.intake().clone());
        Requests { body: Some(body), values, shape, intake, receiving: Receiving::default() }
    }

    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let value = loop {
            match self.values.next() {
                Ok(Some(value)) => break value,
                Ok(None) => {}
                Err(_) => return Poll::Ready(None),
            }
            let Some(body) = &mut self.body else { return Poll::Ready(None) };
            match poll_piece(body, cx) {
                Poll::Pending => {
                    ready!(self.receiving.poll_wait(&self.intake, self.values.kept(), cx));
                    return Poll::Ready(None);
                }
                Poll::Ready(Some(piece)) => self.values.add(&piece),
                Poll::Ready(None) => {
                    self.body = None;
                    match self.values.last() {
                        Ok(Some(value)) => break value,
                        Ok(None) | Err(_) => return Poll::Ready(None),
                    }
                }
            }
        };
        self.receiving.finished();
        let message = read(&value, self.shape).ok();
        Poll::Ready(message.and_then(|message| framed(&message).ok()))
    }
}

impl<B: RequestBody> Body for Requests<B> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let message = ready!(self.poll_message(cx));
        if message.is_none() {
            // Nothing that comes later is a message any more.
            self.body = None;
            self.values = Values::new(0);
            self.receiving.finished();
        }
        Poll::Ready(message.map(|message| Ok(Frame::data(message))))
    }
}
