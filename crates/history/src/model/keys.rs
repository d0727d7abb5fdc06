//! All keys with all their revisions.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Bound;
use std::sync::Arc;

use crate::record::{Kv, Span};

/// All keys with all their revisions, starting empty at revision 1.
#[derive(Clone, Debug)]
pub struct KeyHistory {
    revision: i64,
    /// The changes of each key by revision; `None` marks a deletion.
    chains: BTreeMap<String, Chain>,
    /// The keys that each revision changed, in order; the first element belongs to revision 2.
    written: Vec<Vec<String>>,
    digest: u64,
}

/// The value of a key after each revision that changed it.
type Chain = Vec<(i64, Option<Arc<Kv>>)>;

/// The change of one key by one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: String,
    /// The value before, if the key existed.
    pub before: Option<Arc<Kv>>,
    /// The value after, if the key exists.
    pub after: Option<Arc<Kv>>,
}

impl Default for KeyHistory {
    fn default() -> KeyHistory {
        KeyHistory { revision: 1, chains: BTreeMap::new(), written: Vec::new(), digest: 0 }
    }
}

impl KeyHistory {
    /// Returns the newest revision.
    #[must_use]
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// Returns the current value of `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Arc<Kv>> {
        self.chains.get(key)?.last()?.1.as_ref()
    }

    /// Returns the value of `key` at `revision`.
    #[must_use]
    pub fn get_at(&self, key: &str, revision: i64) -> Option<&Arc<Kv>> {
        find(self.chains.get(key)?, revision)
    }

    /// Returns the keys of `span` at `revision`, in key order.
    pub fn range_at(&self, span: &Span, revision: i64) -> impl Iterator<Item = &Arc<Kv>> {
        let single = span.end.is_none();
        self.chains
            .range::<str, _>((Bound::Included(span.key.as_str()), Bound::Unbounded))
            .take_while(move |(key, _)| !single || **key == span.key)
            .filter(|(key, _)| span.contains(key))
            .filter_map(move |(_, chain)| find(chain, revision))
    }

    /// Returns the keys that are attached to `lease` now, in key order.
    pub fn attached(&self, lease: i64) -> impl Iterator<Item = &Arc<Kv>> {
        self.range_at(&EVERYTHING, self.revision).filter(move |kv| kv.lease == lease)
    }

    /// Returns the changes of a revision, in the order they were made.
    pub fn changes(&self, revision: i64) -> impl Iterator<Item = Change> {
        let index = usize::try_from(revision - 2).ok();
        let keys = index.and_then(|index| self.written.get(index)).map_or(&[][..], Vec::as_slice);
        keys.iter().map(move |key| Change {
            key: key.clone(),
            before: self.get_at(key, revision - 1).cloned(),
            after: self.get_at(key, revision).cloned(),
        })
    }

    /// Returns a digest of the current keys: equal states have equal digests, and different states
    /// almost never do.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    /// Applies at least one change as the next revision.
    pub(crate) fn apply(&mut self, changes: &[Change]) {
        assert!(!changes.is_empty(), "a revision has at least one change");
        self.revision += 1;
        for Change { key, before, after } in changes {
            self.digest ^= digest(before.as_ref()) ^ digest(after.as_ref());
            let chain = self.chains.entry(key.clone()).or_default();
            chain.push((self.revision, after.clone()));
        }
        self.written.push(changes.iter().map(|change| change.key.clone()).collect());
    }

    /// Reverts the newest revision.
    pub(crate) fn undo(&mut self) {
        let keys = self.written.pop().expect("undo follows an apply");
        for key in keys {
            let chain = self.chains.get_mut(&key).expect("apply recorded the key");
            let (_, after) = chain.pop().expect("apply recorded the key");
            let before = chain.last().and_then(|(_, kv)| kv.as_ref());
            self.digest ^= digest(before) ^ digest(after.as_ref());
        }
        self.revision -= 1;
    }
}

static EVERYTHING: std::sync::LazyLock<Span> = std::sync::LazyLock::new(Span::all);

/// Returns the value in `chain` at `revision`.
fn find(chain: &[(i64, Option<Arc<Kv>>)], revision: i64) -> Option<&Arc<Kv>> {
    // Fast path: nearly all lookups ask for the newest value.
    let count = match chain.last() {
        Some((newest, _)) if *newest <= revision => chain.len(),
        _ => chain.partition_point(|(at, _)| *at <= revision),
    };
    chain.get(count.checked_sub(1)?)?.1.as_ref()
}

fn digest(kv: Option<&Arc<Kv>>) -> u64 {
    let Some(kv) = kv else { return 0 };
    let mut hasher = DefaultHasher::new();
    kv.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(keys: &mut KeyHistory, key: &str, value: &str) {
        let before = keys.get(key).cloned();
        let modified = keys.revision() + 1;
        let create = before.as_ref().map_or(modified, |kv| kv.create);
        let version = before.as_ref().map_or(1, |kv| kv.version + 1);
        let (key, value) = (key.to_owned(), value.to_owned());
        let kv = Kv { key: key.clone(), value, create, modified, version, lease: 0 };
        keys.apply(&[Change { key, before, after: Some(Arc::new(kv)) }]);
    }

    #[test]
    fn undo_restores_the_previous_state() {
        let mut keys = KeyHistory::default();
        put(&mut keys, "a", "1");
        let before = (keys.digest(), keys.get("a").cloned());
        put(&mut keys, "a", "2");
        let before_b = keys.digest();
        put(&mut keys, "b", "3");
        assert_eq!(keys.get_at("a", 2).unwrap().value, "1");
        keys.undo();
        assert_eq!(keys.digest(), before_b);
        keys.undo();
        assert_eq!((keys.digest(), keys.get("a").cloned()), before);
        assert_eq!(keys.revision(), 2);
    }
}
