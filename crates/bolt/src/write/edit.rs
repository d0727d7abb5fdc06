//! Inserting elements into a tree and removing them.
//!
//! A node may grow beyond a page; it is cut into pages when written. Large nodes are split in
//! memory only so that a transaction with a million random puts does not move half a million
//! elements for each.

use crate::error::{CorruptPage, Error};
use crate::node::{BranchEntry, Child, Elements, KeyRef, LeafEntry, Node};
use crate::state::DEPTH_MAX;
use crate::write::TxWork;

/// Maximum number of elements of a node in memory.
const NODE_MAX: usize = 4096;

/// Inserts an element into a tree, replacing one with the same key.
pub(crate) fn insert(
    work: &TxWork,
    root: &mut Child,
    key: &[u8],
    entry: LeafEntry,
) -> Result<(), Error> {
    let Some(right) = insert_below(work, root, key, entry, 0)? else { return Ok(()) };
    let left = std::mem::replace(root, Child::Page(0));
    let first = match &left {
        Child::Node(node) => node.first_key().expect("a split node is not empty"),
        Child::Page(_) => unreachable!("a split child is a node"),
    };
    let branches = vec![BranchEntry { key: first, child: left }, right];
    *root = Child::Node(Box::new(Node::new(Elements::Branch(branches))));
    Ok(())
}

/// Inserts an element into a subtree. Returns the right half of a node that had to be split.
fn insert_below(
    work: &TxWork,
    child: &mut Child,
    key: &[u8],
    entry: LeafEntry,
    depth: usize,
) -> Result<Option<BranchEntry>, Error> {
    let node = open_at(work, child, depth)?;
    let bytes = work.bytes();
    let (index, exact) = node.search(key, bytes);
    match &mut node.elements {
        Elements::Leaf(entries) if exact => {
            if entries[index].is_bucket != entry.is_bucket {
                return Err(Error::IncompatibleValue);
            }
            entries[index] = entry;
            return Ok(None);
        }
        Elements::Leaf(entries) => entries.insert(index, entry),
        Elements::Branch(branches) => {
            let index = if exact { index } else { index.saturating_sub(1) };
            if bytes.key(&branches[index].key) > key {
                // Only happens before the first child. Otherwise a right half could end up before
                // it.
                branches[index].key = entry.key;
            }
            let below = &mut branches[index].child;
            if let Some(right) = insert_below(work, below, key, entry, depth + 1)? {
                branches.insert(index + 1, right);
            }
        }
    }
    Ok((node.len() > NODE_MAX).then(|| node.split(index + 1)))
}

/// Removes an element that is known to exist.
pub(crate) fn remove(work: &TxWork, root: &mut Child, key: &[u8]) -> Result<(), CorruptPage> {
    let bytes = work.bytes();
    let mut child = root;
    for depth in 0..=DEPTH_MAX {
        let node = open_at(work, child, depth)?;
        let (index, exact) = node.search(key, bytes);
        match &mut node.elements {
            Elements::Branch(branches) => {
                let index = if exact { index } else { index.saturating_sub(1) };
                child = &mut branches[index].child;
            }
            Elements::Leaf(entries) => {
                assert!(exact, "the element to remove exists");
                entries.remove(index);
                node.shrunk = true;
                return Ok(());
            }
        }
    }
    unreachable!("open_at fails at DEPTH_MAX")
}

fn open_at<'n>(
    work: &TxWork,
    child: &'n mut Child,
    depth: usize,
) -> Result<&'n mut Node, CorruptPage> {
    if depth >= DEPTH_MAX {
        return Err(work.state.too_deep(0));
    }
    work.open(child)
}

impl Node {
    /// The first key of the node.
    pub(crate) fn first_key(&self) -> Option<KeyRef> {
        match &self.elements {
            Elements::Leaf(entries) => entries.first().map(|entry| entry.key),
            Elements::Branch(branches) => branches.first().map(|branch| branch.key),
        }
    }

    /// Moves the upper half to a new node. If an element was just appended, moves only that one,
    /// because more are likely to follow it.
    fn split(&mut self, added: usize) -> BranchEntry {
        let len = self.len();
        let at = if added == len { len - 1 } else { len / 2 };
        let elements = match &mut self.elements {
            Elements::Leaf(entries) => Elements::Leaf(entries.split_off(at)),
            Elements::Branch(branches) => Elements::Branch(branches.split_off(at)),
        };
        let right = Node::new(elements);
        let key = right.first_key().expect("the right half has at least one element");
        BranchEntry { key, child: Child::Node(Box::new(right)) }
    }
}
