//! What watchers need of the store: to read again what they were too late for.

use std::ops::ControlFlow;

use bytes::Bytes;

use crate::event::Event;

/// The past of the store, as far as it is not compacted.
///
/// All that was handed to [`Hub::publish`](super::Hub::publish) can be read here by then. It is never called with a lock of the hub held.
pub trait History {
    /// The last revision.
    fn current(&self) -> i64;

    /// The revision that was compacted last: those below it are gone. -1 if there was none.
    fn compacted(&self) -> i64;

    /// Calls `f` with each change whose main revision is within `from..=to`, in order, until it breaks. Fails with
    /// [`HistoryError::Compacted`] if `from` is below the compacted revision by now. Deletions at the compacted revision itself
    /// are still there.
    fn changes(
        &self,
        from: i64,
        to: i64,
        f: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<(), HistoryError>;

    /// The encoded `KeyValue` that a key had at a revision. None if it had none, or if that is compacted.
    fn value_at(&self, key: &[u8], revision: i64) -> Result<Option<Bytes>, HistoryError>;
}

/// Why the past could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    /// It is compacted up to this revision. Whoever asked is told so.
    #[error("mvcc: required revision has been compacted")]
    Compacted(i64),
    /// The database is damaged. The member has to stop.
    #[error(transparent)]
    Read(#[from] backend::ReadError),
}
