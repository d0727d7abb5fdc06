//! A place in a bucket that moves in key order.

use crate::error::Damaged;
use crate::page::LeafElement;
use crate::state::DEPTH_MAX;
use crate::tree::{Subtree, Tree, View};

/// How many leaves ahead a walk asks memory for the next.
const LEAVES_AHEAD: usize = 4;

/// A pair, or the name of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value, or none for a bucket.
    pub value: Option<&'a [u8]>,
}

impl<'a> From<LeafElement<'a>> for Item<'a> {
    #[inline]
    fn from(element: LeafElement<'a>) -> Item<'a> {
        Item { key: element.key, value: (!element.is_bucket).then_some(element.value) }
    }
}

/// A place in a bucket that moves in key order. A new cursor stands before the first item.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    tree: Tree<'a>,
    /// The leaf it stands in, once it was moved.
    leaf: Option<View<'a>>,
    count: usize,
    /// The item in the leaf. At least `count`: behind the last, or [`BEFORE_FIRST`].
    index: usize,
    /// The branches above, from the root down, each with the child that was taken.
    above: Vec<(View<'a>, usize)>,
    /// Which way it last went from leaf to leaf, and the pages entered since. Going one way through a whole tree enters no
    /// more than there are, so a circle is noticed.
    heading: End,
    entered: u64,
    /// A step failed: there is nothing here until it is placed anew.
    failed: bool,
}

/// The index of no item. One more is the first.
const BEFORE_FIRST: usize = usize::MAX;

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
    pub fn first(&mut self) -> Result<Option<Item<'a>>, Damaged> {
        self.restart();
        self.guarded(|cursor| {
            cursor.descend(cursor.tree.root, End::First)?;
            cursor.settle(End::First)
        })
    }

    /// Moves to the last item.
    pub fn last(&mut self) -> Result<Option<Item<'a>>, Damaged> {
        self.restart();
        self.guarded(|cursor| {
            cursor.descend(cursor.tree.root, End::Last)?;
            cursor.settle(End::Last)
        })
    }

    /// Moves to the item with a key or, if there is none, to the next greater one.
    pub fn seek(&mut self, key: &[u8]) -> Result<Option<Item<'a>>, Damaged> {
        self.restart();
        self.guarded(|cursor| cursor.descend_to(key))
    }

    fn descend_to(&mut self, key: &[u8]) -> Result<Option<Item<'a>>, Damaged> {
        let mut subtree = self.tree.root;
        loop {
            let view = self.enter(subtree)?;
            if view.is_leaf() {
                let (index, _) = self.tree.ok(&view, view.search(key))?;
                self.stand(view, index);
                return self.settle(End::First);
            }
            let index = self.tree.ok(&view, view.search_child(key))?;
            self.above.push((view, index));
            subtree = self.tree.ok(&view, view.child(index))?;
        }
    }

    /// Moves to the next item; from before the first to the first.
    #[inline]
    #[expect(
        clippy::should_implement_trait,
        reason = "a cursor goes both ways and its steps can fail"
    )]
    pub fn next(&mut self) -> Result<Option<Item<'a>>, Damaged> {
        // From before the first this is zero.
        let index = self.index.wrapping_add(1);
        if let Some(View::Page(page)) = &self.leaf
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

    /// The first item of the next leaf, if that is the next child of the same branch: the usual case, without detours.
    fn next_leaf(&mut self) -> Option<LeafElement<'a>> {
        let (View::Page(branch), taken) = self.above.last_mut()? else { return None };
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
        // A leaf is gone through faster than the next comes from memory.
        if next + LEAVES_AHEAD < branch.count() {
            self.tree.state.prefetch(branch.child(next + LEAVES_AHEAD).ok()?);
        }
        let element = page.leaf_element(0).ok()?;
        *taken = next;
        self.entered += 1;
        (self.leaf, self.count, self.index) = (Some(View::Page(page)), page.count(), 0);
        Some(element)
    }

    /// The next item wherever it is.
    #[cold]
    fn next_elsewhere(&mut self) -> Result<Option<Item<'a>>, Damaged> {
        if self.failed {
            return Ok(None);
        }
        if self.leaf.is_none() {
            return self.first();
        }
        self.index = self.index.wrapping_add(1);
        self.guarded(|cursor| cursor.settle(End::First))
    }

    /// Moves to the previous item; from before the first to none.
    pub fn prev(&mut self) -> Result<Option<Item<'a>>, Damaged> {
        if self.leaf.is_none() || self.index == BEFORE_FIRST {
            return Ok(None);
        }
        self.index = self.index.min(self.count).wrapping_sub(1);
        self.guarded(|cursor| cursor.settle(End::Last))
    }

    /// All items from where it stands, which is not counted, to the end.
    pub fn rest(&mut self) -> impl Iterator<Item = Result<Item<'a>, Damaged>> + use<'_, 'a> {
        std::iter::from_fn(|| self.next().transpose())
    }

    /// The item where it stands. Where the leaf has none at this place, goes on to the next leaf that has one, in the direction that
    /// starts at the given end. At the end of the tree it stays in the outermost leaf, beyond its items.
    fn settle(&mut self, from: End) -> Result<Option<Item<'a>>, Damaged> {
        if self.heading != from {
            self.heading = from;
            self.entered = 0;
        }
        while self.index >= self.count {
            if !self.turn(from) {
                return Ok(None);
            }
            let (branch, index) = self.above.last().copied().expect("where it turned");
            let child = self.tree.ok(&branch, branch.child(index))?;
            self.descend(child, from)?;
        }
        let Some(leaf) = self.leaf else { return Ok(None) };
        Ok(Some(self.tree.ok(&leaf, leaf.element(self.index))?.into()))
    }

    /// Goes up to the lowest branch with another child in this direction, and on to that child.
    fn turn(&mut self, from: End) -> bool {
        let more = |(branch, index): &(View<'a>, usize)| match from {
            End::First => index + 1 < branch.count(),
            End::Last => *index > 0,
        };
        let Some(level) = self.above.iter().rposition(more) else { return false };
        self.above.truncate(level + 1);
        let (_, index) = &mut self.above[level];
        *index = if from == End::First { *index + 1 } else { *index - 1 };
        true
    }

    /// Goes down along one edge of a subtree.
    fn descend(&mut self, mut subtree: Subtree<'a>, to: End) -> Result<(), Damaged> {
        loop {
            let view = self.enter(subtree)?;
            let index = if to == End::First { 0 } else { view.count().wrapping_sub(1) };
            if view.is_leaf() {
                self.stand(view, index);
                return Ok(());
            }
            self.above.push((view, index));
            subtree = self.tree.ok(&view, view.child(index))?;
        }
    }

    fn stand(&mut self, leaf: View<'a>, index: usize) {
        self.count = leaf.count();
        self.index = index;
        self.leaf = Some(leaf);
    }

    /// A page one level further down, unless there cannot be that many.
    fn enter(&mut self, subtree: Subtree<'a>) -> Result<View<'a>, Damaged> {
        if self.above.len() >= DEPTH_MAX {
            return Err(self.tree.too_deep(subtree));
        }
        let view = self.tree.view(subtree)?;
        if let View::Page(page) = view {
            self.entered += 1;
            if self.entered > self.tree.state.meta.high_water {
                return Err(self
                    .tree
                    .state
                    .damaged(page.id, "reached twice: the tree has a circle"));
            }
        }
        Ok(view)
    }

    /// After an error the cursor stands nowhere, and stays there: a walk that goes on after it ends.
    fn guarded(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<Option<Item<'a>>, Damaged>,
    ) -> Result<Option<Item<'a>>, Damaged> {
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
