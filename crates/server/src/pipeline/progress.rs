//! The progress of consensus, published for other threads: term, leader, commit index, leader
//! lease.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use types::{Index, MemberId, Term};

use crate::units::nanos;

/// The progress of consensus. The raft loop writes it, all threads read it.
#[derive(Debug, Default)]
pub(crate) struct RaftProgress {
    term: AtomicU64,
    leader: AtomicU64,
    committed: AtomicU64,
    is_leader: AtomicBool,
    /// Whether the local member leads a cluster in which it is the only member.
    is_sole_leader: AtomicBool,
    /// The time at which the leader was elected, or became known to this member.
    elected_at: AtomicU64,
    /// The time at which the last leader was lost; zero while there is one.
    leaderless_since: AtomicU64,
    lease: Mutex<LeaderLease>,
}

/// The leader lease: a member that received a heartbeat of the leader votes for no other within an
/// election timeout.
#[derive(Debug, Default)]
struct LeaderLease {
    term: Term,
    until: Duration,
    /// Confirmations from before this time do not count: a leader transfer lets a peer campaign
    /// without waiting.
    void_before: Duration,
}

impl RaftProgress {
    /// Returns whether the local member leads and no other member can.
    pub(crate) fn has_leader_lease(&self, now: Duration) -> bool {
        let lease = self.lease.lock();
        self.is_leader() && lease.term == self.term() && now < lease.until
    }

    /// Extends the lease: a quorum confirmed after `since` that it follows the leader of `term`.
    pub(crate) fn extend_leader_lease(&self, term: Term, since: Duration, length: Duration) {
        let mut lease = self.lease.lock();
        if since >= lease.void_before {
            (lease.term, lease.until) = (term, since.saturating_add(length));
        }
    }

    /// Suspends the lease for a leader transfer, which is decided by a certain time.
    pub(crate) fn suspend_leader_lease(&self, decided_by: Duration) {
        *self.lease.lock() = LeaderLease { void_before: decided_by, ..LeaderLease::default() };
    }

    pub(crate) fn term(&self) -> Term {
        Term(self.term.load(Ordering::Acquire))
    }

    pub(crate) fn set_term(&self, term: Term) {
        self.term.store(term.0, Ordering::Release);
    }

    pub(crate) fn leader(&self) -> Option<MemberId> {
        Some(MemberId(self.leader.load(Ordering::Acquire))).filter(|leader| leader.0 != 0)
    }

    /// Returns whether the local member leads.
    pub(crate) fn is_leader(&self) -> bool {
        self.is_leader.load(Ordering::Acquire)
    }

    /// Records the leader, or that there is none. Returns true if the leader is new.
    pub(crate) fn set_leader(
        &self,
        leader: Option<MemberId>,
        is_leader: bool,
        now: Duration,
    ) -> bool {
        let before = self.leader();
        self.leader.store(leader.map_or(0, |leader| leader.0), Ordering::Release);
        self.is_leader.store(is_leader, Ordering::Release);
        let is_new = leader.is_some() && leader != before;
        if is_new {
            self.elected_at.store(nanos(now), Ordering::Release);
        }
        let since = if leader.is_none() { nanos(now) } else { 0 };
        if leader.is_some() || before.is_some() {
            self.leaderless_since.store(since, Ordering::Release);
        }
        is_new
    }

    pub(crate) fn elected_at(&self) -> Duration {
        Duration::from_nanos(self.elected_at.load(Ordering::Acquire))
    }

    /// Returns the time without a leader; none while there is one.
    pub(crate) fn leaderless_for(&self, now: Duration) -> Option<Duration> {
        if self.leader().is_some() {
            return None;
        }
        let since = Duration::from_nanos(self.leaderless_since.load(Ordering::Acquire));
        Some(now.saturating_sub(since))
    }

    pub(crate) fn committed(&self) -> Index {
        Index(self.committed.load(Ordering::Acquire))
    }

    pub(crate) fn set_committed(&self, index: Index) {
        self.committed.store(index.0, Ordering::Release);
    }

    /// Returns whether no other member can lead. Then the locally applied state is the newest there
    /// is.
    pub(crate) fn is_sole_leader(&self) -> bool {
        self.is_sole_leader.load(Ordering::Acquire)
    }

    pub(crate) fn set_sole_leader(&self, is_sole_leader: bool) {
        self.is_sole_leader.store(is_sole_leader, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_leader_is_reported_as_new_once() {
        let progress = RaftProgress::default();
        let one = Some(MemberId(1));
        assert!(progress.set_leader(one, true, SECOND));
        assert!(!progress.set_leader(one, true, 2 * SECOND));
        assert_eq!(progress.elected_at(), SECOND);
        assert!(!progress.set_leader(None, false, 3 * SECOND));
        assert!(progress.set_leader(Some(MemberId(2)), false, 4 * SECOND));
    }

    #[test]
    fn a_leader_lease_ends_by_time_by_term_and_by_a_transfer() {
        let progress = RaftProgress::default();
        progress.set_term(Term(3));
        progress.set_leader(Some(MemberId(1)), true, SECOND);
        assert!(!progress.has_leader_lease(SECOND), "no quorum has confirmed");
        progress.extend_leader_lease(Term(3), SECOND, SECOND);
        assert!(progress.has_leader_lease(SECOND) && !progress.has_leader_lease(2 * SECOND));
        progress.set_term(Term(4));
        assert!(!progress.has_leader_lease(SECOND), "the lease is of another term");
        progress.extend_leader_lease(Term(4), SECOND, SECOND);
        progress.suspend_leader_lease(4 * SECOND);
        assert!(!progress.has_leader_lease(SECOND), "a transfer is in progress");
        progress.extend_leader_lease(Term(4), 3 * SECOND, SECOND);
        assert!(!progress.has_leader_lease(3 * SECOND));
        progress.extend_leader_lease(Term(4), 4 * SECOND, SECOND);
        assert!(progress.has_leader_lease(4 * SECOND));
    }

    #[test]
    fn the_time_without_a_leader_is_measured_from_its_loss() {
        let progress = RaftProgress::default();
        assert_eq!(progress.leaderless_for(SECOND), Some(SECOND), "since the start");
        progress.set_leader(Some(MemberId(1)), false, SECOND);
        assert_eq!(progress.leaderless_for(2 * SECOND), None);
        progress.set_leader(None, false, 3 * SECOND);
        progress.set_leader(None, false, 4 * SECOND);
        assert_eq!(progress.leaderless_for(5 * SECOND), Some(2 * SECOND));
    }
}
