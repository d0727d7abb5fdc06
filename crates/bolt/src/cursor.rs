//! A position in a bucket that moves in key order.

use crate::error::CorruptPage;
use crate::page::LeafElement;
use crate::state::DEPTH_MAX;
use crate::tree::{Subtree, SubtreeContent, Tree};

/// Leaves to prefetch ahead during a forward scan.
const LEAVES_AHEAD: usize = 4;

/// A key-value pair, or the name of a nested bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value; `None` for a nested bucket.
    pub value: Option<&'a [u8]>,
}

impl<'a> From<LeafElement<'a>> for Item<'a> {
    #[inline]
    fn from(element: LeafElement<'a>) -> Item<'a> {
        Item { key: element.key, value: (!element.is_bucket).then_some(element.value) }
    }
}

/// A position in a bucket that moves in key order. A new cursor is before the first item.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    tree: Tree<'a>,
    /// The current leaf; `None` until the cursor is positioned.
    leaf: Option<SubtreeContent<'a>>,
    count: usize,
    /// Index of the current item in the leaf. A value of `count` or more is past the last item, or
    /// [`BEFORE_FIRST`].
    index: usize,
    /// The branches above the leaf, from the root down, each with the index of the child taken.
    above: Vec<(SubtreeContent<'a>, usize)>,
    /// Direction of the last move between leaves, and the number of pages entered since. One pass
    /// through a tree enters each page at most once, so a larger number reveals a cycle.
    heading: End,
    entered: u64,
    /// A step failed. The cursor yields nothing until it is positioned again.
    failed: bool,
}

/// The index before the first item: adding one wraps to 0.
const BEFORE_FIRST: usize = usize::MAX;

/// The end of the key order that a move starts at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    First,
    Last,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(tree: Tree<'a>) -> Cursor<'a> {
        let (heading, index) = (End::First, BEFORE_FIRST);
        Cursor {
            tree,
            leaf: None,
            count: 0,
            index,
            above: Vec::new(),
            heading,
            entered: 0,
            failed: false,
        }
    }

    /// Moves to the first item.
    pub fn first(&mut self) -> Result<Option<Item<'a>>, CorruptPage> {
        self.restart();
        self.guarded(|cursor| {
            cursor.descend(cursor.tree.root, End::First)?;
            cursor.current_or_advance(End::First)
        })
    }

    /// Moves to the last item.
    pub fn last(&mut self) -> Result<Option<Item<'a>>, CorruptPage> {
        self.restart();
        self.guarded(|cursor| {
            cursor.descend(cursor.tree.root, End::Last)?;
            cursor.current_or_advance(End::Last)
        })
    }

    /// Moves to the item with the given key, or to the next greater one.
    pub fn seek(&mut self, key: &[u8]) -> Result<Option<Item<'a>>, CorruptPage> {
        self.restart();
        self.guarded(|cursor| cursor.descend_to(key))
    }

    fn descend_to(&mut self, key: &[u8]) -> Result<Option<Item<'a>>, CorruptPage> {
        let mut subtree = self.tree.root;
        loop {
            let view = self.enter(subtree)?;
            if view.is_leaf() {
                let (index, _) = self.tree.at_page(&view, view.search(key))?;
                self.set_position(view, index);
                return self.current_or_advance(End::First);
            }
            let index = self.tree.at_page(&view, view.search_child(key))?;
            self.above.push((view, index));
            subtree = self.tree.at_page(&view, view.child(index))?;
        }
    }

    /// Moves to the next item. A new cursor moves to the first one.
    #[inline]
    #[expect(
        clippy::should_implement_trait,
        reason = "a cursor goes both ways and its steps can fail"
    )]
    pub fn next(&mut self) -> Result<Option<Item<'a>>, CorruptPage> {
        // Wraps from `BEFORE_FIRST` to 0.
        let index = self.index.wrapping_add(1);
        if let Some(SubtreeContent::Page(page)) = &self.leaf
            && let Ok(element) = page.leaf_element(index)
        {
            self.index = index;
            return Ok(Some(element.into()));
        }
        match self.next_leaf() {
            Some(element) => Ok(Some(element.into())),
            None => self.next_elsewhere(),
        }
    }

    /// Fast path: enters the next leaf if it is the next child of the same branch, and returns its
    /// first item.
    fn next_leaf(&mut self) -> Option<LeafElement<'a>> {
        let (SubtreeContent::Page(branch), taken) = self.above.last_mut()? else { return None };
        let next = *taken + 1;
        if next >= branch.count()
            || self.index.wrapping_add(1) != self.count
            || self.heading != End::First
        {
            return None;
        }
        let page = self.tree.state.page(branch.child(next).ok()?).ok()?;
        if !page.is_leaf || page.count() == 0 || self.entered >= self.tree.state.meta.high_water {
            return None;
        }
        // Prefetch: scanning a leaf is faster than loading the next one from memory.
        if next + LEAVES_AHEAD < branch.count() {
            self.tree.state.prefetch(branch.child(next + LEAVES_AHEAD).ok()?);
        }
        let element = page.leaf_element(0).ok()?;
        *taken = next;
        self.entered += 1;
        (self.leaf, self.count, self.index) = (Some(SubtreeContent::Page(page)), page.count(), 0);
        Some(element)
    }

    /// Slow path of [`Cursor::next`], for every other case.
    #[cold]
    fn next_elsewhere(&mut self) -> Result<Option<Item<'a>>, CorruptPage> {
        if self.failed {
            return Ok(None);
        }
        if self.leaf.is_none() {
            return self.first();
        }
        self.index = self.index.wrapping_add(1);
        self.guarded(|cursor| cursor.current_or_advance(End::First))
    }

    /// Moves to the previous item. Returns `None` from before the first item.
    pub fn prev(&mut self) -> Result<Option<Item<'a>>, CorruptPage> {
        if self.leaf.is_none() || self.index == BEFORE_FIRST {
            return Ok(None);
        }
        self.index = self.index.min(self.count).wrapping_sub(1);
        self.guarded(|cursor| cursor.current_or_advance(End::Last))
    }

    /// Returns an iterator over all items after the current one.
    pub fn rest(&mut self) -> impl Iterator<Item = Result<Item<'a>, CorruptPage>> + use<'_, 'a> {
        std::iter::from_fn(|| self.next().transpose())
    }

    /// Returns the current item. If the position is outside the leaf, moves on to the next
    /// non-empty leaf, away from the `from` end. At the end of the tree, stays in the last leaf,
    /// outside its items.
    fn current_or_advance(&mut self, from: End) -> Result<Option<Item<'a>>, CorruptPage> {
        if self.heading != from {
            self.heading = from;
            self.entered = 0;
        }
        while self.index >= self.count {
            if !self.advance_branch(from) {
                return Ok(None);
            }
            let (branch, index) = self.above.last().copied().expect("advance_branch left a branch");
            let child = self.tree.at_page(&branch, branch.child(index))?;
            self.descend(child, from)?;
        }
        let Some(leaf) = self.leaf else { return Ok(None) };
        Ok(Some(self.tree.at_page(&leaf, leaf.element(self.index))?.into()))
    }

    /// Climbs to the lowest branch with another child in this direction, and selects that child.
    fn advance_branch(&mut self, from: End) -> bool {
        let more = |(branch, index): &(SubtreeContent<'a>, usize)| match from {
            End::First => index + 1 < branch.count(),
            End::Last => *index > 0,
        };
        let Some(level) = self.above.iter().rposition(more) else { return false };
        self.above.truncate(level + 1);
        let (_, index) = &mut self.above[level];
        *index = if from == End::First { *index + 1 } else { *index - 1 };
        true
    }

    /// Descends along one edge of a subtree to a leaf.
    fn descend(&mut self, mut subtree: Subtree<'a>, to: End) -> Result<(), CorruptPage> {
        loop {
            let view = self.enter(subtree)?;
            let index = if to == End::First { 0 } else { view.count().wrapping_sub(1) };
            if view.is_leaf() {
                self.set_position(view, index);
                return Ok(());
            }
            self.above.push((view, index));
            subtree = self.tree.at_page(&view, view.child(index))?;
        }
    }

    fn set_position(&mut self, leaf: SubtreeContent<'a>, index: usize) {
        self.count = leaf.count();
        self.index = index;
        self.leaf = Some(leaf);
    }

    /// Reads the page one level down. Fails if the tree is deeper or larger than a file can hold.
    fn enter(&mut self, subtree: Subtree<'a>) -> Result<SubtreeContent<'a>, CorruptPage> {
        if self.above.len() >= DEPTH_MAX {
            return Err(self.tree.too_deep(subtree));
        }
        let view = self.tree.view(subtree)?;
        if let SubtreeContent::Page(page) = view {
            self.entered += 1;
            if self.entered > self.tree.state.meta.high_water {
                return Err(self
                    .tree
                    .state
                    .corrupt(page.id, "reached twice: the tree has a cycle"));
            }
        }
        Ok(view)
    }

    /// Runs a step. After an error the cursor has no position, so a scan that ignores the error
    /// ends.
    fn guarded(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<Option<Item<'a>>, CorruptPage>,
    ) -> Result<Option<Item<'a>>, CorruptPage> {
        let outcome = step(self);
        if outcome.is_err() {
            self.restart();
            self.failed = true;
        }
        outcome
    }

    fn restart(&mut self) {
        self.failed = false;
        self.above.clear();
        self.leaf = None;
        self.index = BEFORE_FIRST;
        self.count = 0;
        self.entered = 0;
    }
}
