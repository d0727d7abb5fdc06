//! Trees to read: on pages, in nodes, or partly each. The same for a snapshot and for a write transaction.

use crate::error::Damaged;
use crate::node::{Bytes, Elements, Node};
use crate::page::{LeafElement, Page, PageId, compare};
use crate::state::{DEPTH_MAX, State};

/// A tree: where it starts, and what its pages and nodes speak of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree<'a> {
    pub(crate) state: &'a State,
    /// Absent while there are no nodes.
    pub(crate) bytes: Option<Bytes<'a>>,
    pub(crate) root: Subtree<'a>,
}

/// Where a tree or a part of it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subtree<'a> {
    Page(PageId),
    /// The whole of an inline bucket.
    Inline(Page<'a>),
    Node(&'a Node),
}

/// One level of it, to look at.
#[derive(Clone, Copy, Debug)]
pub(crate) enum View<'a> {
    Page(Page<'a>),
    Node(&'a Node, Bytes<'a>),
}

impl<'a> Tree<'a> {
    #[inline]
    pub(crate) fn view(&self, subtree: Subtree<'a>) -> Result<View<'a>, Damaged> {
        Ok(match subtree {
            Subtree::Page(id) => View::Page(self.state.page(id)?),
            Subtree::Inline(page) => View::Page(page),
            Subtree::Node(node) => {
                View::Node(node, self.bytes.expect("a tree with nodes has bytes"))
            }
        })
    }

    /// The pair or bucket with a key.
    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<LeafElement<'a>>, Damaged> {
        let mut subtree = self.root;
        for _ in 0..DEPTH_MAX {
            let view = self.view(subtree)?;
            if view.is_leaf() {
                self.prefetch_keys(&view);
                let (index, exact) = self.ok(&view, view.search(key))?;
                return if exact {
                    self.ok(&view, view.element(index)).map(Some)
                } else {
                    Ok(None)
                };
            }
            let index = self.ok(&view, view.search_child(key))?;
            subtree = self.ok(&view, view.child(index))?;
            self.prefetch(subtree);
        }
        Err(self.too_deep(subtree))
    }

    /// Lets the start of a subtree's page come from memory while something else is done.
    #[inline]
    pub(crate) fn prefetch(&self, subtree: Subtree<'a>) {
        if let Subtree::Page(id) = subtree {
            self.state.prefetch(id);
        }
    }

    /// Lets the keys of a page come from memory at the same time.
    #[inline]
    pub(crate) fn prefetch_keys(&self, view: &View<'a>) {
        if let View::Page(page) = view {
            self.state.prefetch_keys(page);
        }
    }

    /// Names the page where something is wrong.
    #[inline]
    pub(crate) fn ok<T>(
        &self,
        view: &View<'a>,
        found: Result<T, &'static str>,
    ) -> Result<T, Damaged> {
        match found {
            Ok(found) => Ok(found),
            Err(reason) => Err(self.state.damaged(view.page_id(), reason)),
        }
    }

    #[cold]
    pub(crate) fn too_deep(&self, subtree: Subtree<'a>) -> Damaged {
        let page = match subtree {
            Subtree::Page(id) => id,
            Subtree::Inline(_) | Subtree::Node(_) => 0,
        };
        self.state.damaged(page, format!("more than {DEPTH_MAX} levels deep"))
    }
}

impl<'a> View<'a> {
    #[inline]
    pub(crate) fn is_leaf(&self) -> bool {
        match self {
            View::Page(page) => page.is_leaf,
            View::Node(node, _) => matches!(node.elements, Elements::Leaf(_)),
        }
    }

    #[inline]
    pub(crate) fn count(&self) -> usize {
        match self {
            View::Page(page) => page.count(),
            View::Node(node, _) => node.len(),
        }
    }

    /// The page, or zero for what is on none.
    pub(crate) fn page_id(&self) -> PageId {
        match self {
            View::Page(page) => page.id,
            View::Node(node, _) => node.source.map_or(0, |(id, _)| id),
        }
    }

    #[inline]
    pub(crate) fn element(&self, index: usize) -> Result<LeafElement<'a>, &'static str> {
        match self {
            View::Page(page) => page.leaf_element(index),
            View::Node(node, bytes) => match &node.elements {
                Elements::Leaf(entries) => Ok(entries[index].read(*bytes)),
                Elements::Branch(_) => Err("a branch where a leaf should be"),
            },
        }
    }

    /// The key of an element, of either kind. The caller has seen to it that there are so many.
    #[inline]
    pub(crate) fn key(&self, index: usize) -> Result<&'a [u8], &'static str> {
        match self {
            View::Page(page) => page.key(index),
            View::Node(node, bytes) => Ok(bytes.key(match &node.elements {
                Elements::Leaf(entries) => &entries[index].key,
                Elements::Branch(branches) => &branches[index].key,
            })),
        }
    }

    #[inline]
    pub(crate) fn child(&self, index: usize) -> Result<Subtree<'a>, &'static str> {
        match self {
            View::Page(page) => Ok(Subtree::Page(page.child(index)?)),
            View::Node(node, _) => match &node.elements {
                Elements::Branch(branches) => Ok(branches[index].child.subtree()),
                Elements::Leaf(_) => Err("a leaf where a branch should be"),
            },
        }
    }

    #[inline]
    pub(crate) fn search(&self, key: &[u8]) -> Result<(usize, bool), &'static str> {
        match self {
            View::Page(page) => page.search(key),
            View::Node(node, bytes) => Ok(node.search(key, *bytes)),
        }
    }

    #[inline]
    pub(crate) fn search_child(&self, key: &[u8]) -> Result<usize, &'static str> {
        match self {
            View::Page(page) => page.search_child(key),
            View::Node(node, bytes) => Ok(node.search_child(key, *bytes)),
        }
    }
}

impl Node {
    /// As [`Page::search`]. Looks at the end first: what comes in order is added there.
    pub(crate) fn search(&self, key: &[u8], bytes: Bytes<'_>) -> (usize, bool) {
        match &self.elements {
            Elements::Leaf(entries) => search(entries, key, |entry| bytes.key(&entry.key)),
            Elements::Branch(branches) => search(branches, key, |branch| bytes.key(&branch.key)),
        }
    }

    /// As [`Page::search_child`].
    pub(crate) fn search_child(&self, key: &[u8], bytes: Bytes<'_>) -> usize {
        let (index, exact) = self.search(key, bytes);
        if exact { index } else { index.saturating_sub(1) }
    }
}

fn search<'a, T>(elements: &[T], key: &[u8], key_of: impl Fn(&T) -> &'a [u8]) -> (usize, bool) {
    if elements.last().is_none_or(|last| compare(key_of(last), key).is_lt()) {
        return (elements.len(), false);
    }
    match elements.binary_search_by(|element| compare(key_of(element), key)) {
        Ok(index) => (index, true),
        Err(index) => (index, false),
    }
}

impl crate::node::Child {
    pub(crate) fn subtree(&self) -> Subtree<'_> {
        match self {
            crate::node::Child::Page(id) => Subtree::Page(*id),
            crate::node::Child::Node(node) => Subtree::Node(node),
        }
    }
}
