//! The bounds of everything that waits. Those that etcd has too are the same as there.

use std::time::Duration;

/// The shortest time between two progress notifications of a stream.
pub const PROGRESS_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// How much may wait, and how much is done at once. The defaults are meant for use; tests make them small, to meet them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Responses that wait in a stream for its reader, before its watchers are held back.
    pub stream_responses: usize,
    /// Bytes that wait in a stream, likewise. One response always fits, however large.
    pub stream_bytes: usize,
    /// Answers to requests that wait in a stream, before further requests are refused with [`Busy`](super::Busy).
    pub stream_answers: usize,
    /// Bytes of all that the victims of a stream hold. A victim beyond them holds nothing, and reads history again.
    pub victim_bytes: usize,
    /// Ids that a stream remembers of watchers ended by compaction, so that cancelling them is still answered.
    pub canceled_ids: usize,
    /// Watchers that one turn moves or reads history for.
    pub turn_watchers: usize,
    /// Changes that one turn reads.
    pub turn_changes: usize,
    /// Bytes that one turn reads.
    pub turn_bytes: usize,
    /// Revisions in a response that catches a watcher up.
    pub catch_up_revisions: usize,
    /// Bytes in such a response: it ends with the revision that reaches them.
    pub catch_up_bytes: usize,
    /// Events that are kept while a turn reads history, so that those it reads for miss nothing meanwhile.
    pub tail_events: usize,
    /// Bytes of these.
    pub tail_bytes: usize,
    /// Watchers of a dropped stream that are removed before others get their turn.
    pub drop_watchers: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            stream_responses: 128,
            stream_bytes: 4 << 20,
            stream_answers: 16,
            victim_bytes: 1 << 20,
            canceled_ids: 1024,
            turn_watchers: 512,
            turn_changes: 10_000,
            turn_bytes: 16 << 20,
            catch_up_revisions: 1000,
            catch_up_bytes: 1 << 20,
            tail_events: 256,
            tail_bytes: 4 << 20,
            drop_watchers: 512,
        }
    }
}
