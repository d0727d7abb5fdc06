//! Ids of requests: unique over the members of a cluster, and over restarts of a member.
//!
//! ```text
//!   member (16 bits)   start in ms (40 bits)   count (8 bits)
//!   c8 e9              01 93 0a 4c 21          00, 01, … ff, and on into the time, which does not matter: 256 a ms is more than can be
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use types::MemberId;

/// Gives ids, each once.
#[derive(Debug)]
pub(crate) struct Ids {
    prefix: u64,
    suffix: AtomicU64,
}

const COUNT_BITS: u32 = 8;
const SUFFIX_BITS: u32 = 48;

impl Ids {
    /// For a member that starts at this time of day.
    pub(crate) fn new(member: MemberId, start: Duration) -> Ids {
        let time_mask = (1 << (SUFFIX_BITS - COUNT_BITS)) - 1;
        let millis = u64::try_from(start.as_millis() & u128::from(u64::MAX)).unwrap_or(0);
        let suffix = (millis & time_mask) << COUNT_BITS;
        Ids { prefix: member.0 << SUFFIX_BITS, suffix: AtomicU64::new(suffix) }
    }

    /// The next one.
    pub(crate) fn next(&self) -> u64 {
        let suffix = self.suffix.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        self.prefix | (suffix & ((1 << SUFFIX_BITS) - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_made_of_member_time_and_count() {
        let ids = Ids::new(MemberId(0x1234_5678), Duration::from_millis(0xab_0102_0304_0506));
        assert_eq!(ids.next(), 0x5678_0203_0405_0601);
        assert_eq!(ids.next(), 0x5678_0203_0405_0602);
    }

    #[test]
    fn the_count_runs_on_into_the_time() {
        let ids = Ids::new(MemberId(1), Duration::from_millis(1));
        let last = (0..256).map(|_| ids.next()).last();
        assert_eq!(last, Some(0x0001_0000_0000_0200));
    }
}
