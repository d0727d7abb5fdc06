//! A watch stream with a notification for its reader.

use std::sync::Arc;
use std::time::Duration;

use mvcc::watch::Stream;
use server::Server;
use tokio::sync::Notify;

/// Notifies the reader of a watch stream that there is something to read.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamNotify(Arc<Notify>);

impl StreamNotify {
    /// Opens a watch stream with its notification. Its progress notifications are delayed by
    /// `jitter`.
    pub(super) fn open(server: &Server, jitter: Duration) -> (Stream, StreamNotify) {
        let notify = StreamNotify::default();
        let waker = notify.clone();
        let wake = Arc::new(move || waker.0.notify_one());
        (server.watch_stream(wake, jitter), notify)
    }

    /// Waits for a notification since the last call.
    pub(super) async fn notified(&self) {
        self.0.notified().await;
    }
}
