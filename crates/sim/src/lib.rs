//! A whole cluster in one thread: members with all their stages, each on a simulated disk and with a clock of its own, and a network between them that is as bad
//! as a seed wants it.
//!
//! ```text
//!            ┌ a ───────────────────────────┐      ┌ b ─────────…
//!   clients ─┼► raft ► log ► apply ► watch …│══════│ raft ► log ► apply …
//!            │  SimDisk      SimClock       │  ▲   │  SimDisk    SimClock
//!            └──────────────────────────────┘  │   └────────────…
//!                                        Network: late, lost, twice, out of order, cut one way or both
//! ```
//!
//! A [`Cluster`] does as it is told; a [`Story`] is what one goes through by itself. Whose turn it is, when time passes and by how much, when a message
//! arrives, when the power goes, what clients ask for and who is a member: all of it follows from the seed, and the same seed gives the same run to the byte.
//!
//! ```
//! let told = sim::Story { steps: 300, ..sim::Story::new(1) }.tell().unwrap_or_else(|failure| panic!("{failure}"));
//! assert!(told.counts.revisions > 1);
//! ```
//!
//! What is left to others: what clients saw is judged by `history`.

mod cluster;
mod network;
mod site;

mod client;
mod journal;
mod operator;
mod story;
mod trouble;

mod digest;
mod judge;

pub use cluster::{Cluster, Settings};
pub use digest::Digest;
pub use journal::Journal;
pub use network::{Link, Network, Weather};
pub use site::{Site, SiteClock};
pub use story::{Counts, Failure, Story, Told};
pub use trouble::Mishap;

pub use server::planted_bug::PlantedBug;

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Looks at a future without being woken by it.
pub fn poll<T>(future: &mut Pin<Box<dyn Future<Output = T> + '_>>) -> Option<T> {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}
