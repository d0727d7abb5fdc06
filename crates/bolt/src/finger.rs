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
//! Keys that were written together are mostly found in the first way. Those in no order at all are each in another leaf, and what takes
//! time is to wait for memory; so [`Finger::expect`] asks for the leaves of several keys at once.
//!
//! What is always true of a file whose keys are in order: a finger finds exactly what [`Bucket::get`](crate::Bucket::get) finds, whatever was
//! looked up, or expected, before.

use std::cmp::Ordering;

use crate::error::Damaged;
use crate::page::{LeafElement, compare};
use crate::state::DEPTH_MAX;
use crate::tree::{Subtree, Tree, View};

/// Most keys whose leaves are asked for at once: as many as memory serves at a time, roughly.
pub const EXPECTED_MAX: usize = 16;

/// Looks up keys of one bucket, each from where the last one was.
#[derive(Clone, Debug)]
pub struct Finger<'a> {
    /// To the leaf of the last key.
    path: Path<'a>,
    /// That leaf, and the element in it: the key's own, or the first greater one.
    leaf: Option<(View<'a>, usize)>,
    /// To the leaf of the last key that was expected.
    ahead: Path<'a>,
}

impl<'a> Finger<'a> {
    pub(crate) fn new(tree: Tree<'a>) -> Finger<'a> {
        Finger { path: Path::new(tree), leaf: None, ahead: Path::new(tree) }
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

    /// What a key leads to. After an error the finger is in no leaf.
    fn find(&mut self, key: &[u8]) -> Result<Option<LeafElement<'a>>, Damaged> {
        let tree = self.path.tree;
        let leaf = match self.leaf.take() {
            Some((leaf, _)) if tree.spans(&leaf, key)? => leaf,
            _ => self.path.leaf_of(key)?,
        };
        let (index, exact) = tree.ok(&leaf, leaf.search(key))?;
        self.leaf = Some((leaf, index));
        if exact { tree.ok(&leaf, leaf.element(index)).map(Some) } else { Ok(None) }
    }

    /// Lets the leaves of keys that will be looked up next come from memory, all at the same time: of the first [`EXPECTED_MAX`]. What
    /// is damaged shows when it is looked up.
    pub fn expect<K: AsRef<[u8]>>(&mut self, keys: &[K]) {
        let mut leaves = [None; EXPECTED_MAX];
        for (leaf, key) in leaves.iter_mut().zip(keys) {
            *leaf = self.ahead.move_to(key.as_ref()).ok().flatten();
        }
        for leaf in leaves.into_iter().flatten() {
            if let Ok(leaf) = self.path.tree.view(leaf) {
                self.path.tree.prefetch_keys(&leaf);
            }
        }
    }
}

fn value_of(element: LeafElement<'_>) -> Option<&[u8]> {
    (!element.is_bucket).then_some(element.value)
}

/// The way to a leaf.
#[derive(Clone, Debug)]
struct Path<'a> {
    tree: Tree<'a>,
    /// The branches from the root down, each with the child that was taken.
    branches: Vec<(View<'a>, usize)>,
    /// How many branches there are above any leaf, once that is known.
    depth: Option<usize>,
}

impl<'a> Path<'a> {
    fn new(tree: Tree<'a>) -> Path<'a> {
        Path { tree, branches: Vec::new(), depth: None }
    }

    /// The leaf where a key belongs, from the lowest branch that is known to lead there.
    fn leaf_of(&mut self, key: &[u8]) -> Result<View<'a>, Damaged> {
        let mut subtree = self.climb(key)?;
        for _ in self.branches.len()..DEPTH_MAX {
            let view = self.tree.view(subtree)?;
            if view.is_leaf() {
                self.tree.prefetch_keys(&view);
                self.depth = Some(self.branches.len());
                return Ok(view);
            }
            let index = self.tree.ok(&view, view.search_child(key))?;
            subtree = self.enter(view, index)?;
        }
        Err(self.tree.too_deep(subtree))
    }

    /// Goes to the leaf where a key belongs, without a look at it, and tells which it is if it is another one than the last.
    fn move_to(&mut self, key: &[u8]) -> Result<Option<Subtree<'a>>, Damaged> {
        let Some(depth) = self.depth else {
            self.leaf_of(key)?;
            return Ok(None);
        };
        if let Some((branch, taken)) = self.branches.last()
            && self.tree.leads(branch, *taken, key)?
        {
            return Ok(None);
        }
        let mut subtree = self.climb(key)?;
        while self.branches.len() < depth {
            let view = self.tree.view(subtree)?;
            let index = self.tree.ok(&view, view.search_child(key))?;
            subtree = self.enter(view, index)?;
        }
        Ok(Some(subtree))
    }

    /// Goes up until a branch spans the key, and on to the child that leads there; or starts at the root again.
    fn climb(&mut self, key: &[u8]) -> Result<Subtree<'a>, Damaged> {
        while let Some((branch, taken)) = self.branches.pop() {
            if self.tree.spans(&branch, key)? {
                let next = taken + 1;
                let index = match self.tree.leads(&branch, next, key)? {
                    true => next,
                    false => self.tree.ok(&branch, branch.search_child(key))?,
                };
                return self.enter(branch, index);
            }
        }
        Ok(self.tree.root)
    }

    fn enter(&mut self, branch: View<'a>, child: usize) -> Result<Subtree<'a>, Damaged> {
        let subtree = self.tree.ok(&branch, branch.child(child))?;
        self.tree.prefetch(subtree);
        self.branches.push((branch, child));
        Ok(subtree)
    }
}

impl<'a> Tree<'a> {
    /// Whether a key is under this page if it is anywhere. (If not, it may be yet, behind the last element.)
    #[inline]
    fn spans(&self, view: &View<'a>, key: &[u8]) -> Result<bool, Damaged> {
        let Some(last) = view.count().checked_sub(1) else { return Ok(false) };
        Ok(self.compare(view, last, key)?.is_ge() && self.compare(view, 0, key)?.is_le())
    }

    /// Whether a key is under this child of a branch if it is anywhere. (If not, it may be yet, under the last one.)
    #[inline]
    fn leads(&self, branch: &View<'a>, child: usize, key: &[u8]) -> Result<bool, Damaged> {
        let next = child + 1;
        Ok(next < branch.count()
            && self.compare(branch, child, key)?.is_le()
            && self.compare(branch, next, key)?.is_gt())
    }

    /// How the key of an element compares to a key.
    #[inline]
    fn compare(&self, view: &View<'a>, index: usize, key: &[u8]) -> Result<Ordering, Damaged> {
        Ok(compare(self.ok(view, view.key(index))?, key))
    }
}
