//! The window of appends in flight.

use std::collections::VecDeque;

use types::Index;

/// An append in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Inflight {
    /// The index of its last entry.
    index: Index,
    /// The payload bytes.
    bytes: u64,
}

/// The appends in flight to one member, oldest first, limited by number and by bytes.
///
/// The byte limit is soft: the append that crosses it is still sent, so that an entry larger than
/// the limit is not stuck forever.
#[derive(Clone, Debug)]
pub struct Inflights {
    window: VecDeque<Inflight>,
    bytes: u64,
    max_messages: usize,
    max_bytes: u64,
}

impl Inflights {
    /// Creates an empty window. A `max_bytes` of zero means no byte limit.
    #[must_use]
    pub fn new(max_messages: usize, max_bytes: u64) -> Inflights {
        // Grows on demand: most members never fill their window.
        Inflights { window: VecDeque::new(), bytes: 0, max_messages, max_bytes }
    }

    /// Returns the number of appends in flight.
    #[must_use]
    pub fn count(&self) -> usize {
        self.window.len()
    }

    /// Reports whether the window is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.window.len() >= self.max_messages
            || (self.max_bytes != 0 && self.bytes >= self.max_bytes)
    }

    /// Records an append whose last entry is `index`.
    ///
    /// # Panics
    ///
    /// Panics if the window is full; the caller checks before it sends.
    pub fn add(&mut self, index: Index, bytes: u64) {
        assert!(!self.is_full(), "append sent with a full window");
        self.window.push_back(Inflight { index, bytes });
        self.bytes += bytes;
    }

    /// Frees all appends up to and including the one that ends at `index`.
    pub fn free_le(&mut self, index: Index) {
        while let Some(oldest) = self.window.front().copied() {
            if oldest.index > index {
                break;
            }
            self.window.pop_front();
            self.bytes -= oldest.bytes;
        }
    }

    /// Frees all appends.
    pub fn reset(&mut self) {
        self.window.clear();
        self.bytes = 0;
    }
}
