//! Bounded waits, without an async runtime. A wait that ends without its condition fails the test
//! with a message that names the condition, or the type of the future.
//!
//! | function | condition |
//! | --- | --- |
//! | [`block_on`] | a future is ready |
//! | [`wait_until`] | other threads have made it true |
//! | [`yield_until`], [`yield_until_async`] | other threads or tasks have, in an async runtime |
//! | [`step_until`] | enough steps of the test itself have made it true |

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Bound on every wait. Far above the usual time, since test machines are busy.
pub const TIMEOUT: Duration = Duration::from_secs(120);
/// Interval between two checks of a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Bound on the steps of [`step_until`]. Far above the usual number.
pub const STEPS_MAX: usize = 100_000;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }
}

/// Runs a future to completion on this thread.
///
/// # Panics
/// After [`TIMEOUT`], at the line of the caller and with the type of the future.
#[track_caller]
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let what = std::any::type_name_of_val(&future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut future, end) = (pin!(future), Instant::now() + TIMEOUT);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park_timeout(TIMEOUT),
        }
        assert!(Instant::now() < end, "timed out after {TIMEOUT:?} waiting for {what}");
    }
}

/// Waits until a condition holds that has no notification. `what` describes it.
///
/// # Panics
/// After [`TIMEOUT`], with the description.
#[track_caller]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !condition() {
        assert!(Instant::now() < end, "timed out after {TIMEOUT:?} waiting until {what}");
        thread::sleep(POLL_INTERVAL);
    }
}

/// Waits in an async runtime until a condition holds that has no notification. Other tasks run
/// between two checks.
///
/// # Panics
/// After [`TIMEOUT`], with the description.
pub async fn yield_until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !condition() {
        assert!(Instant::now() < end, "timed out after {TIMEOUT:?} waiting until {what}");
        yield_now().await;
    }
}

/// Waits as [`yield_until`] does, for a condition that is asynchronous itself.
///
/// # Panics
/// After [`TIMEOUT`], with the description.
pub async fn yield_until_async(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !condition().await {
        assert!(Instant::now() < end, "timed out after {TIMEOUT:?} waiting until {what}");
        yield_now().await;
    }
}

/// Lets other tasks of the runtime run.
async fn yield_now() {
    let mut has_yielded = false;
    let once = |context: &mut Context<'_>| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    };
    poll_fn(once).await;
}

/// Repeats a step of the test until it returns true.
///
/// # Panics
/// After [`STEPS_MAX`] steps, with the description.
#[track_caller]
pub fn step_until(what: &str, mut step: impl FnMut() -> bool) {
    let reached = (0..STEPS_MAX).any(|_| step());
    assert!(reached, "not reached in {STEPS_MAX} steps: {what}");
}

/// Sets a flag when it is dropped. Threads that run until a flag is set end then, also if the test
/// fails before it would set the flag.
#[derive(Debug)]
pub struct SetOnDrop<'a>(pub &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
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

    #[test]
    fn a_condition_is_checked_until_it_holds() {
        let mut checks = 0;
        block_on(yield_until_async("three checks are made", async || {
            checks += 1;
            checks == 3
        }));
        block_on(yield_until("four checks are made", || {
            checks += 1;
            checks == 4
        }));
        step_until("five checks are made", || {
            checks += 1;
            checks == 5
        });
        assert_eq!(checks, 5);
    }

    #[test]
    #[should_panic(expected = "not reached in 100000 steps: false is true")]
    fn a_failed_wait_names_its_condition() {
        step_until("false is true", || false);
    }

    #[test]
    fn a_flag_is_set_even_after_a_panic() {
        let flag = AtomicBool::new(false);
        let panicked = std::panic::catch_unwind(|| {
            let _set = SetOnDrop(&flag);
            panic!("on purpose");
        });
        assert!(panicked.is_err() && flag.load(Ordering::Relaxed));
    }
}
