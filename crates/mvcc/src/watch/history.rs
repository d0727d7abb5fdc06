//! The history of the store, which watchers read to catch up.

use std::ops::ControlFlow;

use bytes::Bytes;

use crate::event::Event;

/// The history of the store since the last compaction.
///
/// Changes are readable here before they are passed to [`Hub::publish`](super::Hub::publish). Never
/// called with a lock of the hub held.
pub trait History {
    /// Returns the last revision.
    fn current(&self) -> i64;

    /// Returns the compacted revision, below which there is no history, or -1.
    fn compacted(&self) -> i64;

    /// Calls `f` with each change whose main revision is in `from..=to`, in order, until it breaks.
    /// Fails with [`HistoryError::Compacted`] if `from` is below the compacted revision. Tombstones
    /// at the compacted revision itself are included.
    fn changes(
        &self,
        from: i64,
        to: i64,
        f: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<(), HistoryError>;

    /// Returns the encoded `KeyValue` of a key at a revision, or `None` if it did not exist then or
    /// is compacted.
    fn value_at(&self, key: &[u8], revision: i64) -> Result<Option<Bytes>, HistoryError>;
}

/// History could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    /// History is compacted up to this revision. The watcher is canceled.
    #[error("mvcc: required revision has been compacted")]
    Compacted(i64),
    /// The database is damaged. The member has to stop.
    #[error(transparent)]
    Read(#[from] backend::ReadError),
}
