//! Looking at a future without a runtime.

use std::future::Future;
use std::task::{Context, Poll, Waker};

/// What a future has come to, if it has.
pub(crate) fn poll<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
    match std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}
