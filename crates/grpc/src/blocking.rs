//! Long computations, run on blocking threads.
//!
//! A connection shares its thread with many others, which wait while it computes. Long reads and
//! the compression of long messages therefore run on blocking threads, a bounded number at a time.
//! The rest wait for a permit as futures, without a thread.

use std::sync::Arc;

use net::{BLOCKING_THREADS_MAX, Runtimes, SendBudget};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::receive_budget::ReceiveBudget;
use crate::status::Status;

/// Runs long computations on blocking threads.
#[derive(Debug)]
pub struct BlockingPool {
    permits: Arc<Semaphore>,
    receive_budget: ReceiveBudget,
    stopped: Status,
}

impl BlockingPool {
    /// Creates a pool of two permits per core. More computations would only take turns, each with
    /// its reply in memory; more permits than blocking threads would queue for a thread.
    ///
    /// `receive_budget` counts the requests that wait. `stopped` is the status when a computation
    /// panics or its runtime shuts down.
    pub(crate) fn new(receive_budget: ReceiveBudget, stopped: Status) -> BlockingPool {
        let permits = (2 * Runtimes::count_default()).clamp(2, BLOCKING_THREADS_MAX);
        BlockingPool { permits: Arc::new(Semaphore::new(permits)), receive_budget, stopped }
    }

    /// Runs `work` on a blocking thread, once its connection has room for the reply. Dropping the
    /// future before `work` has a permit cancels it. `request_bytes` are kept until then.
    ///
    /// # Errors
    /// The error of `work`, the `stopped` status, or that too many requests wait.
    pub async fn run<T: Send + 'static, E: From<Status> + Send + 'static>(
        &self,
        send_budget: &SendBudget,
        request_bytes: usize,
        work: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        let permit = wait_with_room(send_budget, &self.permits);
        let permit = self.receive_budget.count_while(request_bytes, permit).await;
        let permit = permit.map_err(Status::from)?;
        spawn(work, permit).await.unwrap_or_else(|| Err(self.stopped.clone().into()))
    }

    /// Returns a future that runs `work` on a blocking thread, regardless of room for a reply. It
    /// resolves to none if `work` panics or the runtime shuts down.
    pub(crate) fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = Option<T>> + Send + 'static {
        let permits = Arc::clone(&self.permits);
        async move {
            let permit = permits.acquire_owned().await;
            spawn(work, permit).await
        }
    }
}

/// Acquires a permit while there is room for the reply. Returns none if the semaphore is closed.
pub async fn wait_with_room(
    send_budget: &SendBudget,
    permits: &Arc<Semaphore>,
) -> Option<OwnedSemaphorePermit> {
    loop {
        send_budget.wait_for_room().await;
        let permit = Arc::clone(permits).acquire_owned().await.ok();
        // Earlier replies may have used up the room meanwhile.
        if send_budget.has_room() {
            return permit;
        }
    }
}

/// Runs `work` on a blocking thread, which then drops the permit.
async fn spawn<T: Send + 'static, P: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
    permit: P,
) -> Option<T> {
    let done = tokio::task::spawn_blocking(move || {
        let done = work();
        drop(permit);
        done
    });
    done.await.ok()
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc;
    use std::task::{Context, Waker};
    use std::time::Duration;

    use bytes::Bytes;
    use net::UNSENT_BYTES_MAX;

    use super::*;
    use crate::receive_budget::RECEIVE_BYTES_MAX;
    use crate::transport::tests::STOPPED;

    const EXCEEDED: &str = "too many requests";

    async fn run<T: Send + 'static>(
        pool: &BlockingPool,
        send_budget: &SendBudget,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Status> {
        pool.run(send_budget, 0, || Ok(work())).await
    }

    fn pool() -> BlockingPool {
        BlockingPool::new(ReceiveBudget::new(1, EXCEEDED), STOPPED)
    }

    #[tokio::test]
    async fn computations_beyond_the_permits_run_in_turn() {
        let (pool, send_budget) = (Arc::new(pool()), Arc::new(SendBudget::default()));
        let all = (0..3 * pool.permits.available_permits()).map(|number| {
            let (pool, send_budget) = (Arc::clone(&pool), Arc::clone(&send_budget));
            tokio::spawn(async move { run(&pool, &send_budget, move || number).await })
        });
        for (number, done) in all.collect::<Vec<_>>().into_iter().enumerate() {
            assert_eq!(done.await.unwrap(), Ok(number));
        }
    }

    #[tokio::test]
    async fn a_computation_canceled_in_the_queue_does_not_start() {
        let (pool, send_budget) = (pool(), SendBudget::default());
        let (sender, started) = mpsc::channel();
        let all = pool.permits.acquire_many(pool.permits.available_permits().try_into().unwrap());
        let all = all.await.unwrap();
        let mut cx = Context::from_waker(Waker::noop());
        {
            let waiting = pin!(run(&pool, &send_budget, move || sender.send(()).unwrap()));
            assert!(waiting.poll(&mut cx).is_pending());
        }
        drop(all);
        assert_eq!(run(&pool, &send_budget, || 7).await, Ok(7));
        let started = started.recv_timeout(Duration::from_secs(60));
        assert_eq!(started, Err(mpsc::RecvTimeoutError::Disconnected), "the computation ran");
    }

    #[tokio::test]
    async fn a_connection_with_too_many_unsent_bytes_waits_alone() {
        let pool = Arc::new(pool());
        let (stuck, other) = (Arc::new(SendBudget::default()), SendBudget::default());
        let read = |send_budget: Arc<SendBudget>| {
            move || send_budget.charge(vec![0; UNSENT_BYTES_MAX].into())
        };
        let unread: Bytes = run(&pool, &stuck, read(Arc::clone(&stuck))).await.unwrap();
        let mut cx = Context::from_waker(Waker::noop());
        let mut next = pin!(run(&pool, &stuck, read(Arc::clone(&stuck))));
        assert!(next.as_mut().poll(&mut cx).is_pending());
        assert_eq!(run(&pool, &other, || 7).await, Ok(7), "another connection does not wait");
        drop(unread);
        assert_eq!(next.await.unwrap().len(), UNSENT_BYTES_MAX);
    }

    #[tokio::test]
    async fn the_requests_of_waiting_computations_are_bounded() {
        let (pool, stuck) = (pool(), Arc::new(SendBudget::default()));
        let _unread = stuck.charge(vec![0; UNSENT_BYTES_MAX].into());
        let mut cx = Context::from_waker(Waker::noop());
        let [mut old, mut new] = std::array::from_fn(|_| {
            Box::pin(pool.run(&stuck, RECEIVE_BYTES_MAX, || Ok::<_, Status>(())))
        });
        assert!(old.as_mut().poll(&mut cx).is_pending());
        assert!(new.as_mut().poll(&mut cx).is_pending());
        assert_eq!(old.await.unwrap_err().message, EXCEEDED);
        assert!(new.as_mut().poll(&mut cx).is_pending());
    }
}
