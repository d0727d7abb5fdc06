//! A stream of watchers, and what wakes whoever reads it.

use std::sync::Arc;
use std::time::Duration;

use mvcc::watch::Stream;
use server::Server;
use tokio::sync::Notify;

/// Rung when there is something to read.
#[derive(Clone, Debug, Default)]
pub(super) struct Bell(Arc<Notify>);

impl Bell {
    /// A new stream of watchers, and its bell. Its progress is told so much later than that of others.
    pub(super) fn hang(server: &Server, jitter: Duration) -> (Stream, Bell) {
        let bell = Bell::default();
        let rung = bell.clone();
        let notify = Arc::new(move || rung.0.notify_one());
        (server.state().store.watch_stream(notify, server.now(), jitter), bell)
    }

    /// Returns when it has been rung since the last time.
    pub(super) async fn rung(&self) {
        self.0.notified().await;
    }
}
