//! Something that takes its time, looked at now and then.
//!
//! BackgroundTasks are not woken: whoever has an task under way looks at it again after [`POLL`]. A member does so when it starts, when leases expire, and every
//! few minutes otherwise, so that waking would save next to nothing.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::error::Error;
use crate::propose::typed::Propose;
use crate::server::Server;

/// How long is waited before an task is looked at again.
pub(super) const POLL: Duration = Duration::from_millis(10);
/// For what will not be due again.
pub(super) const NEVER: Duration = Duration::MAX;

/// A future that is under way, or none.
pub(super) struct PendingTask<T>(Option<Pin<Box<dyn Future<Output = T> + Send>>>);

impl<T> Default for PendingTask<T> {
    fn default() -> PendingTask<T> {
        PendingTask(None)
    }
}

impl<T> fmt::Debug for PendingTask<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PendingTask").field(&self.is_under_way()).finish()
    }
}

impl<T> PendingTask<T> {
    /// Sends for something, in place of what was sent for before.
    pub(super) fn begin(&mut self, future: impl Future<Output = T> + Send + 'static) {
        self.0 = Some(Box::pin(future));
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.0.is_some()
    }

    /// What it came to, once.
    pub(super) fn poll(&mut self) -> Option<T> {
        let outcome = poll(self.0.as_mut()?)?;
        self.0 = None;
        Some(outcome)
    }
}

impl PendingTask<()> {
    /// Runs a job that may block in the worker pool. The task also ends if the pool is full or closed.
    pub(super) fn begin_blocking(&mut self, server: &Server, job: fn(&Server)) {
        let own = server.clone();
        let done = server.inner.pools.short.run(move || job(&own));
        self.begin(async move {
            // An error means that the job was not run, which is tried again at its next time.
            let _ = done.await;
        });
    }
}

/// Looks at a future without being woken by it.
pub(super) fn poll<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
    match Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}

/// Takes a request of the member itself through the log.
pub(super) async fn carry_out<P: Propose>(server: Server, request: P) -> Result<P::Reply, Error> {
    server.propose(request)?.await?.into_reply()
}

/// What is due again and again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval {
    interval: Duration,
    next: Duration,
}

impl Interval {
    /// Due for the first time after a while.
    pub(super) fn after(interval: Duration, now: Duration) -> Interval {
        Interval { interval, next: now.saturating_add(interval) }
    }

    /// Due at once.
    pub(super) fn from_now(interval: Duration, now: Duration) -> Interval {
        Interval { interval, next: now }
    }

    /// Whether it is due. The next time is counted from now: what was missed is not made up for.
    pub(super) fn is_due(&mut self, now: Duration) -> bool {
        let is_due = now >= self.next;
        if is_due {
            self.begin_anew(now);
        }
        is_due
    }

    /// Counts from now.
    pub(super) fn begin_anew(&mut self, now: Duration) {
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
    fn an_errand_ends_once() {
        let (sender, receiver) = oneshot::channel();
        let mut task = PendingTask::default();
        task.begin(receiver);
        assert_eq!(task.poll(), None);
        sender.send(7).unwrap();
        assert_eq!(task.poll(), Some(Ok(7)));
        assert!(!task.is_under_way());
        assert_eq!(task.poll(), None);
    }

    #[test]
    fn what_was_missed_is_not_made_up_for() {
        let second = Duration::from_secs(1);
        let mut every = Interval::after(second, Duration::ZERO);
        assert!(!every.is_due(Duration::ZERO));
        assert!(every.is_due(10 * second));
        assert!(!every.is_due(10 * second));
        assert_eq!(every.next(), 11 * second);
        assert!(Interval::from_now(second, second).is_due(second));
    }

    #[test]
    fn what_is_due_never_can_be() {
        let second = Duration::from_secs(1);
        let mut never = Interval::after(Duration::MAX, second);
        assert!(!never.is_due(second));
        never.begin_anew(second);
        assert_eq!(never.next(), Duration::MAX);
    }
}
