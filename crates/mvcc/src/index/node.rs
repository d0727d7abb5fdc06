//! Nodes of the index, and the operations on the tree below them.
//!
//! Nodes are shared between clones of the tree. A change copies the nodes on its path if a clone
//! still references them, and modifies them in place otherwise (`Arc::make_mut`).
//!
//! Each node knows the number of live keys and the newest revision below it. So a count at a
//! revision descends only into nodes that changed since, and at both ends of the range.

use std::ops::ControlFlow;
use std::sync::Arc;

use types::Revision;

use super::leaf::Leaf;
use super::packed_keys::PackedKeys;
use super::{KeyMeta, KeyRange};

/// The maximum number of children of a node.
const CHILDREN_MAX: usize = if cfg!(test) { 6 } else { 64 };
/// A node with fewer children is merged with its neighbor, if there is room.
const CHILDREN_MIN: usize = CHILDREN_MAX / 4;

#[derive(Clone, Debug)]
pub(super) enum Node {
    Leaf(Leaf),
    Inner(Inner),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Inner {
    /// Separators: one for each child but the first, greater than all keys of the child before and
    /// not greater than any key of its own.
    bounds: PackedKeys,
    children: Vec<Arc<Node>>,
    live: u64,
    newest: i64,
}

/// The upper part of a node that was split, with its separator.
pub(super) type Split = Option<(Box<[u8]>, Arc<Node>)>;

/// The key before an added revision, and the split that followed.
pub(super) type Added = (Option<KeyMeta>, Split);

impl Node {
    #[inline]
    pub(super) fn live(&self) -> u64 {
        match self {
            Node::Leaf(leaf) => leaf.live,
            Node::Inner(inner) => inner.live,
        }
    }

    fn newest(&self) -> i64 {
        match self {
            Node::Leaf(leaf) => leaf.newest,
            Node::Inner(inner) => inner.newest,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Node::Leaf(leaf) => leaf.is_empty(),
            Node::Inner(inner) => inner.children.is_empty(),
        }
    }

    /// Returns the number of keys, including deleted ones that have revisions.
    pub(super) fn len(&self) -> usize {
        match self {
            Node::Leaf(leaf) => leaf.len(),
            Node::Inner(inner) => inner.children.iter().map(|child| child.len()).sum(),
        }
    }

    /// Returns the memory in bytes, including this node.
    pub(super) fn bytes(&self) -> usize {
        let below = match self {
            Node::Leaf(leaf) => leaf.heap_bytes(),
            Node::Inner(inner) => {
                let pointers = inner.children.capacity() * size_of::<Arc<Node>>();
                let children: usize = inner.children.iter().map(|child| child.bytes()).sum();
                inner.bounds.heap_bytes() + pointers + children
            }
        };
        // An `Arc` has two counters.
        below + size_of::<Node>() + 2 * size_of::<usize>()
    }

    /// Returns the leaf that a key belongs to.
    #[inline]
    pub(super) fn leaf(&self, key: &[u8]) -> &Leaf {
        let mut node = self;
        loop {
            match node {
                Node::Leaf(leaf) => return leaf,
                Node::Inner(inner) => node = &inner.children[inner.child(key)],
            }
        }
    }

    /// Adds a revision of a known key, or a new key.
    pub(super) fn add(this: &mut Arc<Node>, key: &[u8], found: KeyMeta, tombstone: bool) -> Added {
        match Arc::make_mut(this) {
            Node::Leaf(leaf) => {
                let before = leaf.add(key, found, tombstone);
                let split = leaf.is_full().then(|| {
                    let upper = leaf.split(key);
                    (leaf.bound(&upper), Arc::new(Node::Leaf(upper)))
                });
                (before, split)
            }
            Node::Inner(inner) => inner.add(key, found, tombstone),
        }
    }

    /// Calls `f` with the keys of a range that exist at a revision, in order.
    pub(super) fn visit<F>(&self, range: &KeyRange<'_>, revision: i64, f: &mut F) -> ControlFlow<()>
    where
        F: FnMut(&[u8], KeyMeta) -> ControlFlow<()>,
    {
        match self {
            Node::Leaf(leaf) => leaf.visit(range, revision, f),
            Node::Inner(inner) => {
                for child in &inner.children[inner.part(range)] {
                    // A subtree without live keys has none at a revision at or above its newest,
                    // either.
                    if child.live() > 0 || child.newest() > revision {
                        child.visit(range, revision, f)?;
                    }
                }
                ControlFlow::Continue(())
            }
        }
    }

    /// Returns the number of keys of a range that exist at a revision.
    pub(super) fn count(&self, range: &KeyRange<'_>, revision: i64) -> u64 {
        match self {
            Node::Leaf(leaf) => leaf.count(range, revision),
            Node::Inner(inner) => inner.count(range, revision),
        }
    }

    /// Calls `f` with the effect of a compaction on each key.
    pub(super) fn plan_compaction(
        &self,
        at: i64,
        f: &mut dyn FnMut(super::key_index::KeyCompaction),
    ) {
        match self {
            Node::Leaf(leaf) => leaf.plan_compaction(at).for_each(f),
            Node::Inner(inner) => {
                inner.children.iter().for_each(|child| child.plan_compaction(at, f));
            }
        }
    }

    /// Compacts the leaves below one node, beginning with the leaf of `from`. Returns the key to
    /// continue at.
    pub(super) fn compact(
        this: &mut Arc<Node>,
        from: &[u8],
        at: i64,
        kept: &mut Vec<Revision>,
    ) -> Option<Box<[u8]>> {
        if let Node::Leaf(leaf) = &**this {
            if let Some(compacted) = compact_leaf(leaf, at, kept) {
                *this = Arc::new(Node::Leaf(compacted));
            }
            return None;
        }
        let Node::Inner(inner) = Arc::make_mut(this) else {
            unreachable!("leaves were handled above")
        };
        inner.compact(from, at, kept)
    }

    /// Returns the child of a root that has only one.
    pub(super) fn only_child(&self) -> Option<&Arc<Node>> {
        match self {
            Node::Inner(Inner { children, .. }) if children.len() == 1 => children.first(),
            _ => None,
        }
    }

    /// Returns a root above two nodes.
    pub(super) fn above(lower: Arc<Node>, bound: &[u8], upper: Arc<Node>) -> Node {
        let mut inner = Inner { children: vec![lower], ..Inner::default() };
        inner.push(bound, upper);
        inner.recount();
        Node::Inner(inner)
    }

    fn is_underfull(&self) -> bool {
        match self {
            Node::Leaf(leaf) => leaf.is_underfull(),
            Node::Inner(inner) => inner.children.len() < CHILDREN_MIN,
        }
    }

    fn has_room_for(&self, other: &Node) -> bool {
        match (self, other) {
            (Node::Leaf(leaf), Node::Leaf(other)) => leaf.has_room_for(other),
            (Node::Inner(inner), Node::Inner(other)) => {
                inner.children.len() + other.children.len() <= CHILDREN_MAX / 2
            }
            _ => unreachable!("siblings are of the same kind"),
        }
    }

    /// Merges the sibling above, which begins at a separator.
    fn join(&mut self, bound: &[u8], above: &Node) {
        match (self, above) {
            (Node::Leaf(leaf), Node::Leaf(above)) => leaf.join(above),
            (Node::Inner(inner), Node::Inner(above)) => inner.join(bound, above),
            _ => unreachable!("siblings are of the same kind"),
        }
    }
}

impl Inner {
    /// Returns the child that a key belongs to.
    #[inline]
    fn child(&self, key: &[u8]) -> usize {
        match self.bounds.search(key) {
            Ok(at) => at + 1,
            Err(above) => above,
        }
    }

    /// Returns the children that overlap a range.
    fn part(&self, range: &KeyRange<'_>) -> std::ops::RangeInclusive<usize> {
        let last = range.to.map_or(self.children.len() - 1, |to| self.child(to));
        self.child(range.from)..=last
    }

    /// Appends a child. The first one has no separator.
    fn push(&mut self, bound: &[u8], child: Arc<Node>) {
        if !self.children.is_empty() {
            self.bounds.push(bound, &[]);
        }
        self.children.push(child);
    }

    /// Returns the separator before a child.
    fn bound(&self, child: usize) -> &[u8] {
        if child == 0 { &[] } else { self.bounds.key(child - 1) }
    }

    fn recount(&mut self) {
        self.live = self.children.iter().map(|child| child.live()).sum();
        self.newest = self.children.iter().map(|child| child.newest()).max().unwrap_or(0);
    }

    fn add(&mut self, key: &[u8], found: KeyMeta, tombstone: bool) -> Added {
        let at = self.child(key);
        let (before, split) = Node::add(&mut self.children[at], key, found, tombstone);
        self.live = self.live - u64::from(before.is_some()) + u64::from(!tombstone);
        self.newest = self.newest.max(found.modified.main);
        let Some((bound, upper)) = split else { return (before, None) };
        self.bounds.insert(at, &bound, &[]);
        self.children.insert(at + 1, upper);
        (before, (self.children.len() > CHILDREN_MAX).then(|| self.split(at + 1)).flatten())
    }

    /// Splits off the upper half; or only the last child if it was just added.
    fn split(&mut self, added: usize) -> Split {
        let last = self.children.len() - 1;
        let at = if added == last { last } else { self.children.len() / 2 };
        let bounds = self.bounds.split_off(at);
        let bound = self.bounds.key(at - 1).into();
        drop(self.bounds.split_off(at - 1));
        let children = self.children.split_off(at);
        self.children.shrink_to_fit();
        let mut upper = Inner { bounds, children, ..Inner::default() };
        upper.recount();
        self.recount();
        Some((bound, Arc::new(Node::Inner(upper))))
    }

    fn count(&self, range: &KeyRange<'_>, revision: i64) -> u64 {
        let part = self.part(range);
        let (first, last) = (*part.start(), *part.end());
        let child = |at: usize| {
            let child = &*self.children[at];
            let whole = at > first && (at < last || range.to.is_none());
            if child.newest() <= revision && (whole || child.live() == 0) {
                child.live()
            } else {
                child.count(range, revision)
            }
        };
        part.map(child).sum()
    }

    fn compact(&mut self, from: &[u8], at: i64, kept: &mut Vec<Revision>) -> Option<Box<[u8]>> {
        let first = self.child(from);
        let next = match &*self.children[first] {
            Node::Leaf(_) => {
                for child in &mut self.children[first..] {
                    Node::compact(child, from, at, kept);
                }
                self.merge_small();
                None
            }
            Node::Inner(_) => {
                let next = Node::compact(&mut self.children[first], from, at, kept);
                let after = (first + 1 < self.children.len()).then(|| self.bound(first + 1));
                let next = next.or_else(|| after.map(Into::into));
                self.merge_small();
                next
            }
        };
        self.recount();
        next
    }

    /// Removes empty children, and merges small ones with their siblings.
    fn merge_small(&mut self) {
        let needless = |at: usize| {
            let child = &*self.children[at];
            child.is_empty() || (child.is_underfull() && at + 1 < self.children.len())
        };
        if !(0..self.children.len()).any(needless) {
            return;
        }
        let mut merged = Inner::default();
        for (at, child) in self.children.iter().enumerate().filter(|(_, child)| !child.is_empty()) {
            let bound = self.bound(at);
            match merged.children.last_mut() {
                Some(last) if last.is_underfull() && last.has_room_for(child) => {
                    Arc::make_mut(last).join(bound, child);
                }
                _ => merged.push(bound, Arc::clone(child)),
            }
        }
        *self = merged;
    }

    fn join(&mut self, bound: &[u8], above: &Inner) {
        for (at, child) in above.children.iter().enumerate() {
            let bound = if at == 0 { bound } else { above.bound(at) };
            self.push(bound, Arc::clone(child));
        }
        self.recount();
    }
}

/// Returns a leaf after a compaction, or `None` if it does not change.
fn compact_leaf(leaf: &Leaf, at: i64, kept: &mut Vec<Revision>) -> Option<Leaf> {
    let mut changes = false;
    for one in leaf.plan_compaction(at) {
        changes |= one.drops || one.empty;
        kept.extend(one.revision);
    }
    changes.then(|| leaf.compact(at))
}
