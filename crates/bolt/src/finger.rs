//! Looking up many keys of a bucket, one after the other.
//!
//! A finger stays where the last key was, with the branches above, and goes from there only as far as it has to:
//!
//! ```text
//!                    [ 10   40   90 ]                 after a look at 45, for
//!                   /      |        \                   46   the next element
//!        [10  20  30]  [40  50  60]  [90 ..]            48   the same leaf
//!                      /    |                           53   the same branch, the next leaf of it
//!          {40 45 46 48}  {50 53 57}                    12   from the root
//! ```
//!
//! Keys that were written together are mostly found in the first way, and those in no order at all no slower than from the root: what is
//! compared in vain is in the cache, and often enough the same branch serves again. (To ask memory for the leaves of a dozen keys beforehand
//! was tried, and gained nothing: what takes the time is to translate their addresses, and those come one by one.)
//!
//! What is always true of a tree whose keys are in order: a finger finds exactly what [`Bucket::get`](crate::Bucket::get) finds, whatever was
//! looked up before.

use std::cmp::Ordering;

use crate::error::Damaged;
use crate::page::{LeafElement, compare};
use crate::state::DEPTH_MAX;
use crate::tree::{Subtree, Tree, View};

/// How many leaves ahead memory is asked for the next, where one after the other is entered.
const LEAVES_AHEAD: usize = 2;

/// Looks up keys of one bucket, each from where the last one was.
#[derive(Clone, Debug)]
pub struct Finger<'a> {
    tree: Tree<'a>,
    /// The leaf of the last key, and the element in it: the key's own, or the first greater one.
    leaf: Option<(View<'a>, usize)>,
    /// The branches above that leaf, from the root down, each with the child that was taken.
    above: Vec<(View<'a>, usize)>,
}

impl<'a> Finger<'a> {
    pub(crate) fn new(tree: Tree<'a>) -> Finger<'a> {
        Finger { tree, leaf: None, above: Vec::new() }
    }

    /// The value of a key. A bucket is no value.
    #[inline]
    pub fn get(&mut self, key: &[u8]) -> Result<Option<&'a [u8]>, Damaged> {
        if let Some((View::Page(leaf), index)) = &mut self.leaf
            && let Ok(next) = leaf.leaf_element(*index + 1)
            && compare(next.key, key).is_eq()
        {
            *index += 1;
            return Ok(value_of(next));
        }
        Ok(self.find(key)?.and_then(value_of))
    }

    /// What a key leads to. After an error the finger is in no leaf, and the branches that are left lead where they did.
    fn find(&mut self, key: &[u8]) -> Result<Option<LeafElement<'a>>, Damaged> {
        let leaf = match self.leaf.take() {
            Some((leaf, _)) if self.spans(&leaf, key)? => leaf,
            _ => self.descend(key)?,
        };
        let (index, exact) = self.tree.ok(&leaf, leaf.search(key))?;
        self.leaf = Some((leaf, index));
        if exact { self.tree.ok(&leaf, leaf.element(index)).map(Some) } else { Ok(None) }
    }

    /// The leaf where a key belongs, from the lowest branch that is known to lead there.
    fn descend(&mut self, key: &[u8]) -> Result<View<'a>, Damaged> {
        let mut subtree = self.climb(key)?;
        for _ in self.above.len()..DEPTH_MAX {
            let view = self.tree.view(subtree)?;
            if view.is_leaf() {
                self.tree.prefetch_keys(&view);
                return Ok(view);
            }
            let index = self.tree.ok(&view, view.search_child(key))?;
            subtree = self.enter(view, index)?;
        }
        Err(self.tree.too_deep(subtree))
    }

    /// Goes up until a branch spans the key, and from there to the child that leads on; or starts at the root again.
    fn climb(&mut self, key: &[u8]) -> Result<Subtree<'a>, Damaged> {
        while let Some((branch, taken)) = self.above.pop() {
            if self.spans(&branch, key)? {
                return self.turn(branch, taken + 1, key);
            }
        }
        Ok(self.tree.root)
    }

    /// From a branch that spans the key to the child that leads on, which is often the next.
    fn turn(&mut self, branch: View<'a>, next: usize, key: &[u8]) -> Result<Subtree<'a>, Damaged> {
        if !self.leads(&branch, next, key)? {
            let index = self.tree.ok(&branch, branch.search_child(key))?;
            return self.enter(branch, index);
        }
        if next + LEAVES_AHEAD < branch.count() {
            self.tree.prefetch(self.tree.ok(&branch, branch.child(next + LEAVES_AHEAD))?);
        }
        self.enter(branch, next)
    }

    fn enter(&mut self, branch: View<'a>, child: usize) -> Result<Subtree<'a>, Damaged> {
        let subtree = self.tree.ok(&branch, branch.child(child))?;
        self.tree.prefetch(subtree);
        self.above.push((branch, child));
        Ok(subtree)
    }

    /// Whether a key is under this page if it is anywhere. (If not, it may be yet, behind the last element.)
    #[inline]
    fn spans(&self, view: &View<'a>, key: &[u8]) -> Result<bool, Damaged> {
        let Some(last) = view.count().checked_sub(1) else { return Ok(false) };
        Ok(self.compare(view, last, key)?.is_ge() && self.compare(view, 0, key)?.is_le())
    }

    /// Whether a key is under this child of a branch if it is anywhere. (If not, it may be yet, under the last one.)
    #[inline]
    fn leads(&self, branch: &View<'a>, child: usize, key: &[u8]) -> Result<bool, Damaged> {
        let behind = child + 1;
        Ok(behind < branch.count()
            && self.compare(branch, child, key)?.is_le()
            && self.compare(branch, behind, key)?.is_gt())
    }

    /// How the key of an element compares to a key.
    #[inline]
    fn compare(&self, view: &View<'a>, index: usize, key: &[u8]) -> Result<Ordering, Damaged> {
        Ok(compare(self.tree.ok(view, view.key(index))?, key))
    }
}

fn value_of(element: LeafElement<'_>) -> Option<&[u8]> {
    (!element.is_bucket).then_some(element.value)
}
