//! Checks that every acknowledged write survives on every member, and that the members agree.
//!
//! ```text
//! client 1   |- put a="1" → 2 -|   |- put a="2" → 3 -|
//! member 1                                     at the end: revision 3, a="2" (mod 3)
//! member 2                                     at the end: revision 2, a="1" (mod 2)   lost
//! ```
//!
//! The search (`linear::search`) additionally compares each final state key by key with the log. A
//! watch from revision 1 needs no special treatment: it is checked like any other watch.

use std::collections::BTreeMap;

use crate::record::{History, Operation};
use crate::violation::{Rule, Violation};

/// Checks that every member ended at or above the newest acknowledged revision.
pub(crate) fn check(history: &History) -> Vec<Violation> {
    let mut violations = hashes(history);
    let Some((newest, operation)) = newest(history) else { return violations };
    for last in history.finals.iter().filter(|last| last.revision < newest) {
        let text =
            format!("member {} ended at revision {}; {operation}", last.member, last.revision);
        violations.push(Violation::new(Rule::Durable, text));
    }
    violations
}

/// Returns the acknowledged write with the highest revision.
fn newest(history: &History) -> Option<(i64, &Operation)> {
    let wrote = |operation: &&Operation| {
        operation.answer().is_some_and(|(_, response)| response.body.wrote() == Some(true))
    };
    let revision = |operation: &&Operation| operation.answer().map(|(_, it)| it.revision);
    let operation = history.operations.iter().filter(wrote).max_by_key(revision)?;
    Some((revision(&operation)?, operation))
}

/// Checks that hashes of the same revisions are equal on all members.
fn hashes(history: &History) -> Vec<Violation> {
    let mut first = BTreeMap::new();
    let mut violations = Vec::new();
    for hash in &history.hashes {
        let known = *first.entry((hash.revision, hash.compact_revision)).or_insert(hash);
        if known.hash != hash.hash {
            let text = format!(
                "revisions {} to {} hash to {} at member {}, to {} at member {}",
                hash.compact_revision,
                hash.revision,
                known.hash,
                known.member,
                hash.hash,
                hash.member
            );
            violations.push(Violation::new(Rule::SameHash, text));
        }
    }
    violations
}
