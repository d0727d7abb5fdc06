//! Stage timings: the times at which a request passed each stage, recorded on demand.
//!
//! ```text
//!   put    Proposed 1.000  Logged 1.002   Synced 1.006  Committed 1.006  Applying 1.007  Applied
//!          queued for the  handed to the  durable       durable on       the state machine
//!          raft loop       log writer     locally       a quorum         began … finished
//!   range  ReadRequested 1.000    ReadConfirmed 1.001    ReadBegan 1.001
//! ```
//!
//! Few requests are traced. A request therefore carries an optional [`StageTimings`], and a stage
//! looks at [`TimedProposals`] only while that is not empty: otherwise the cost is one atomic load
//! per turn.
//!
//! Invariants: the first time of a stage counts, for a request that is proposed or read more than
//! once; an unknown time is left out, e.g. of the log of the leader that appended a forwarded
//! proposal; recording never delays a stage.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use prost::Message as _;
use proto::etcdserverpb::RequestHeader;
use raft::Entry;
use types::Index;

use crate::units::nanos;

/// The maximum number of proposals that are timed at once. Further ones run without timings.
pub const TIMED_PROPOSALS_MAX: usize = 1024;

/// A stage of a request whose time is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestStage {
    /// Queued for the raft loop.
    Proposed,
    /// Handed from the raft loop to the log writer.
    Logged,
    /// Durable in the local log.
    Synced,
    /// Durable on a quorum.
    Committed,
    /// The state machine began to apply it.
    Applying,
    /// The state machine has applied it.
    Applied,
    /// The waiter got the result.
    Answered,
    /// A read requested its read index.
    ReadRequested,
    /// The read index is known.
    ReadConfirmed,
    /// The read index is applied and the read began.
    ReadBegan,
}

const REQUEST_STAGES: usize = RequestStage::ReadBegan as usize + 1;

/// The times at which one request passed each stage, on the member's monotonic clock.
#[derive(Debug, Default)]
pub struct StageTimings {
    /// Nanoseconds; zero if the stage was not reached.
    times: [AtomicU64; REQUEST_STAGES],
}

impl StageTimings {
    /// Returns the time at which the request reached a stage, if it has.
    pub fn at(&self, stage: RequestStage) -> Option<Duration> {
        let time = self.times[stage as usize].load(Ordering::Relaxed);
        (time != 0).then(|| Duration::from_nanos(time))
    }

    /// Records the time of a stage, unless one is recorded already.
    pub(crate) fn record(&self, stage: RequestStage, now: Duration) {
        let time = &self.times[stage as usize];
        // An error means that a time was recorded before, which stays.
        let _ = time.compare_exchange(0, nanos(now), Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// The proposals in flight whose stages are timed.
#[derive(Debug, Default)]
pub(crate) struct TimedProposals {
    /// The length of `proposals`, readable without the lock.
    count: AtomicUsize,
    proposals: Mutex<Vec<TimedProposal>>,
}

#[derive(Debug)]
struct TimedProposal {
    id: u64,
    /// The index of its entry, once it has one.
    index: Option<Index>,
    timings: Arc<StageTimings>,
}

/// Ends the timing of a proposal when dropped.
#[derive(Debug)]
pub(crate) struct TimingGuard<'a> {
    timed: &'a TimedProposals,
    id: u64,
}

impl TimedProposals {
    /// Times a proposal if `timings` are given and the number of timed proposals permits.
    pub(crate) fn track(
        &self,
        id: u64,
        timings: Option<&Arc<StageTimings>>,
    ) -> Option<TimingGuard<'_>> {
        let timings = Arc::clone(timings?);
        let mut proposals = self.proposals.lock();
        if proposals.len() >= TIMED_PROPOSALS_MAX {
            return None;
        }
        proposals.push(TimedProposal { id, index: None, timings });
        self.count.store(proposals.len(), Ordering::Relaxed);
        drop(proposals);
        Some(TimingGuard { timed: self, id })
    }

    /// Records that the raft loop hands `entries` to the log writer, and learns their indexes.
    pub(crate) fn record_logged(&self, entries: &[Entry], now: impl FnOnce() -> Duration) {
        if self.is_empty() || entries.is_empty() {
            return;
        }
        let (now, mut proposals) = (now(), self.proposals.lock());
        for (index, id) in entries.iter().filter_map(|entry| Some((entry.index, id_of(entry)?))) {
            for proposal in proposals.iter_mut().filter(|proposal| proposal.id == id) {
                proposal.index = Some(index);
                proposal.timings.record(RequestStage::Logged, now);
            }
        }
    }

    /// Records that all entries up to `last` reached a stage.
    pub(crate) fn record_up_to(
        &self,
        stage: RequestStage,
        last: Index,
        now: impl FnOnce() -> Duration,
    ) {
        if self.is_empty() {
            return;
        }
        let (now, proposals) = (now(), self.proposals.lock());
        let has = |proposal: &&TimedProposal| proposal.index.is_some_and(|index| index <= last);
        proposals.iter().filter(has).for_each(|proposal| proposal.timings.record(stage, now));
    }

    /// Records that the state machine has applied a proposal.
    pub(crate) fn record_applied(
        &self,
        id: u64,
        began: Duration,
        ended: impl FnOnce() -> Duration,
    ) {
        if self.is_empty() {
            return;
        }
        let proposals = self.proposals.lock();
        if let Some(proposal) = proposals.iter().find(|proposal| proposal.id == id) {
            proposal.timings.record(RequestStage::Applying, began);
            proposal.timings.record(RequestStage::Applied, ended());
        }
    }

    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }
}

impl Drop for TimingGuard<'_> {
    fn drop(&mut self) {
        let mut proposals = self.timed.proposals.lock();
        proposals.retain(|proposal| proposal.id != self.id);
        self.timed.count.store(proposals.len(), Ordering::Relaxed);
    }
}

/// The header of a request: the decoder skips all other fields.
#[derive(Clone, PartialEq, prost::Message)]
struct HeaderOnly {
    #[prost(message, optional, tag = "100")]
    header: Option<RequestHeader>,
}

fn id_of(entry: &Entry) -> Option<u64> {
    HeaderOnly::decode(&*entry.data).ok()?.header.map(|header| header.id)
}

#[cfg(test)]
mod tests {
    use proto::etcdserverpb::{InternalRaftRequest, PutRequest};

    use super::*;

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn entry(index: u64, id: u64) -> Entry {
        let header = Some(RequestHeader { id, ..RequestHeader::default() });
        let put = Some(PutRequest { key: "k".into(), ..PutRequest::default() });
        let request = InternalRaftRequest { header, put, ..InternalRaftRequest::default() };
        Entry { index: Index(index), data: request.encode_to_vec().into(), ..Entry::default() }
    }

    #[test]
    fn a_timed_proposal_records_each_stage_it_reaches() {
        let (timed, timings) = (TimedProposals::default(), Arc::new(StageTimings::default()));
        let guard = timed.track(7, Some(&timings));
        timed.record_logged(&[entry(4, 6), entry(5, 7)], || at(1));
        timed.record_up_to(RequestStage::Synced, Index(4), || at(2));
        assert_eq!(timings.at(RequestStage::Synced), None, "entry 5 is not synced");
        timed.record_up_to(RequestStage::Synced, Index(5), || at(3));
        timed.record_up_to(RequestStage::Committed, Index(9), || at(4));
        timed.record_applied(6, at(5), || at(6));
        timed.record_applied(7, at(6), || at(7));
        let expected = [
            (RequestStage::Proposed, None),
            (RequestStage::Logged, Some(at(1))),
            (RequestStage::Synced, Some(at(3))),
            (RequestStage::Committed, Some(at(4))),
            (RequestStage::Applying, Some(at(6))),
            (RequestStage::Applied, Some(at(7))),
        ];
        for (stage, time) in expected {
            assert_eq!(timings.at(stage), time, "{stage:?}");
        }
        drop(guard);
        assert!(timed.is_empty());
    }

    #[test]
    fn the_first_time_of_a_stage_counts() {
        let timings = StageTimings::default();
        timings.record(RequestStage::Proposed, at(1));
        timings.record(RequestStage::Proposed, at(2));
        assert_eq!(timings.at(RequestStage::Proposed), Some(at(1)));
    }

    #[test]
    fn the_clock_is_not_read_while_no_proposal_is_timed() {
        let never = || -> Duration { panic!("read the clock without a timed proposal") };
        let timed = TimedProposals::default();
        assert!(timed.track(7, None).is_none());
        timed.record_logged(&[entry(5, 7)], never);
        timed.record_up_to(RequestStage::Synced, Index(5), never);
        timed.record_applied(7, at(0), never);
    }

    #[test]
    fn the_number_of_timed_proposals_is_bounded() {
        let (timed, timings) = (TimedProposals::default(), Arc::new(StageTimings::default()));
        let all: Vec<_> =
            (0..TIMED_PROPOSALS_MAX as u64).map(|id| timed.track(id, Some(&timings))).collect();
        assert!(all.iter().all(Option::is_some));
        assert!(timed.track(TIMED_PROPOSALS_MAX as u64, Some(&timings)).is_none());
        drop(all);
        assert!(timed.track(1, Some(&timings)).is_some());
    }
}
