//! Returns free memory that the allocator retains to the operating system.
//!
//! The thread of a connection allocates an entry, and the raft loop frees thousands of them at once
//! when it truncates the log in memory; ten thousand connections come and go. Glibc's allocator
//! keeps freed memory in the arena of the allocating thread, which may never need as much again:
//! after a load of a million keys, two thirds of a member's memory were of that kind. So this task
//! checks periodically how much free memory the allocator retains:
//!
//! ```text
//!   5 s    3 MB free                             little
//!   10 s   96 MB free, 93 MB above the minimum   released; the allocator still counts it as free
//!   15 s   97 MB free, 1 MB more                 too little to release again
//! ```
//!
//! Large allocations bypass this: the allocator returns them when they are freed
//! ([`env::limit_retained_memory`]).

use std::time::Duration;

use super::BackgroundTask;
use super::pending_task::{Interval, PendingTask};
use crate::server::Server;

/// The interval between checks.
const INTERVAL: Duration = Duration::from_secs(5);
/// The bytes that must have become free since the last release to justify another.
const FREED_BYTES_MIN: i32 = 8 << 20;
/// The interval at which the pending job is polled.
const POLL: Duration = Duration::from_millis(100);

/// Releases retained memory periodically.
#[derive(Debug)]
pub(super) struct Memory {
    server: Server,
    every: Interval,
    /// Free bytes that the allocator reported after the last release, or the minimum since then.
    retained: u32,
    releasing: PendingTask<()>,
}

impl Memory {
    pub(super) fn new(server: Server) -> Memory {
        env::limit_retained_memory();
        let every = Interval::after(INTERVAL, server.now());
        Memory {
            server,
            every,
            retained: env::free_memory_bytes().unwrap_or_default(),
            releasing: PendingTask::default(),
        }
    }

    /// Returns whether enough memory has become free for a release.
    fn should_release(&mut self) -> bool {
        env::free_memory_bytes().is_some_and(|now| grown(&mut self.retained, now))
    }
}

/// Returns whether the free memory has grown enough, and updates the reference value.
fn grown(retained: &mut u32, now: u32) -> bool {
    // Both counts wrap at 4 GB, so only their difference is meaningful.
    let more = now.wrapping_sub(*retained).cast_signed();
    let is_much = more >= FREED_BYTES_MIN;
    if is_much || more < 0 {
        *retained = now;
    }
    is_much
}

impl BackgroundTask for Memory {
    fn turn(&mut self, now: Duration) -> Duration {
        if !self.releasing.is_pending() && self.every.is_due(now) && self.should_release() {
            self.releasing.begin_blocking(&self.server, |_| env::release_free_memory());
        }
        self.releasing.poll();
        if self.releasing.is_pending() { now + POLL } else { self.every.next() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_memory_is_released_once() {
        let (mut retained, megabyte) = (3 << 20, 1 << 20);
        assert!(!grown(&mut retained, 10 * megabyte));
        assert!(grown(&mut retained, 11 * megabyte));
        assert!(!grown(&mut retained, 11 * megabyte), "still counted as free, already released");
        assert!(!grown(&mut retained, 2 * megabyte), "allocated again");
        assert!(grown(&mut retained, 10 * megabyte));
    }

    #[test]
    fn the_byte_count_may_wrap() {
        let mut retained = u32::MAX - 100;
        assert!(!grown(&mut retained, 100));
        assert!(grown(&mut retained, 8 << 20));
    }
}
