//! Finger search: looking up many keys of a bucket, each starting from the position of the last.
//!
//! A finger remembers the leaf of the last key and the branches above it, and moves only as far as
//! needed:
//!
//! ```text
//!                    [ 10   40   90 ]                 after a lookup of 45, a lookup of
//!                   /      |        \                   46   the next element
//!        [10  20  30]  [40  50  60]  [90 ..]            48   the same leaf
//!                      /    |                           53   the same branch, the next leaf of it
//!          {40 45 46 48}  {50 53 57}                    12   from the root
//! ```
//!
//! Keys that were written together are mostly found in the first way. Random keys are found as fast
//! as from the root: the extra comparisons hit the cache, and the same branch often serves again.
//! (Prefetching the leaves of a dozen keys was tried and gained nothing: address translation
//! dominates, and the addresses become known one by one.)
//!
//! Invariant, for a tree with sorted keys: a finger finds exactly what
//! [`Bucket::get`](crate::Bucket::get) finds, whatever was looked up before.

use std::cmp::Ordering;

use crate::error::CorruptPage;
use crate::page::{LeafElement, compare};
use crate::state::DEPTH_MAX;
use crate::tree::{Subtree, SubtreeContent, Tree};

/// Leaves to prefetch ahead when leaves are entered in order.
const LEAVES_AHEAD: usize = 2;

/// Looks up keys of one bucket, each starting from the position of the last.
#[derive(Clone, Debug)]
pub struct Finger<'a> {
    tree: Tree<'a>,
    /// The leaf of the last key with an index: of the key itself, or of the next greater one.
    leaf: Option<(SubtreeContent<'a>, usize)>,
    /// The branches above that leaf, from the root down, each with the index of the child taken.
    above: Vec<(SubtreeContent<'a>, usize)>,
}

impl<'a> Finger<'a> {
    pub(crate) fn new(tree: Tree<'a>) -> Finger<'a> {
        Finger { tree, leaf: None, above: Vec::new() }
    }

    /// Returns the value of a key, or `None` if the key is absent or names a bucket.
    #[inline]
    pub fn get(&mut self, key: &[u8]) -> Result<Option<&'a [u8]>, CorruptPage> {
        if let Some((SubtreeContent::Page(leaf), index)) = &mut self.leaf
            && let Ok(next) = leaf.leaf_element(*index + 1)
            && compare(next.key, key).is_eq()
        {
            *index += 1;
            return Ok(value_of(next));
        }
        Ok(self.find(key)?.and_then(value_of))
    }

    /// Finds the element of a key. After an error the finger has no leaf, and its remaining
    /// branches stay valid.
    fn find(&mut self, key: &[u8]) -> Result<Option<LeafElement<'a>>, CorruptPage> {
        let leaf = match self.leaf.take() {
            Some((leaf, _)) if self.spans(&leaf, key)? => leaf,
            _ => self.descend(key)?,
        };
        let (index, exact) = self.tree.at_page(&leaf, leaf.search(key))?;
        self.leaf = Some((leaf, index));
        if exact { self.tree.at_page(&leaf, leaf.element(index)).map(Some) } else { Ok(None) }
    }

    /// Returns the leaf that covers a key, descending from the lowest known branch above it.
    fn descend(&mut self, key: &[u8]) -> Result<SubtreeContent<'a>, CorruptPage> {
        let mut subtree = self.climb(key)?;
        for _ in self.above.len()..DEPTH_MAX {
            let view = self.tree.view(subtree)?;
            if view.is_leaf() {
                self.tree.prefetch_keys(&view);
                return Ok(view);
            }
            let index = self.tree.at_page(&view, view.search_child(key))?;
            subtree = self.enter(view, index)?;
        }
        Err(self.tree.too_deep(subtree))
    }

    /// Climbs until a branch covers the key, then selects its child. Falls back to the root.
    fn climb(&mut self, key: &[u8]) -> Result<Subtree<'a>, CorruptPage> {
        while let Some((branch, taken)) = self.above.pop() {
            if self.spans(&branch, key)? {
                return self.turn(branch, taken + 1, key);
            }
        }
        Ok(self.tree.root)
    }

    /// Selects the child of a covering branch that leads to the key. Tries the next child first.
    fn turn(
        &mut self,
        branch: SubtreeContent<'a>,
        next: usize,
        key: &[u8],
    ) -> Result<Subtree<'a>, CorruptPage> {
        if !self.leads(&branch, next, key)? {
            let index = self.tree.at_page(&branch, branch.search_child(key))?;
            return self.enter(branch, index);
        }
        if next + LEAVES_AHEAD < branch.count() {
            self.tree.prefetch(self.tree.at_page(&branch, branch.child(next + LEAVES_AHEAD))?);
        }
        self.enter(branch, next)
    }

    fn enter(
        &mut self,
        branch: SubtreeContent<'a>,
        child: usize,
    ) -> Result<Subtree<'a>, CorruptPage> {
        let subtree = self.tree.at_page(&branch, branch.child(child))?;
        self.tree.prefetch(subtree);
        self.above.push((branch, child));
        Ok(subtree)
    }

    /// Reports whether the page surely covers the key. A key after the last element may still
    /// belong to it.
    #[inline]
    fn spans(&self, view: &SubtreeContent<'a>, key: &[u8]) -> Result<bool, CorruptPage> {
        let Some(last) = view.count().checked_sub(1) else { return Ok(false) };
        Ok(self.compare(view, last, key)?.is_ge() && self.compare(view, 0, key)?.is_le())
    }

    /// Reports whether the child of a branch surely covers the key. The last child may still cover
    /// it if not.
    #[inline]
    fn leads(
        &self,
        branch: &SubtreeContent<'a>,
        child: usize,
        key: &[u8],
    ) -> Result<bool, CorruptPage> {
        let next = child + 1;
        Ok(next < branch.count()
            && self.compare(branch, child, key)?.is_le()
            && self.compare(branch, next, key)?.is_gt())
    }

    /// Compares the key of an element with `key`.
    #[inline]
    fn compare(
        &self,
        view: &SubtreeContent<'a>,
        index: usize,
        key: &[u8],
    ) -> Result<Ordering, CorruptPage> {
        Ok(compare(self.tree.at_page(view, view.key(index))?, key))
    }
}

fn value_of(element: LeafElement<'_>) -> Option<&[u8]> {
    (!element.is_bucket).then_some(element.value)
}
