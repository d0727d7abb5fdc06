//! A few threads for what takes long and must hold up nobody.
//!
//! ```text
//!   pool-0, pool-1           short   committing for whoever waits for it, purging, moving the database to another version
//!   long-0, long-1           long    hashing all keys or the whole file, defragmenting: minutes, if there is much
//!   password-0, password-1           hashing passwords
//! ```
//!
//! Each has its own threads, so that none waits for what takes longer; and passwords theirs, since what somebody asks for who is not known yet must not hold
//! up the rest, nor be held up.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::sync::oneshot::{Waiting, promise};

/// The threads of a pool. As many slow things go on at once as there are.
pub(crate) const THREADS: usize = 2;
/// The most that may wait for a thread.
const QUEUE_MAX: usize = 1024;

/// The pools of a member.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    pub(crate) short: Arc<Pool>,
    pub(crate) long: Arc<Pool>,
    pub(crate) passwords: Arc<Pool>,
}

impl Pools {
    /// With the names of their threads.
    pub(crate) fn all(&self) -> [(&'static str, &Arc<Pool>); 3] {
        [("pool", &self.short), ("long", &self.long), ("password", &self.passwords)]
    }

    pub(crate) fn close(&self) {
        self.all().into_iter().for_each(|(_, pool)| pool.close());
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// Runs jobs, in the order in which they come.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    queue: Mutex<Queue>,
    wake: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    closed: bool,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("jobs", &self.jobs.len()).finish_non_exhaustive()
    }
}

impl Pool {
    /// Has a thread do it, unless nobody waits any more when its turn has come. Nothing comes back if too much waits already, or the pool is closed.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Waiting<T> {
        let (promise, waiting) = promise();
        let mut queue = self.lock();
        if !queue.closed && queue.jobs.len() < QUEUE_MAX {
            queue.jobs.push_back(Box::new(move || {
                if promise.is_wanted() {
                    promise.keep(job());
                }
            }));
            drop(queue);
            self.wake.notify_one();
        }
        waiting
    }

    /// Takes nothing more, and forgets what waits.
    pub(crate) fn close(&self) {
        let mut queue = self.lock();
        queue.closed = true;
        let forgotten = std::mem::take(&mut queue.jobs);
        drop(queue);
        drop(forgotten);
        self.wake.notify_all();
    }

    /// What a thread of the pool does, until that is closed.
    pub(crate) fn work(&self) {
        while let Some(job) = self.next() {
            job();
        }
    }

    /// Does one, if one waits: for whoever has no threads.
    pub(crate) fn turn(&self) {
        let job = self.lock().jobs.pop_front();
        job.into_iter().for_each(|job| job());
    }

    fn next(&self) -> Option<Job> {
        let idle = |queue: &mut Queue| queue.jobs.is_empty() && !queue.closed;
        let queue = self.wake.wait_while(self.lock(), idle);
        queue.unwrap_or_else(PoisonError::into_inner).jobs.pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Poll, Waker};

    fn now<T>(waiting: Waiting<T>) -> Poll<Option<T>> {
        let mut waiting = std::pin::pin!(waiting);
        waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_job_is_done_by_a_thread() {
        let pool = Pool::default();
        let (done, wait) = std::sync::mpsc::channel();
        let job = pool.run(move || done.send(7).unwrap());
        std::thread::scope(|scope| {
            scope.spawn(|| pool.work());
            assert_eq!(wait.recv().unwrap(), 7);
            pool.close();
        });
        assert_eq!(now(job), Poll::Ready(Some(())));
    }

    /// Or whoever logs in and hangs up, again and again, would keep everybody else from it.
    #[test]
    fn what_nobody_waits_for_any_more_is_not_done() {
        let pool = Pool::default();
        drop(pool.run(|| panic!("it was done")));
        let wanted = pool.run(|| 7);
        pool.next().unwrap()();
        pool.next().unwrap()();
        assert_eq!(now(wanted), Poll::Ready(Some(7)));
    }

    #[test]
    fn too_many_jobs_are_turned_away_at_once() {
        let pool = Pool::default();
        let kept: Vec<_> = (0..QUEUE_MAX).map(|_| pool.run(|| ())).collect();
        assert_eq!(now(pool.run(|| ())), Poll::Ready(None));
        pool.close();
        assert!(kept.into_iter().all(|job| now(job) == Poll::Ready(None)));
    }
}
