//! Rebalancing: merges nodes that became too small.
//!
//! A node that lost elements and is now smaller than a quarter of a page, or has too few elements,
//! is merged with its neighbor; an empty one is removed. Branches follow, from the leaves upward,
//! and a root with a single child is replaced by that child.

use crate::error::CorruptPage;
use crate::freelist::Run;
use crate::node::{BranchEntry, Child, Elements, Node};
use crate::write::TxWork;

/// A node smaller than a page divided by this is merged.
const SMALL: usize = 4;

/// Merges small nodes of a tree.
pub(crate) fn rebalance(work: &mut TxWork, root: &mut Child) -> Result<(), CorruptPage> {
    let Child::Node(node) = root else { return Ok(()) };
    rebalance_below(work, node)?;
    while let Child::Node(node) = root {
        let Elements::Branch(branches) = &mut node.elements else { break };
        let lower = match branches.len() {
            0 => Child::Node(Box::new(Node::new(Elements::Leaf(Vec::new())))),
            1 => branches.remove(0).child,
            _ => break,
        };
        work.freed.extend(node.source);
        *root = lower;
    }
    Ok(())
}

fn rebalance_below(work: &mut TxWork, node: &mut Node) -> Result<(), CorruptPage> {
    let Elements::Branch(branches) = &mut node.elements else { return Ok(()) };
    for branch in branches.iter_mut() {
        if let Child::Node(child) = &mut branch.child {
            rebalance_below(work, child)?;
        }
    }
    let mut index = 0;
    while index < branches.len() {
        match size_of_child(&branches[index].child, work.state.meta.page_size) {
            NodeSize::Empty { source } => {
                work.freed.extend(source);
                branches.remove(index);
                node.shrunk = true;
            }
            NodeSize::Small if branches.len() > 1 => {
                let right = index.max(1);
                merge(work, branches, right)?;
                node.shrunk = true;
                // The merged node takes the position of the left one and is done; the next one is
                // now at the position of the right one.
                index = right;
            }
            NodeSize::Small | NodeSize::Enough => index += 1,
        }
    }
    Ok(())
}

enum NodeSize {
    Enough,
    Small,
    /// A node without elements, and the pages that it was read from.
    Empty {
        source: Option<Run>,
    },
}

fn size_of_child(child: &Child, page_size: usize) -> NodeSize {
    let Child::Node(node) = child else { return NodeSize::Enough };
    let few = match node.elements {
        Elements::Leaf(_) => 1,
        Elements::Branch(_) => 2,
    };
    if !node.shrunk || (node.len() > few && node.size() > page_size / SMALL) {
        NodeSize::Enough
    } else if node.len() == 0 {
        NodeSize::Empty { source: node.source }
    } else {
        NodeSize::Small
    }
}

/// Appends the elements of a node to its left neighbor.
fn merge(
    work: &mut TxWork,
    branches: &mut Vec<BranchEntry>,
    right: usize,
) -> Result<(), CorruptPage> {
    let mut from = branches.remove(right).child;
    let from = work.open(&mut from)?;
    let into = work.open(&mut branches[right - 1].child)?;
    match (&mut into.elements, &mut from.elements) {
        (Elements::Leaf(into), Elements::Leaf(from)) => into.append(from),
        (Elements::Branch(into), Elements::Branch(from)) => into.append(from),
        _ => return Err(work.state.corrupt(0, "branch and leaf at the same level")),
    }
    work.freed.extend(from.source);
    Ok(())
}
