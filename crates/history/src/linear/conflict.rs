//! What a failure depends on: keys, and writes that were not to be had because they were used elsewhere.
//!
//! On a key, it depends only from where the key was last seen as a whole: whatever is chosen before that, the key must come out
//! there as it was seen, or it fails there.
//!
//! ```text
//! revision 5   a hole          6   read a → "1"          8   a hole          9   read a → "3", and "2" is there
//!              cannot matter       a is known for sure       the only choice that this depends on
//! ```

use std::collections::{BTreeMap, BTreeSet};

use crate::record::Span;

/// What a failure depends on. If an earlier choice could change none of it, another choice there fails in the same way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conflict {
    everything: bool,
    /// KeyHistory, each with the last revision at which it was seen as a whole.
    keys: BTreeMap<Span, i64>,
    /// By their place among the writes that may have happened.
    unknown_writes: BTreeSet<usize>,
}

impl Conflict {
    /// It could depend on anything.
    pub(crate) fn everything() -> Conflict {
        Conflict { everything: true, ..Conflict::default() }
    }

    /// It depends on what became of these keys after `since`.
    pub(crate) fn add_keys(&mut self, span: &Span, since: i64) {
        match self.keys.get_mut(span) {
            Some(so_far) => *so_far = since.min(*so_far),
            None => _ = self.keys.insert(span.clone(), since),
        }
    }

    /// It depends on a write having been used up elsewhere.
    pub(crate) fn add_used_write(&mut self, write: usize) {
        self.unknown_writes.insert(write);
    }

    /// It depends on what another depends on, too.
    pub(crate) fn merge(&mut self, other: &Conflict) {
        self.everything |= other.everything;
        other.keys.iter().for_each(|(span, since)| self.add_keys(span, *since));
        self.unknown_writes.extend(&other.unknown_writes);
    }

    /// Whether it depends on that write being used.
    pub(crate) fn depends_on_write(&self, write: usize) -> bool {
        self.everything || self.unknown_writes.contains(&write)
    }

    /// Whether it depends on what became of any of these keys at `revision`.
    pub(crate) fn depends_on_keys(&self, spans: &[Span], revision: i64) -> bool {
        let mut keys = self.keys.iter().filter(|(_, since)| **since < revision);
        self.everything || keys.any(|(key, _)| spans.iter().any(|span| key.meets(span)))
    }
}
