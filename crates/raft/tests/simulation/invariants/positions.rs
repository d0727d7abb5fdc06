//! While a member runs, its term and its positions do not go back.

use raft::BasicStatus;

use super::{Check, Invariant, ensure};

/// Compares what a member says of itself with what it said before.
pub(crate) fn check_positions(before: &BasicStatus, now: &BasicStatus) -> Check {
    let grows = now.hard_state.term >= before.hard_state.term
        && now.hard_state.commit >= before.hard_state.commit
        && now.applied >= before.applied;
    let ordered = now.applied <= now.hard_state.commit;
    let same_term = now.hard_state.term == before.hard_state.term;
    let vote_stays =
        before.hard_state.vote.is_none() || now.hard_state.vote == before.hard_state.vote;
    ensure(grows && ordered && (vote_stays || !same_term), Invariant::MonotonicPositions, || {
        format!("{} was {before:?} and is {now:?}", now.id)
    })
}
