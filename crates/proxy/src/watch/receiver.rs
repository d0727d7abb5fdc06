//! A watcher of a client, as a receiver of a broadcast.

use std::sync::Arc;

use proto::etcdserverpb::{ResponseHeader, WatchResponse};
use proto::mvccpb::Event;
use proto::mvccpb::event::EventType;

use super::WatchRange;
use super::outbox::Outbox;

/// A watcher of a client.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) range: WatchRange,
    /// The id on the stream of the client.
    pub(crate) watch_id: i64,
    /// The first revision that the client has not received; 0 for the current one, until the member
    /// reports it.
    pub(crate) next_revision: i64,
    pub(crate) options: Options,
    /// The header of the last response.
    pub(crate) last_header: Option<ResponseHeader>,
    pub(crate) outbox: Arc<Outbox>,
}

/// The options of a watcher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) progress_notify: bool,
    pub(crate) prev_kv: bool,
    pub(crate) no_put: bool,
    pub(crate) no_delete: bool,
}

impl Receiver {
    /// Passes a response of a member on to the client, without what its options exclude.
    pub(crate) fn deliver(&mut self, response: &WatchResponse) {
        let header = response.header.unwrap_or_default();
        let is_progress = is_progress(response);
        if is_progress && !self.options.progress_notify {
            return;
        }
        // The broadcast may be behind.
        if self.next_revision > header.revision && !response.events.is_empty() {
            return;
        }
        if self.next_revision == 0 {
            self.next_revision = header.revision + 1;
        }
        let events = self.take_events(&response.events);
        let has_news = is_progress
            || response.created
            || response.canceled
            || response.compact_revision != 0
            || !events.is_empty();
        if has_news {
            self.last_header = Some(header);
            self.outbox.push(WatchResponse {
                header: Some(header),
                watch_id: self.watch_id,
                created: response.created,
                canceled: response.canceled,
                compact_revision: response.compact_revision,
                cancel_reason: response.cancel_reason.clone(),
                fragment: false,
                events,
            });
        }
    }

    /// Sends the created response, which the member sent before this receiver joined.
    pub(crate) fn created(&mut self) {
        let header = ResponseHeader { revision: self.next_revision, ..ResponseHeader::default() };
        self.outbox.push(WatchResponse {
            header: Some(header),
            watch_id: self.watch_id,
            created: true,
            ..WatchResponse::default()
        });
    }

    /// Returns the events that the client has not received and accepts.
    fn take_events(&mut self, events: &[Event]) -> Vec<Event> {
        let next = self.next_revision;
        let revision = |event: &Event| event.kv.as_ref().map_or(0, |kv| kv.mod_revision);
        let new = events.iter().filter(|event| revision(event) >= next);
        // All events of a transaction have the same revision, so it is advanced at the end.
        self.next_revision =
            new.clone().map(|event| revision(event) + 1).max().unwrap_or(next).max(next);
        new.filter(|event| self.options.accepts(event))
            .map(|event| self.options.adapt(event))
            .collect()
    }
}

impl Options {
    fn accepts(self, event: &Event) -> bool {
        match EventType::try_from(event.r#type) {
            Ok(EventType::Put) => !self.no_put,
            Ok(EventType::Delete) => !self.no_delete,
            Err(_) => true,
        }
    }

    fn adapt(self, event: &Event) -> Event {
        let prev_kv = event.prev_kv.as_ref().filter(|_| self.prev_kv).cloned();
        Event { r#type: event.r#type, kv: event.kv.clone(), prev_kv }
    }
}

/// Returns whether a response only says how far the watcher is.
fn is_progress(response: &WatchResponse) -> bool {
    response.events.is_empty()
        && !response.canceled
        && !response.created
        && response.compact_revision == 0
        && response.header.is_some_and(|header| header.revision != 0)
}

#[cfg(test)]
pub(crate) mod tests {
    use proto::mvccpb::KeyValue;

    use super::*;

    pub(crate) fn receiver(key: &str, next_revision: i64, options: Options) -> Receiver {
        let range = WatchRange {
            key: bytes::Bytes::copy_from_slice(key.as_bytes()),
            end: bytes::Bytes::new(),
        };
        let outbox = Arc::new(Outbox::default());
        Receiver { range, watch_id: 3, next_revision, options, last_header: None, outbox }
    }

    pub(crate) fn header(revision: i64) -> Option<ResponseHeader> {
        Some(ResponseHeader { revision, ..ResponseHeader::default() })
    }

    pub(crate) fn put(revision: i64) -> Event {
        let kv = KeyValue { mod_revision: revision, ..KeyValue::default() };
        Event { r#type: EventType::Put.into(), kv: Some(kv.clone()), prev_kv: Some(kv) }
    }

    pub(crate) fn events(revision: i64, events: Vec<Event>) -> WatchResponse {
        WatchResponse { header: header(revision), events, ..WatchResponse::default() }
    }

    fn taken(receiver: &Receiver) -> Vec<WatchResponse> {
        std::iter::from_fn(|| receiver.outbox.pop()).collect()
    }

    #[test]
    fn events_before_the_next_revision_are_left_out() {
        let mut watcher = receiver("a", 5, Options::default());
        watcher.deliver(&events(6, vec![put(4), put(5), put(6), put(6)]));
        watcher.deliver(&events(6, vec![put(6)]));
        let taken = taken(&watcher);
        assert_eq!((taken.len(), taken[0].events.len(), taken[0].watch_id), (1, 3, 3));
        assert_eq!(taken[0].events[0].prev_kv, None, "not requested");
        assert_eq!(watcher.next_revision, 7);
    }

    #[test]
    fn a_watcher_of_the_current_revision_starts_after_its_creation() {
        let mut watcher = receiver("a", 0, Options { prev_kv: true, ..Options::default() });
        let created = WatchResponse { created: true, ..events(8, Vec::new()) };
        watcher.deliver(&created);
        assert_eq!(watcher.next_revision, 9);
        watcher.deliver(&events(9, vec![put(8), put(9)]));
        let taken = taken(&watcher);
        assert!(taken[0].created && taken[1].events.len() == 1);
        assert!(taken[1].events[0].prev_kv.is_some());
    }

    #[test]
    fn filtered_events_and_unwanted_progress_are_not_sent() {
        let mut watcher = receiver("a", 1, Options { no_put: true, ..Options::default() });
        watcher.deliver(&events(2, vec![put(2)]));
        watcher.deliver(&events(3, Vec::new()));
        assert!(taken(&watcher).is_empty());
        assert_eq!(watcher.next_revision, 3);
        watcher.options.progress_notify = true;
        watcher.deliver(&events(3, Vec::new()));
        assert_eq!(taken(&watcher).len(), 1);
    }
}
