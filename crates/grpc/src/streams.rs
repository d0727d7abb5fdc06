//! A registry of all open streams, which ends them when neither client nor handler does.
//!
//! Most streams wait for their client, and some for a client that reads nothing. The application
//! ends them here: all of them when the server stops, and conditional ones when their condition no
//! longer holds (etcd: a client asked for a member with a leader, and there is none).

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::status::Status;

/// A stream that can be ended from outside.
pub(crate) trait EndStream: Send + Sync {
    /// Ends the stream with a status, unless it has ended.
    fn end(&self, status: Status);
}

/// All open streams.
#[derive(Debug)]
pub struct StreamRegistry {
    streams: Mutex<Streams>,
    /// Notifies waiters that are not streams.
    closed: watch::Sender<bool>,
    stopped: Status,
}

#[derive(Default)]
struct Streams {
    closed: bool,
    last_id: u64,
    open: BTreeMap<u64, OpenStream>,
}

struct OpenStream {
    stream: Weak<dyn EndStream>,
    conditional: bool,
}

impl std::fmt::Debug for Streams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Streams { closed, open, .. } = self;
        f.debug_struct("Streams").field("closed", closed).field("open", &open.len()).finish()
    }
}

impl StreamRegistry {
    /// Creates an empty registry. `stopped` is the status of streams that end with the server.
    pub fn new(stopped: Status) -> StreamRegistry {
        StreamRegistry { streams: Mutex::default(), closed: watch::Sender::new(false), stopped }
    }

    /// Registers a stream until the registration is dropped.
    pub(crate) fn register(
        self: &Arc<Self>,
        stream: Weak<dyn EndStream>,
        conditional: bool,
    ) -> Registration {
        let mut streams = self.streams.lock();
        streams.last_id += 1;
        let id = streams.last_id;
        streams.open.insert(id, OpenStream { stream, conditional });
        Registration { registry: Arc::clone(self), id }
    }

    /// Waits until the server stops. Returns the status for calls that end because of it.
    pub fn stopped(&self) -> impl Future<Output = Status> + Send + 'static {
        let (mut closed, stopped) = (self.closed.subscribe(), self.stopped.clone());
        async move {
            // An error means that the registry was dropped, so the server has stopped.
            let _ = closed.wait_for(|closed| *closed).await;
            stopped
        }
    }

    /// Returns the status for new streams, once the registry is closed.
    pub(crate) fn closed(&self) -> Option<Status> {
        self.streams.lock().closed.then(|| self.stopped.clone())
    }

    /// Ends all streams, and from now on new ones.
    pub fn close(&self) {
        self.streams.lock().closed = true;
        self.end(|_| true, &self.stopped);
        // Last, so that a waiter inside a stream does not end that stream with a status of its own.
        self.closed.send_replace(true);
    }

    /// Ends all conditional streams.
    pub fn end_conditional(&self, status: &Status) {
        self.end(|stream| stream.conditional, status);
    }

    fn end(&self, matches: impl Fn(&OpenStream) -> bool, status: &Status) {
        let matching: Vec<_> = self
            .streams
            .lock()
            .open
            .values()
            .filter(|stream| matches(stream))
            .map(|stream| Weak::clone(&stream.stream))
            .collect();
        // Without the lock: a stream that is dropped here removes its registration.
        for stream in matching.iter().filter_map(Weak::upgrade) {
            stream.end(status.clone());
        }
    }
}

/// The entry of a stream in the registry, removed on drop.
#[derive(Debug)]
pub(crate) struct Registration {
    registry: Arc<StreamRegistry>,
    id: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.registry.streams.lock().open.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::tests::STOPPED;

    #[tokio::test]
    async fn waiters_learn_that_the_server_stops() {
        let registry = StreamRegistry::new(STOPPED);
        let before = registry.stopped();
        registry.close();
        assert_eq!(before.await, STOPPED);
        assert_eq!(registry.stopped().await, STOPPED, "also a later waiter");
    }
}
