//! Request ids: the member, its start time and a count. Collisions are rare but possible (see
//! `propose::typed`).
//!
//! ```text
//!   member (16 bits)   start in ms (40 bits)   count (8 bits)
//!   c8 e9              01 93 0a 4c 21          00, 01, … ff
//! ```
//!
//! A count beyond ff carries into the time. That is harmless: no member makes 256 requests per
//! millisecond for as long as it runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use types::MemberId;

/// A generator of request ids.
#[derive(Debug)]
pub(crate) struct RequestIds {
    prefix: u64,
    suffix: AtomicU64,
}

const COUNT_BITS: u32 = 8;
const SUFFIX_BITS: u32 = 48;

impl RequestIds {
    /// Returns the generator of a member that starts at this time since the Unix epoch.
    pub(crate) fn new(member: MemberId, start: Duration) -> RequestIds {
        let time_mask = (1 << (SUFFIX_BITS - COUNT_BITS)) - 1;
        let millis = u64::try_from(start.as_millis() & u128::from(u64::MAX)).unwrap_or(0);
        let suffix = (millis & time_mask) << COUNT_BITS;
        RequestIds { prefix: member.0 << SUFFIX_BITS, suffix: AtomicU64::new(suffix) }
    }

    /// Returns the next id.
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
        let start = Duration::from_millis(0xab_0102_0304_0506);
        let ids = RequestIds::new(MemberId(0x1234_5678), start);
        assert_eq!(ids.next(), 0x5678_0203_0405_0601);
        assert_eq!(ids.next(), 0x5678_0203_0405_0602);
    }

    #[test]
    fn the_count_carries_into_the_time() {
        let ids = RequestIds::new(MemberId(1), Duration::from_millis(1));
        let last = (0..256).map(|_| ids.next()).last();
        assert_eq!(last, Some(0x0001_0000_0000_0200));
    }
}
