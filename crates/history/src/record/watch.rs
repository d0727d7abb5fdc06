//! Watches and the responses they received.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::kv::{Kv, Span, is_zero};

/// A watch, from creation to cancellation. A resumed watch is recorded as two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// The client.
    pub client: u64,
    /// The contacted member, if known.
    #[serde(default)]
    pub member: u64,
    /// The request.
    pub request: WatchRequest,
    /// The responses in order. Fragments are merged into one response; a progress notification of
    /// the whole stream is recorded with each of its watches.
    pub responses: Vec<WatchResponse>,
}

/// The request of a watch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchRequest {
    /// The watched keys.
    #[serde(flatten)]
    pub span: Span,
    /// The first revision to deliver; zero starts after the current revision.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub start: i64,
    /// Whether events include the previous value.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prev_kv: bool,
    /// Whether puts are filtered out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_put: bool,
    /// Whether deletes are filtered out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_delete: bool,
}

/// A response on a watch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchResponse {
    /// The time of arrival.
    pub at_ns: u64,
    /// The revision in its header.
    pub revision: i64,
    /// The content; `news` in the file format.
    #[serde(rename = "news")]
    pub body: WatchBody,
}

/// The content of a watch response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WatchBody {
    /// The watch was created. With `start` zero it begins after the header's revision.
    Created,
    /// Changes of keys.
    Events(Vec<Event>),
    /// A progress notification: everything up to the header's revision was delivered.
    Progress,
    /// The watch was canceled; nothing follows.
    Canceled {
        /// Not zero if canceled because revisions before this one were compacted.
        #[serde(default)]
        compact_revision: i64,
    },
}

/// An event: the change of one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The new value; for a delete only key and `mod` are set.
    pub kv: Kv,
    /// Whether the key was deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub delete: bool,
    /// The previous value, if included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prev: Option<Kv>,
}

impl WatchRequest {
    /// Returns a watch of all events on `span` from revision `start` on.
    #[must_use]
    pub fn from(span: Span, start: i64) -> WatchRequest {
        WatchRequest { span, start, prev_kv: false, no_put: false, no_delete: false }
    }

    /// Reports whether the watch requested events of this key and kind.
    #[must_use]
    pub fn wants(&self, key: &str, delete: bool) -> bool {
        let filtered = if delete { self.no_delete } else { self.no_put };
        !filtered && self.span.contains(key)
    }
}

impl Event {
    /// Returns a put event without the previous value.
    #[must_use]
    pub fn put(kv: Kv) -> Event {
        Event { kv, delete: false, prev: None }
    }

    /// Returns a delete event.
    #[must_use]
    pub fn delete(key: &str, revision: i64) -> Event {
        let (key, value) = (key.to_owned(), String::new());
        let kv = Kv { key, value, create: 0, modified: revision, version: 0, lease: 0 };
        Event { kv, delete: true, prev: None }
    }
}

impl fmt::Display for WatchRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "watch {} from {}", self.span, self.start)?;
        for (is_set, word) in
            [(self.prev_kv, "prev_kv"), (self.no_put, "no puts"), (self.no_delete, "no deletes")]
        {
            if is_set {
                write!(f, ", {word}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.delete {
            write!(f, "delete of {} at {}", self.kv.key, self.kv.modified)?;
        } else {
            write!(f, "put of {}", self.kv)?;
        }
        match &self.prev {
            None => Ok(()),
            Some(prev) => write!(f, ", before it {prev}"),
        }
    }
}
