//! What watchers are told.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::kv::{Kv, Span, is_zero};

/// A watch, from its creation to its end. One that was resumed is two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// Who watches.
    pub client: u64,
    /// The member asked, if known.
    #[serde(default)]
    pub member: u64,
    /// What was asked for.
    pub request: WatchRequest,
    /// What came, in order. Fragments of a response are one response, and a progress report about a whole stream belongs to each of its watches.
    pub responses: Vec<WatchResponse>,
}

/// What a watcher asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchRequest {
    /// Which keys.
    #[serde(flatten)]
    pub span: Span,
    /// The first revision of interest; zero for whatever comes next.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub start: i64,
    /// Whether events should tell what was there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prev_kv: bool,
    /// Whether puts are of no interest.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_put: bool,
    /// Whether deletes are of no interest.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_delete: bool,
}

/// A message to a watcher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchResponse {
    /// When it came.
    pub at_ns: u64,
    /// The revision in its header.
    pub revision: i64,
    /// What it says.
    #[serde(rename = "news")]
    pub body: WatchBody,
}

/// What a message to a watcher says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WatchBody {
    /// The watch exists. With `start` zero, it begins just after the header's revision.
    Created,
    /// KeyHistory have changed.
    Events(Vec<Event>),
    /// All up to the header's revision has been sent.
    Progress,
    /// It is over, and nothing follows.
    Canceled {
        /// Not zero: because everything before this revision is gone.
        #[serde(default)]
        compact_revision: i64,
    },
}

/// A change of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// What was put; of a deletion, only key and `mod` are there.
    pub kv: Kv,
    /// Whether it was a deletion.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub delete: bool,
    /// What was there before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prev: Option<Kv>,
}

impl WatchRequest {
    /// All that happens to `span` from `start` on.
    #[must_use]
    pub fn from(span: Span, start: i64) -> WatchRequest {
        WatchRequest { span, start, prev_kv: false, no_put: false, no_delete: false }
    }

    /// Whether a change of `key` is of interest.
    #[must_use]
    pub fn wants(&self, key: &str, delete: bool) -> bool {
        let filtered = if delete { self.no_delete } else { self.no_put };
        !filtered && self.span.contains(key)
    }
}

impl Event {
    /// A put, of which nothing is told but what was put.
    #[must_use]
    pub fn put(kv: Kv) -> Event {
        Event { kv, delete: false, prev: None }
    }

    /// A deletion.
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
        for (asked, word) in
            [(self.prev_kv, "prev_kv"), (self.no_put, "no puts"), (self.no_delete, "no deletes")]
        {
            if asked {
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
