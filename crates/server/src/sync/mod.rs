//! Synchronization primitives that threads and the simulator share.

pub(crate) mod notify;
pub(crate) mod oneshot;
pub(crate) mod pool;
pub(crate) mod queue;
