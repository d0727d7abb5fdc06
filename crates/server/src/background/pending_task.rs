//! Something that takes its time, looked at now and then.
//!
//! Chores are not woken: whoever has an errand under way looks at it again after [`POLL`]. A member does so when it starts, when leases expire, and every
//! few minutes otherwise, so that waking would save next to nothing.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::error::Error;
use crate::propose::typed::Propose;
use crate::server::{Server, Shared};

/// How long is waited before an errand is looked at again.
pub(super) const POLL: Duration = Duration::from_millis(10);
/// For what will not be due again.
pub(super) const NEVER: Duration = Duration::MAX;

/// A future that is under way, or none.
pub(super) struct Errand<T>(Option<Pin<Box<dyn Future<Output = T> + Send>>>);

impl<T> Default for Errand<T> {
    fn default() -> Errand<T> {
        Errand(None)
    }
}

impl<T> fmt::Debug for Errand<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Errand").field(&self.is_under_way()).finish()
    }
}

impl<T> Errand<T> {
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

impl Errand<Option<()>> {
    /// Has a thread do what may wait for the disk, or forget it if too much waits already.
    pub(super) fn begin_aside(&mut self, server: &Server, job: fn(&Shared)) {
        let shared = Arc::clone(&server.shared);
        self.begin(server.shared.pools.short.run(move || job(&shared)));
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
pub(super) struct Every {
    interval: Duration,
    next: Duration,
}

impl Every {
    /// Due for the first time after a while.
    pub(super) fn after(interval: Duration, now: Duration) -> Every {
        Every { interval, next: now.saturating_add(interval) }
    }

    /// Due at once.
    pub(super) fn from_now(interval: Duration, now: Duration) -> Every {
        Every { interval, next: now }
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
    use crate::sync::oneshot::promise;

    #[test]
    fn an_errand_ends_once() {
        let (promise, waiting) = promise();
        let mut errand = Errand::default();
        errand.begin(waiting);
        assert_eq!(errand.poll(), None);
        promise.keep(7);
        assert_eq!(errand.poll(), Some(Some(7)));
        assert!(!errand.is_under_way());
        assert_eq!(errand.poll(), None);
    }

    #[test]
    fn what_was_missed_is_not_made_up_for() {
        let second = Duration::from_secs(1);
        let mut every = Every::after(second, Duration::ZERO);
        assert!(!every.is_due(Duration::ZERO));
        assert!(every.is_due(10 * second));
        assert!(!every.is_due(10 * second));
        assert_eq!(every.next(), 11 * second);
        assert!(Every::from_now(second, second).is_due(second));
    }

    #[test]
    fn what_is_due_never_can_be() {
        let second = Duration::from_secs(1);
        let mut never = Every::after(Duration::MAX, second);
        assert!(!never.is_due(second));
        never.begin_anew(second);
        assert_eq!(never.next(), Duration::MAX);
    }
}
