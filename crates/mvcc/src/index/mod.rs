//! The index: the keys and the revisions of each, in memory (etcd's treeIndex).
//!
//! A B-tree of keys whose nodes hold some dozens of keys. Cloning the tree copies one pointer. The
//! clone does not change while the tree does, so a range over a million keys reads a clone and
//! blocks no writer.
//!
//! ```text
//!                      [ ""  "m" ]   live 4, newest 9
//!                       /       \
//!     "bar" {4}  "foo" {2, 3, 5t}     "moo" {6, 9}  "tea" {7}  "zoo" {8}
//! ```
//!
//! A key costs its own bytes and about 25 more: see [`packed_keys`] and [`key_index`]. Values are
//! not here: they live in the backend under their revision.

mod chunked_list;
mod key_index;
mod leaf;
mod long_key_index;
mod node;
mod packed_keys;

#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::sync::Arc;

use types::Revision;

use leaf::Leaf;
use node::Node;

/// A key at a revision, as the index knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyMeta {
    /// The revision of the last put.
    pub(crate) modified: Revision,
    /// The revision of the put that created the key.
    pub(crate) created: i64,
    /// The number of puts since the creation, with it.
    pub(crate) version: i64,
}

/// The keys that a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeySelector<'a> {
    /// A single key.
    One(&'a [u8]),
    /// A range of keys.
    Range(KeyRange<'a>),
}

impl<'a> KeySelector<'a> {
    /// Selects one key if the end is empty, all keys from it on if the end is a zero byte, else the
    /// keys before the end.
    ///
    /// Compat: as in etcd, an end at or before the key selects nothing; it is not an error.
    pub(crate) fn new(key: &'a [u8], end: &'a [u8]) -> KeySelector<'a> {
        match end {
            [] => KeySelector::One(key),
            [0] => KeySelector::Range(KeyRange { from: key, to: None }),
            end => KeySelector::Range(KeyRange { from: key, to: Some(end) }),
        }
    }
}

/// The keys from `from` up to, and not including, `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyRange<'a> {
    from: &'a [u8],
    to: Option<&'a [u8]>,
}

impl KeyRange<'_> {
    /// Returns whether no key can be in the range.
    fn is_empty(&self) -> bool {
        self.to.is_some_and(|to| to <= self.from)
    }
}

/// All keys with their revisions.
#[derive(Clone, Debug)]
pub(crate) struct TreeIndex {
    root: Arc<Node>,
}

impl Default for TreeIndex {
    fn default() -> TreeIndex {
        TreeIndex { root: Arc::new(Node::Leaf(Leaf::default())) }
    }
}

impl TreeIndex {
    /// Returns a key at a revision, or `None` if it does not exist then.
    #[inline]
    pub(crate) fn get(&self, key: &[u8], revision: i64) -> Option<KeyMeta> {
        self.root.leaf(key).get(key, revision)
    }

    /// Returns whether the index has a key, even if it is deleted.
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.root.leaf(key).contains(key)
    }

    /// Calls `f` with the selected keys that exist at a revision, in order, until it breaks.
    pub(crate) fn visit<F>(&self, keys: KeySelector<'_>, revision: i64, mut f: F) -> ControlFlow<()>
    where
        F: FnMut(&[u8], KeyMeta) -> ControlFlow<()>,
    {
        match keys {
            KeySelector::One(key) => match self.get(key, revision) {
                Some(found) => f(key, found),
                None => ControlFlow::Continue(()),
            },
            KeySelector::Range(range) if range.is_empty() => ControlFlow::Continue(()),
            KeySelector::Range(range) => self.root.visit(&range, revision, &mut f),
        }
    }

    /// Returns the number of selected keys that exist at a revision.
    pub(crate) fn count(&self, keys: KeySelector<'_>, revision: i64) -> u64 {
        match keys {
            KeySelector::One(key) => self.get(key, revision).is_some().into(),
            KeySelector::Range(range) if range.is_empty() => 0,
            KeySelector::Range(range) => self.root.count(&range, revision),
        }
    }

    /// Returns the number of keys at the latest revision.
    pub(crate) fn live(&self) -> u64 {
        self.root.live()
    }

    /// Returns the number of keys, including deleted ones that have revisions.
    pub(crate) fn len(&self) -> usize {
        self.root.len()
    }

    /// Returns the memory in bytes, without allocator overhead. Visits every node.
    pub(crate) fn bytes(&self) -> usize {
        self.root.bytes()
    }

    /// Adds the revision of a put. Returns the key before it.
    pub(crate) fn put(&mut self, key: &[u8], revision: Revision) -> Option<KeyMeta> {
        let new = KeyMeta { modified: revision, created: revision.main, version: 1 };
        self.add(key, new, false)
    }

    /// Adds the revision of a delete.
    ///
    /// # Panics
    /// If the key does not exist.
    pub(crate) fn tombstone(&mut self, key: &[u8], revision: Revision) {
        let before = self.add(key, KeyMeta { modified: revision, created: 0, version: 1 }, true);
        assert!(before.is_some(), "a deleted key has to exist");
    }

    /// Adds a revision that was read from a database. Returns false, without a change, if it is a
    /// tombstone of a deleted key.
    pub(crate) fn maybe_restore(&mut self, key: &[u8], found: KeyMeta, tombstone: bool) -> bool {
        let fits = !tombstone || !self.contains(key) || self.get(key, i64::MAX).is_some();
        if fits {
            self.add(key, found, tombstone);
        }
        fits
    }

    /// Compacts a bounded number of keys, beginning at `from`. Appends the kept revisions to
    /// `kept`, unsorted. Returns the key to continue at.
    pub(crate) fn compact(
        &mut self,
        from: &[u8],
        at: i64,
        kept: &mut Vec<Revision>,
    ) -> Option<Box<[u8]>> {
        let next = Node::compact(&mut self.root, from, at, kept);
        while let Some(child) = self.root.only_child() {
            self.root = Arc::clone(child);
        }
        if next.is_none() && self.root.is_empty() {
            *self = TreeIndex::default();
        }
        next
    }

    /// Returns the revisions that a compaction would keep at or below itself, sorted. Tombstones
    /// are left out: etcd before 3.5.16 discards them, and hashes must not differ.
    pub(crate) fn keep(&self, at: i64) -> Vec<Revision> {
        let mut kept = Vec::new();
        self.root
            .plan_compaction(at, &mut |one| kept.extend(one.revision.filter(|_| !one.tombstone)));
        kept.sort_unstable();
        kept
    }

    fn add(&mut self, key: &[u8], found: KeyMeta, tombstone: bool) -> Option<KeyMeta> {
        let (before, split) = Node::add(&mut self.root, key, found, tombstone);
        if let Some((bound, upper)) = split {
            let lower = Arc::clone(&self.root);
            self.root = Arc::new(Node::above(lower, &bound, upper));
        }
        before
    }
}
