//! One leader a term, one vote a term.
//!
//! A vote counts from the moment the answer leaves the member, because somebody may then rely on it; what the
//! member itself remembers is not asked. So a vote that a crash took back shows as soon as the member
//! gives it to somebody else.

use std::collections::BTreeMap;

use raft::HardState;
use types::{MemberId, Term};

use super::{Check, Invariant, ensure};

/// Who led and who voted, in every term.
#[derive(Default)]
pub(crate) struct Elections {
    /// The leader of each term and in which of its lives it led.
    leaders: BTreeMap<Term, (MemberId, u32)>,
    votes: BTreeMap<(MemberId, Term), MemberId>,
}

impl Elections {
    /// A member leads, with this hard state on its disk. True if that is new.
    pub(crate) fn leads(
        &mut self,
        term: Term,
        leader: MemberId,
        life: u32,
        durable: HardState,
    ) -> Check<bool> {
        // Otherwise it could crash, stand again in the same term and be elected again by the same
        // voters, with another log.
        let own_vote = (durable.term, durable.vote) == (term, Some(leader));
        ensure(own_vote, Invariant::ElectionSafety, || {
            format!("{leader} leads in term {term} and has only {durable:?} on its disk")
        })?;
        let new = !self.leaders.contains_key(&term);
        let (first, first_life) = *self.leaders.entry(term).or_insert((leader, life));
        ensure((first, first_life) == (leader, life), Invariant::ElectionSafety, || {
            format!(
                "{first} (life {first_life}) and {leader} (life {life}) both lead in term {term}"
            )
        })?;
        Ok(new)
    }

    /// A vote leaves a member, or the member counts its own.
    pub(crate) fn votes(&mut self, voter: MemberId, term: Term, candidate: MemberId) -> Check {
        let first = *self.votes.entry((voter, term)).or_insert(candidate);
        ensure(first == candidate, Invariant::OneVoteATerm, || {
            format!("{voter} votes for both {first} and {candidate} in term {term}")
        })
    }

    /// Terms that had a leader.
    pub(crate) fn count(&self) -> u64 {
        self.leaders.len() as u64
    }
}
