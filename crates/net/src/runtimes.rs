//! Threads with a runtime each, and what runs beside connections.
//!
//! ```text
//!   net-0   accept loops, Background::spawn, connections 1, 3, 5 ..        net-blocking   what takes long, of either
//!   net-1   connections 2, 4, 6 ..                                         (as many as needed, up to a bound)
//! ```
//!
//! A single-threaded runtime for each core serves a small call for about half of what tokio's work-stealing one takes, since nothing that a
//! connection owns is ever touched by two threads. The price: a core that has the busy connections does not share them. So
//! each goes where the fewest are; and whatever takes long goes to blocking threads, which each runtime starts as it needs them and ends when it does not. How many
//! are busy at a time is for those to bound who use them (`tokio::task::spawn_blocking`): up to [`BLOCKING_THREADS_MAX`] nothing queues.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;

use crate::mail::Mailbox;

/// Threads for what takes long, at most, of each runtime. On that of peers, names are asked for, and snapshots sent and received, each within a bound of
/// its own; here is room for all of them.
pub const BLOCKING_THREADS_MAX: usize = 64;
/// How long a stop waits for them.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// The threads that serve connections. Dropping them stops them, with everything that runs there.
#[derive(Debug)]
pub struct Runtimes {
    workers: Vec<Worker>,
    places: Places,
    background: Background,
}

#[derive(Debug)]
struct Worker {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Runtimes {
    /// As many as there are cores to run on.
    pub fn count_default() -> usize {
        thread::available_parallelism().map_or(1, usize::from)
    }

    /// Starts so many threads, and at least one. They are called `net-0` and so on.
    pub fn start(count: usize) -> io::Result<Self> {
        Self::start_named("net", count)
    }

    /// The same, under another name.
    pub fn start_named(name: &str, count: usize) -> io::Result<Self> {
        let (mut workers, mut places) = (Vec::new(), Vec::new());
        for n in 0..count.max(1) {
            let runtime = build(name)?;
            let mailbox = Arc::new(Mailbox::default());
            places.push(Place {
                handle: runtime.handle().clone(),
                mailbox: Arc::clone(&mailbox),
                connections: Arc::default(),
                turns: Arc::new(Semaphore::new(1)),
            });
            workers.push(Worker::start(format!("{name}-{n}"), runtime, mailbox)?);
        }
        let background = Background { handle: places[0].handle.clone() };
        let places = Places { places: places.into(), next: Arc::default() };
        Ok(Self { workers, places, background })
    }

    /// What runs beside connections.
    pub fn background(&self) -> &Background {
        &self.background
    }

    /// Runs a future on the thread of the caller, which must not be one of these.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.background.handle.block_on(future)
    }

    /// Stops all threads and waits for them. What still runs there is dropped, except that blocking work gets a second to end.
    pub fn stop(self) {
        drop(self);
    }

    /// Runs something that needs a runtime to be there, on the thread of the caller.
    pub(crate) fn within<T>(&self, run: impl FnOnce() -> T) -> T {
        let _guard = self.background.handle.enter();
        run()
    }

    pub(crate) fn places(&self) -> Places {
        self.places.clone()
    }
}

impl Drop for Runtimes {
    fn drop(&mut self) {
        // All are told before any is waited for.
        for worker in &mut self.workers {
            worker.stop.take();
        }
        for worker in &mut self.workers {
            worker.join();
        }
    }
}

impl Worker {
    fn start(name: String, runtime: Runtime, mailbox: Arc<Mailbox>) -> io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let run = move || {
            mailbox.move_in();
            runtime.spawn(mailbox.deliver());
            // An error says that the sender is gone, which is how it tells.
            let _ = runtime.block_on(stopped);
            runtime.shutdown_timeout(STOP_GRACE);
        };
        let thread = thread::Builder::new().name(name).spawn(run)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }

    fn join(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        // Dropped by a task that runs there: it cannot wait for itself.
        if thread.thread().id() != thread::current().id() && thread.join().is_err() {
            tracing::error!("a thread that serves connections has panicked");
        }
    }
}

fn build(name: &str) -> io::Result<Runtime> {
    Builder::new_current_thread()
        .enable_all()
        .thread_name(format!("{name}-blocking"))
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .build()
}

/// Runs what is not a connection.
#[derive(Clone, Debug)]
pub struct Background {
    handle: Handle,
}

impl Background {
    /// Runs a future to its end, whoever waits for it.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.handle.spawn(future)
    }
}

/// Where connections go.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    places: Arc<[Place]>,
    next: Arc<AtomicUsize>,
}

#[derive(Clone, Debug)]
struct Place {
    handle: Handle,
    mailbox: Arc<Mailbox>,
    connections: Arc<AtomicUsize>,
    /// Of handshakes.
    turns: Arc<Semaphore>,
}

impl Places {
    /// The place with the fewest connections, which counts one more until what is returned is dropped. Among equals they take turns.
    pub(crate) fn take(&self) -> Taken {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let places = (0..self.places.len())
            .map(|n| &self.places[(turn.wrapping_add(n)) % self.places.len()]);
        let fewest = places.min_by_key(|place| place.connections.load(Ordering::Relaxed));
        let place = fewest.expect("there is at least one runtime").clone();
        place.connections.fetch_add(1, Ordering::Relaxed);
        Taken(place)
    }
}

/// A place that has a connection.
#[derive(Debug)]
pub(crate) struct Taken(Place);

impl Taken {
    pub(crate) fn handle(&self) -> Handle {
        self.0.handle.clone()
    }

    /// How requests there are woken by other threads.
    pub(crate) fn mailbox(&self) -> Arc<Mailbox> {
        Arc::clone(&self.0.mailbox)
    }

    /// Handshakes there take turns.
    pub(crate) fn turns(&self) -> &Semaphore {
        &self.0.turns
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    fn thread_name() -> Option<String> {
        thread::current().name().map(ToOwned::to_owned)
    }

    #[test]
    fn threads_are_named_and_end() {
        let runtimes = Runtimes::start(2).unwrap();
        let name = runtimes.block_on(runtimes.background().spawn(async { thread_name() })).unwrap();
        assert_eq!(name.as_deref(), Some("net-0"));

        let place = runtimes.places().places[1].handle.clone();
        let name = runtimes.block_on(place.spawn(async { thread_name() })).unwrap();
        assert_eq!(name.as_deref(), Some("net-1"));

        // A task that never ends is dropped by the stop, and with it what it owns.
        let (sender, receiver) = oneshot::channel::<()>();
        runtimes.background().spawn(async move {
            let _sender = sender;
            std::future::pending::<()>().await;
        });
        runtimes.stop();
        assert!(receiver.blocking_recv().is_err());
    }

    #[test]
    fn there_is_at_least_one() {
        assert_eq!(Runtimes::start(0).unwrap().workers.len(), 1);
        assert!(Runtimes::count_default() >= 1);
    }

    #[test]
    fn a_connection_goes_where_the_fewest_are() {
        let runtimes = Runtimes::start(3).unwrap();
        let places = runtimes.places();
        let counts = || -> Vec<usize> {
            places.places.iter().map(|place| place.connections.load(Ordering::Relaxed)).collect()
        };
        let mut taken: Vec<Taken> = (0..6).map(|_| places.take()).collect();
        assert_eq!(counts(), [2, 2, 2]);
        drop(taken.remove(1));
        assert_eq!(counts(), [2, 1, 2]);
        taken.push(places.take());
        assert_eq!(counts(), [2, 2, 2]);
    }

    #[test]
    fn what_takes_long_does_not_queue_whichever_runtime_it_comes_from() {
        let runtimes = Runtimes::start(2).unwrap();
        for place in runtimes.places().places.iter() {
            // All of them at once: they wait for each other, and for us.
            let barrier = Arc::new(Barrier::new(BLOCKING_THREADS_MAX + 1));
            let run = || {
                let barrier = Arc::clone(&barrier);
                place.handle.spawn_blocking(move || {
                    barrier.wait();
                    thread_name()
                })
            };
            let waiting: Vec<_> = (0..BLOCKING_THREADS_MAX).map(|_| run()).collect();
            barrier.wait();
            for task in waiting {
                let name = runtimes.block_on(task).unwrap();
                assert_eq!(name.as_deref(), Some("net-blocking"));
            }
        }
    }
}
