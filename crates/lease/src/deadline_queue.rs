//! When to look at a lease again.
//!
//! A heap, the earliest first. What is no longer true is not taken out but recognised when it comes up: an entry counts only if the lease
//! that it names still names the entry's time. So a renewal need not touch the queue at all: the entry of the old
//! deadline comes up, finds a later one, and is put back there.
//!
//! ```text
//!   queue   (10 s, 7) (12 s, 9) (60 s, 8)         7: queued 10 s, deadline 31 s   renewed: goes back to (31 s, 7)
//!                                                 9: queued 20 s                  the entry is an old one: dropped
//!                                                 8: no such lease                revoked: dropped at 60 s, or sooner
//! ```
//!
//! Sooner, because whoever adds entries asks [`DeadlineQueue::is_mostly_stale`] and drops the old ones with [`DeadlineQueue::retain`]: else leases that are
//! granted for long and revoked at once would fill it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use types::LeaseId;

use crate::monotonic_time::MonotonicTime;

/// Entries that are not worth tidying up.
const STALE_ENTRIES_MIN: usize = 64;

pub(crate) type DeadlineEntry = (MonotonicTime, LeaseId);

/// Leases by time.
#[derive(Debug, Default)]
pub(crate) struct DeadlineQueue {
    heap: BinaryHeap<Reverse<DeadlineEntry>>,
}

impl DeadlineQueue {
    /// Made at once, which is faster than adding one by one.
    pub(crate) fn from_entries(entries: impl Iterator<Item = DeadlineEntry>) -> DeadlineQueue {
        DeadlineQueue { heap: BinaryHeap::from(entries.map(Reverse).collect::<Vec<_>>()) }
    }

    pub(crate) fn push(&mut self, at: MonotonicTime, id: LeaseId) {
        self.heap.push(Reverse((at, id)));
    }

    /// All entries, in no order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = DeadlineEntry> {
        self.heap.iter().map(|Reverse(entry)| *entry)
    }

    /// The time of the first entry, whether it still counts or not.
    pub(crate) fn first(&self) -> Option<MonotonicTime> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// The first entry, if its time has come.
    pub(crate) fn due(&mut self, now: MonotonicTime) -> Option<DueEntry<'_>> {
        let first = self.heap.peek_mut()?;
        (first.0.0 <= now).then_some(DueEntry { first })
    }

    /// Whether most entries must be old ones, if there is at most one that counts for each of `leases`.
    pub(crate) fn is_mostly_stale(&self, leases: usize) -> bool {
        self.heap.len() > STALE_ENTRIES_MIN + 2 * leases
    }

    /// Drops the entries that do not count, and the room they took.
    pub(crate) fn retain(&mut self, counts: impl Fn(DeadlineEntry) -> bool) {
        self.heap.retain(|Reverse(entry)| counts(*entry));
        self.heap.shrink_to_fit();
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }
}

/// An entry whose time has come.
pub(crate) struct DueEntry<'a> {
    first: PeekMut<'a, Reverse<DeadlineEntry>>,
}

impl DueEntry<'_> {
    pub(crate) fn entry(&self) -> DeadlineEntry {
        self.first.0
    }

    pub(crate) fn drop_entry(self) {
        PeekMut::pop(self.first);
    }

    /// Puts it back, for another time.
    pub(crate) fn postpone(mut self, at: MonotonicTime) {
        self.first.0.0 = at;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> MonotonicTime {
        MonotonicTime::from_clock(Duration::from_secs(seconds))
    }

    #[test]
    fn comes_in_order_of_time_and_id() {
        let entries = [(at(9), LeaseId(1)), (at(3), LeaseId(5)), (at(3), LeaseId(2))];
        let mut queue = DeadlineQueue::from_entries(entries.into_iter());
        assert_eq!(queue.first(), Some(at(3)));
        assert!(queue.due(at(2)).is_none());

        queue.due(at(3)).unwrap().postpone(at(10));
        let due = queue.due(at(3)).unwrap();
        assert_eq!(due.entry(), (at(3), LeaseId(5)));
        due.drop_entry();
        assert_eq!(queue.due(at(20)).unwrap().entry(), (at(9), LeaseId(1)));
        assert_eq!(queue.len(), 2, "what is only looked at stays");
    }

    #[test]
    fn a_crowd_of_old_entries_is_dropped() {
        let mut queue = DeadlineQueue::default();
        (0..100).for_each(|n| queue.push(at(n), LeaseId(1)));
        assert!(queue.is_mostly_stale(1));
        queue.retain(|(time, _)| time == at(50));
        assert!(!queue.is_mostly_stale(1));
        assert_eq!((queue.len(), queue.first()), (1, Some(at(50))));
    }
}
