//! When a request came to each stage, for whoever wants to know.
//!
//! ```text
//!   put      proposed 1.000   logged 1.002   synced 1.006   committed 1.006   applying 1.007   applied 1.007
//!            asked for        handed to      durable        a quorum          the state machine
//!                             the log        here           has it            has it from … until
//!   range    read asked 1.000   read confirmed 1.001   read began 1.001
//! ```
//!
//! Nearly nobody does. So a request carries [`Marks`] or nothing, and a stage looks at [`Marked`] only while there is something in it: one comparison for
//! all that it does in a turn.
//!
//! What is always true: the first time counts, of a request that is proposed or reads more than once; what is not known is left out, as the log of a member
//! that another has taken the proposal of; and a stage is never held up by it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prost::Message as _;
use proto::etcdserverpb::RequestHeader;
use raft::Entry;
use types::Index;

use crate::units::nanos;

/// The most requests that are followed at a time. More are carried out like any other, and nothing is noted of them.
pub const MARKED_MAX: usize = 1024;

/// A moment in the life of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// It was handed to the raft loop.
    Proposed,
    /// The raft loop handed it to the log.
    Logged,
    /// The log of this member has it, durably.
    Synced,
    /// A quorum has.
    Committed,
    /// The state machine began with it.
    Applying,
    /// The state machine has it.
    Applied,
    /// Whoever asked heard what became of it.
    Answered,
    /// It asked how much has to be applied before it may read.
    ReadAsked,
    /// It was told so.
    ReadConfirmed,
    /// So much is applied: it began to read.
    ReadBegan,
}

const MOMENTS: usize = Moment::ReadBegan as usize + 1;

/// When a request came to each stage, by the member's monotonic clock.
#[derive(Debug, Default)]
pub struct Marks {
    /// In nanoseconds; zero if it has not come there.
    at: [AtomicU64; MOMENTS],
}

impl Marks {
    /// When it came there; none if it has not.
    pub fn at(&self, moment: Moment) -> Option<Duration> {
        let at = self.at[moment as usize].load(Ordering::Relaxed);
        (at != 0).then(|| Duration::from_nanos(at))
    }

    pub(crate) fn note(&self, moment: Moment, now: Duration) {
        let at = &self.at[moment as usize];
        // An error says that it was there before: the first time counts.
        let _ = at.compare_exchange(0, nanos(now), Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// The proposals that are followed through the stages.
#[derive(Debug, Default)]
pub(crate) struct Marked {
    /// How many there are, to be looked at without the lock.
    count: AtomicUsize,
    proposals: Mutex<Vec<Proposal>>,
}

#[derive(Debug)]
struct Proposal {
    id: u64,
    /// Its place in the log, once it has one.
    index: Option<Index>,
    marks: Arc<Marks>,
}

/// Follows a proposal until it is dropped.
#[derive(Debug)]
pub(crate) struct Following<'a> {
    marked: &'a Marked,
    id: u64,
}

impl Marked {
    /// Follows a proposal, if somebody wants to know and not too many do.
    pub(crate) fn follow(&self, id: u64, marks: Option<&Arc<Marks>>) -> Option<Following<'_>> {
        let marks = Arc::clone(marks?);
        let mut proposals = self.lock();
        if proposals.len() >= MARKED_MAX {
            return None;
        }
        proposals.push(Proposal { id, index: None, marks });
        self.count.store(proposals.len(), Ordering::Relaxed);
        drop(proposals);
        Some(Following { marked: self, id })
    }

    /// These go to the log.
    pub(crate) fn logged(&self, entries: &[Entry], now: impl FnOnce() -> Duration) {
        if self.is_empty() || entries.is_empty() {
            return;
        }
        let (now, mut proposals) = (now(), self.lock());
        for (index, id) in entries.iter().filter_map(|entry| Some((entry.index, id_of(entry)?))) {
            for proposal in proposals.iter_mut().filter(|proposal| proposal.id == id) {
                proposal.index = Some(index);
                proposal.marks.note(Moment::Logged, now);
            }
        }
    }

    /// All up to there has come to this moment.
    pub(crate) fn reached(&self, moment: Moment, last: Index, now: impl FnOnce() -> Duration) {
        if self.is_empty() {
            return;
        }
        let (now, proposals) = (now(), self.lock());
        let has = |proposal: &&Proposal| proposal.index.is_some_and(|index| index <= last);
        proposals.iter().filter(has).for_each(|proposal| proposal.marks.note(moment, now));
    }

    /// This one was applied.
    pub(crate) fn applied(&self, id: u64, began: Duration, ended: impl FnOnce() -> Duration) {
        if self.is_empty() {
            return;
        }
        let proposals = self.lock();
        if let Some(proposal) = proposals.iter().find(|proposal| proposal.id == id) {
            proposal.marks.note(Moment::Applying, began);
            proposal.marks.note(Moment::Applied, ended());
        }
    }

    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Proposal>> {
        self.proposals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Following<'_> {
    fn drop(&mut self) {
        let mut proposals = self.marked.lock();
        proposals.retain(|proposal| proposal.id != self.id);
        self.marked.count.store(proposals.len(), Ordering::Relaxed);
    }
}

/// The part of a request that says which one it is; what else is in it is passed over.
#[derive(Clone, PartialEq, prost::Message)]
struct Head {
    #[prost(message, optional, tag = "100")]
    header: Option<RequestHeader>,
}

fn id_of(entry: &Entry) -> Option<u64> {
    Head::decode(&*entry.data).ok()?.header.map(|header| header.id)
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
    fn a_proposal_is_followed_through_the_stages() {
        let (marked, marks) = (Marked::default(), Arc::new(Marks::default()));
        let following = marked.follow(7, Some(&marks));
        marked.logged(&[entry(4, 6), entry(5, 7)], || at(1));
        marked.reached(Moment::Synced, Index(4), || at(2));
        assert_eq!(marks.at(Moment::Synced), None, "not as far as that");
        marked.reached(Moment::Synced, Index(5), || at(3));
        marked.reached(Moment::Committed, Index(9), || at(4));
        marked.applied(6, at(5), || at(6));
        marked.applied(7, at(6), || at(7));
        let moments = [
            (Moment::Proposed, None),
            (Moment::Logged, Some(at(1))),
            (Moment::Synced, Some(at(3))),
            (Moment::Committed, Some(at(4))),
            (Moment::Applying, Some(at(6))),
            (Moment::Applied, Some(at(7))),
        ];
        for (moment, time) in moments {
            assert_eq!(marks.at(moment), time, "{moment:?}");
        }
        drop(following);
        assert!(marked.is_empty());
    }

    #[test]
    fn the_first_time_counts() {
        let marks = Marks::default();
        marks.note(Moment::Proposed, at(1));
        marks.note(Moment::Proposed, at(2));
        assert_eq!(marks.at(Moment::Proposed), Some(at(1)));
    }

    #[test]
    fn without_anybody_who_wants_to_know_nobody_looks_at_the_clock() {
        let never = || -> Duration { panic!("nobody wants to know") };
        let marked = Marked::default();
        assert!(marked.follow(7, None).is_none());
        marked.logged(&[entry(5, 7)], never);
        marked.reached(Moment::Synced, Index(5), never);
        marked.applied(7, at(0), never);
    }

    #[test]
    fn no_more_are_followed_than_there_are_places_for() {
        let (marked, marks) = (Marked::default(), Arc::new(Marks::default()));
        let all: Vec<_> =
            (0..MARKED_MAX as u64).map(|id| marked.follow(id, Some(&marks))).collect();
        assert!(all.iter().all(Option::is_some));
        assert!(marked.follow(MARKED_MAX as u64, Some(&marks)).is_none());
        drop(all);
        assert!(marked.follow(1, Some(&marks)).is_some());
    }
}
