//! A slow twin of the checker: it tries every order there could be, on a perfect store. (Wing and Gong, without any help from revisions.)
//!
//! It knows no serializable reads, no watches and no expiry, and takes histories of a dozen operations.

use history::{History, Model, Outcome};

/// Whether some order explains the history.
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
        // Nothing may come before something that had ended when it began.
        let late = left.iter().any(|other| ended(history, *other) < operation.invoked_ns);
        let rest: Vec<usize> = left.iter().copied().filter(|other| other != next).collect();
        let mut after = model.clone();
        let told = after.apply(&operation.request);
        let fits = match (&operation.outcome, told) {
            (Outcome::Answered { response, .. }, Ok(told)) => *response == told,
            (Outcome::Refused { refusal, .. }, Err(told)) => *refusal == told,
            // One that never happens is left over at the end.
            (Outcome::Unknown { .. }, _) => true,
            _ => false,
        };
        !late && fits && search(history, &after, &rest)
    })
}

/// When an operation had ended; one of unknown outcome never has.
fn ended(history: &History, i: usize) -> u64 {
    match &history.operations[i].outcome {
        Outcome::Answered { at_ns, .. } | Outcome::Refused { at_ns, .. } => *at_ns,
        Outcome::Unknown { .. } => u64::MAX,
    }
}
