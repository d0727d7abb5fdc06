//! What other members say and the raft loop has not heard yet is bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Messages of other members that may wait for the raft loop.
pub const RECEIVED_MAX: usize = 4096;
/// What all of these may hold.
pub const RECEIVED_BYTES_MAX: usize = 256 << 20;

/// How much waits.
#[derive(Debug, Default)]
pub(crate) struct Received {
    messages: AtomicUsize,
    bytes: AtomicUsize,
}

/// A place among those that wait, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    received: Arc<Received>,
    bytes: usize,
}

impl Received {
    /// A place for a message; none if there is no room. A single one may be larger than all that may wait.
    pub(crate) fn take_place(self: &Arc<Self>, message: &raft::Message) -> Option<Place> {
        let bytes = weight(message);
        let others = self.messages.fetch_add(1, Ordering::Relaxed);
        let held = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let place = Place { received: Arc::clone(self), bytes };
        let fits = others < RECEIVED_MAX
            && (held == 0 || held.saturating_add(bytes) <= RECEIVED_BYTES_MAX);
        fits.then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.received.messages.fetch_sub(1, Ordering::Relaxed);
        self.received.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn weight(message: &raft::Message) -> usize {
    let entries = message.entries.iter().map(|entry| size_of_val(entry) + entry.data.len());
    let snapshot = message.snapshot.as_ref().map_or(0, |snapshot| snapshot.data.len());
    size_of_val(message) + entries.sum::<usize>() + snapshot + message.context.len()
}

#[cfg(test)]
mod tests {
    use raft::{Entry, Message};

    use super::*;

    #[test]
    fn messages_are_bounded_and_so_are_their_bytes() {
        let received = Arc::new(Received::default());
        let mut places: Vec<_> = (0..RECEIVED_MAX)
            .map(|_| received.take_place(&Message::default()).expect("there is room"))
            .collect();
        assert!(received.take_place(&Message::default()).is_none());
        places.pop();
        places.push(received.take_place(&Message::default()).expect("there is room again"));
        drop(places);

        let data = vec![0; RECEIVED_BYTES_MAX / 2].into();
        let large =
            Message { entries: vec![Entry { data, ..Entry::default() }], ..Message::default() };
        let first = received.take_place(&large).expect("there is room");
        assert!(received.take_place(&large).is_none(), "not for two of these");
        drop(first);
        assert!(received.take_place(&large).is_some());
    }
}
