//! Waiting for a future without a runtime.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use env::{Clock as _, OsClock};

/// Longer than anything takes that will ever come.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits for a future on this thread.
///
/// # Panics
/// It does not come.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let (mut future, clock) = (pin!(future), OsClock::default());
    let end = clock.monotonic() + PATIENCE;
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park_timeout(PATIENCE),
        }
        assert!(clock.monotonic() < end, "it does not come");
    }
}

/// What a future has come to, if it has.
pub(crate) fn poll<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
    match std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}
