//! A pool of worker threads with a bounded queue of jobs.

use std::collections::VecDeque;
use std::fmt;

use parking_lot::{Condvar, Mutex};

use crate::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// A bounded queue of jobs that a few threads execute in the order of submission.
///
/// For work that blocks on a disk or computes for long, submitted by tasks that must not block. The
/// caller spawns the threads; each runs [`work`](WorkerPool::work) until the pool is closed. A
/// simulation has no threads and calls [`turn`](WorkerPool::turn) instead.
///
/// A job whose receiver is dropped before a thread gets to it is skipped: a client that disconnects
/// does not keep the threads busy.
///
/// # Examples
///
/// ```
/// use sync::WorkerPool;
///
/// let pool = WorkerPool::new(16);
/// let mut result = pool.run(|| 6 * 7);
/// std::thread::scope(|scope| {
///     scope.spawn(|| pool.work());
///     while result.try_recv() != Ok(Some(42)) {
///         std::thread::yield_now();
///     }
///     pool.close();
/// });
/// ```
pub struct WorkerPool {
    jobs_max: usize,
    state: Mutex<PoolState>,
    changed: Condvar,
}

#[derive(Default)]
struct PoolState {
    jobs: VecDeque<Job>,
    is_closed: bool,
}

impl fmt::Debug for WorkerPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queued = self.state.lock().jobs.len();
        f.debug_struct("WorkerPool").field("queued", &queued).finish_non_exhaustive()
    }
}

impl WorkerPool {
    /// Returns a pool that queues at most `jobs_max` jobs.
    pub fn new(jobs_max: usize) -> WorkerPool {
        WorkerPool { jobs_max, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Queues a job. The receiver completes with its result, or with
    /// [`Canceled`](oneshot::Canceled) if the queue is full or the pool closed.
    pub fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state.lock();
        if !state.is_closed && state.jobs.len() < self.jobs_max {
            state.jobs.push_back(Box::new(move || {
                if !sender.is_canceled() {
                    // A failed send means that the receiver was dropped during the job.
                    let _ = sender.send(job());
                }
            }));
            drop(state);
            self.changed.notify_one();
        }
        receiver
    }

    /// Refuses further jobs, cancels the queued ones and ends the threads.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let canceled = std::mem::take(&mut state.jobs);
        drop(state);
        // Outside the lock: dropping a job wakes its waiter.
        drop(canceled);
        self.changed.notify_all();
    }

    /// Whether the pool was closed, so that it accepts no job any more.
    pub fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    /// Executes jobs until the pool is closed: the body of a pool thread.
    pub fn work(&self) {
        while let Some(job) = self.next() {
            job();
        }
    }

    /// Executes one job, if one is queued.
    pub fn turn(&self) {
        let job = self.state.lock().jobs.pop_front();
        job.into_iter().for_each(|job| job());
    }

    /// Blocks until a job is queued. Returns none once the pool is closed.
    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock();
        let is_idle = |state: &mut PoolState| state.jobs.is_empty() && !state.is_closed;
        self.changed.wait_while(&mut state, is_idle);
        state.jobs.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oneshot::Canceled;
    use testkit::waiting::TIMEOUT;

    #[test]
    fn a_thread_executes_the_job() {
        let pool = WorkerPool::new(1);
        let (done, wait) = std::sync::mpsc::channel();
        let mut job = pool.run(move || done.send(7).unwrap());
        std::thread::scope(|scope| {
            scope.spawn(|| pool.work());
            let result = wait.recv_timeout(TIMEOUT);
            pool.close();
            assert_eq!(result.expect("timed out waiting for the job"), 7);
        });
        assert_eq!(job.try_recv(), Ok(Some(())));
    }

    #[test]
    fn is_closed_distinguishes_a_closed_pool_from_a_full_one() {
        let pool = WorkerPool::new(0);
        assert_eq!(pool.run(|| 7).try_recv(), Err(Canceled));
        assert!(!pool.is_closed());
        pool.close();
        assert_eq!(pool.run(|| 7).try_recv(), Err(Canceled));
        assert!(pool.is_closed());
    }

    #[test]
    fn a_job_without_a_receiver_is_skipped() {
        let pool = WorkerPool::new(2);
        drop(pool.run(|| panic!("executed a job whose receiver was dropped")));
        let mut wanted = pool.run(|| 7);
        pool.turn();
        pool.turn();
        assert_eq!(wanted.try_recv(), Ok(Some(7)));
    }

    #[test]
    fn a_full_pool_cancels_the_job_at_once() {
        let pool = WorkerPool::new(2);
        let queued = [pool.run(|| ()), pool.run(|| ())];
        assert_eq!(pool.run(|| ()).try_recv(), Err(Canceled));
        pool.close();
        for mut job in queued {
            assert_eq!(job.try_recv(), Err(Canceled), "closing cancels queued jobs");
        }
        assert_eq!(pool.run(|| ()).try_recv(), Err(Canceled), "the pool is closed");
    }
}
