//! A queue that coalesces wake-ups from other threads.
//!
//! The result of a request is often known first to another thread: the applier. Waking a task of a
//! runtime from outside costs a system call each time, and the task then runs alone: its response
//! is sent before the next result is known. So these wake-ups go into a [`WakeQueue`], and only the
//! first one wakes the runtime:
//!
//! ```text
//!   applier:  wake 1 ──► [1]        one system call
//!             wake 2 ──► [1 2]
//!             wake 3 ──► [1 2 3]
//!   net-0:    drain: 1, 2, 3 run, then their connection, which sends three responses at once
//! ```
//!
//! Invariants: every woken task runs; a task is queued at most once; a wake-up on the runtime's own
//! thread bypasses the queue.

use std::cell::Cell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use hyper::rt::Executor;
use parking_lot::Mutex;

/// The queued wake-ups of one runtime.
#[derive(Debug)]
pub(crate) struct WakeQueue {
    id: usize,
    state: Mutex<QueueState>,
}

#[derive(Debug, Default)]
struct QueueState {
    wakers: Vec<Arc<QueuedWaker>>,
    /// Wakes the task that drains the queue.
    drainer: Option<Waker>,
}

thread_local! {
    /// The id of the queue whose runtime this thread runs; 0 for none.
    static THREAD_QUEUE: Cell<usize> = const { Cell::new(0) };
}

impl Default for WakeQueue {
    fn default() -> Self {
        static NEXT_ID: AtomicUsize = AtomicUsize::new(1);
        Self { id: NEXT_ID.fetch_add(1, Ordering::Relaxed), state: Mutex::default() }
    }
}

impl WakeQueue {
    /// Declares that the calling thread runs the runtime of this queue.
    pub(crate) fn bind_to_thread(&self) {
        THREAD_QUEUE.set(self.id);
    }

    /// Drains the queue for as long as the runtime runs.
    pub(crate) async fn drain(self: Arc<Self>) {
        poll_fn(|cx| {
            let mut state = self.state.lock();
            match &mut state.drainer {
                Some(drainer) => drainer.clone_from(cx.waker()),
                None => state.drainer = Some(cx.waker().clone()),
            }
            let wakers = std::mem::take(&mut state.wakers);
            drop(state);
            wakers.iter().for_each(|waker| waker.wake_task());
            Poll::Pending::<()>
        })
        .await;
    }

    fn push(&self, waker: Arc<QueuedWaker>) {
        let mut state = self.state.lock();
        state.wakers.push(waker);
        // While the queue is not empty, the drainer has already been woken.
        let drainer = if state.wakers.len() == 1 { state.drainer.clone() } else { None };
        drop(state);
        drainer.into_iter().for_each(Waker::wake);
    }
}

/// A waker that goes through the queue unless it is used on the runtime's own thread.
struct QueuedWaker {
    task: Waker,
    queue: Arc<WakeQueue>,
    is_queued: AtomicBool,
}

impl QueuedWaker {
    /// Wakes the task. Clears the flag first, so that a later wake-up queues again. The swap also
    /// acquires: the task sees what a thread did before it found the flag set.
    fn wake_task(&self) {
        self.is_queued.swap(false, Ordering::AcqRel);
        self.task.wake_by_ref();
    }
}

impl Wake for QueuedWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if THREAD_QUEUE.get() == self.queue.id {
            self.task.wake_by_ref();
        } else if !self.is_queued.swap(true, Ordering::AcqRel) {
            self.queue.push(Arc::clone(self));
        }
    }
}

impl fmt::Debug for QueuedWaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueuedWaker").field("task", &self.task).finish_non_exhaustive()
    }
}

/// A task that is woken through the queue.
struct QueuedTask<F> {
    // Boxed: the future of a request is large, and tokio moves a task several times.
    future: Pin<Box<F>>,
    queue: Arc<WakeQueue>,
    /// The runtime's waker, and the queued one that was made for it.
    waker: Option<(Waker, Waker)>,
}

impl<F: Future> Future for QueuedTask<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let is_current =
            this.waker.as_ref().is_some_and(|(runtime, _)| runtime.will_wake(cx.waker()));
        if !is_current {
            let queue = Arc::clone(&this.queue);
            let task = cx.waker().clone();
            let queued =
                QueuedWaker { task: task.clone(), queue, is_queued: AtomicBool::new(false) };
            this.waker = Some((task, Waker::from(Arc::new(queued))));
        }
        let waker = this.waker.as_ref().map_or(cx.waker(), |(_, queued)| queued);
        this.future.as_mut().poll(&mut Context::from_waker(waker))
    }
}

/// Spawns requests on the current runtime as tasks that are woken through its queue.
#[derive(Clone, Debug)]
pub(crate) struct WakeQueueExecutor(pub(crate) Arc<WakeQueue>);

impl<F> Executor<F> for WakeQueueExecutor
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, future: F) {
        let (future, queue) = (Box::pin(future), Arc::clone(&self.0));
        tokio::spawn(QueuedTask { future, queue, waker: None });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    use testkit::waiting::yield_until;
    use tokio::sync::oneshot;

    /// A waker that counts.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn queued_waker(queue: &Arc<WakeQueue>, count: &Arc<Count>) -> Waker {
        let task = Waker::from(Arc::clone(count));
        let is_queued = AtomicBool::new(false);
        Waker::from(Arc::new(QueuedWaker { task, queue: Arc::clone(queue), is_queued }))
    }

    fn drain(queue: &Arc<WakeQueue>, drainer: &Arc<Count>) {
        let waker = Waker::from(Arc::clone(drainer));
        let mut draining = Box::pin(Arc::clone(queue).drain());
        assert!(draining.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }

    #[test]
    fn many_wake_ups_wake_the_runtime_once() {
        let queue = Arc::new(WakeQueue::default());
        let (drainer, first, second) = <(Arc<Count>, Arc<Count>, Arc<Count>)>::default();
        drain(&queue, &drainer);
        let (to_first, to_second) = (queued_waker(&queue, &first), queued_waker(&queue, &second));
        to_first.wake_by_ref();
        to_first.wake_by_ref();
        to_second.wake_by_ref();
        let counts = || [&drainer, &first, &second].map(|count| count.0.load(Ordering::Relaxed));
        assert_eq!(counts(), [1, 0, 0]);
        drain(&queue, &drainer);
        assert_eq!(counts(), [1, 1, 1]);
        to_first.wake_by_ref();
        assert_eq!(counts(), [2, 1, 1], "the first wake-up in an empty queue wakes the drainer");
        drain(&queue, &drainer);
        assert_eq!(counts(), [2, 2, 1]);
    }

    #[test]
    fn a_wake_up_on_the_runtimes_own_thread_bypasses_the_queue() {
        let queue = Arc::new(WakeQueue::default());
        let count = Arc::new(Count::default());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                queue.bind_to_thread();
                queued_waker(&queue, &count).wake();
            });
        });
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert!(queue.state.lock().wakers.is_empty());
    }

    #[test]
    fn tasks_woken_by_another_thread_complete() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let queue = Arc::new(WakeQueue::default());
        queue.bind_to_thread();
        let _within = runtime.enter();
        tokio::spawn(Arc::clone(&queue).drain());
        let (done, wait) = mpsc::channel();
        let senders: Vec<_> = (0..100)
            .map(|number| {
                let (sender, receiver) = oneshot::channel::<usize>();
                let done = done.clone();
                WakeQueueExecutor(Arc::clone(&queue)).execute(async move {
                    done.send(receiver.await.unwrap() + number).unwrap();
                });
                sender
            })
            .collect();
        let other = std::thread::spawn(|| {
            senders.into_iter().for_each(|sender| sender.send(1000).unwrap());
        });
        drop(done);
        let mut results = Vec::new();
        runtime.block_on(async {
            yield_until("all tasks are done", || {
                results.extend(wait.try_iter());
                results.len() >= 100
            })
            .await;
        });
        other.join().unwrap();
        results.sort_unstable();
        assert_eq!(results, (1000..1100).collect::<Vec<_>>());
    }
}
