//! The tail: transactions that are published while a turn reads history.
//!
//! A turn reads up to the revision at which it began, without the lock of the hub. Transactions
//! published meanwhile are kept here, so that the watchers of the turn are synced at its end,
//! however fast writes are.
//!
//! ```text
//!   turn begins at 70, reads history 5..=70   published meanwhile: 71 72 73 → tail   synced at 73
//! ```
//!
//! If the tail exceeds its bound, it ends there, and the watchers read history again from that
//! point.

use std::sync::Arc;

use super::limits::Limits;
use super::outbox::event_bytes;
use crate::event::Event;

/// The transactions since a turn began.
pub(super) struct Tail {
    /// The last revision in the tail, or the one before the first.
    pub(super) end: i64,
    pub(super) transactions: Vec<Arc<Vec<Event>>>,
    events: usize,
    bytes: usize,
    full: bool,
}

impl Tail {
    /// Creates an empty tail after a revision.
    pub(super) fn after(revision: i64) -> Tail {
        Tail { end: revision, transactions: Vec::new(), events: 0, bytes: 0, full: false }
    }

    /// Appends a transaction, unless a bound is exceeded or was before.
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
