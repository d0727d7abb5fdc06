//! Requests of clients, and the reasons for refusing them.

use bytes::Bytes;

use super::key_span::KeySpan;
use crate::event::EventKind;

/// A request to create a watcher.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateRequest {
    /// The key, or the first key of the range. Empty selects the smallest key.
    pub key: Bytes,
    /// The exclusive end of the range. Empty selects the key alone; a zero byte selects all keys
    /// from `key` on.
    pub range_end: Bytes,
    /// The first revision to deliver. Zero means the next one.
    pub start_revision: i64,
    /// The id of the watcher in its stream. Zero lets the hub choose one.
    pub watch_id: i64,
    /// The events to leave out.
    pub filters: Filters,
    /// Whether to send progress notifications.
    pub progress_notify: bool,
    /// Whether events carry the previous `KeyValue`.
    pub prev_kv: bool,
    /// Whether large responses may be split into fragments.
    pub fragment: bool,
}

impl CreateRequest {
    /// Returns the requested keys.
    pub(super) fn span(&self) -> Result<KeySpan, Refusal> {
        if self.start_revision < 0 {
            return Err(Refusal::Compacted);
        }
        KeySpan::new(&self.key, &self.range_end).ok_or(Refusal::EmptyRange)
    }
}

/// The types of events to leave out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filters {
    /// Leaves out puts.
    pub no_put: bool,
    /// Leaves out deletes.
    pub no_delete: bool,
}

impl Filters {
    /// Returns whether an event of this type is wanted.
    pub(super) fn pass(self, kind: EventKind) -> bool {
        match kind {
            EventKind::Put => !self.no_put,
            EventKind::Delete => !self.no_delete,
        }
    }
}

/// The reason for refusing to create a watcher, sent in a response that is both `created` and
/// `canceled`. Texts are etcd's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The start revision is negative.
    #[error("etcdserver: mvcc: required revision has been compacted")]
    Compacted,
    /// The range ends before it begins.
    #[error("mvcc: watcher range is empty")]
    EmptyRange,
    /// The stream already has a watcher with the requested id.
    #[error("mvcc: duplicate watch ID provided on the WatchStream")]
    DuplicateId,
}

/// The request was refused because too many answers are unread. Retry after reading some.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("watch: answers to earlier requests have to be read first")]
pub struct Busy;
