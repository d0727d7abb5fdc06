//! Bounds on what clients can make a member hold: connections, pending connections, unsent bytes
//! and file descriptors.

mod connection_permits;
mod descriptors;
mod evicting_limit;
mod send_budget;

pub(crate) use connection_permits::{ConnectionPermit, ConnectionPermits};
pub use descriptors::{
    DescriptorError, RESERVED_DESCRIPTORS, connections_max, raise_descriptor_limit,
};
pub use evicting_limit::{Evicted, EvictingLimit, Permit};
pub(crate) use send_budget::unsent_limit;
pub use send_budget::{
    COUNTED_BYTES_MIN, SendBudget, UNSENT_BYTES_MAX, UNSENT_GRACE, UNSENT_TOTAL_BYTES_MAX,
};
