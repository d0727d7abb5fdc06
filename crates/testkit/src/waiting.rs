//! Bounded waits without an async runtime.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Bound on every wait. Far above the usual time, since test machines are busy.
pub const TIMEOUT: Duration = Duration::from_secs(120);
/// Interval between two checks of a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }
}

/// Runs a future to completion on this thread.
///
/// # Panics
/// After [`TIMEOUT`], at the line of the caller.
#[track_caller]
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut future, end) = (pin!(future), Instant::now() + TIMEOUT);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park_timeout(TIMEOUT),
        }
        assert!(Instant::now() < end, "timed out after {TIMEOUT:?} waiting for a future");
    }
}

/// Waits until a condition holds that has no notification. `what` describes it.
///
/// # Panics
/// After [`TIMEOUT`], with the description.
#[track_caller]
pub fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !condition() {
        assert!(Instant::now() < end, "timed out after {TIMEOUT:?} waiting until {what}");
        thread::sleep(POLL_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_future_is_polled_again_when_woken() {
        let (give, taken) = mpsc::channel();
        let mut woken = false;
        let future = std::future::poll_fn(|context| {
            if woken {
                return Poll::Ready(taken.recv().unwrap());
            }
            woken = true;
            let (waker, give) = (context.waker().clone(), give.clone());
            thread::spawn(move || {
                give.send(7).unwrap();
                waker.wake();
            });
            Poll::Pending
        });
        assert_eq!(block_on(future), 7);
    }
}
