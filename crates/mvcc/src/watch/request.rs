//! What a client asks for, and why it may not get it.

use bytes::Bytes;

use super::key_span::KeySpan;
use crate::event::EventKind;

/// A watcher that a client wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateRequest {
    /// The key, or the first key of the range. Empty means the smallest one.
    pub key: Bytes,
    /// The end of the range, itself not in it. Empty means the key alone, a zero byte all keys from `key` on.
    pub range_end: Bytes,
    /// The first revision whose events are wanted. Zero means from now on.
    pub start_revision: i64,
    /// The name of the watcher within its stream. Zero lets the hub choose one.
    pub watch_id: i64,
    /// Which events to leave out.
    pub filters: Filters,
    /// Whether to tell now and then how far the watcher is, when nothing happens.
    pub progress_notify: bool,
    /// Whether events come with what the key was before.
    pub prev_kv: bool,
    /// Whether large responses may be split.
    pub fragment: bool,
}

impl CreateRequest {
    /// The keys that are asked for.
    pub(super) fn span(&self) -> Result<KeySpan, Refusal> {
        if self.start_revision < 0 {
            return Err(Refusal::Compacted);
        }
        KeySpan::new(&self.key, &self.range_end).ok_or(Refusal::EmptyRange)
    }
}

/// Which events to leave out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filters {
    /// Leave out puts.
    pub no_put: bool,
    /// Leave out deletions.
    pub no_delete: bool,
}

impl Filters {
    /// Whether an event of this kind is wanted.
    pub(super) fn pass(self, kind: EventKind) -> bool {
        match kind {
            EventKind::Put => !self.no_put,
            EventKind::Delete => !self.no_delete,
        }
    }
}

/// Why a watcher was not created. The client is told in a response that is `created` and `canceled` at once; the texts are etcd's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The start revision is negative.
    #[error("etcdserver: mvcc: required revision has been compacted")]
    Compacted,
    /// The range ends before it begins.
    #[error("mvcc: watcher range is empty")]
    EmptyRange,
    /// The client chose an id that the stream has already.
    #[error("mvcc: duplicate watch ID provided on the WatchStream")]
    DuplicateId,
}

/// Too many answers wait to be read: nothing was done. Read some, then ask again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("watch: answers to earlier requests have to be read first")]
pub struct Busy;
