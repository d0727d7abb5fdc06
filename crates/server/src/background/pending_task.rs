//! Futures that background tasks poll, and the interval timer of these tasks.
//!
//! Background tasks are not woken: a task with a pending future polls it every [`POLL`]. That
//! happens at a start, when leases expire, and every few minutes otherwise, so wakers would save
//! next to nothing.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::error::Error;
use crate::propose::typed::Propose;
use crate::server::Server;

/// The interval at which a pending task is polled.
pub(super) const POLL: Duration = Duration::from_millis(10);
/// The next turn of a task that has nothing more to do.
pub(super) const NEVER: Duration = Duration::MAX;

/// A future that runs to completion over several turns, or none.
pub(super) struct PendingTask<T>(Option<Pin<Box<dyn Future<Output = T> + Send>>>);

impl<T> Default for PendingTask<T> {
    fn default() -> PendingTask<T> {
        PendingTask(None)
    }
}

impl<T> fmt::Debug for PendingTask<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PendingTask").field(&self.is_pending()).finish()
    }
}

impl<T> PendingTask<T> {
    /// Starts a future, dropping the previous one.
    pub(super) fn begin(&mut self, future: impl Future<Output = T> + Send + 'static) {
        self.0 = Some(Box::pin(future));
    }

    pub(super) fn is_pending(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the output once the future has completed, and clears it.
    pub(super) fn poll(&mut self) -> Option<T> {
        let outcome = poll(self.0.as_mut()?)?;
        self.0 = None;
        Some(outcome)
    }
}

impl PendingTask<()> {
    /// Runs a job that may block on the worker pool. The task also completes if the pool is full or
    /// closed.
    pub(super) fn begin_blocking(&mut self, server: &Server, job: fn(&Server)) {
        let worker = server.clone();
        let done = server.inner.pools.short.run(move || job(&worker));
        self.begin(async move {
            // An error means that the job did not run; the next interval retries it.
            let _ = done.await;
        });
    }
}

/// Polls a future once, without a waker.
pub(super) fn poll<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
    match Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}

/// Proposes a request of the member itself and awaits its reply.
pub(super) async fn propose_and_wait<P: Propose>(
    server: Server,
    request: P,
) -> Result<P::Reply, Error> {
    server.propose(request)?.await?.into_reply()
}

/// A periodic timer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval {
    interval: Duration,
    next: Duration,
}

impl Interval {
    /// Creates a timer that is first due after one interval.
    pub(super) fn after(interval: Duration, now: Duration) -> Interval {
        Interval { interval, next: now.saturating_add(interval) }
    }

    /// Creates a timer that is due at once.
    pub(super) fn from_now(interval: Duration, now: Duration) -> Interval {
        Interval { interval, next: now }
    }

    /// Returns whether the timer is due, and restarts it from `now`. Missed intervals are skipped.
    pub(super) fn is_due(&mut self, now: Duration) -> bool {
        let is_due = now >= self.next;
        if is_due {
            self.restart(now);
        }
        is_due
    }

    /// Restarts the interval from `now`.
    pub(super) fn restart(&mut self, now: Duration) {
        self.next = now.saturating_add(self.interval);
    }

    pub(super) fn next(&self) -> Duration {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sync::oneshot;

    #[test]
    fn a_pending_task_completes_once() {
        let (sender, receiver) = oneshot::channel();
        let mut task = PendingTask::default();
        task.begin(receiver);
        assert_eq!(task.poll(), None);
        sender.send(7).unwrap();
        assert_eq!(task.poll(), Some(Ok(7)));
        assert!(!task.is_pending());
        assert_eq!(task.poll(), None);
    }

    #[test]
    fn missed_intervals_are_skipped() {
        let second = Duration::from_secs(1);
        let mut every = Interval::after(second, Duration::ZERO);
        assert!(!every.is_due(Duration::ZERO));
        assert!(every.is_due(10 * second));
        assert!(!every.is_due(10 * second));
        assert_eq!(every.next(), 11 * second);
        assert!(Interval::from_now(second, second).is_due(second));
    }

    #[test]
    fn an_infinite_interval_is_never_due() {
        let second = Duration::from_secs(1);
        let mut never = Interval::after(Duration::MAX, second);
        assert!(!never.is_due(second));
        never.restart(second);
        assert_eq!(never.next(), Duration::MAX);
    }
}
