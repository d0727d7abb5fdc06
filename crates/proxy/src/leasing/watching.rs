//! A watcher of this proxy itself, over the streams that it shares with its clients.

use std::sync::Arc;

use http::HeaderMap;
use proto::etcdserverpb::WatchResponse;

use super::KeyRange;
use crate::watch::broadcasts::ReceiverId;
use crate::watch::outbox::Outbox;
use crate::watch::receiver::{Options, Receiver};
use crate::watch::{WatchRange, Watches};

/// The reason if responses arrive faster than they are taken.
const OVERFLOWN: &str = "too many events";

/// A watcher. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Watching {
    watches: Watches,
    id: ReceiverId,
    outbox: Arc<Outbox>,
}

impl Watching {
    /// Watches a range from a revision; 0 for the current one. A lost stream is resumed.
    pub(super) fn start(
        watches: &Watches,
        range: KeyRange,
        next_revision: i64,
        metadata: &HeaderMap,
    ) -> Watching {
        let outbox = Arc::<Outbox>::default();
        let receiver = Receiver {
            range: WatchRange { key: range.key, end: range.end },
            watch_id: 0,
            next_revision,
            options: Options::default(),
            last_header: None,
            outbox: Arc::clone(&outbox),
        };
        let id = watches.add(receiver, metadata);
        Watching { watches: watches.clone(), id, outbox }
    }

    /// Returns the next response.
    ///
    /// # Errors
    /// The reason for which there is none: a member has ended the watcher, for example because its
    /// revision was compacted.
    pub(super) async fn next(&self) -> Result<WatchResponse, String> {
        loop {
            match self.outbox.pop() {
                Some(ended) if ended.canceled => return Err(ended.cancel_reason),
                Some(response) => return Ok(response),
                None if self.outbox.is_overflown() => return Err(OVERFLOWN.to_owned()),
                None => self.outbox.pushed().await,
            }
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.watches.remove(self.id);
    }
}
