//! The causes of a failure: the keys it depends on, and unknown writes that were already used for
//! another hole.
//!
//! A failure depends on a key only since the key's last complete observation. Every choice before
//! that observation has to reproduce the observed value, or it fails there already:
//!
//! ```text
//! revision 5: hole         irrelevant
//!          6: read a → "1" fixes a
//!          8: hole         the only choice that the failure depends on
//!          9: read a → "3" fails, because the state has a="2"
//! ```

use std::collections::{BTreeMap, BTreeSet};

use crate::record::Span;

/// The causes of a failure. Another choice at a hole that cannot change any of them fails in the
/// same way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conflict {
    everything: bool,
    /// Keys, each with the revision of its last complete observation.
    keys: BTreeMap<Span, i64>,
    /// Unknown writes that were already used, by their position in
    /// [`UnknownWrites`](super::unknown_writes::UnknownWrites).
    unknown_writes: BTreeSet<usize>,
}

impl Conflict {
    /// Returns a conflict that may depend on any choice.
    pub(crate) fn everything() -> Conflict {
        Conflict { everything: true, ..Conflict::default() }
    }

    /// Adds a dependency on the changes of `span` after revision `since`.
    pub(crate) fn add_keys(&mut self, span: &Span, since: i64) {
        match self.keys.get_mut(span) {
            Some(so_far) => *so_far = since.min(*so_far),
            None => _ = self.keys.insert(span.clone(), since),
        }
    }

    /// Adds a dependency on an unknown write that was used for another hole.
    pub(crate) fn add_used_write(&mut self, write: usize) {
        self.unknown_writes.insert(write);
    }

    /// Adds all causes of another conflict.
    pub(crate) fn merge(&mut self, other: &Conflict) {
        self.everything |= other.everything;
        other.keys.iter().for_each(|(span, since)| self.add_keys(span, *since));
        self.unknown_writes.extend(&other.unknown_writes);
    }

    /// Reports whether the failure depends on the use of an unknown write.
    pub(crate) fn depends_on_write(&self, write: usize) -> bool {
        self.everything || self.unknown_writes.contains(&write)
    }

    /// Reports whether the failure depends on the changes of any of these keys at `revision`.
    pub(crate) fn depends_on_keys(&self, spans: &[Span], revision: i64) -> bool {
        let mut keys = self.keys.iter().filter(|(_, since)| **since < revision);
        self.everything || keys.any(|(key, _)| spans.iter().any(|span| key.meets(span)))
    }
}
