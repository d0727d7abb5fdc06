//! Gives memory back that the allocator keeps.
//!
//! An entry is allocated by the thread of a connection and freed by the raft loop, thousands at a time, when the log in memory is cut; ten thousand connections come
//! and go. Glibc's allocator keeps such memory for the thread that took it, which may never want so much again: after a million keys were loaded, two thirds of what a
//! member held were of that kind. So it is asked now and then what it has in hand:
//!
//! ```text
//!   5 s    in hand 3 MB                              little
//!   10 s   in hand 96 MB, 93 more than the least     given back; the allocator goes on to count it as its own
//!   15 s   in hand 97 MB, 1 more                     nothing to speak of has become free since
//! ```
//!
//! What is large is not left to that, and given back when it is freed ([`env::limit_retained_memory`]).

use std::time::Duration;

use super::BackgroundTask;
use super::pending_task::{Interval, PendingTask};
use crate::server::Server;

/// How often at most.
const INTERVAL: Duration = Duration::from_secs(5);
/// How many bytes must have become free since the last time to make it worth while.
const FREED_BYTES_MIN: i32 = 8 << 20;
/// How soon the job is looked at again.
const POLL: Duration = Duration::from_millis(100);

/// Gives memory back.
#[derive(Debug)]
pub(super) struct Memory {
    server: Server,
    every: Interval,
    /// What the allocator had in hand when it was done last, or the least since.
    in_hand: u32,
    giving: PendingTask<()>,
}

impl Memory {
    pub(super) fn new(server: Server) -> Memory {
        env::limit_retained_memory();
        let every = Interval::after(INTERVAL, server.now());
        Memory {
            server,
            every,
            in_hand: env::free_memory_bytes().unwrap_or_default(),
            giving: PendingTask::default(),
        }
    }

    /// Whether much has become free.
    fn is_worth_while(&mut self) -> bool {
        env::free_memory_bytes().is_some_and(|now| grown(&mut self.in_hand, now))
    }
}

/// Whether there is much more in hand than there was.
fn grown(in_hand: &mut u32, now: u32) -> bool {
    // Both wrap, so only the difference counts.
    let more = now.wrapping_sub(*in_hand).cast_signed();
    let is_much = more >= FREED_BYTES_MIN;
    if is_much || more < 0 {
        *in_hand = now;
    }
    is_much
}

impl BackgroundTask for Memory {
    fn turn(&mut self, now: Duration) -> Duration {
        if !self.giving.is_under_way() && self.every.is_due(now) && self.is_worth_while() {
            self.giving.begin_blocking(&self.server, |_| env::release_free_memory());
        }
        self.giving.poll();
        if self.giving.is_under_way() { now + POLL } else { self.every.next() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_once_for_what_became_free() {
        let (mut in_hand, megabyte) = (3 << 20, 1 << 20);
        assert!(!grown(&mut in_hand, 10 * megabyte));
        assert!(grown(&mut in_hand, 11 * megabyte));
        assert!(!grown(&mut in_hand, 11 * megabyte), "it is still in hand, and was given back");
        assert!(!grown(&mut in_hand, 2 * megabyte), "taken again");
        assert!(grown(&mut in_hand, 10 * megabyte));
    }

    #[test]
    fn the_count_may_begin_again() {
        let mut in_hand = u32::MAX - 100;
        assert!(!grown(&mut in_hand, 100));
        assert!(grown(&mut in_hand, 8 << 20));
    }
}
