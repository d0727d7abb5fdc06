//! What is published while a turn reads history.
//!
//! The turn reads up to the revision that was current when it began, without the hub's lock; by the time it is done there may be more. That
//! is kept here, so that the watchers it read for go on with it and are synced, however fast writes come.
//!
//! ```text
//!   turn begins at 70, reads history 5..=70     published meanwhile: 71 72 73  → the tail     then synced, at 73
//! ```
//!
//! If more comes than may be kept, the tail ends there, and the watchers read history again from that point.

use std::sync::Arc;

use super::limits::Limits;
use super::outbox::event_bytes;
use crate::event::Event;

/// The transactions since a turn began.
pub(super) struct Tail {
    /// The last revision that is kept, or the one before the first.
    pub(super) end: i64,
    pub(super) transactions: Vec<Arc<Vec<Event>>>,
    events: usize,
    bytes: usize,
    full: bool,
}

impl Tail {
    /// Nothing yet, after a revision.
    pub(super) fn after(revision: i64) -> Tail {
        Tail { end: revision, transactions: Vec::new(), events: 0, bytes: 0, full: false }
    }

    /// Keeps a transaction, if there is room for it and was for all before.
    pub(super) fn add(&mut self, revision: i64, events: &Arc<Vec<Event>>, limits: &Limits) {
        self.events += events.len();
        self.bytes += events.iter().map(event_bytes).sum::<usize>();
        self.full |= self.events > limits.tail_events || self.bytes > limits.tail_bytes;
        if !self.full {
            self.end = revision;
            self.transactions.push(Arc::clone(events));
        }
    }
}
