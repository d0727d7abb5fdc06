//! A queue of leases by deadline.
//!
//! A min-heap with lazy deletion: an entry is valid only if its lease still names the time of the
//! entry. So a renewal does not touch the queue. The entry of the old deadline comes up, finds a
//! later deadline, and is moved there.
//!
//! ```text
//!   queue   (10 s, 7) (12 s, 9) (60 s, 8)   7: queued 10 s, deadline 31 s   renewed: moved to 31 s
//!                                           9: queued 20 s                  stale: dropped
//!                                           8: no such lease                revoked: dropped
//! ```
//!
//! Stale entries of revoked leases with a long TTL would fill the queue. So a caller that adds
//! entries checks [`DeadlineQueue::is_mostly_stale`], and drops them with
//! [`DeadlineQueue::retain`].

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use types::LeaseId;

use crate::monotonic_time::MonotonicTime;

/// Fewer stale entries than this are left alone.
const STALE_ENTRIES_MIN: usize = 64;

pub(crate) type DeadlineEntry = (MonotonicTime, LeaseId);

/// Leases by time.
#[derive(Debug, Default)]
pub(crate) struct DeadlineQueue {
    heap: BinaryHeap<Reverse<DeadlineEntry>>,
}

impl DeadlineQueue {
    /// Builds a queue at once, which is faster than adding entries one by one.
    pub(crate) fn from_entries(entries: impl Iterator<Item = DeadlineEntry>) -> DeadlineQueue {
        DeadlineQueue { heap: BinaryHeap::from(entries.map(Reverse).collect::<Vec<_>>()) }
    }

    pub(crate) fn push(&mut self, at: MonotonicTime, id: LeaseId) {
        self.heap.push(Reverse((at, id)));
    }

    /// Iterates over all entries, unordered.
    pub(crate) fn entries(&self) -> impl Iterator<Item = DeadlineEntry> {
        self.heap.iter().map(|Reverse(entry)| *entry)
    }

    /// Returns the time of the first entry, valid or stale.
    pub(crate) fn first(&self) -> Option<MonotonicTime> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Returns the first entry, if it is due.
    pub(crate) fn due(&mut self, now: MonotonicTime) -> Option<DueEntry<'_>> {
        let first = self.heap.peek_mut()?;
        (first.0.0 <= now).then_some(DueEntry { first })
    }

    /// Returns whether most entries are stale, given at most one valid entry for each of `leases`.
    pub(crate) fn is_mostly_stale(&self, leases: usize) -> bool {
        self.heap.len() > STALE_ENTRIES_MIN + 2 * leases
    }

    /// Drops the stale entries and their memory.
    pub(crate) fn retain(&mut self, counts: impl Fn(DeadlineEntry) -> bool) {
        self.heap.retain(|Reverse(entry)| counts(*entry));
        self.heap.shrink_to_fit();
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }
}

/// An entry that is due.
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

    /// Moves the entry to a later time.
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
    fn entries_are_ordered_by_time_and_id() {
        let entries = [(at(9), LeaseId(1)), (at(3), LeaseId(5)), (at(3), LeaseId(2))];
        let mut queue = DeadlineQueue::from_entries(entries.into_iter());
        assert_eq!(queue.first(), Some(at(3)));
        assert!(queue.due(at(2)).is_none());

        queue.due(at(3)).unwrap().postpone(at(10));
        let due = queue.due(at(3)).unwrap();
        assert_eq!(due.entry(), (at(3), LeaseId(5)));
        due.drop_entry();
        assert_eq!(queue.due(at(20)).unwrap().entry(), (at(9), LeaseId(1)));
        assert_eq!(queue.len(), 2, "a peeked entry stays");
    }

    #[test]
    fn retain_drops_stale_entries() {
        let mut queue = DeadlineQueue::default();
        (0..100).for_each(|n| queue.push(at(n), LeaseId(1)));
        assert!(queue.is_mostly_stale(1));
        queue.retain(|(time, _)| time == at(50));
        assert!(!queue.is_mostly_stale(1));
        assert_eq!((queue.len(), queue.first()), (1, Some(at(50))));
    }
}
