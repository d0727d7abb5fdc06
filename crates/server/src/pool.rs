//! A few threads for what takes long and must hold up nobody: hashing a password, defragmenting, hashing all keys.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::promise::{Waiting, promise};

/// The threads. As many slow things go on at once as there are.
const THREADS: usize = 2;
/// The most that may wait for a thread.
const QUEUE_MAX: usize = 1024;

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
    /// Starts the threads.
    pub(crate) fn spawn(self: &Arc<Pool>, name: &str) -> io::Result<Vec<JoinHandle<()>>> {
        let one = |number| {
            let pool = Arc::clone(self);
            let thread = std::thread::Builder::new().name(format!("{name}-{number}"));
            thread.spawn(move || pool.work())
        };
        (0..THREADS).map(one).collect()
    }

    /// Has a thread do it. Nothing comes back if too much waits already, or the pool is closed.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Waiting<T> {
        let (promise, waiting) = promise();
        let mut queue = self.lock();
        if !queue.closed && queue.jobs.len() < QUEUE_MAX {
            queue.jobs.push_back(Box::new(move || promise.keep(job())));
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

    fn work(&self) {
        while let Some(job) = self.next() {
            job();
        }
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
        let pool = Arc::new(Pool::default());
        let threads = pool.spawn("pool").unwrap();
        let (done, wait) = std::sync::mpsc::channel();
        let job = pool.run(move || done.send(7).unwrap());
        assert_eq!(wait.recv().unwrap(), 7);
        pool.close();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(now(job), Poll::Ready(Some(())));
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
