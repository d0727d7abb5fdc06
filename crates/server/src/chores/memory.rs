//! Gives memory back that the allocator keeps.
//!
//! An entry is allocated by the thread of a connection and freed by the raft loop, thousands at a time, when the log in memory is cut. Glibc's allocator keeps such
//! memory for the thread that took it, which may never want so much again: after a million keys were loaded, two thirds of what a member held were of that kind.
//!
//! ```text
//!   5 s    applied 0 → 82,000       given back
//!   10 s   82,000 → 82,003          next to nothing can have become free
//! ```

use std::time::Duration;

use types::Index;

use super::Chore;
use super::errand::{Errand, Every};
use crate::server::Server;

/// How often at most.
const INTERVAL: Duration = Duration::from_secs(5);
/// How many entries must have been applied since the last time to make it worth while.
const ENTRIES_MIN: u64 = 5_000;
/// How soon the job is looked at again.
const POLL: Duration = Duration::from_millis(100);

/// Gives memory back.
#[derive(Debug)]
pub(super) struct Memory {
    server: Server,
    every: Every,
    /// What was applied when it was done last.
    applied: Index,
    giving: Errand<Option<()>>,
}

impl Memory {
    pub(super) fn new(server: Server) -> Memory {
        let every = Every::after(INTERVAL, server.now());
        Memory { server, every, applied: Index::ZERO, giving: Errand::default() }
    }

    /// Whether something can have become free.
    fn is_worth_while(&mut self) -> bool {
        let applied = self.server.applied();
        let is_worth_while = applied.0.saturating_sub(self.applied.0) >= ENTRIES_MIN;
        if is_worth_while {
            self.applied = applied;
        }
        is_worth_while
    }
}

impl Chore for Memory {
    fn turn(&mut self, now: Duration) -> Duration {
        if !self.giving.is_under_way() && self.every.is_due(now) && self.is_worth_while() {
            self.giving.begin_aside(&self.server, |_| env::release_free_memory());
        }
        self.giving.poll();
        if self.giving.is_under_way() { now + POLL } else { self.every.next() }
    }
}
