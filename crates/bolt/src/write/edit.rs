//! Putting into a tree, and taking out of it.
//!
//! A node grows beyond a page: it is cut into pages when it is written. Only so that a transaction of a million puts in random
//! order does not move half a million elements for each, a node is split in memory once it has many.

use crate::error::{Damaged, Error};
use crate::node::{Branch, Child, Elements, Entry, Key, Node};
use crate::state::DEPTH_MAX;
use crate::write::Work;

/// Most elements of a node in memory.
const NODE_MAX: usize = 4096;

/// Puts an element into a tree, in place of one with the same key.
pub(crate) fn insert(work: &Work, root: &mut Child, key: &[u8], entry: Entry) -> Result<(), Error> {
    let Some(right) = insert_below(work, root, key, entry, 0)? else { return Ok(()) };
    let left = std::mem::replace(root, Child::Page(0));
    let first = match &left {
        Child::Node(node) => node.first_key().expect("one that was split is not empty"),
        Child::Page(_) => unreachable!("one that was split is a node"),
    };
    let branches = vec![Branch { key: first, child: left }, right];
    *root = Child::Node(Box::new(Node::new(Elements::Branch(branches))));
    Ok(())
}

/// Puts an element below; a node that had to be split gives its right half for the branch above.
fn insert_below(
    work: &Work,
    child: &mut Child,
    key: &[u8],
    entry: Entry,
    depth: usize,
) -> Result<Option<Branch>, Error> {
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
                // Only before the first. Were it left, a right half could come to stand before it.
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

/// Takes an element out of a tree, where it was seen to be.
pub(crate) fn remove(work: &Work, root: &mut Child, key: &[u8]) -> Result<(), Damaged> {
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
                assert!(exact, "the element was seen before it is removed");
                entries.remove(index);
                node.shrunk = true;
                return Ok(());
            }
        }
    }
    unreachable!("open_at ends at the greatest depth")
}

fn open_at<'n>(work: &Work, child: &'n mut Child, depth: usize) -> Result<&'n mut Node, Damaged> {
    if depth >= DEPTH_MAX {
        return Err(work.state.damaged(0, format!("more than {DEPTH_MAX} levels deep")));
    }
    work.open(child)
}

impl Node {
    /// The first key of its elements.
    pub(crate) fn first_key(&self) -> Option<Key> {
        match &self.elements {
            Elements::Leaf(entries) => entries.first().map(|entry| entry.key),
            Elements::Branch(branches) => branches.first().map(|branch| branch.key),
        }
    }

    /// Moves what is behind the middle to a new node; or, when an element was just added at the end, that one alone, because more
    /// are likely to follow there.
    fn split(&mut self, added: usize) -> Branch {
        let len = self.len();
        let at = if added == len { len - 1 } else { len / 2 };
        let elements = match &mut self.elements {
            Elements::Leaf(entries) => Elements::Leaf(entries.split_off(at)),
            Elements::Branch(branches) => Elements::Branch(branches.split_off(at)),
        };
        let right = Node::new(elements);
        let key = right.first_key().expect("at least the last element");
        Branch { key, child: Child::Node(Box::new(right)) }
    }
}
