//! Responses to clients, and their encoding. An `etcdserverpb.WatchResponse` is assembled from the
//! encoded `KeyValue` of each event, without building the message:
//!
//! ```text
//!   0a .. header   10 07 watch_id   18 01 created   20 01 canceled   28 05 compact_revision
//!   32 .. cancel_reason   38 01 fragment
//!   5a 15 event, 21 bytes:   08 01 type DELETE   12 09 kv   1a 06 prev_kv
//!   5a .. the next event                                         zero fields are omitted
//! ```

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use prost::Message as _;
use proto::etcdserverpb::ResponseHeader;

use crate::event::{Event, EventKind};
use crate::kv::{message_len, number_len, put_bytes, put_message, put_number, put_varint};

const HEADER: u8 = 1;
const WATCH_ID: u8 = 2;
const CREATED: u8 = 3;
const CANCELED: u8 = 4;
const COMPACT_REVISION: u8 = 5;
const CANCEL_REASON: u8 = 6;
const FRAGMENT: u8 = 7;
const EVENTS: u8 = 11;

const EVENT_TYPE: u8 = 1;
const EVENT_KV: u8 = 2;
const EVENT_PREV_KV: u8 = 3;
const EVENT_TYPE_DELETE: i64 = 1;

/// The maximum size of a framed header with four varints.
const HEADER_BYTES_MAX: usize = 4 * 11 + 2;

/// The watch id of responses that concern no watcher: a refused creation, or the progress of a
/// stream.
pub const NO_WATCH_ID: i64 = -1;

/// A response to a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The watch id, or [`NO_WATCH_ID`].
    pub watch_id: i64,
    /// The revision in the header. Zero if a compaction canceled the watcher.
    pub revision: i64,
    /// The watcher was created, or refused. Precedes all other responses of the watcher.
    pub created: bool,
    /// The watcher was canceled. No response of the watcher follows.
    pub canceled: bool,
    /// The earliest revision that can be watched, if a compaction canceled the watcher. Otherwise
    /// zero.
    pub compact_revision: i64,
    /// The reason for refusing to create a watcher.
    pub cancel_reason: Cow<'static, str>,
    /// The next response continues this one.
    pub fragment: bool,
    /// The events, in order. All events of a revision are in one response or in its fragments.
    pub events: Vec<WatchedEvent>,
}

/// An event for one watcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedEvent {
    /// The event.
    pub event: Event,
    /// The encoded previous `KeyValue`, if the watcher wants it and it is not compacted.
    pub prev_kv: Option<Bytes>,
}

impl Response {
    /// Appends the encoded message. The caller provides the header, except for the revision.
    pub fn encode(&self, header: &ResponseHeader, out: &mut BytesMut) {
        let header = ResponseHeader { revision: self.revision, ..*header };
        out.reserve(self.len_max());
        put_message(HEADER, &header.encode_to_vec(), out);
        put_number(WATCH_ID, self.watch_id, out);
        put_number(CREATED, self.created.into(), out);
        put_number(CANCELED, self.canceled.into(), out);
        put_number(COMPACT_REVISION, self.compact_revision, out);
        put_bytes(CANCEL_REASON, self.cancel_reason.as_bytes(), out);
        put_number(FRAGMENT, self.fragment.into(), out);
        self.events.iter().for_each(|event| event.encode(out));
    }

    /// Splits a response of `bytes_max` or more into fragments below that, as far as single events
    /// allow.
    ///
    /// The header counts with its maximum size, so that a fragment may be a few bytes smaller than
    /// necessary.
    pub(super) fn split(mut self, bytes_max: usize) -> Vec<Response> {
        let frame = self.frame_len_max();
        let mut pieces = Vec::new();
        let mut bytes = frame;
        for event in std::mem::take(&mut self.events) {
            let len = event.encoded_len();
            if bytes + len >= bytes_max && !self.events.is_empty() {
                let events = std::mem::take(&mut self.events);
                pieces.push(Response { fragment: true, events, ..self.clone() });
                bytes = frame;
            }
            bytes += len;
            self.events.push(event);
        }
        pieces.push(self);
        pieces
    }

    fn len_max(&self) -> usize {
        self.frame_len_max() + self.events.iter().map(WatchedEvent::encoded_len).sum::<usize>()
    }

    /// Returns the maximum size of all but the events.
    fn frame_len_max(&self) -> usize {
        let flags = [self.created, self.canceled, true].map(|flag| number_len(flag.into()));
        HEADER_BYTES_MAX
            + flags.into_iter().sum::<usize>()
            + number_len(self.watch_id)
            + number_len(self.compact_revision)
            + message_len(self.cancel_reason.len())
    }
}

impl WatchedEvent {
    fn encode(&self, out: &mut BytesMut) {
        out.extend_from_slice(&[EVENTS << 3 | 2]);
        put_varint(self.body_len() as u64, out);
        put_number(EVENT_TYPE, self.kind(), out);
        put_message(EVENT_KV, &self.event.kv, out);
        if let Some(prev_kv) = &self.prev_kv {
            put_message(EVENT_PREV_KV, prev_kv, out);
        }
    }

    fn encoded_len(&self) -> usize {
        message_len(self.body_len())
    }

    fn body_len(&self) -> usize {
        let prev_kv = self.prev_kv.as_ref().map_or(0, |kv| message_len(kv.len()));
        number_len(self.kind()) + message_len(self.event.kv.len()) + prev_kv
    }

    /// Returns the type as the enum value on the wire.
    fn kind(&self) -> i64 {
        match self.event.kind {
            EventKind::Put => 0,
            EventKind::Delete => EVENT_TYPE_DELETE,
        }
    }
}
