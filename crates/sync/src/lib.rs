//! Synchronization primitives that threads and the simulator share.
//!
//! A member runs its stages as threads in production and turn by turn in a simulation. Both use the
//! primitives of this crate, so that the simulator executes the same code:
//!
//! | primitive | carries | a thread calls | the simulator calls |
//! | --- | --- | --- | --- |
//! | [`oneshot`] | one value to one waiter | `.await` | `.await`, or polls |
//! | [`Notify`] | a wake-up without a value | [`Notify::wait`] | nothing: it calls the stage |
//! | [`Queue`] | items to one consumer | [`Queue::wait`], then [`Queue::take`] | [`Queue::take`] |
//! | [`WorkerPool`] | jobs to a few threads | [`WorkerPool::work`] | [`WorkerPool::turn`] |
//! | [`Timers`] | wake-ups and callbacks at a deadline | [`Timers::run`] | [`Timers::turn`] |
//!
//! No primitive knows an async runtime: a future of this crate is woken by whichever thread
//! completes it. No primitive reads a clock: time is a [`Duration`](std::time::Duration) on the
//! caller's monotonic clock. In a simulation the order of all effects depends only on the order of
//! calls, so one seed yields one run.

mod notify;
pub mod oneshot;
mod pool;
mod queue;
mod timers;

pub use notify::Notify;
pub use pool::WorkerPool;
pub use queue::{Queue, WakeOn};
pub use timers::Timers;
