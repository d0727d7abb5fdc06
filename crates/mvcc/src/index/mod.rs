//! The index: which keys there are, and the revisions of each, in memory.
//!
//! A tree of keys in order, in nodes of some dozens. A copy of the tree ([`Clone`]) takes no longer than a pointer does, and stays as it is
//! while the tree goes on changing: a range over a million keys is read from one, and nobody waits for it.
//!
//! ```text
//!                      [ ""  "m" ]   live 4, newest 9
//!                       /       \
//!     "bar" {4}  "foo" {2, 3, 5t}     "moo" {6, 9}  "tea" {7}  "zoo" {8}
//! ```
//!
//! What a node costs is the bytes of its keys and some twenty-five for each: see [`packed`] and [`history`]. Values are not here: they are in
//! the backend, under their revision.

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

/// A key at some revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyMeta {
    /// When it was put last.
    pub(crate) modified: Revision,
    /// When it was created.
    pub(crate) created: i64,
    /// How often it was put since then.
    pub(crate) version: i64,
}

/// KeySelector that a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeySelector<'a> {
    /// One key.
    One(&'a [u8]),
    /// Several.
    Range(KeyRange<'a>),
}

impl<'a> KeySelector<'a> {
    /// One key if there is no end, all from it on if the end is one zero byte, else those before the end.
    ///
    /// Compat: as in etcd, an end that is not past the key gives an empty range, not an error.
    pub(crate) fn new(key: &'a [u8], end: &'a [u8]) -> KeySelector<'a> {
        match end {
            [] => KeySelector::One(key),
            [0] => KeySelector::Range(KeyRange { from: key, to: None }),
            end => KeySelector::Range(KeyRange { from: key, to: Some(end) }),
        }
    }
}

/// The keys from one to another, which is not included, or to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyRange<'a> {
    from: &'a [u8],
    to: Option<&'a [u8]>,
}

impl KeyRange<'_> {
    /// Whether there can be a key in it.
    fn is_empty(&self) -> bool {
        self.to.is_some_and(|to| to <= self.from)
    }
}

/// All keys and their revisions.
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
    /// A key as of a revision; none if it is not there then.
    #[inline]
    pub(crate) fn get(&self, key: &[u8], revision: i64) -> Option<KeyMeta> {
        self.root.leaf(key).get(key, revision)
    }

    /// Whether anything is known of a key, be it that it was deleted.
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.root.leaf(key).contains(key)
    }

    /// Calls back with those keys that are there at a revision, in order, until told to stop.
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

    /// How many of these keys are there at a revision.
    pub(crate) fn count(&self, keys: KeySelector<'_>, revision: i64) -> u64 {
        match keys {
            KeySelector::One(key) => self.get(key, revision).is_some().into(),
            KeySelector::Range(range) if range.is_empty() => 0,
            KeySelector::Range(range) => self.root.count(&range, revision),
        }
    }

    /// How many keys are there by now.
    pub(crate) fn live(&self) -> u64 {
        self.root.live()
    }

    /// How many keys there are in all, deleted ones whose history is kept included.
    pub(crate) fn len(&self) -> usize {
        self.root.len()
    }

    /// Bytes of memory that it takes, without what the allocator adds. Looks at all of it.
    pub(crate) fn bytes(&self) -> usize {
        self.root.bytes()
    }

    /// A key was put. Returns it as it was before.
    pub(crate) fn put(&mut self, key: &[u8], revision: Revision) -> Option<KeyMeta> {
        let new = KeyMeta { modified: revision, created: revision.main, version: 1 };
        self.add(key, new, false)
    }

    /// A key was deleted.
    ///
    /// # Panics
    /// If it was not there.
    pub(crate) fn tombstone(&mut self, key: &[u8], revision: Revision) {
        let before = self.add(key, KeyMeta { modified: revision, created: 0, version: 1 }, true);
        assert!(before.is_some(), "only a key that is there is deleted");
    }

    /// A revision was found in a file: of a key that is not known yet, the first that is left of its history. Returns false, and does nothing, if it
    /// deletes a key that is deleted already.
    pub(crate) fn maybe_restore(&mut self, key: &[u8], found: KeyMeta, tombstone: bool) -> bool {
        let fits = !tombstone || !self.contains(key) || self.get(key, i64::MAX).is_some();
        if fits {
            self.add(key, found, tombstone);
        }
        fits
    }

    /// Drops what a compaction drops, of a bounded number of keys, from one on. Adds the revisions that are kept of them to a list,
    /// in no particular order. Returns where to go on.
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

    /// The revisions at or before one that a compaction there would keep, sorted. Without tombstones, which releases before 3.5.16 dropped: their
    /// hashes are to stay the same.
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
