//! The bound on bytes queued for clients that do not read.
//!
//! A response body of one chunk is handed to hyper whole and stays in memory until the client has
//! taken its last byte, however slowly. A client that sends requests and does not read would make
//! the member hold any number of responses. So large chunks are charged to the connection's budget,
//! and a handler waits for room before it builds another:
//!
//! ```text
//!   wait_for_room ─► build a response ─► charge ─► hand over ─► sent or canceled: refunded
//!         ▲                                                                           │
//!         └───────────────── waits while too many bytes are unsent ◄──────────────────┘
//! ```
//!
//! Each connection has its own budget, so a client that does not read holds up its own responses
//! only. All connections of a listener share one more limit. While it is full, no connection gets
//! another long response, and connections with unsent bytes that take less than
//! [`UNSENT_PROGRESS_BYTES`] in [`UNSENT_GRACE`] are closed, the oldest first
//! ([`EvictingLimit::evict_overdue`]).
//!
//! Whether a response is long is known only when it is built. Responses that are rarely long are
//! therefore built first ([`SendBudget::wait_for_own_room`]) and, if the shared limit is full and
//! the response turns out to be long ([`SendBudget::must_wait_with`]), dropped and built again when
//! there is room: other clients of a full listener go on reading keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::evicting_limit::{Evicted, EvictingLimit, Permit};

/// Unsent bytes of a connection above which no further response is begun. Responses that are
/// already being built come on top.
pub const UNSENT_BYTES_MAX: usize = 64 << 20;
/// Unsent bytes of all connections of a listener above which no further long response is begun, and
/// connections that do not read are closed. Responses that are already being built come on top.
pub const UNSENT_TOTAL_BYTES_MAX: usize = 512 << 20;
/// The time a response may stay unread before its connection can be closed for it.
pub const UNSENT_GRACE: Duration = Duration::from_secs(5);
/// The bytes that a connection must take within [`UNSENT_GRACE`] to count as reading. A client that
/// takes single bytes does not.
pub const UNSENT_PROGRESS_BYTES: usize = 4 << 20;
/// Chunks shorter than this are not charged, so that short responses cost nothing here. A client
/// may have one of them unread on each of its streams.
pub const COUNTED_BYTES_MIN: usize = 64 << 10;
/// The interval at which a connection checks the shared limit again.
const TOTAL_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The unsent bytes of a connection.
#[derive(Debug)]
pub struct SendBudget {
    bytes: AtomicUsize,
    /// Bytes that the socket took since the last progress was recorded.
    taken: AtomicUsize,
    refunded: Notify,
    total: Arc<EvictingLimit>,
    evicted: Arc<Evicted>,
}

/// A budget that shares its total with no other connection.
impl Default for SendBudget {
    fn default() -> Self {
        Self::with_total(&EvictingLimit::with_grace(UNSENT_TOTAL_BYTES_MAX, UNSENT_GRACE))
    }
}

impl SendBudget {
    /// Creates the budget of a connection that shares `total` with others.
    pub(crate) fn with_total(total: &Arc<EvictingLimit>) -> Self {
        Self {
            bytes: AtomicUsize::default(),
            taken: AtomicUsize::default(),
            refunded: Notify::default(),
            total: Arc::clone(total),
            evicted: Arc::default(),
        }
    }

    /// Returns the bytes that are charged and not sent.
    pub fn unsent_bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }

    /// Returns whether a long response may be built.
    pub fn has_room(&self) -> bool {
        self.has_own_room() && !self.total.is_full()
    }

    /// Returns whether this connection may have another response, whatever other connections hold.
    fn has_own_room(&self) -> bool {
        self.unsent_bytes() < UNSENT_BYTES_MAX
    }

    /// Waits until a long response may be built.
    pub async fn wait_for_room(&self) {
        self.wait_for(Self::has_room).await;
    }

    /// Waits until a response may be built that is rarely long: see [`Self::must_wait_with`].
    pub async fn wait_for_own_room(&self) {
        self.wait_for(Self::has_own_room).await;
    }

    async fn wait_for(&self, has_room: impl Fn(&Self) -> bool) {
        if has_room(self) {
            return;
        }
        loop {
            // Registered before the check, so that no refund in between is missed.
            let refunded = self.refunded.notified();
            if has_room(self) {
                return;
            }
            // Refunds of other connections do not notify this one.
            let _ = timeout(TOTAL_POLL_INTERVAL, refunded).await;
        }
    }

    /// Returns whether a response of `bytes` must be dropped, and built again once there is room.
    pub fn must_wait_with(&self, bytes: usize) -> bool {
        bytes >= COUNTED_BYTES_MIN && self.total.is_full()
    }

    /// Builds a response and charges its body. A long one that finds no room is dropped, and built
    /// again once there is room.
    pub async fn build_charged<F>(self: &Arc<Self>, build: impl Fn() -> F) -> Response<Bytes>
    where
        F: Future<Output = Response<Bytes>>,
    {
        self.wait_for_own_room().await;
        let mut response = build().await;
        if self.must_wait_with(response.body().len()) {
            drop(response);
            self.wait_for_room().await;
            response = build().await;
        }
        response.map(|body| self.charge(body))
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

    /// Records that the socket has taken bytes.
    pub(crate) fn record_taken(&self, bytes: usize) {
        let taken = self.taken.load(Ordering::Relaxed) + bytes;
        let is_progress = taken >= UNSENT_PROGRESS_BYTES;
        // One task writes to a connection, so no update is lost.
        self.taken.store(if is_progress { 0 } else { taken }, Ordering::Relaxed);
        if is_progress {
            self.evicted.set_progress();
        }
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

    /// Half of the shared limit. Zeroed pages take no memory until they are read.
    fn half() -> Bytes {
        Bytes::from(vec![0; UNSENT_TOTAL_BYTES_MAX / 2])
    }

    #[tokio::test(start_paused = true)]
    async fn no_connection_gets_a_long_response_while_the_total_is_full() {
        let total = EvictingLimit::with_grace(UNSENT_TOTAL_BYTES_MAX, UNSENT_GRACE);
        let [old, new, third] = std::array::from_fn(|_| Arc::new(SendBudget::with_total(&total)));
        let (unread, held) = (old.charge(half()), new.charge(half()));
        assert!(!old.has_room() && !new.has_room() && !third.has_room());
        assert!(third.must_wait_with(COUNTED_BYTES_MIN));
        assert!(!third.must_wait_with(COUNTED_BYTES_MIN - 1), "a short response is served");

        let evicting = tokio::spawn({
            let total = Arc::clone(&total);
            async move { total.evict_overdue().await }
        });
        let start = tokio::time::Instant::now();
        old.evicted().await;
        assert!(start.elapsed() >= UNSENT_GRACE && !new.is_evicted());
        // The memory is in use until the connection has ended.
        assert!(timeout(UNSENT_GRACE / 2, third.wait_for_room()).await.is_err());
        drop(unread);
        let dropped = tokio::time::Instant::now();
        third.wait_for_room().await;
        assert!(dropped.elapsed() <= TOTAL_POLL_INTERVAL && !new.is_evicted());
        evicting.abort();
        drop(held);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_reads_is_not_closed() {
        let total = EvictingLimit::with_grace(UNSENT_TOTAL_BYTES_MAX, UNSENT_GRACE);
        let [reads, trickles] = std::array::from_fn(|_| Arc::new(SendBudget::with_total(&total)));
        let held = (reads.charge(half()), trickles.charge(half()));
        tokio::time::advance(UNSENT_GRACE - Duration::from_secs(1)).await;
        for _ in 0..4 {
            reads.record_taken(UNSENT_PROGRESS_BYTES / 4);
            trickles.record_taken(1);
        }
        let evicting = total.evict_overdue();
        let _ = timeout(Duration::from_secs(1), evicting).await;
        assert!(!reads.is_evicted() && trickles.is_evicted());
        drop(held);
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

    #[tokio::test(start_paused = true)]
    async fn a_long_response_is_built_again_when_there_is_room() {
        let total = EvictingLimit::with_grace(UNSENT_TOTAL_BYTES_MAX, UNSENT_GRACE);
        let [full, other] = std::array::from_fn(|_| Arc::new(SendBudget::with_total(&total)));
        let held = full.charge(Bytes::from(vec![0; UNSENT_TOTAL_BYTES_MAX]));
        let built = AtomicUsize::default();
        let respond = |bytes: usize| {
            other.build_charged(move || {
                std::future::ready(Response::new(Bytes::from(vec![7; bytes])))
            })
        };
        let short = respond(COUNTED_BYTES_MIN - 1).await;
        assert_eq!((short.body().len(), other.unsent_bytes()), (COUNTED_BYTES_MIN - 1, 0));

        let mut long = pin!(other.build_charged(|| {
            built.fetch_add(1, Ordering::Relaxed);
            std::future::ready(Response::new(Bytes::from(vec![7; COUNTED_BYTES_MIN])))
        }));
        assert!(timeout(UNSENT_GRACE, long.as_mut()).await.is_err(), "there is no room");
        assert_eq!((built.load(Ordering::Relaxed), other.unsent_bytes()), (1, 0));
        drop(held);
        let long = long.await;
        assert_eq!((built.load(Ordering::Relaxed), other.unsent_bytes()), (2, COUNTED_BYTES_MIN));
        drop(long);
        assert_eq!(other.unsent_bytes(), 0);
    }

    #[test]
    fn short_chunks_are_neither_charged_nor_copied() {
        let budget = Arc::new(SendBudget::default());
        let chunk = Bytes::from(vec![7; COUNTED_BYTES_MIN - 1]);
        assert_eq!(budget.charge(chunk.clone()).as_ptr(), chunk.as_ptr());
        assert_eq!(budget.unsent_bytes(), 0);
    }
}
