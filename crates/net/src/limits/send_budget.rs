//! The bound on bytes queued for clients that do not read.
//!
//! A response body of one chunk is handed to hyper whole and stays in memory until the client has
//! taken its last byte, however slowly. A client that sends requests and does not read would make
//! the member hold any number of responses. So large chunks are charged to the connection's budget,
//! and a handler waits for room before it builds another:
//!
//! ```text
//!   wait_for_room ─► build a response ─► charge ─► hand over ─► sent or cancelled: refunded
//!         ▲                                                                           │
//!         └───────────────── waits while too many bytes are unsent ◄──────────────────┘
//! ```
//!
//! Each connection has its own budget, so a client that does not read holds up its own responses
//! only. All connections of a listener share one more limit. When it is full, the connections whose
//! responses have been unread for the longest are closed ([`EvictingLimit`]), and a connection with
//! unsent bytes gets no further response.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::evicting_limit::{Evicted, EvictingLimit, Permit};

/// Unsent bytes of a connection above which no further response is begun. Responses that are
/// already being built come on top.
pub const UNSENT_BYTES_MAX: usize = 64 << 20;
/// Unsent bytes of all connections of a listener above which connections are closed or wait.
pub const UNSENT_TOTAL_BYTES_MAX: usize = 512 << 20;
/// The time a response may stay unread before its connection can be closed for it.
pub const UNSENT_GRACE: Duration = Duration::from_secs(5);
/// Chunks shorter than this are not charged: there are at most as many as streams, each of which
/// costs a similar amount.
pub const COUNTED_BYTES_MIN: usize = 64 << 10;
/// The interval at which a connection checks the shared limit again.
const TOTAL_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The unsent bytes of a connection.
#[derive(Debug)]
pub struct SendBudget {
    bytes: AtomicUsize,
    refunded: Notify,
    total: Arc<EvictingLimit>,
    evicted: Arc<Evicted>,
}

/// A budget that shares its total with no other connection.
impl Default for SendBudget {
    fn default() -> Self {
        Self::with_total(&unsent_limit())
    }
}

/// Creates the limit that all connections of a listener share.
pub(crate) fn unsent_limit() -> Arc<EvictingLimit> {
    EvictingLimit::with_grace(UNSENT_TOTAL_BYTES_MAX, UNSENT_GRACE)
}

impl SendBudget {
    /// Creates the budget of a connection that shares `total` with others.
    pub(crate) fn with_total(total: &Arc<EvictingLimit>) -> Self {
        Self {
            bytes: AtomicUsize::default(),
            refunded: Notify::default(),
            total: Arc::clone(total),
            evicted: Arc::default(),
        }
    }

    /// Returns whether another response may be built.
    pub fn has_room(&self) -> bool {
        match self.bytes.load(Ordering::Acquire) {
            0 => true,
            bytes => bytes < UNSENT_BYTES_MAX && !self.total.is_full(),
        }
    }

    /// Waits until another response may be built.
    pub async fn wait_for_room(&self) {
        loop {
            // Registered before the check, so that no refund in between is missed.
            let refunded = self.refunded.notified();
            if self.has_room() {
                return;
            }
            // Refunds of other connections do not notify this one.
            let _ = timeout(TOTAL_POLL_INTERVAL, refunded).await;
        }
    }

    /// Charges a chunk to the budget until its last reference is dropped.
    #[must_use]
    pub fn charge(self: &Arc<Self>, chunk: Bytes) -> Bytes {
        if chunk.len() < COUNTED_BYTES_MIN {
            return chunk;
        }
        self.bytes.fetch_add(chunk.len(), Ordering::AcqRel);
        let permit = self.total.acquire(chunk.len(), Arc::clone(&self.evicted));
        Bytes::from_owner(ChargedChunk { chunk, budget: Arc::clone(self), _permit: permit })
    }

    /// Signals that the connection must be closed.
    pub(crate) fn evict(&self) {
        self.evicted.set();
    }

    pub(crate) fn is_evicted(&self) -> bool {
        self.evicted.is_set()
    }

    /// Waits until the connection must be closed.
    pub(crate) async fn evicted(&self) {
        self.evicted.evicted().await;
    }
}

/// A chunk of a response that counts as unsent.
struct ChargedChunk {
    chunk: Bytes,
    budget: Arc<SendBudget>,
    _permit: Permit,
}

impl AsRef<[u8]> for ChargedChunk {
    fn as_ref(&self) -> &[u8] {
        &self.chunk
    }
}

impl Drop for ChargedChunk {
    fn drop(&mut self) {
        self.budget.bytes.fetch_sub(self.chunk.len(), Ordering::AcqRel);
        self.budget.refunded.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_connection_with_the_oldest_unread_response_is_closed_when_the_total_is_full() {
        let total = unsent_limit();
        let [old, new, third] = std::array::from_fn(|_| Arc::new(SendBudget::with_total(&total)));
        // Zeroed pages take no memory until they are read.
        let half = || Bytes::from(vec![0; UNSENT_TOTAL_BYTES_MAX / 2]);
        let held = (old.charge(half()), new.charge(half()));
        assert!(!old.has_room() && third.has_room(), "a client that read everything is served");

        tokio::time::advance(UNSENT_GRACE).await;
        let more = third.charge(Bytes::from(vec![7; COUNTED_BYTES_MIN]));
        old.evicted().await;
        assert!(!new.is_evicted());
        drop((held, more));
        assert!(!total.is_full());
    }

    #[tokio::test]
    async fn a_connection_waits_for_room_until_its_unsent_bytes_are_dropped() {
        let budget = Arc::new(SendBudget::default());
        let large = budget.charge(Bytes::from(vec![7; UNSENT_BYTES_MAX]));
        assert!(!budget.has_room());
        let mut cx = Context::from_waker(Waker::noop());
        let mut room = pin!(budget.wait_for_room());
        assert!(room.as_mut().poll(&mut cx).is_pending());

        // A slice keeps the whole chunk alive.
        let part = large.slice(..1);
        drop(large);
        assert!(room.as_mut().poll(&mut cx).is_pending());
        assert_eq!(part, [7][..]);
        drop(part);
        assert!(room.as_mut().poll(&mut cx).is_ready());
    }

    #[test]
    fn short_chunks_are_neither_charged_nor_copied() {
        let budget = Arc::new(SendBudget::default());
        let chunk = Bytes::from(vec![7; COUNTED_BYTES_MIN - 1]);
        assert_eq!(budget.charge(chunk.clone()).as_ptr(), chunk.as_ptr());
        assert_eq!(budget.bytes.load(Ordering::Relaxed), 0);
    }
}
