//! Bounds on what clients can make a member hold: connections, pending connections, unsent bytes
//! and file descriptors.

mod connection_permits;
mod counted_stream;
mod descriptors;
mod evicting_limit;
mod send_budget;

pub(crate) use connection_permits::{ConnectionPermit, ConnectionPermits};
pub(crate) use counted_stream::CountedStream;
pub use descriptors::{
    DescriptorError, RESERVED_DESCRIPTORS, connections_max, raise_descriptor_limit,
};
pub use evicting_limit::{Evicted, EvictingLimit, Permit};
pub use send_budget::{
    COUNTED_BYTES_MIN, SendBudget, UNSENT_BYTES_MAX, UNSENT_GRACE, UNSENT_PROGRESS_BYTES,
    UNSENT_TOTAL_BYTES_MAX,
};
