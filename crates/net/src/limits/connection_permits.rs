//! The bound on the connections of a listener, and the wait for the last of them to close.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Permits for connections, and one for the listener itself, so that a drain waits for both.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionPermits {
    semaphore: Arc<Semaphore>,
    total: u32,
    open: Arc<AtomicUsize>,
}

impl ConnectionPermits {
    /// Creates `connections` permits (at least one) and one for the listener, which it returns.
    pub(crate) fn new(connections: u32) -> (Self, ConnectionPermit) {
        let total = connections.clamp(1, u32::MAX - 1) + 1;
        let semaphore = Arc::new(Semaphore::new(total as usize));
        let permit =
            Arc::clone(&semaphore).try_acquire_owned().expect("a new semaphore has free permits");
        (
            Self { semaphore, total, open: Arc::default() },
            ConnectionPermit { open: None, _permit: permit },
        )
    }

    /// Waits for a free permit. The connection counts as open only after [`Self::mark_open`].
    pub(crate) async fn acquire(&self) -> ConnectionPermit {
        let permit = Arc::clone(&self.semaphore).acquire_owned().await;
        ConnectionPermit { _permit: permit.expect("the semaphore is never closed"), open: None }
    }

    /// Waits until every permit was returned, that of the listener included.
    pub(crate) async fn all_returned(&self) {
        let all = self.semaphore.acquire_many(self.total).await;
        drop(all.expect("the semaphore is never closed"));
    }

    /// Counts a connection as open until its permit is dropped.
    pub(crate) fn mark_open(&self, permit: &mut ConnectionPermit) {
        self.open.fetch_add(1, Ordering::Relaxed);
        permit.open = Some(Arc::clone(&self.open));
    }

    /// The number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

/// The right to be a connection of a listener, or its accept loop. Returned on drop.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    // Fields drop in this order: a waiter that gets the permit sees the count without it.
    open: Option<Arc<AtomicUsize>>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
