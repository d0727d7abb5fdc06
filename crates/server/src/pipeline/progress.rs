//! Where consensus is, for everybody to read without asking the raft loop.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use types::{Index, MemberId, Term};

use crate::units::nanos;

/// Where consensus is. The raft loop writes; everybody reads.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    term: AtomicU64,
    lead: AtomicU64,
    committed: AtomicU64,
    leads: AtomicBool,
    /// Whether this member leads a cluster in which it is the only voter.
    rules_alone: AtomicBool,
    /// When the leader was elected, or this member learned of it.
    elected_at: AtomicU64,
    /// Since when there is no leader; zero while there is one.
    leaderless_since: AtomicU64,
    mandate: Mutex<Mandate>,
}

/// For how long a leader knows that nobody else leads: whoever has heard from it elects nobody for an election timeout.
#[derive(Debug, Default)]
struct Mandate {
    term: Term,
    until: Duration,
    /// What is known from before this does not count: somebody was told to stand for election, and does not wait.
    void_before: Duration,
}

impl Progress {
    /// Whether this member leads, and nobody else can.
    pub(crate) fn leads_for_sure(&self, now: Duration) -> bool {
        let mandate = self.mandate();
        self.leads() && mandate.term == self.term() && now < mandate.until
    }

    /// A majority said, some time after `since`, that it follows this leader.
    pub(crate) fn confirm(&self, term: Term, since: Duration, lasts: Duration) {
        let mut mandate = self.mandate();
        if since >= mandate.void_before {
            (mandate.term, mandate.until) = (term, since.saturating_add(lasts));
        }
    }

    /// Leadership is handed on. Whether that succeeds is known by a certain time.
    pub(crate) fn hand_on(&self, known_by: Duration) {
        *self.mandate() = Mandate { void_before: known_by, ..Mandate::default() };
    }

    fn mandate(&self) -> MutexGuard<'_, Mandate> {
        self.mandate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn term(&self) -> Term {
        Term(self.term.load(Ordering::Acquire))
    }

    pub(crate) fn set_term(&self, term: Term) {
        self.term.store(term.0, Ordering::Release);
    }

    pub(crate) fn leader(&self) -> Option<MemberId> {
        Some(MemberId(self.lead.load(Ordering::Acquire))).filter(|lead| lead.0 != 0)
    }

    pub(crate) fn leads(&self) -> bool {
        self.leads.load(Ordering::Acquire)
    }

    /// There is another leader, or none. True if it is one that was not known before.
    pub(crate) fn set_leader(&self, lead: Option<MemberId>, leads: bool, now: Duration) -> bool {
        let before = self.leader();
        self.lead.store(lead.map_or(0, |lead| lead.0), Ordering::Release);
        self.leads.store(leads, Ordering::Release);
        let is_new = lead.is_some() && lead != before;
        if is_new {
            self.elected_at.store(nanos(now), Ordering::Release);
        }
        let since = if lead.is_none() { nanos(now) } else { 0 };
        if lead.is_some() || before.is_some() {
            self.leaderless_since.store(since, Ordering::Release);
        }
        is_new
    }

    pub(crate) fn elected_at(&self) -> Duration {
        Duration::from_nanos(self.elected_at.load(Ordering::Acquire))
    }

    /// How long there has been no leader; none while there is one.
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

    /// Whether nobody else can lead: then what is applied here is all that there is.
    pub(crate) fn rules_alone(&self) -> bool {
        self.rules_alone.load(Ordering::Acquire)
    }

    pub(crate) fn set_rules_alone(&self, alone: bool) {
        self.rules_alone.store(alone, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_leader_is_new_once() {
        let progress = Progress::default();
        let one = Some(MemberId(1));
        assert!(progress.set_leader(one, true, SECOND));
        assert!(!progress.set_leader(one, true, 2 * SECOND));
        assert_eq!(progress.elected_at(), SECOND);
        assert!(!progress.set_leader(None, false, 3 * SECOND));
        assert!(progress.set_leader(Some(MemberId(2)), false, 4 * SECOND));
    }

    #[test]
    fn a_leader_is_sure_of_itself_for_a_while() {
        let progress = Progress::default();
        progress.set_term(Term(3));
        progress.set_leader(Some(MemberId(1)), true, SECOND);
        assert!(!progress.leads_for_sure(SECOND), "nobody has said so");
        progress.confirm(Term(3), SECOND, SECOND);
        assert!(progress.leads_for_sure(SECOND) && !progress.leads_for_sure(2 * SECOND));
        progress.set_term(Term(4));
        assert!(!progress.leads_for_sure(SECOND), "that was another term");
        progress.confirm(Term(4), SECOND, SECOND);
        progress.hand_on(4 * SECOND);
        assert!(!progress.leads_for_sure(SECOND), "another may lead any time");
        progress.confirm(Term(4), 3 * SECOND, SECOND);
        assert!(!progress.leads_for_sure(3 * SECOND));
        progress.confirm(Term(4), 4 * SECOND, SECOND);
        assert!(progress.leads_for_sure(4 * SECOND));
    }

    #[test]
    fn time_without_a_leader_is_measured() {
        let progress = Progress::default();
        assert_eq!(progress.leaderless_for(SECOND), Some(SECOND), "since the beginning");
        progress.set_leader(Some(MemberId(1)), false, SECOND);
        assert_eq!(progress.leaderless_for(2 * SECOND), None);
        progress.set_leader(None, false, 3 * SECOND);
        progress.set_leader(None, false, 4 * SECOND);
        assert_eq!(progress.leaderless_for(5 * SECOND), Some(2 * SECOND));
    }
}
