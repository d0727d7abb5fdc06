//! A slow reference checker that tries every order on the reference store (Wing and Gong, without
//! using revisions).
//!
//! Supports neither serializable reads, watches nor lease expiry, and histories of about a dozen
//! operations.

use history::{History, Model, Outcome};

/// Reports whether some order explains the history.
pub(crate) fn explains(history: &History) -> bool {
    let all: Vec<usize> = (0..history.operations.len()).collect();
    search(history, &Model::default(), &all)
}

fn search(history: &History, model: &Model, left: &[usize]) -> bool {
    let known = |i: &&usize| !history.operations[**i].is_unknown();
    if left.iter().filter(known).count() == 0 {
        return true;
    }
    left.iter().any(|next| {
        let operation = &history.operations[*next];
        // An operation cannot precede one that ended before it began.
        let late = left.iter().any(|other| ended(history, *other) < operation.invoked_ns);
        let rest: Vec<usize> = left.iter().copied().filter(|other| other != next).collect();
        let mut after = model.clone();
        let replied = after.apply(&operation.request);
        let fits = match (&operation.outcome, replied) {
            (Outcome::Answered { response, .. }, Ok(replied)) => *response == replied,
            (Outcome::Refused { refusal, .. }, Err(replied)) => *refusal == replied,
            // A write that is never executed remains at the end.
            (Outcome::Unknown { .. }, _) => true,
            _ => false,
        };
        !late && fits && search(history, &after, &rest)
    })
}

/// Returns the end of an operation; an unknown outcome never ends.
fn ended(history: &History, i: usize) -> u64 {
    match &history.operations[i].outcome {
        Outcome::Answered { at_ns, .. } | Outcome::Refused { at_ns, .. } => *at_ns,
        Outcome::Unknown { .. } => u64::MAX,
    }
}
