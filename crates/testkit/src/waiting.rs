//! Waiting, without a runtime, for what comes sooner or later.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Longer than anything takes that will ever come.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// How often something is looked at that nobody tells of.
const LOOK: Duration = Duration::from_millis(1);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }
}

/// Waits for a future on this thread.
///
/// # Panics
/// It does not come.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut future, end) = (pin!(future), Instant::now() + PATIENCE);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park_timeout(PATIENCE),
        }
        assert!(Instant::now() < end, "it does not come");
    }
}

/// Waits for something that nobody tells of.
///
/// # Panics
/// It never is so.
pub fn until(is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "it never was so");
        thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn whoever_wakes_is_heard() {
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
