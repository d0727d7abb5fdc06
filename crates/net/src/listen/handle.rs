//! The handle of a listener that is being served, and its shutdown.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::listener::LocalAddr;
use crate::limits::ConnectionPermits;

/// The phase of a listener, which its connections follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenerPhase {
    Serve,
    /// Finish the requests in flight, then close.
    Drain,
    /// Close now.
    Cut,
}

/// The handle of a listener that is being served. Dropping it closes all of its connections.
#[derive(Debug)]
pub struct ListenerHandle {
    pub(crate) local: LocalAddr,
    pub(crate) phase: watch::Sender<ListenerPhase>,
    pub(crate) permits: ConnectionPermits,
}

impl ListenerHandle {
    /// Returns the bound address.
    pub fn local(&self) -> &LocalAddr {
        &self.local
    }

    /// Returns the number of open connections.
    pub fn connections(&self) -> usize {
        self.permits.open()
    }

    /// Stops accepting, announces the shutdown to clients and lets requests in flight finish. After
    /// `time_limit`, closes the connections that remain. Returns when all connections are closed
    /// and the address is free.
    pub async fn drain(&self, time_limit: Duration) {
        self.phase.send_replace(ListenerPhase::Drain);
        if timeout(time_limit, self.permits.all_returned()).await.is_err() {
            tracing::debug!(local = %self.local, connections = self.connections(), "cutting connections");
            self.phase.send_replace(ListenerPhase::Cut);
            self.permits.all_returned().await;
        }
    }
}
