//! Term and positions of a running member never decrease.

use raft::BasicStatus;

use super::{Check, Invariant, ensure};

/// Compares the status of a member with the previous one.
pub(crate) fn check_positions(before: &BasicStatus, now: &BasicStatus) -> Check {
    let grows = now.hard_state.term >= before.hard_state.term
        && now.hard_state.commit >= before.hard_state.commit
        && now.applied >= before.applied;
    let ordered = now.applied <= now.hard_state.commit;
    let same_term = now.hard_state.term == before.hard_state.term;
    let vote_stays =
        before.hard_state.vote.is_none() || now.hard_state.vote == before.hard_state.vote;
    ensure(grows && ordered && (vote_stays || !same_term), Invariant::MonotonicPositions, || {
        format!("{} changed from {before:?} to {now:?}", now.id)
    })
}
