//! Linearizable reads: request a read index from the leader, wait until the local member has
//! applied it, then read the state machine.
//!
//! ```text
//!   Server::linearizable ─► read_index: one request for many reads ─► raft ─► index 120
//!                           applied_index: wait until entry 120 is applied ─► read
//! ```

pub(crate) mod applied_index;
pub(crate) mod read_index;
