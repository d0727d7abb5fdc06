//! Waiting with deadlines, and running blocking work on a pool.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use types::Index;

use crate::error::Error;
use crate::server::Server;
use sync::WorkerPool;

/// The longest wait for committed entries to be applied, before a lease or learner is looked up.
const APPLY_TIME: Duration = Duration::from_secs(1);

/// Awaits a future until another ends. Returns `None` if the other ends first, or its error.
pub(super) async fn within<T>(
    future: impl Future<Output = T>,
    end: impl Future<Output = Result<(), Error>>,
) -> Result<Option<T>, Error> {
    let (mut future, mut end) = (pin!(future), pin!(end));
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Ok(Some(value))),
        Poll::Pending => end.as_mut().poll(context).map(|ended| ended.map(|()| None)),
    })
    .await
}

impl Server {
    /// Waits until the entries that this member knows to be committed are applied.
    pub(super) async fn catch_up(&self) -> Result<(), Error> {
        let applied = self.wait_applied(self.committed());
        let applied = within(applied, self.sleep(APPLY_TIME)).await?;
        applied.unwrap_or(Err(Error::TimeoutWaitAppliedIndex))
    }

    /// Waits until the raft loop handles an event. The reads of a sole leader do without the loop,
    /// so they succeed while it hangs.
    ///
    /// # Errors
    /// The loop does not respond within the request timeout, or the member stops.
    pub async fn raft_loop_responds(&self) -> Result<(), Error> {
        let status = within(self.raft_status(), self.sleep(self.config().request_timeout()));
        status.await?.unwrap_or(Err(Error::Timeout)).map(drop)
    }

    /// Waits until an index from a client, which may never be reached, is applied here. Returns
    /// false at the deadline.
    pub(super) async fn wait_applied_until(
        &self,
        index: Index,
        deadline: Duration,
    ) -> Result<bool, Error> {
        while self.applied() < index {
            let left = deadline.saturating_sub(self.now());
            if left.is_zero() {
                return Ok(false);
            }
            let step = self.sleep(left.min(self.config().heartbeat));
            // A waiter stays registered until its index is applied, so it must be a committed one.
            if self.committed() >= index {
                within(self.wait_applied(index), step).await?.transpose()?;
            } else {
                step.await?;
            }
        }
        Ok(true)
    }

    /// Sleeps, or fails if the deadline has passed.
    pub(super) async fn pause(&self, time: Duration, deadline: Duration) -> Result<(), Error> {
        let left = deadline.saturating_sub(self.now());
        if left.is_zero() {
            return Err(Error::Timeout);
        }
        self.sleep(time.min(left)).await
    }

    /// Returns the deadline of a request that begins now.
    pub(super) fn deadline(&self) -> Duration {
        self.now().saturating_add(self.config().request_timeout())
    }

    /// Returns the time until a deadline.
    pub(super) fn time_left(&self, deadline: Duration) -> Duration {
        deadline.saturating_sub(self.now())
    }

    pub(super) fn check_running(&self) -> Result<(), Error> {
        if self.is_stopping() { Err(Error::Stopped) } else { Ok(()) }
    }

    /// Runs blocking work on a pool.
    ///
    /// # Errors
    /// [`Error::TooManyRequests`] if the pool is full, [`Error::Stopped`] if it is closed. With the
    /// latter, work that was submitted earlier may have been done.
    pub(super) async fn run_blocking<T: Send + 'static>(
        &self,
        pool: &WorkerPool,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        match pool.run(work).await {
            Ok(done) => Ok(done),
            Err(_) if pool.is_closed() => Err(Error::Stopped),
            Err(_) => self.check_running().and(Err(Error::TooManyRequests)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn poll<T>(future: impl Future<Output = T>) -> Poll<T> {
        pin!(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn the_future_that_ends_first_decides() {
        let time_is_up = || ready(Ok(()));
        assert_eq!(poll(within(ready(7), pending())), Poll::Ready(Ok(Some(7))));
        assert_eq!(poll(within(pending::<u8>(), time_is_up())), Poll::Ready(Ok(None)));
        let both_ready = poll(within(ready(7), time_is_up()));
        assert_eq!(both_ready, Poll::Ready(Ok(Some(7))));
        let stopped = poll(within(pending::<u8>(), ready(Err(Error::Stopped))));
        assert_eq!(stopped, Poll::Ready(Err(Error::Stopped)));
        assert_eq!(poll(within(pending::<u8>(), pending())), Poll::Pending);
    }
}
