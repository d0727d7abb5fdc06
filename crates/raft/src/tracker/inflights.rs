//! The window of appends sent and not yet acknowledged.

use std::collections::VecDeque;

use types::Index;

/// One append in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Inflight {
    /// The last entry in it.
    index: Index,
    /// Its payload.
    bytes: u64,
}

/// Appends in flight to one member, oldest first, limited by number and by bytes.
///
/// The byte limit is soft: the append that crosses it is still let through, so that one entry larger
/// than the limit is not stuck for ever.
#[derive(Clone, Debug)]
pub struct Inflights {
    window: VecDeque<Inflight>,
    bytes: u64,
    max_messages: usize,
    max_bytes: u64,
}

impl Inflights {
    /// An empty window. `max_bytes` of zero sets no limit on bytes.
    #[must_use]
    pub fn new(max_messages: usize, max_bytes: u64) -> Inflights {
        // Grown on demand: most members never fill the window.
        Inflights { window: VecDeque::new(), bytes: 0, max_messages, max_bytes }
    }

    /// The number of appends in flight.
    #[must_use]
    pub fn count(&self) -> usize {
        self.window.len()
    }

    /// Whether nothing more may be sent for now.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.window.len() >= self.max_messages
            || (self.max_bytes != 0 && self.bytes >= self.max_bytes)
    }

    /// Notes that an append was sent, whose last entry is `index`.
    ///
    /// # Panics
    ///
    /// If the window is full: the sender must look before it sends.
    pub fn add(&mut self, index: Index, bytes: u64) {
        assert!(!self.is_full(), "an append was sent although the window is full");
        self.window.push_back(Inflight { index, bytes });
        self.bytes += bytes;
    }

    /// Frees every append up to and including the one that ends at `index`.
    pub fn free_le(&mut self, index: Index) {
        while let Some(oldest) = self.window.front().copied() {
            if oldest.index > index {
                break;
            }
            self.window.pop_front();
            self.bytes -= oldest.bytes;
        }
    }

    /// Frees everything.
    pub fn reset(&mut self) {
        self.window.clear();
        self.bytes = 0;
    }
}
