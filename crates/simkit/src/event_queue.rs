//! Events in the order of their time.

use std::collections::BTreeMap;

/// Future events. Events of the same time happen in the order in which they were scheduled, so that
/// a seed determines the order of all of them.
///
/// The unit of time is that of the simulation.
#[derive(Clone, Debug)]
pub struct EventQueue<E> {
    /// By time, then by number.
    events: BTreeMap<(u64, u64), E>,
    /// The number of events scheduled so far.
    scheduled: u64,
}

impl<E> Default for EventQueue<E> {
    fn default() -> EventQueue<E> {
        EventQueue { events: BTreeMap::new(), scheduled: 0 }
    }
}

impl<E> EventQueue<E> {
    /// Adds an event.
    pub fn schedule(&mut self, at: u64, event: E) {
        self.scheduled += 1;
        self.events.insert((at, self.scheduled), event);
    }

    /// Takes the next event, with its time.
    pub fn pop(&mut self) -> Option<(u64, E)> {
        let ((at, _), event) = self.events.pop_first()?;
        Some((at, event))
    }

    /// Takes all events up to a time, that time included.
    pub fn take_due(&mut self, now: u64) -> impl Iterator<Item = E> + use<E> {
        let later = self.events.split_off(&(now.saturating_add(1), 0));
        std::mem::replace(&mut self.events, later).into_values()
    }

    /// The number of future events.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Returns whether there are no future events.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Drops all events.
    pub fn clear(&mut self) {
        self.events.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_in_the_order_of_their_scheduling() {
        let mut queue = EventQueue::default();
        for (at, event) in [(5, 'c'), (3, 'a'), (5, 'd'), (4, 'b'), (9, 'e')] {
            queue.schedule(at, event);
        }
        assert_eq!(queue.pop(), Some((3, 'a')));
        assert_eq!(queue.take_due(5).collect::<Vec<_>>(), ['b', 'c', 'd']);
        assert_eq!(queue.take_due(8).next(), None);
        assert_eq!(queue.len(), 1);
        queue.clear();
        assert!(queue.is_empty() && queue.pop().is_none());
    }
}
