//! The bounds of queues and of the work per turn. Bounds that etcd has too have its values.

use std::time::Duration;

/// The shortest time between two progress notifications of a stream.
pub const PROGRESS_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// The bounds of a hub. Members use the defaults; tests set small ones to reach them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Responses in the queue of a stream before its watchers become victims.
    pub stream_responses: usize,
    /// Bytes in the queue of a stream before its watchers become victims. A response of any size
    /// fits into an empty queue.
    pub stream_bytes: usize,
    /// Unread answers in the queue of a stream before requests are refused with
    /// [`Busy`](super::Busy).
    pub stream_answers: usize,
    /// Bytes that the victims of a stream hold. Further victims hold nothing, and read history
    /// again.
    pub victim_bytes: usize,
    /// Ids of watchers canceled by a compaction that a stream remembers, in order to answer a
    /// cancel request.
    pub canceled_ids: usize,
    /// Watchers that one turn moves or syncs.
    pub turn_watchers: usize,
    /// Changes that one turn reads from history.
    pub turn_changes: usize,
    /// Bytes that one turn reads from history.
    pub turn_bytes: usize,
    /// Revisions in one catch-up response.
    pub catch_up_revisions: usize,
    /// Bytes in one catch-up response. It ends with the revision that reaches them.
    pub catch_up_bytes: usize,
    /// Events kept in the tail while a turn reads history.
    pub tail_events: usize,
    /// Bytes kept in the tail.
    pub tail_bytes: usize,
    /// Watchers of a dropped stream that are removed per lock acquisition.
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
