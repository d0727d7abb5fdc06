//! Polling of futures without a runtime.

use std::future::Future;
use std::task::{Context, Poll, Waker};

/// Polls a future once. Returns its value if it is ready.
pub(crate) fn poll<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
    match std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}
