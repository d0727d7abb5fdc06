//! A listener at work, and its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;

use crate::listener::Local;

/// What connections are to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Serve,
    /// Finish what was begun.
    Drain,
    /// End now.
    Cut,
}

/// A listener at work. Dropping it cuts all of its connections.
#[derive(Debug)]
pub struct Serving {
    pub(crate) local: Local,
    pub(crate) phase: watch::Sender<Phase>,
    pub(crate) seats: Seats,
}

impl Serving {
    /// Where it listens.
    pub fn local(&self) -> &Local {
        &self.local
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.seats.open.load(Ordering::Relaxed)
    }

    /// Stops to accept, tells clients to go elsewhere, and lets them finish what they have begun; after `patience` cuts those who have not.
    /// Returns when all connections are gone and the address is free.
    pub async fn drain(&self, patience: Duration) {
        self.phase.send_replace(Phase::Drain);
        if timeout(patience, self.seats.empty()).await.is_err() {
            tracing::debug!(local = %self.local, connections = self.connections(), "cutting connections");
            self.phase.send_replace(Phase::Cut);
            self.seats.empty().await;
        }
    }
}

/// A bounded number of connections, and the listener: whoever holds a seat has to go before all is over.
#[derive(Clone, Debug)]
pub(crate) struct Seats {
    free: Arc<Semaphore>,
    total: u32,
    open: Arc<AtomicUsize>,
}

impl Seats {
    /// As many for connections, of which there must be one at least, and one for the listener. Returns that one, too.
    pub(crate) fn new(connections: u32) -> (Self, Seat) {
        let total = connections.clamp(1, u32::MAX - 1) + 1;
        let free = Arc::new(Semaphore::new(total as usize));
        let permit = Arc::clone(&free).try_acquire_owned().expect("nobody has taken one yet");
        (Self { free, total, open: Arc::default() }, Seat { open: None, _permit: permit })
    }

    /// Waits for a free one. Whoever holds it is not counted as open before it says so.
    pub(crate) async fn take(&self) -> Seat {
        let permit = Arc::clone(&self.free).acquire_owned().await;
        Seat { _permit: permit.expect("the semaphore is never closed"), open: None }
    }

    /// Waits until all are free, that of the listener too.
    async fn empty(&self) {
        let all = self.free.acquire_many(self.total).await;
        drop(all.expect("the semaphore is never closed"));
    }

    /// Counts a connection as open until its seat is dropped.
    pub(crate) fn sit(&self, seat: &mut Seat) {
        self.open.fetch_add(1, Ordering::Relaxed);
        seat.open = Some(Arc::clone(&self.open));
    }
}

/// The right to be a connection, or to be the listener.
#[derive(Debug)]
pub(crate) struct Seat {
    // Fields are dropped in this order: whoever waits for the permit finds the count right.
    open: Option<Arc<AtomicUsize>>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
