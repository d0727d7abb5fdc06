//! An interval tree: finds the ranges that contain a key.
//!
//! A balanced search tree (AVL) ordered by start, then end. Each node also knows the largest end in
//! its subtree, so that a search skips subtrees that end before the key. Watchers of the same range
//! share a node:
//!
//! ```text
//!                     [f, k)  max end open                    which contain "g"?
//!                    /            \                           left:  max end h, search
//!      [c, h) max end h         [m, open) max end open               [c, h) yes
//!     /                                                              [a, b) max end b, skip
//! [a, b) max end b                                            here:  [f, k) yes
//!                                                             right: starts after "g"
//! ```
//!
//! Invariants: the heights of two siblings differ by at most one; `max_end` is the node with the
//! largest end in the subtree; a node has members, except between [`IntervalTree::members`] and the
//! caller's push.
//!
//! Finding k ranges costs O(log n) for the first and, at worst, as much for each further one; in
//! practice little more than k.

use bytes::Bytes;

use super::key_span::SpanEnd;

type Link = Option<usize>;

/// Ranges with their members.
#[derive(Debug, Default)]
pub(super) struct IntervalTree {
    root: Link,
    nodes: Vec<Node>,
    free: Vec<usize>,
}

#[derive(Debug)]
struct Node {
    start: Bytes,
    end: SpanEnd,
    members: Vec<usize>,
    left: Link,
    right: Link,
    height: u32,
    max_end: usize,
}

impl IntervalTree {
    /// Calls `f` with the members of every range that contains a key.
    pub(super) fn stab(&self, key: &[u8], f: &mut impl FnMut(&[usize])) {
        self.stab_below(self.root, key, f);
    }

    /// Returns the members of a range, if it exists.
    pub(super) fn get_mut(&mut self, start: &[u8], end: &SpanEnd) -> Option<&mut Vec<usize>> {
        let at = self.find(start, end)?;
        Some(&mut self.nodes[at].members)
    }

    /// Returns the members of a range, which is added if it does not exist.
    pub(super) fn members(&mut self, start: &Bytes, end: &SpanEnd) -> &mut Vec<usize> {
        let at = self.find(start, end).unwrap_or_else(|| {
            let new = self.allocate(start, end);
            self.root = Some(self.insert_below(self.root, new));
            new
        });
        &mut self.nodes[at].members
    }

    /// Removes a range, if it exists.
    pub(super) fn remove(&mut self, start: &[u8], end: &SpanEnd) {
        self.root = self.remove_below(self.root, start, end);
    }

    fn stab_below(&self, at: Link, key: &[u8], f: &mut impl FnMut(&[usize])) {
        let Some(node) = at.map(|at| &self.nodes[at]) else { return };
        if !self.nodes[node.max_end].end.is_after(key) {
            return;
        }
        self.stab_below(node.left, key, f);
        if node.start > key {
            return;
        }
        if node.end.is_after(key) {
            f(&node.members);
        }
        self.stab_below(node.right, key, f);
    }

    fn find(&self, start: &[u8], end: &SpanEnd) -> Link {
        let mut at = self.root;
        while let Some(node) = at.map(|at| &self.nodes[at]) {
            at = match (start, end).cmp(&(&node.start, &node.end)) {
                std::cmp::Ordering::Less => node.left,
                std::cmp::Ordering::Equal => return at,
                std::cmp::Ordering::Greater => node.right,
            };
        }
        None
    }

    fn allocate(&mut self, start: &Bytes, end: &SpanEnd) -> usize {
        let at = self.free.pop().unwrap_or(self.nodes.len());
        let (start, end) = (start.clone(), end.clone());
        let members = Vec::new();
        let node = Node { start, end, members, left: None, right: None, height: 1, max_end: at };
        match self.nodes.get_mut(at) {
            Some(slot) => *slot = node,
            None => self.nodes.push(node),
        }
        at
    }

    fn insert_below(&mut self, at: Link, new: usize) -> usize {
        let Some(at) = at else { return new };
        if self.key(new) < self.key(at) {
            self.nodes[at].left = Some(self.insert_below(self.nodes[at].left, new));
        } else {
            self.nodes[at].right = Some(self.insert_below(self.nodes[at].right, new));
        }
        self.balance(at)
    }

    fn remove_below(&mut self, at: Link, start: &[u8], end: &SpanEnd) -> Link {
        let at = at?;
        match (start, end).cmp(&self.key(at)) {
            std::cmp::Ordering::Less => {
                self.nodes[at].left = self.remove_below(self.nodes[at].left, start, end);
            }
            std::cmp::Ordering::Greater => {
                self.nodes[at].right = self.remove_below(self.nodes[at].right, start, end);
            }
            std::cmp::Ordering::Equal => return self.unlink(at),
        }
        Some(self.balance(at))
    }

    /// Removes a node. Returns its replacement: the successor, if it has two children.
    fn unlink(&mut self, at: usize) -> Link {
        let (left, right) = (self.nodes[at].left, self.nodes[at].right);
        self.release(at);
        let (Some(_), Some(right)) = (left, right) else { return left.or(right) };
        let (right, first) = self.take_first(right);
        self.nodes[first].left = left;
        self.nodes[first].right = right;
        Some(self.balance(first))
    }

    /// Removes the first node of a subtree. Returns the rest and that node.
    fn take_first(&mut self, at: usize) -> (Link, usize) {
        let Some(left) = self.nodes[at].left else { return (self.nodes[at].right, at) };
        let (left, first) = self.take_first(left);
        self.nodes[at].left = left;
        (Some(self.balance(at)), first)
    }

    /// Releases a node for reuse.
    fn release(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        node.start = Bytes::new();
        node.end = SpanEnd::Open;
        node.members = Vec::new();
        self.free.push(at);
    }

    /// Rebalances a node whose subtrees are balanced. Returns the new root.
    fn balance(&mut self, at: usize) -> usize {
        let (left, right) = (self.nodes[at].left, self.nodes[at].right);
        match (left, right) {
            (Some(left), _) if self.height(Some(left)) > self.height(right) + 1 => {
                if self.height(self.nodes[left].right) > self.height(self.nodes[left].left) {
                    self.nodes[at].left = Some(self.rotate_left(left));
                }
                self.rotate_right(at)
            }
            (_, Some(right)) if self.height(Some(right)) > self.height(left) + 1 => {
                if self.height(self.nodes[right].left) > self.height(self.nodes[right].right) {
                    self.nodes[at].right = Some(self.rotate_right(right));
                }
                self.rotate_left(at)
            }
            _ => self.refresh(at),
        }
    }

    /// Rotates the right child to the top.
    fn rotate_left(&mut self, at: usize) -> usize {
        let Some(top) = self.nodes[at].right else { return self.refresh(at) };
        self.nodes[at].right = self.nodes[top].left;
        self.nodes[top].left = Some(self.refresh(at));
        self.refresh(top)
    }

    /// Rotates the left child to the top.
    fn rotate_right(&mut self, at: usize) -> usize {
        let Some(top) = self.nodes[at].left else { return self.refresh(at) };
        self.nodes[at].left = self.nodes[top].right;
        self.nodes[top].right = Some(self.refresh(at));
        self.refresh(top)
    }

    /// Recomputes the height and the largest end of a node.
    fn refresh(&mut self, at: usize) -> usize {
        let (left, right) = (self.nodes[at].left, self.nodes[at].right);
        let below = [left, right].into_iter().flatten().map(|side| self.nodes[side].max_end);
        let max_end = below.chain([at]).max_by_key(|&node| &self.nodes[node].end);
        self.nodes[at].max_end = max_end.unwrap_or(at);
        self.nodes[at].height = self.height(left).max(self.height(right)) + 1;
        at
    }

    fn height(&self, at: Link) -> u32 {
        at.map_or(0, |at| self.nodes[at].height)
    }

    fn key(&self, at: usize) -> (&[u8], &SpanEnd) {
        (&self.nodes[at].start, &self.nodes[at].end)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Checks a subtree. Returns its height, its largest end, and its number of nodes.
    fn check(tree: &IntervalTree, at: Link) -> (u32, Option<SpanEnd>, usize) {
        let Some(at) = at else { return (0, None, 0) };
        let node = &tree.nodes[at];
        for side in [node.left, node.right].into_iter().flatten() {
            assert_eq!(tree.key(side) < tree.key(at), node.left == Some(side), "order");
        }
        let (left, right) = (check(tree, node.left), check(tree, node.right));
        assert!(left.0.abs_diff(right.0) <= 1, "balance");
        assert_eq!(node.height, left.0.max(right.0) + 1);
        let max_end = left.1.max(right.1).max(Some(node.end.clone()));
        assert_eq!(Some(&tree.nodes[node.max_end].end), max_end.as_ref());
        (node.height, max_end, left.2 + right.2 + 1)
    }

    fn ends() -> impl Strategy<Value = SpanEnd> {
        prop_oneof![9 => (0u8..40).prop_map(|b| SpanEnd::Before(vec![b].into())), 1 => Just(SpanEnd::Open)]
    }

    proptest! {
        #[test]
        fn stab_finds_the_same_ranges_as_a_linear_scan(
            steps in proptest::collection::vec((any::<bool>(), 0u8..20, ends()), 1..200),
        ) {
            let mut tree = IntervalTree::default();
            let mut list: BTreeSet<(Bytes, SpanEnd)> = BTreeSet::new();
            let mut names: Vec<(Bytes, SpanEnd)> = Vec::new();
            for (add, start, end) in steps {
                let range = (Bytes::from(vec![start]), end);
                let present = list.contains(&range);
                prop_assert_eq!(tree.get_mut(&range.0, &range.1).is_some(), present);
                if add && !present {
                    tree.members(&range.0, &range.1).push(names.len());
                    names.push(range.clone());
                    list.insert(range);
                } else if !add {
                    tree.remove(&range.0, &range.1);
                    list.remove(&range);
                }
                prop_assert_eq!(check(&tree, tree.root).2, list.len());
            }
            for key in 0u8..41 {
                let mut found = BTreeSet::new();
                tree.stab(&[key], &mut |members| {
                    assert!(members.iter().all(|&m| found.insert(names[m].clone())), "range found twice");
                });
                let within = |r: &&(Bytes, SpanEnd)| r.0[0] <= key && r.1.is_after(&[key]);
                let expected: BTreeSet<_> = list.iter().filter(within).cloned().collect();
                prop_assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn tree_stays_balanced_when_filled_in_order() {
        let mut tree = IntervalTree::default();
        for i in 0u32..10_000 {
            let start = Bytes::copy_from_slice(&i.to_be_bytes());
            tree.members(&start, &SpanEnd::Open).push(0);
        }
        let (height, _, count) = check(&tree, tree.root);
        assert_eq!(count, 10_000);
        assert!(height <= 15, "{height}"); // a perfectly balanced tree has 14
    }
}
