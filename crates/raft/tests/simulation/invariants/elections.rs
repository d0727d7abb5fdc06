//! At most one leader per term, and one vote per member and term.
//!
//! A vote counts from the moment the response leaves the member, because the candidate may then
//! rely on it; the member's own state is not consulted. So a vote that a crash revoked is detected
//! as soon as the member votes for another candidate.

use std::collections::BTreeMap;

use raft::HardState;
use types::{MemberId, Term};

use super::{Check, Invariant, ensure};

/// The leaders and votes of every term.
#[derive(Default)]
pub(crate) struct Elections {
    /// The leader of each term with its incarnation.
    leaders: BTreeMap<Term, (MemberId, u32)>,
    votes: BTreeMap<(MemberId, Term), MemberId>,
}

impl Elections {
    /// Checks a leader, given its durable hard state. Returns true if it is new.
    pub(crate) fn leads(
        &mut self,
        term: Term,
        leader: MemberId,
        incarnation: u32,
        durable: HardState,
    ) -> Check<bool> {
        // Otherwise it could crash, campaign again in the same term and win with the same votes,
        // but with another log.
        let own_vote = (durable.term, durable.vote) == (term, Some(leader));
        ensure(own_vote, Invariant::ElectionSafety, || {
            format!("{leader} leads in term {term} but has {durable:?} on disk")
        })?;
        let new = !self.leaders.contains_key(&term);
        let (first, first_incarnation) = *self.leaders.entry(term).or_insert((leader, incarnation));
        ensure(
            (first, first_incarnation) == (leader, incarnation),
            Invariant::ElectionSafety,
            || {
                format!(
                    "{first} (incarnation {first_incarnation}) and {leader} (incarnation {incarnation}) both lead in term {term}"
                )
            },
        )?;
        Ok(new)
    }

    /// Checks a vote that leaves a member, or the member's own vote when it is counted.
    pub(crate) fn votes(&mut self, voter: MemberId, term: Term, candidate: MemberId) -> Check {
        let first = *self.votes.entry((voter, term)).or_insert(candidate);
        ensure(first == candidate, Invariant::OneVotePerTerm, || {
            format!("{voter} votes for both {first} and {candidate} in term {term}")
        })
    }

    /// Returns the number of terms with a leader.
    pub(crate) fn count(&self) -> u64 {
        self.leaders.len() as u64
    }
}
