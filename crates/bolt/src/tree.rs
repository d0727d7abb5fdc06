//! Read access to a B+tree on pages, in nodes, or mixed; shared by snapshots and write
//! transactions.

use crate::error::CorruptPage;
use crate::node::{Elements, Node, NodeBytes};
use crate::page::{LeafElement, Page, PageId, compare};
use crate::state::{CommittedState, DEPTH_MAX};

/// A tree: its root, and the memory that its pages and nodes refer to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree<'a> {
    pub(crate) state: &'a CommittedState,
    /// `None` while the tree has no nodes.
    pub(crate) bytes: Option<NodeBytes<'a>>,
    pub(crate) root: Subtree<'a>,
}

/// The location of a tree or subtree.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subtree<'a> {
    Page(PageId),
    /// The page of an inline bucket.
    Inline(Page<'a>),
    Node(&'a Node),
}

/// The location of a tree or subtree of a committed state, which has no nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CommittedSubtree<'a> {
    Page(PageId),
    /// The page of an inline bucket.
    Inline(Page<'a>),
}

impl CommittedSubtree<'_> {
    /// The page number, or 0 for the page of an inline bucket.
    pub(crate) fn page_id(&self) -> PageId {
        match self {
            CommittedSubtree::Page(id) => *id,
            CommittedSubtree::Inline(_) => 0,
        }
    }
}

impl<'a> From<CommittedSubtree<'a>> for Subtree<'a> {
    fn from(committed: CommittedSubtree<'a>) -> Subtree<'a> {
        match committed {
            CommittedSubtree::Page(id) => Subtree::Page(id),
            CommittedSubtree::Inline(page) => Subtree::Inline(page),
        }
    }
}

/// The content of a subtree: its decoded top page, or its top node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SubtreeContent<'a> {
    Page(Page<'a>),
    Node(&'a Node, NodeBytes<'a>),
}

impl<'a> Tree<'a> {
    #[inline]
    pub(crate) fn view(&self, subtree: Subtree<'a>) -> Result<SubtreeContent<'a>, CorruptPage> {
        Ok(match subtree {
            Subtree::Page(id) => SubtreeContent::Page(self.state.page(id)?),
            Subtree::Inline(page) => SubtreeContent::Page(page),
            Subtree::Node(node) => {
                SubtreeContent::Node(node, self.bytes.expect("a tree with nodes has their memory"))
            }
        })
    }

    /// Finds the key-value pair or nested bucket of a key.
    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<LeafElement<'a>>, CorruptPage> {
        let mut subtree = self.root;
        for _ in 0..DEPTH_MAX {
            let view = self.view(subtree)?;
            if view.is_leaf() {
                self.prefetch_keys(&view);
                let (index, exact) = self.at_page(&view, view.search(key))?;
                return if exact {
                    self.at_page(&view, view.element(index)).map(Some)
                } else {
                    Ok(None)
                };
            }
            let index = self.at_page(&view, view.search_child(key))?;
            subtree = self.at_page(&view, view.child(index))?;
            self.prefetch(subtree);
        }
        Err(self.too_deep(subtree))
    }

    /// Prefetches the start of a subtree's page.
    #[inline]
    pub(crate) fn prefetch(&self, subtree: Subtree<'a>) {
        if let Subtree::Page(id) = subtree {
            self.state.prefetch(id);
        }
    }

    /// Prefetches the keys of a page.
    #[inline]
    pub(crate) fn prefetch_keys(&self, view: &SubtreeContent<'a>) {
        if let SubtreeContent::Page(page) = view {
            self.state.prefetch_keys(page);
        }
    }

    /// Attaches the page number to an error.
    #[inline]
    pub(crate) fn at_page<T>(
        &self,
        view: &SubtreeContent<'a>,
        found: Result<T, &'static str>,
    ) -> Result<T, CorruptPage> {
        match found {
            Ok(found) => Ok(found),
            Err(reason) => Err(self.state.corrupt(view.page_id(), reason)),
        }
    }

    #[cold]
    pub(crate) fn too_deep(&self, subtree: Subtree<'a>) -> CorruptPage {
        let page = match subtree {
            Subtree::Page(id) => id,
            Subtree::Inline(_) | Subtree::Node(_) => 0,
        };
        self.state.too_deep(page)
    }
}

impl<'a> SubtreeContent<'a> {
    #[inline]
    pub(crate) fn is_leaf(&self) -> bool {
        match self {
            SubtreeContent::Page(page) => page.is_leaf,
            SubtreeContent::Node(node, _) => matches!(node.elements, Elements::Leaf(_)),
        }
    }

    #[inline]
    pub(crate) fn count(&self) -> usize {
        match self {
            SubtreeContent::Page(page) => page.count(),
            SubtreeContent::Node(node, _) => node.len(),
        }
    }

    /// The page number, or 0 without a page.
    pub(crate) fn page_id(&self) -> PageId {
        match self {
            SubtreeContent::Page(page) => page.id,
            SubtreeContent::Node(node, _) => node.source.map_or(0, |(id, _)| id),
        }
    }

    #[inline]
    pub(crate) fn element(&self, index: usize) -> Result<LeafElement<'a>, &'static str> {
        match self {
            SubtreeContent::Page(page) => page.leaf_element(index),
            SubtreeContent::Node(node, bytes) => match &node.elements {
                Elements::Leaf(entries) => Ok(entries[index].read(*bytes)),
                Elements::Branch(_) => Err("expected a leaf, found a branch"),
            },
        }
    }

    /// The key of an element of a leaf or branch. `index` must be in bounds.
    #[inline]
    pub(crate) fn key(&self, index: usize) -> Result<&'a [u8], &'static str> {
        match self {
            SubtreeContent::Page(page) => page.key(index),
            SubtreeContent::Node(node, bytes) => Ok(bytes.key(match &node.elements {
                Elements::Leaf(entries) => &entries[index].key,
                Elements::Branch(branches) => &branches[index].key,
            })),
        }
    }

    #[inline]
    pub(crate) fn child(&self, index: usize) -> Result<Subtree<'a>, &'static str> {
        match self {
            SubtreeContent::Page(page) => Ok(Subtree::Page(page.child(index)?)),
            SubtreeContent::Node(node, _) => match &node.elements {
                Elements::Branch(branches) => Ok(branches[index].child.subtree()),
                Elements::Leaf(_) => Err("expected a branch, found a leaf"),
            },
        }
    }

    #[inline]
    pub(crate) fn search(&self, key: &[u8]) -> Result<(usize, bool), &'static str> {
        match self {
            SubtreeContent::Page(page) => page.search(key),
            SubtreeContent::Node(node, bytes) => Ok(node.search(key, *bytes)),
        }
    }

    #[inline]
    pub(crate) fn search_child(&self, key: &[u8]) -> Result<usize, &'static str> {
        match self {
            SubtreeContent::Page(page) => page.search_child(key),
            SubtreeContent::Node(node, bytes) => Ok(node.search_child(key, *bytes)),
        }
    }
}

impl Node {
    /// Like [`Page::search`]. Checks the end first: sequential keys are appended there.
    pub(crate) fn search(&self, key: &[u8], bytes: NodeBytes<'_>) -> (usize, bool) {
        match &self.elements {
            Elements::Leaf(entries) => search(entries, key, |entry| bytes.key(&entry.key)),
            Elements::Branch(branches) => search(branches, key, |branch| bytes.key(&branch.key)),
        }
    }

    /// Like [`Page::search_child`].
    pub(crate) fn search_child(&self, key: &[u8], bytes: NodeBytes<'_>) -> usize {
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
