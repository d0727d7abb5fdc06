//! The common parts of the simulators, in which one seed determines a whole run.
//!
//! ```text
//!   raft/tests/simulation   clusters of the consensus core ─┐
//!   server/tests/stages     one member, stage by stage     ─┼─► simkit ─► env: SeededRandom
//!   sim                     clusters of whole members      ─┘
//! ```
//!
//! - [`RandomExt`] and [`scrambled`] draw choices.
//! - [`EventQueue`] orders events by time.
//! - [`NetworkConditions`] decides whether and when a message arrives, [`Links`] which members are
//!   connected.
//! - [`Digest`] compares two runs, [`Trace`] keeps the last events of one.
//! - [`Seeds`] runs many seeds on all cores and prints the command that repeats a failed one;
//!   [`counters!`] declares the counters.
//! - [`poll_once`] polls a future of a simulated member.
//!
//! Each simulator has its own members, faults and invariants. This crate knows nothing of Raft or
//! etcd.

mod counters;
mod digest;
mod event_queue;
mod network;
mod panics;
mod random;
mod seeds;
mod trace;

pub use counters::Counters;
pub use digest::Digest;
pub use event_queue::EventQueue;
pub use network::{LateMessages, Links, NetworkConditions};
pub use panics::catch_panic;
pub use random::{RandomExt, scrambled};
pub use seeds::{Outcome, Results, SeedFailure, Seeds, number_from_env};
pub use trace::Trace;

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Polls a future once, without registering a wake-up. Returns its value if it is ready.
pub fn poll_once<F: Future + Unpin + ?Sized>(future: &mut F) -> Option<F::Output> {
    match Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}
