//! Waiting for something, but not forever; and having something done by another thread.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use types::Index;

use crate::error::Error;
use crate::server::Server;
use crate::sync::pool::Pool;

/// How long is waited for all to be applied that is committed, before a lease is looked up or a learner judged.
const APPLY_TIME: Duration = Duration::from_secs(1);

/// The first of two futures to end; none if it is the second, and its error if it has one.
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
    /// Waits until all is applied here that this member knows to be committed.
    pub(super) async fn catch_up(&self) -> Result<(), Error> {
        let applied = self.wait_applied(self.committed());
        let applied = within(applied, self.sleep(APPLY_TIME)).await?;
        applied.unwrap_or(Err(Error::TimeoutWaitAppliedIndex))
    }

    /// Waits until an index is applied here that came from outside, and may be one that never is. False if it is not by the deadline.
    pub(super) async fn reaches(&self, index: Index, deadline: Duration) -> Result<bool, Error> {
        while self.applied() < index {
            let left = deadline.saturating_sub(self.now());
            if left.is_zero() {
                return Ok(false);
            }
            let step = self.sleep(left.min(self.config().heartbeat));
            // Who waits for an index is remembered until it comes: so only for one that will.
            if self.committed() >= index {
                within(self.wait_applied(index), step).await?.transpose()?;
            } else {
                step.await?;
            }
        }
        Ok(true)
    }

    /// Lets some time pass, unless it is up.
    pub(super) async fn pause(&self, time: Duration, deadline: Duration) -> Result<(), Error> {
        let left = deadline.saturating_sub(self.now());
        if left.is_zero() {
            return Err(Error::Timeout);
        }
        self.sleep(time.min(left)).await
    }

    /// When a request that begins now has taken long enough.
    pub(super) fn deadline(&self) -> Duration {
        self.now().saturating_add(self.config().request_timeout())
    }

    /// How much of its time is left.
    pub(super) fn left(&self, deadline: Duration) -> Duration {
        deadline.saturating_sub(self.now())
    }

    pub(super) fn check_running(&self) -> Result<(), Error> {
        if self.is_stopping() { Err(Error::Stopped) } else { Ok(()) }
    }

    /// Has something done that takes long, by a thread that may.
    pub(super) async fn aside<T: Send + 'static>(
        &self,
        pool: &Pool,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        match pool.run(work).await {
            Some(done) => Ok(done),
            None => self.check_running().and(Err(Error::TooManyRequests)),
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
    fn whatever_ends_first_decides() {
        let time_is_up = || ready(Ok(()));
        assert_eq!(poll(within(ready(7), pending())), Poll::Ready(Ok(Some(7))));
        assert_eq!(poll(within(pending::<u8>(), time_is_up())), Poll::Ready(Ok(None)));
        let in_time_after_all = poll(within(ready(7), time_is_up()));
        assert_eq!(in_time_after_all, Poll::Ready(Ok(Some(7))));
        let stopped = poll(within(pending::<u8>(), ready(Err(Error::Stopped))));
        assert_eq!(stopped, Poll::Ready(Err(Error::Stopped)));
        assert_eq!(poll(within(pending::<u8>(), pending())), Poll::Pending);
    }
}
