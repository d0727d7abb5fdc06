//! A place in a bucket that moves in key order.

use crate::error::Damaged;
use crate::page::LeafElement;
use crate::state::DEPTH_MAX;
use crate::tree::{Subtree, Tree, View};

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
    /// From the root to where it stands; empty before the first move.
    stack: Vec<Frame<'a>>,
    /// Which way it last went from leaf to leaf, and the pages entered since. Going one way through a whole tree enters no
    /// more than there are, so a circle is noticed.
    heading: End,
    entered: u64,
}

/// The index of no item. One more is the first.
const BEFORE_FIRST: usize = usize::MAX;

#[derive(Clone, Copy, Debug)]
struct Frame<'a> {
    view: View<'a>,
    count: usize,
    /// At least `count`: behind the last item, or [`BEFORE_FIRST`].
    index: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    First,
    Last,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(tree: Tree<'a>) -> Cursor<'a> {
        Cursor { tree, stack: Vec::new(), heading: End::First, entered: 0 }
    }

    /// Moves to the first item.
    pub fn first(&mut self) -> Result<Option<Item<'a>>, Damaged> {
        self.restart();
        self.descend(self.tree.root, End::First)?;
        self.settle(End::First)
    }

    /// Moves to the last item.
    pub fn last(&mut self) -> Result<Option<Item<'a>>, Damaged> {
        self.restart();
        self.descend(self.tree.root, End::Last)?;
        self.settle(End::Last)
    }

    /// Moves to the item with a key or, if there is none, to the next greater one.
    pub fn seek(&mut self, key: &[u8]) -> Result<Option<Item<'a>>, Damaged> {
        self.restart();
        let mut subtree = self.tree.root;
        loop {
            let view = self.enter(subtree)?;
            let index = if view.is_leaf() {
                self.tree.ok(&view, view.search(key))?.0
            } else {
                self.tree.ok(&view, view.search_child(key))?
            };
            self.stack.push(Frame { view, count: view.count(), index });
            if view.is_leaf() {
                return self.settle(End::First);
            }
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
        let Some(frame) = self.stack.last_mut() else { return self.first() };
        // From before the first this is zero.
        frame.index = frame.index.wrapping_add(1);
        if frame.index < frame.count {
            return self.item();
        }
        self.settle(End::First)
    }

    /// Moves to the previous item; from before the first to none.
    pub fn prev(&mut self) -> Result<Option<Item<'a>>, Damaged> {
        let Some(frame) = self.stack.last_mut() else { return Ok(None) };
        if frame.index == BEFORE_FIRST {
            return Ok(None);
        }
        frame.index = frame.index.min(frame.count).wrapping_sub(1);
        self.settle(End::Last)
    }

    /// All items from where it stands, which is not counted, to the end.
    pub fn rest(&mut self) -> impl Iterator<Item = Result<Item<'a>, Damaged>> + use<'_, 'a> {
        std::iter::from_fn(|| self.next().transpose())
    }

    /// The item where it stands.
    #[inline]
    fn item(&self) -> Result<Option<Item<'a>>, Damaged> {
        let Some(frame) = self.stack.last() else { return Ok(None) };
        if frame.index >= frame.count {
            return Ok(None);
        }
        match frame.view.element(frame.index) {
            Ok(element) => Ok(Some(element.into())),
            Err(reason) => Err(self.tree.state.damaged(frame.view.page_id(), reason)),
        }
    }

    /// Where the leaf has no item at this place, goes on to the next leaf that has one, in the direction that starts
    /// at the given end. At the end of the tree it stays in the outermost leaf, beyond its items.
    fn settle(&mut self, from: End) -> Result<Option<Item<'a>>, Damaged> {
        if self.heading != from {
            self.heading = from;
            self.entered = 0;
        }
        loop {
            match self.stack.last() {
                Some(frame) if frame.index >= frame.count => {}
                _ => return self.item(),
            }
            let Some(level) = self.turn(from) else { return Ok(None) };
            self.stack.truncate(level + 1);
            let view = self.stack[level].view;
            let child = self.tree.ok(&view, view.child(self.stack[level].index))?;
            self.descend(child, from)?;
        }
    }

    /// Finds the lowest branch with another child in this direction and moves to it.
    fn turn(&mut self, from: End) -> Option<usize> {
        let above = self.stack.len().checked_sub(1)?;
        for level in (0..above).rev() {
            let frame = &mut self.stack[level];
            match from {
                End::First if frame.index + 1 < frame.count => frame.index += 1,
                End::Last if frame.index > 0 => frame.index -= 1,
                _ => continue,
            }
            return Some(level);
        }
        None
    }

    /// Goes down along one edge of a subtree.
    fn descend(&mut self, mut subtree: Subtree<'a>, to: End) -> Result<(), Damaged> {
        loop {
            let view = self.enter(subtree)?;
            let count = view.count();
            let index = if to == End::First { 0 } else { count.wrapping_sub(1) };
            self.stack.push(Frame { view, count, index });
            if view.is_leaf() {
                return Ok(());
            }
            subtree = self.tree.ok(&view, view.child(index))?;
        }
    }

    /// A page one level further down, unless there cannot be that many.
    fn enter(&mut self, subtree: Subtree<'a>) -> Result<View<'a>, Damaged> {
        if self.stack.len() >= DEPTH_MAX {
            return Err(self.tree.too_deep(subtree));
        }
        let view = self.tree.view(subtree)?;
        if let View::Page(page) = view {
            self.entered += 1;
            if self.entered > self.bound() {
                return Err(self
                    .tree
                    .state
                    .damaged(page.id, "reached twice: the tree has a circle"));
            }
        }
        Ok(view)
    }

    fn bound(&self) -> u64 {
        self.tree.state.meta.high_water
    }

    fn restart(&mut self) {
        self.stack.clear();
        self.entered = 0;
    }
}
