//! Single-threaded runtimes, one per core, and background tasks.
//!
//! ```text
//!   net-0   accept loops, Background::spawn, connections 1, 3, 5 ..  net-blocking: long work
//!   net-1   connections 2, 4, 6 ..                                    (as many as needed, bounded)
//! ```
//!
//! A single-threaded runtime per core serves a small call for about half the CPU time of tokio's
//! work-stealing runtime, since no two threads touch the state of a connection. The price: a core
//! with busy connections does not share them. So each connection goes to the runtime with the
//! fewest, and long computations go to blocking threads, which a runtime starts and ends as needed.
//! Their callers bound how many they use (`tokio::task::spawn_blocking`): up to
//! [`BLOCKING_THREADS_MAX`] nothing queues.

pub(crate) mod resolver;
mod wake_queue;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;

pub(crate) use self::wake_queue::{WakeQueue, WakeQueueExecutor};

/// The most blocking threads of a runtime. The runtime of peers resolves names and transfers
/// snapshots there, each within a bound of its own; the sum fits.
pub const BLOCKING_THREADS_MAX: usize = 64;
/// The stack of a thread: Rust's default.
const STACK_BYTES_DEFAULT: usize = 2 << 20;
/// The time for which a stop waits for blocking threads.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// The threads that serve connections. Dropping them stops them and drops all of their tasks.
#[derive(Debug)]
pub struct Runtimes {
    workers: Vec<Worker>,
    pool: RuntimePool,
    background: Background,
}

#[derive(Debug)]
struct Worker {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Runtimes {
    /// Returns the number of available cores.
    pub fn count_default() -> usize {
        thread::available_parallelism().map_or(1, usize::from)
    }

    /// Starts `count` threads, at least one, named `net-0` and so on.
    pub fn start(count: usize) -> io::Result<Self> {
        Self::start_with_stack("net", count, STACK_BYTES_DEFAULT)
    }

    /// Starts `count` threads, at least one, named `{name}-0` and so on.
    pub fn start_named(name: &str, count: usize) -> io::Result<Self> {
        Self::start_with_stack(name, count, STACK_BYTES_DEFAULT)
    }

    /// Starts `count` threads, at least one, named `{name}-0` and so on, for handlers that need a
    /// stack of `stack_bytes`, also on blocking threads.
    pub fn start_with_stack(name: &str, count: usize, stack_bytes: usize) -> io::Result<Self> {
        let (mut workers, mut slots) = (Vec::new(), Vec::new());
        for n in 0..count.max(1) {
            let runtime = build(name, stack_bytes)?;
            let wake_queue = Arc::new(WakeQueue::default());
            slots.push(RuntimeSlot {
                handle: runtime.handle().clone(),
                wake_queue: Arc::clone(&wake_queue),
                connections: Arc::default(),
                handshakes: Arc::new(Semaphore::new(1)),
            });
            workers.push(Worker::start(format!("{name}-{n}"), stack_bytes, runtime, wake_queue)?);
        }
        let background = Background { handle: slots[0].handle.clone() };
        let pool = RuntimePool { slots: slots.into(), next: Arc::default() };
        Ok(Self { workers, pool, background })
    }

    /// Returns the handle that spawns background tasks.
    pub fn background(&self) -> &Background {
        &self.background
    }

    /// Runs a future on the calling thread, which must not be one of these.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.background.handle.block_on(future)
    }

    /// Stops all threads and waits for them. Running tasks are dropped; blocking work gets one
    /// second to end.
    pub fn stop(self) {
        drop(self);
    }

    /// Runs a closure on the calling thread within the context of a runtime.
    pub(crate) fn within<T>(&self, run: impl FnOnce() -> T) -> T {
        let _guard = self.background.handle.enter();
        run()
    }

    pub(crate) fn pool(&self) -> RuntimePool {
        self.pool.clone()
    }
}

impl Drop for Runtimes {
    fn drop(&mut self) {
        // Signal all threads before waiting for any.
        for worker in &mut self.workers {
            worker.stop.take();
        }
        for worker in &mut self.workers {
            worker.join();
        }
    }
}

impl Worker {
    fn start(
        name: String,
        stack_bytes: usize,
        runtime: Runtime,
        wake_queue: Arc<WakeQueue>,
    ) -> io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let run = move || {
            wake_queue.bind_to_thread();
            runtime.spawn(wake_queue.drain());
            // Dropping the sender is the signal.
            let _ = runtime.block_on(stopped);
            runtime.shutdown_timeout(STOP_GRACE);
        };
        let thread = thread::Builder::new().name(name).stack_size(stack_bytes).spawn(run)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }

    fn join(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        // A task of this thread that drops the runtimes cannot wait for itself.
        if thread.thread().id() != thread::current().id() && thread.join().is_err() {
            tracing::error!("a thread that serves connections has panicked");
        }
    }
}

fn build(name: &str, stack_bytes: usize) -> io::Result<Runtime> {
    Builder::new_current_thread()
        .enable_all()
        .thread_name(format!("{name}-blocking"))
        .thread_stack_size(stack_bytes)
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .build()
}

/// Spawns tasks that belong to no connection.
#[derive(Clone, Debug)]
pub struct Background {
    handle: Handle,
}

impl Background {
    /// Runs a future to its end, whether or not its result is awaited.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.handle.spawn(future)
    }
}

/// The runtimes to which connections are assigned.
#[derive(Clone, Debug)]
pub(crate) struct RuntimePool {
    slots: Arc<[RuntimeSlot]>,
    next: Arc<AtomicUsize>,
}

#[derive(Clone, Debug)]
struct RuntimeSlot {
    handle: Handle,
    wake_queue: Arc<WakeQueue>,
    connections: Arc<AtomicUsize>,
    /// A single permit: a runtime polls one TLS handshake at a time.
    handshakes: Arc<Semaphore>,
}

impl RuntimePool {
    /// Assigns a connection to the runtime with the fewest, round-robin among equals. The runtime
    /// counts it until the result is dropped.
    pub(crate) fn assign(&self) -> AssignedRuntime {
        let start = self.next.fetch_add(1, Ordering::Relaxed);
        let slots =
            (0..self.slots.len()).map(|n| &self.slots[(start.wrapping_add(n)) % self.slots.len()]);
        let fewest = slots.min_by_key(|slot| slot.connections.load(Ordering::Relaxed));
        let slot = fewest.expect("there is at least one runtime").clone();
        slot.connections.fetch_add(1, Ordering::Relaxed);
        AssignedRuntime(slot)
    }
}

/// The runtime of a connection.
#[derive(Debug)]
pub(crate) struct AssignedRuntime(RuntimeSlot);

impl AssignedRuntime {
    pub(crate) fn handle(&self) -> Handle {
        self.0.handle.clone()
    }

    /// The queue through which other threads wake the requests of this runtime.
    pub(crate) fn wake_queue(&self) -> Arc<WakeQueue> {
        Arc::clone(&self.0.wake_queue)
    }

    /// The permit to poll a TLS handshake.
    pub(crate) fn handshakes(&self) -> &Semaphore {
        &self.0.handshakes
    }
}

impl Drop for AssignedRuntime {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use testkit::waiting::{block_on, wait_until};

    use super::*;

    fn thread_name() -> Option<String> {
        thread::current().name().map(ToOwned::to_owned)
    }

    #[test]
    fn threads_are_named_and_a_stop_drops_their_tasks() {
        let runtimes = Runtimes::start(2).unwrap();
        let name = runtimes.block_on(runtimes.background().spawn(async { thread_name() })).unwrap();
        assert_eq!(name.as_deref(), Some("net-0"));

        let second = runtimes.pool().slots[1].handle.clone();
        let name = runtimes.block_on(second.spawn(async { thread_name() })).unwrap();
        assert_eq!(name.as_deref(), Some("net-1"));

        let (sender, receiver) = oneshot::channel::<()>();
        runtimes.background().spawn(async move {
            let _sender = sender;
            std::future::pending::<()>().await;
        });
        runtimes.stop();
        assert!(block_on(receiver).is_err());
    }

    #[test]
    fn at_least_one_thread_is_started() {
        assert_eq!(Runtimes::start(0).unwrap().workers.len(), 1);
        assert!(Runtimes::count_default() >= 1);
    }

    #[test]
    fn a_connection_is_assigned_to_the_runtime_with_the_fewest() {
        let runtimes = Runtimes::start(3).unwrap();
        let pool = runtimes.pool();
        let counts = || -> Vec<usize> {
            pool.slots.iter().map(|slot| slot.connections.load(Ordering::Relaxed)).collect()
        };
        let mut assigned: Vec<AssignedRuntime> = (0..6).map(|_| pool.assign()).collect();
        assert_eq!(counts(), [2, 2, 2]);
        drop(assigned.remove(1));
        assert_eq!(counts(), [2, 1, 2]);
        assigned.push(pool.assign());
        assert_eq!(counts(), [2, 2, 2]);
    }

    #[test]
    fn blocking_work_does_not_queue_on_any_runtime() {
        let runtimes = Runtimes::start(2).unwrap();
        for slot in runtimes.pool().slots.iter() {
            // The jobs end only if all blocking threads run at once.
            let started = Arc::new(AtomicUsize::new(0));
            let run = || {
                let started = Arc::clone(&started);
                slot.handle.spawn_blocking(move || {
                    started.fetch_add(1, Ordering::Relaxed);
                    let all_started = || started.load(Ordering::Relaxed) == BLOCKING_THREADS_MAX;
                    wait_until("all blocking threads run", all_started);
                    thread_name()
                })
            };
            let waiting: Vec<_> = (0..BLOCKING_THREADS_MAX).map(|_| run()).collect();
            for task in waiting {
                let name = runtimes.block_on(task).unwrap();
                assert_eq!(name.as_deref(), Some("net-blocking"));
            }
        }
    }
}
