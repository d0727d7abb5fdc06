//! Sampling: of equal messages, the first 100 per second are written, then every 100th.
//!
//! ```text
//!   warn "lost the TCP streaming connection", 350 times in a second   →   1 … 100, 200, 300
//! ```
//!
//! As in zap, a level and a hash of the message select one of [`SLOTS_PER_LEVEL`] counters, so
//! messages that collide share a counter. A counter is reset one second after its first line.
//! Memory is fixed, and there is no lock.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use super::Level;

/// The number of equal lines that pass per second.
pub(super) const FIRST: u64 = 100;
/// After [`FIRST`], one of this many passes.
pub(super) const THEREAFTER: u64 = 100;
/// The interval of a counter, in nanoseconds.
const TICK_NANOS: i64 = 1_000_000_000;
/// The number of counters per level.
const SLOTS_PER_LEVEL: usize = 4096;

/// Counts messages and decides which are written.
#[derive(Debug)]
pub(super) struct Sampler {
    slots: Box<[Slot]>,
}

#[derive(Debug, Default)]
struct Slot {
    resets_at: AtomicI64,
    seen: AtomicU64,
}

impl Sampler {
    /// Creates a sampler with all counters at zero.
    pub(super) fn new() -> Self {
        let slots = Level::ALL.len() * SLOTS_PER_LEVEL;
        Self { slots: std::iter::repeat_with(Slot::default).take(slots).collect() }
    }

    /// Counts a line at `now`, in nanoseconds. Returns whether it passes.
    pub(super) fn passes(&self, level: Level, message: &str, now: i64) -> bool {
        let nth = self.slot(level, message).count(now);
        nth <= FIRST || (nth - FIRST).is_multiple_of(THEREAFTER)
    }

    fn slot(&self, level: Level, message: &str) -> &Slot {
        let within = fnv32a(message.as_bytes()) as usize % SLOTS_PER_LEVEL;
        &self.slots[level as usize * SLOTS_PER_LEVEL + within]
    }
}

impl Slot {
    /// Returns the number of this line in its interval, from one.
    fn count(&self, now: i64) -> u64 {
        let resets_at = self.resets_at.load(Ordering::Relaxed);
        if resets_at > now {
            return self.seen.fetch_add(1, Ordering::Relaxed) + 1;
        }
        self.seen.store(1, Ordering::Relaxed);
        let next = now.saturating_add(TICK_NANOS);
        // A thread that loses this race counts its line in the interval that the winner started.
        match self.resets_at.compare_exchange(resets_at, next, Ordering::Relaxed, Ordering::Relaxed)
        {
            Ok(_) => 1,
            Err(_) => self.seen.fetch_add(1, Ordering::Relaxed) + 1,
        }
    }
}

fn fnv32a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000_000_000_000;

    fn passed(sampler: &Sampler, message: &str, times: u64, now: i64) -> Vec<u64> {
        (1..=times).filter(|_| sampler.passes(Level::Warn, message, now)).collect()
    }

    #[test]
    fn the_first_100_pass_and_then_every_100th() {
        let written = passed(&Sampler::new(), "lost", 350, NOW);
        let expected: Vec<u64> = (1..=100).chain([200, 300]).collect();
        assert_eq!(written, expected);
    }

    #[test]
    fn the_counter_is_reset_after_a_second() {
        let sampler = Sampler::new();
        assert_eq!(passed(&sampler, "lost", 150, NOW).len(), 100);
        assert_eq!(passed(&sampler, "lost", 50, NOW + TICK_NANOS - 1).len(), 1);
        assert_eq!(passed(&sampler, "lost", 150, NOW + TICK_NANOS).len(), 100);
    }

    #[test]
    fn messages_and_levels_are_counted_separately() {
        let sampler = Sampler::new();
        assert_eq!(passed(&sampler, "lost", 101, NOW).len(), 100);
        assert!(sampler.passes(Level::Warn, "found", NOW));
        assert!(sampler.passes(Level::Info, "lost", NOW));
        assert!(!sampler.passes(Level::Warn, "lost", NOW));
    }

    #[test]
    fn the_hash_is_fnv() {
        assert_eq!(fnv32a(b""), 0x811c_9dc5);
        assert_eq!(fnv32a(b"foobar"), 0xbf9c_f968);
    }
}
