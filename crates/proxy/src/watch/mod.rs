//! Watches, coalesced: watchers of clients with the same range share one watcher of a member.
//!
//! ```text
//!   client stream 1   watcher 0  [a, c) from 5 ─┐
//!                     watcher 1  d           ─┐ │      broadcasts
//!   client stream 2   watcher 0  [a, c)      ─┼─┴─►    [a, c) next 9, two receivers ◄─┐
//!                                             └───►    d      next 7, one receiver  ◄─┴─ source
//! ```
//!
//! A [broadcast](broadcasts) has one watcher at a member and any number of receivers. A watcher
//! joins a broadcast that is not ahead of it, or opens one; a broadcast that has caught up with
//! another one is merged into it. The [`source`] multiplexes all broadcasts over one stream per
//! token, and resumes them on another member when that stream is lost.
//!
//! A response is put into the [`outbox`] of each client stream at once. A client that does not read
//! fills its own outbox, and its stream is then ended; it never delays the others.

pub(crate) mod broadcasts;
pub(crate) mod outbox;
pub(crate) mod receiver;
pub(crate) mod source;

use std::sync::Arc;

use http::HeaderMap;
use parking_lot::Mutex;
use proto::etcdserverpb::WatchResponse;

use crate::metrics::Metrics;
use crate::namespace::Namespace;
use crate::upstream::Upstream;

use broadcasts::{BroadcastId, Broadcasts, ReceiverId};
use receiver::Receiver;
use source::Sources;

/// A range of keys, as clients name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WatchRange {
    pub(crate) key: bytes::Bytes,
    pub(crate) end: bytes::Bytes,
}

impl WatchRange {
    /// Returns whether the range can contain a key.
    pub(crate) fn is_valid(&self) -> bool {
        self.end.is_empty() || self.end > self.key || &self.end[..] == b"\0"
    }
}

/// All watches of a proxy. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Watches {
    shared: Arc<WatchesState>,
}

#[derive(Debug)]
struct WatchesState {
    broadcasts: Mutex<Broadcasts>,
    sources: Sources,
    namespace: Namespace,
    metrics: Arc<Metrics>,
}

impl Watches {
    pub(crate) fn new(upstream: Upstream, namespace: Namespace, metrics: Arc<Metrics>) -> Watches {
        let shared = Arc::new_cyclic(|shared| WatchesState {
            broadcasts: Mutex::default(),
            sources: Sources::new(upstream, shared.clone()),
            namespace,
            metrics,
        });
        Watches { shared }
    }

    /// Adds a watcher of a client, whose metadata is used if a new watcher of a member is needed.
    pub(crate) fn add(&self, receiver: Receiver, metadata: &HeaderMap) -> ReceiverId {
        let WatchesState { namespace, .. } = &*self.shared;
        let mut broadcasts = self.shared.broadcasts.lock();
        let range = receiver.range.clone();
        let start_revision = receiver.next_revision;
        let (id, opened) = broadcasts.add(receiver);
        if let Some(broadcast) = opened {
            let watched =
                WatchRange { key: namespace.key(&range.key), end: namespace.range_end(&range.end) };
            self.shared.sources.create(broadcast, watched, start_revision, metadata);
        }
        self.shared.count(&broadcasts);
        id
    }

    /// Removes a watcher of a client. Returns it, unless it was removed before.
    pub(crate) fn remove(&self, id: ReceiverId) -> Option<Receiver> {
        let mut broadcasts = self.shared.broadcasts.lock();
        let (receiver, closed) = broadcasts.remove(id)?;
        if let Some(broadcast) = closed {
            self.shared.sources.cancel(broadcast);
        }
        self.shared.count(&broadcasts);
        Some(receiver)
    }
}

impl WatchesState {
    /// Passes a response of a member to all receivers of a broadcast.
    fn deliver(&self, id: BroadcastId, mut response: WatchResponse) {
        self.namespace.watch_response(&mut response);
        let mut broadcasts = self.broadcasts.lock();
        let delivered = broadcasts.deliver(id, &response);
        self.metrics.events_coalescing.inc_by(delivered.receivers.saturating_sub(1) as u64);
        for overflown in delivered.overflown {
            if let Some((_, Some(closed))) = broadcasts.remove(overflown) {
                self.sources.cancel(closed);
            }
        }
        if response.canceled {
            broadcasts.close(id);
        } else if broadcasts.merge(id) {
            self.sources.cancel(id);
        }
        self.count(&broadcasts);
    }

    fn count(&self, broadcasts: &Broadcasts) {
        let sharing = i64::try_from(broadcasts.sharing()).unwrap_or(i64::MAX);
        self.metrics.watchers_coalescing.set(sharing);
    }
}
