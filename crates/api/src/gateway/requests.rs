//! Translates JSON request bodies to gRPC messages.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use grpc::{Code, ReceiveBudget, Receiving, RequestBody, Status, frame_message};
use http_body::{Body, Frame};
use proto::shape::Message;

use super::AfterMessage;
use super::json::read::read;
use super::json::split::{SplitError, Values};
use crate::errors::Canonical;
use crate::services::Grpc;

/// The bytes that are scanned before the task yields to others on its thread.
const YIELD_BYTES: usize = 64 << 10;
/// Text from this length on is parsed on a blocking thread.
const LONG_BYTES: usize = 256 << 10;

/// Reads the single message of a body; an empty message if the body is empty.
pub(super) async fn single<B: RequestBody>(
    body: &mut B,
    shape: &'static Message,
    grpc: &Grpc,
    after: AfterMessage,
) -> Result<Bytes, Status> {
    let bytes_max = grpc.json_bytes_max();
    let mut values = Values::new(bytes_max);
    let mut found: Option<Bytes> = None;
    let mut trailing = 0;
    let mut receiving = Receiving::default();
    let mut scanned = 0;
    loop {
        let held_bytes = found.as_ref().map_or(0, Bytes::len) + values.kept_bytes();
        let next = poll_fn(|cx| {
            if scanned >= YIELD_BYTES {
                scanned = 0;
                cx.waker().wake_by_ref();
            } else if let Poll::Ready(piece) = poll_piece(body, cx) {
                return Poll::Ready(Ok(piece));
            }
            receiving.poll_wait(grpc.transport().receive_budget(), held_bytes, cx).map(Err)
        });
        let piece = match next.await? {
            Some(Ok(piece)) => piece,
            // Compat: as in etcd, what follows the message does not matter.
            Some(Err(_)) if found.is_some() => break,
            Some(Err(text)) => return Err(Status::new(Code::InvalidArgument, text)),
            None => break,
        };
        scanned += piece.len();
        if found.is_none() {
            values.add(&piece);
            found = values.next().map_err(invalid)?;
            if found.is_some() && after == AfterMessage::KeepOpen {
                break;
            }
        } else {
            trailing += piece.len();
            if trailing > bytes_max {
                break;
            }
        }
    }
    let found = match found {
        None => values.last().map_err(invalid)?,
        found => found,
    };
    match found {
        None => frame_message(&[]),
        Some(text) if text.len() < LONG_BYTES => translate(&text, shape),
        Some(text) => {
            let done = tokio::task::spawn_blocking(move || translate(&text, shape));
            // The thread panicked, or the runtime is shutting down.
            done.await.unwrap_or_else(|_| Err(Canonical::Stopped.into()))
        }
    }
}

/// Translates JSON text to a framed message.
fn translate(text: &[u8], shape: &'static Message) -> Result<Bytes, Status> {
    let message = read(text, shape);
    let message = message.map_err(|error| Status::new(Code::InvalidArgument, error.to_string()))?;
    frame_message(&message)
}

fn invalid(error: SplitError) -> Status {
    let code = match error {
        SplitError::TooLarge { .. } => Code::ResourceExhausted,
        _ => Code::InvalidArgument,
    };
    Status::new(code, error.to_string())
}

/// Polls for the next piece of a body; none at its end. An error is the text for the client.
fn poll_piece<B: RequestBody>(
    body: &mut B,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Bytes, String>>> {
    loop {
        match ready!(Pin::new(&mut *body).poll_frame(cx)) {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Poll::Ready(Some(Ok(data)));
                }
            }
            Some(Err(error)) => return Poll::Ready(Some(Err(body_error(&*error.into())))),
            None => return Poll::Ready(None),
        }
    }
}

/// Returns Go's text for a body that cannot be read: what is wrong with its chunks, or that it ends
/// too soon.
fn body_error(error: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<std::io::Error>()
            && error.kind() == std::io::ErrorKind::InvalidData
        {
            return error.to_string();
        }
        cause = error.source();
    }
    "unexpected EOF".to_owned()
}

/// A body of one framed message.
#[derive(Debug)]
pub(super) struct SingleMessage(Option<Bytes>);

impl SingleMessage {
    pub(super) fn new(framed: Bytes) -> SingleMessage {
        SingleMessage(Some(framed))
    }
}

impl Body for SingleMessage {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// A body that translates JSON values to messages as they arrive.
///
/// Compat: as in etcd, an invalid value ends the body without an error. So does a value that is
/// evicted from the receive budget.
#[derive(Debug)]
pub(super) struct TranslatedRequests<B> {
    body: Option<B>,
    values: Values,
    shape: &'static Message,
    budget: ReceiveBudget,
    receiving: Receiving,
}

impl<B: RequestBody> TranslatedRequests<B> {
    pub(super) fn new(body: B, shape: &'static Message, grpc: &Grpc) -> TranslatedRequests<B> {
        let values = Values::new(grpc.json_bytes_max());
        let (budget, receiving) = (grpc.transport().receive_budget().clone(), Receiving::default());
        TranslatedRequests { body: Some(body), values, shape, budget, receiving }
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
                    ready!(self.receiving.poll_wait(&self.budget, self.values.kept_bytes(), cx));
                    return Poll::Ready(None);
                }
                Poll::Ready(Some(Ok(piece))) => self.values.add(&piece),
                // Compat: as in etcd, a body that cannot be read ends the requests.
                Poll::Ready(Some(Err(_)) | None) => {
                    self.body = None;
                    match self.values.last() {
                        Ok(Some(value)) => break value,
                        Ok(None) | Err(_) => return Poll::Ready(None),
                    }
                }
            }
        };
        self.receiving.finish();
        let message = read(&value, self.shape).ok();
        Poll::Ready(message.and_then(|message| frame_message(&message).ok()))
    }
}

impl<B: RequestBody> Body for TranslatedRequests<B> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let message = ready!(self.poll_message(cx));
        if message.is_none() {
            // Later input is not read.
            self.body = None;
            self.values = Values::new(0);
            self.receiving.finish();
        }
        Poll::Ready(message.map(|message| Ok(Frame::data(message))))
    }
}
