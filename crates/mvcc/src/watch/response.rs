//! What a client is told, and its bytes.
//!
//! An `etcdserverpb.WatchResponse` is put together from what is encoded already, each event's `KeyValue`, with no message in between:
//!
//! ```text
//!   0a .. header   10 07 watch_id   18 01 created   20 01 canceled   28 05 compact_revision   32 .. cancel_reason   38 01 fragment
//!   5a 15          event, 21 bytes:   08 01 deleted    12 09 kv    1a 06 prev_kv          fields that are zero are left out
//!   5a ..          the next event
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

/// The most that a header takes: four numbers, and the frame around them.
const HEADER_BYTES_MAX: usize = 4 * 11 + 2;

/// The id of responses that are about no watcher: a refused creation, and the progress of a whole stream.
pub const NO_WATCH_ID: i64 = -1;

/// A message to a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// Whom it is for, or [`NO_WATCH_ID`].
    pub watch_id: i64,
    /// The revision in the header. Zero if a watcher was ended by compaction.
    pub revision: i64,
    /// The answer to a creation, before anything else about this watcher.
    pub created: bool,
    /// The last response of this watcher.
    pub canceled: bool,
    /// If a watcher was ended by compaction: the earliest revision to start again from. Otherwise zero.
    pub compact_revision: i64,
    /// Why a watcher was not created.
    pub cancel_reason: Cow<'static, str>,
    /// The rest of the events is in the next response.
    pub fragment: bool,
    /// What happened, in order. All of a revision is in one response, or in its fragments.
    pub events: Vec<WatchedEvent>,
}

/// A change of a key, for one watcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedEvent {
    /// The change.
    pub event: Event,
    /// What the key was before, encoded, if that was asked for and is known.
    pub prev_kv: Option<Bytes>,
}

impl Response {
    /// Appends the bytes of the message. All of the header is the caller's, except for the revision.
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

    /// Splits a response that would have `bytes_max` or more into some that have less, as far as single events allow.
    ///
    /// The header counts with the most that it can take, so a piece may be a few bytes shorter than it had to be.
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

    /// What all but the events takes at most.
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

    /// The number of the kind on the wire.
    fn kind(&self) -> i64 {
        match self.event.kind {
            EventKind::Put => 0,
            EventKind::Delete => EVENT_TYPE_DELETE,
        }
    }
}
