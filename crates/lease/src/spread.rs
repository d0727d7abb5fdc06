//! Spreads deadlines after a promotion.
//!
//! A promotion sets all deadlines at the same time, so leases with the same TTL would expire
//! together. But a turn reports at most [`EXPIRED_PER_TURN_MAX`]. So deadlines are delayed until at
//! most three quarters of that bound, 375, are in any 500 ms. The rest is left for other leases
//! that expire.
//!
//! ```text
//!   at most 2 in 500 ms:   10.0 10.0 10.0 10.0 10.2 30.0  →  10.0 10.0 10.5 10.5 11.0 30.0
//! ```
//!
//! Compat: etcd spreads to about 750 per second too. Its windows follow the gaps between deadlines
//! and let more through where leases are evenly spaced; here the bound always holds.

use std::time::Duration;

use crate::deadline_queue::DeadlineEntry;
use crate::monotonic_time::MonotonicTime;
use crate::primary::{EXPIRED_PER_TURN_MAX, TURN_INTERVAL};

/// With fewer leases no spreading is needed: two turns report all of them.
pub const SPREAD_LEASES_MIN: usize = 2 * EXPIRED_PER_TURN_MAX;

/// The maximum number of deadlines in any [`TURN_INTERVAL`].
const PER_INTERVAL: usize = EXPIRED_PER_TURN_MAX * 3 / 4;

/// Delays sorted deadlines. Returns the changed ones with their new times.
pub(crate) fn spread(
    sorted: &[DeadlineEntry],
) -> impl Iterator<Item = (DeadlineEntry, MonotonicTime)> {
    let moved = if sorted.len() < SPREAD_LEASES_MIN {
        Vec::new()
    } else {
        move_apart(sorted, PER_INTERVAL, TURN_INTERVAL)
    };
    sorted.iter().copied().zip(moved).filter(|((from, _), to)| to > from)
}

/// Returns the new deadlines: each is unchanged, or one interval after the `per_interval`th before
/// it.
fn move_apart(
    sorted: &[DeadlineEntry],
    per_interval: usize,
    interval: Duration,
) -> Vec<MonotonicTime> {
    let mut moved: Vec<MonotonicTime> = Vec::with_capacity(sorted.len());
    for (n, (deadline, _)) in sorted.iter().enumerate() {
        let before = n.checked_sub(per_interval).map(|n| moved[n].after(interval));
        moved.push(before.map_or(*deadline, |earliest| earliest.max(*deadline)));
    }
    moved
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use types::LeaseId;

    use super::*;

    fn at(ms: u64) -> MonotonicTime {
        MonotonicTime::from_clock(Duration::from_millis(ms))
    }

    fn entries(deadlines: &[u64]) -> Vec<DeadlineEntry> {
        deadlines.iter().map(|ms| (at(*ms), LeaseId(1))).collect()
    }

    #[test]
    fn deadlines_are_spread_as_drawn() {
        let drawn = entries(&[10_000, 10_000, 10_000, 10_000, 10_200, 30_000]);
        let moved = move_apart(&drawn, 2, TURN_INTERVAL);
        assert_eq!(moved, [10_000, 10_000, 10_500, 10_500, 11_000, 30_000].map(at));
    }

    #[test]
    fn few_deadlines_are_not_spread() {
        let few = entries(&[5; SPREAD_LEASES_MIN - 1]);
        assert_eq!(spread(&few).count(), 0);
        let enough = entries(&[5; SPREAD_LEASES_MIN]);
        assert_eq!(spread(&enough).count(), SPREAD_LEASES_MIN - PER_INTERVAL);
    }

    proptest! {
        #[test]
        fn spread_deadlines_are_later_ordered_and_bounded(
            mut deadlines in prop::collection::vec(0_u64..5_000, 0..300),
            per_interval in 1_usize..20,
        ) {
            deadlines.sort_unstable();
            let before = entries(&deadlines);
            let after = move_apart(&before, per_interval, TURN_INTERVAL);
            prop_assert!(after.is_sorted());
            prop_assert!(before.iter().zip(&after).all(|((from, _), to)| from <= to));
            for window in after.windows(per_interval + 1) {
                prop_assert!(window[per_interval] >= window[0].after(TURN_INTERVAL));
            }
        }
    }
}
