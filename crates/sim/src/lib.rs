//! A whole cluster in one thread, from a seed: members with all their stages, each on a simulated
//! disk and clock, connected by an unreliable network.
//!
//! ```text
//!            ┌ a ───────────────────────────┐      ┌ b ─────────…
//!   clients ─┼► raft ► log ► apply ► watch …│══════│ raft ► log ► apply …
//!            │  SimDisk      SimClock       │  ▲   │  SimDisk    SimClock
//!            └──────────────────────────────┘  │   └────────────…
//!                          Network: delay, loss, duplication, reordering, partition
//! ```
//!
//! A [`Cluster`] is driven step by step by a test. A [`Scenario`] drives one by itself: the order
//! of turns, the passing of time, deliveries, faults, requests and membership changes all follow
//! from its seed, and the same seed gives the same run to the byte.
//!
//! ```
//! let report = sim::Scenario { steps: 300, ..sim::Scenario::new(1) }.run();
//! let report = report.unwrap_or_else(|failure| panic!("{failure}"));
//! assert!(report.counts.revisions > 1);
//! ```
//!
//! The recorded history of the clients is checked by `history`.

mod cluster;
mod network;
mod node;

mod client;
mod faults;
mod journal;
mod operator;
mod scenario;

mod checker;
mod digest;

pub use cluster::{Cluster, Settings};
pub use faults::{Fault, FaultCounts};
pub use journal::Journal;
pub use network::{Link, Network};
pub use node::{Node, NodeClock};
pub use scenario::{Counts, Failure, Report, Scenario};

pub use server::planted_bug::PlantedBug;
pub use simkit::{NetworkConditions, poll_once};
