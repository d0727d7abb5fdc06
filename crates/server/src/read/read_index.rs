//! Batched read index requests: one read index request serves all reads that were queued before it
//! was sent.
//!
//! ```text
//!   queued   r4 r5          arrived while a round is in flight: served by the next round
//!   round    r1 r2 r3       sent with contexts 7 and, 500 ms later, 8; either response counts
//!     └─► index 120 ─► complete the reads when entry 120 is applied
//! ```

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sync::oneshot;
use types::Index;

use crate::error::Error;
use crate::propose::stage_timings::{RequestStage, StageTimings};
use crate::read::applied_index::AppliedIndex;

/// The time after which a read index request is retried: the request or its response may have been
/// lost.
const RETRY: Duration = Duration::from_millis(500);

/// A linearizable read that waits for its read index.
#[derive(Debug)]
pub(crate) struct ReadRequest {
    /// Completes when the read index is applied.
    pub(crate) waiter: oneshot::Sender<Result<(), Error>>,
    pub(crate) timings: Option<Arc<StageTimings>>,
}

impl ReadRequest {
    fn record_confirmed(&self, now: Duration) {
        if let Some(timings) = &self.timings {
            timings.record(RequestStage::ReadConfirmed, now);
        }
    }
}

/// The reads that wait for a read index.
#[derive(Debug, Default)]
pub(crate) struct ReadIndexQueue {
    queued: Vec<ReadRequest>,
    round: Option<ReadRound>,
}

/// The reads that share one read index.
#[derive(Debug)]
struct ReadRound {
    reads: Vec<ReadRequest>,
    /// The contexts of the request and its retries, at most one per [`RETRY`] of the request
    /// timeout.
    contexts: Vec<u64>,
    began: Duration,
    last_sent: Duration,
}

impl ReadIndexQueue {
    /// Queues a read for the next round.
    pub(crate) fn push(&mut self, read: ReadRequest) {
        self.queued.push(read);
    }

    /// Returns the context of the read index request to send now, if a round starts or is due for
    /// a retry. `id` makes a unique context.
    pub(crate) fn next_request(
        &mut self,
        now: Duration,
        id: impl FnOnce() -> u64,
    ) -> Option<Bytes> {
        match &mut self.round {
            None if self.queued.is_empty() => None,
            None => {
                let (reads, id) = (std::mem::take(&mut self.queued), id());
                let round = ReadRound { reads, contexts: vec![id], began: now, last_sent: now };
                self.round = Some(round);
                Some(encode_context(id))
            }
            Some(round) if now >= round.last_sent + RETRY => Some(round.retry(now, id())),
            Some(_) => None,
        }
    }

    /// Handles the answer of consensus: the reads of the round wait until `index` is applied.
    /// Returns false if the context belongs to an earlier round.
    pub(crate) fn on_read_state(
        &mut self,
        context: &[u8],
        index: Index,
        applied: &AppliedIndex,
        now: Duration,
    ) -> bool {
        let id = <[u8; 8]>::try_from(context).map(u64::from_be_bytes);
        let is_current = |round: &mut ReadRound| id.is_ok_and(|id| round.contexts.contains(&id));
        let Some(round) = self.round.take_if(is_current) else { return false };
        for read in round.reads {
            read.record_confirmed(now);
            applied.notify_at(index, read.waiter);
        }
        true
    }

    /// Handles a new leader. A round that was sent to the old one fails. Without an old leader the
    /// request reached no member, and the round starts anew. Returns whether a round failed.
    pub(crate) fn on_leader_change(&mut self, had_leader: bool) -> bool {
        match self.round.take() {
            Some(round) if had_leader => {
                round.fail(&Error::LeaderChanged);
                true
            }
            Some(round) => {
                self.queued.splice(..0, round.reads);
                false
            }
            None => false,
        }
    }

    /// Fails a round that began at `until` or earlier. Returns whether there was one.
    pub(crate) fn expire(&mut self, until: Duration) -> bool {
        let Some(round) = self.round.take_if(|round| round.began <= until) else { return false };
        round.fail(&Error::Timeout);
        true
    }
}

impl ReadRound {
    fn retry(&mut self, now: Duration, id: u64) -> Bytes {
        self.contexts.push(id);
        self.last_sent = now;
        encode_context(id)
    }

    fn fail(self, error: &Error) {
        self.reads.into_iter().for_each(|read| drop(read.waiter.send(Err(error.clone()))));
    }
}

fn encode_context(id: u64) -> Bytes {
    Bytes::copy_from_slice(&id.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZERO: Duration = Duration::ZERO;

    fn push_read(queue: &mut ReadIndexQueue) -> oneshot::Receiver<Result<(), Error>> {
        let (waiter, receiver) = oneshot::channel();
        queue.push(ReadRequest { waiter, timings: None });
        receiver
    }

    #[test]
    fn reads_that_arrive_during_a_round_wait_for_the_next() {
        let (mut queue, applied) = (ReadIndexQueue::default(), AppliedIndex::default());
        let mut first = push_read(&mut queue);
        let context = queue.next_request(ZERO, || 7).unwrap();
        let mut second = push_read(&mut queue);
        assert_eq!(queue.next_request(ZERO, || 8), None, "one round at a time");
        assert!(queue.on_read_state(&context, Index(0), &applied, ZERO));
        assert_eq!(first.try_recv(), Ok(Some(Ok(()))));
        assert_eq!(second.try_recv(), Ok(None));
        assert!(queue.next_request(ZERO, || 8).is_some());
    }

    #[test]
    fn a_confirmed_read_waits_until_its_index_is_applied() {
        let (mut queue, applied) = (ReadIndexQueue::default(), AppliedIndex::default());
        let mut read = push_read(&mut queue);
        let context = queue.next_request(ZERO, || 1).unwrap();
        assert!(queue.on_read_state(&context, Index(5), &applied, ZERO));
        applied.advance(Index(4));
        assert_eq!(read.try_recv(), Ok(None));
        applied.advance(Index(5));
        assert_eq!(read.try_recv(), Ok(Some(Ok(()))));
    }

    #[test]
    fn an_unanswered_request_is_retried_and_either_response_counts() {
        for response in [1, 2] {
            let (mut queue, applied) = (ReadIndexQueue::default(), AppliedIndex::default());
            let mut read = push_read(&mut queue);
            queue.next_request(ZERO, || 1).unwrap();
            assert_eq!(queue.next_request(RETRY - Duration::from_millis(1), || 2), None);
            queue.next_request(RETRY, || 2).unwrap();
            let unknown = encode_context(3);
            assert!(!queue.on_read_state(&unknown, Index(0), &applied, ZERO), "never sent");
            assert!(queue.on_read_state(&encode_context(response), Index(0), &applied, ZERO));
            assert_eq!(read.try_recv(), Ok(Some(Ok(()))));
        }
    }

    #[test]
    fn a_leader_change_fails_the_round_and_keeps_queued_reads() {
        let mut queue = ReadIndexQueue::default();
        let mut first = push_read(&mut queue);
        queue.next_request(ZERO, || 1).unwrap();
        let mut second = push_read(&mut queue);
        assert!(queue.on_leader_change(true));
        assert_eq!(first.try_recv(), Ok(Some(Err(Error::LeaderChanged))));
        assert_eq!(second.try_recv(), Ok(None));
    }

    #[test]
    fn a_round_without_a_leader_is_sent_again_to_the_first_leader() {
        let (mut queue, applied) = (ReadIndexQueue::default(), AppliedIndex::default());
        let mut read = push_read(&mut queue);
        queue.next_request(ZERO, || 1).unwrap();
        assert!(!queue.on_leader_change(false));
        let context = queue.next_request(ZERO, || 2).unwrap();
        assert!(queue.on_read_state(&context, Index(0), &applied, ZERO));
        assert_eq!(read.try_recv(), Ok(Some(Ok(()))));
    }

    #[test]
    fn a_round_times_out() {
        let mut queue = ReadIndexQueue::default();
        let mut read = push_read(&mut queue);
        queue.next_request(RETRY, || 1).unwrap();
        assert!(!queue.expire(ZERO));
        assert!(queue.expire(RETRY));
        assert_eq!(read.try_recv(), Ok(Some(Err(Error::Timeout))));
    }
}
