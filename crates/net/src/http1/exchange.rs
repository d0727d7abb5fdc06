//! The current request of a connection and its response, as the reader and the service see them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::header::{CONNECTION, HeaderValue};
use http::{Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;

/// The state of one request at a time. Reader and service run in the same task, so the lock is
/// never contended.
#[derive(Debug, Default)]
pub(crate) struct Exchange(Mutex<ExchangeState>);

#[derive(Debug, Default)]
struct ExchangeState {
    /// Whether the response to the last request is incomplete.
    is_busy: bool,
    expectation_failed: bool,
    is_upgraded: bool,
    /// The reason why a head was refused. The connection ends with it.
    refused: Option<&'static str>,
    /// Wakes the reader when the response is complete.
    reader: Option<Waker>,
}

impl Exchange {
    /// Starts a request, whose head goes to hyper.
    pub(super) fn begin(&self, expectation_failed: bool) {
        let mut state = self.0.lock();
        state.is_busy = true;
        state.expectation_failed = expectation_failed;
    }

    /// Ready when the response to the last request is complete.
    pub(super) fn poll_idle(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.lock();
        if !state.is_busy {
            return Poll::Ready(());
        }
        state.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    pub(super) fn set_refused(&self, reason: &'static str) {
        self.0.lock().refused = Some(reason);
    }

    /// Returns the reason why the last head was refused, if it was.
    pub(crate) fn refused(&self) -> Option<&'static str> {
        self.0.lock().refused
    }

    /// Returns whether the connection speaks another protocol now.
    pub(super) fn is_upgraded(&self) -> bool {
        self.0.lock().is_upgraded
    }

    /// Refuses a request that expects something unknown. The response is Go's.
    pub(crate) fn refuse_expectation<B>(self: &Arc<Self>) -> Option<Response<ExchangeBody<B>>> {
        if !self.0.lock().expectation_failed {
            return None;
        }
        let mut response = Response::new(ExchangeBody { body: None, exchange: Arc::clone(self) });
        *response.status_mut() = StatusCode::EXPECTATION_FAILED;
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        Some(response)
    }

    /// Wraps the response to the current request.
    pub(crate) fn respond<B>(self: &Arc<Self>, response: Response<B>) -> Response<ExchangeBody<B>> {
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            self.0.lock().is_upgraded = true;
        }
        response.map(|body| ExchangeBody { body: Some(body), exchange: Arc::clone(self) })
    }

    fn end(&self) {
        let mut state = self.0.lock();
        state.is_busy = false;
        let reader = state.reader.take();
        drop(state);
        reader.into_iter().for_each(Waker::wake);
    }
}

/// The body of a response. hyper drops it when it is complete.
#[derive(Debug)]
pub(crate) struct ExchangeBody<B> {
    body: Option<B>,
    exchange: Arc<Exchange>,
}

impl<B> Drop for ExchangeBody<B> {
    fn drop(&mut self) {
        self.exchange.end();
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for ExchangeBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}
