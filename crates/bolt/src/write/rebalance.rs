//! Merging what became too small.
//!
//! A node that lost elements and is now less than a quarter of a page, or has too few of them, is joined with its neighbour; an
//! empty one disappears. Branches follow, from the leaves upward, and a root with a single child gives way to it.

use crate::error::Damaged;
use crate::node::{Branch, Child, Elements, Node};
use crate::write::Work;

/// A node below this share of a page is merged.
const SMALL: usize = 4;

/// Merges what became small in a tree.
pub(crate) fn rebalance(work: &mut Work, root: &mut Child) -> Result<(), Damaged> {
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

fn rebalance_below(work: &mut Work, node: &mut Node) -> Result<(), Damaged> {
    let Elements::Branch(branches) = &mut node.elements else { return Ok(()) };
    for branch in branches.iter_mut() {
        if let Child::Node(child) = &mut branch.child {
            rebalance_below(work, child)?;
        }
    }
    let mut index = 0;
    while index < branches.len() {
        let size = size_of_child(&branches[index].child, work.state.meta.page_size);
        if size == Size::Empty {
            work.freed.extend(source_of(&branches.remove(index).child));
            node.shrunk = true;
        } else if size == Size::Small && branches.len() > 1 {
            let right = index.max(1);
            merge(work, branches, right)?;
            node.shrunk = true;
            // The merged node takes the left one's place. It has been seen to; the next is now where the right one was.
            index = right;
        } else {
            index += 1;
        }
    }
    Ok(())
}

#[derive(PartialEq, Eq)]
enum Size {
    Enough,
    Small,
    Empty,
}

fn size_of_child(child: &Child, page_size: usize) -> Size {
    let Child::Node(node) = child else { return Size::Enough };
    let few = match node.elements {
        Elements::Leaf(_) => 1,
        Elements::Branch(_) => 2,
    };
    if !node.shrunk || (node.len() > few && node.size() > page_size / SMALL) {
        Size::Enough
    } else if node.len() == 0 {
        Size::Empty
    } else {
        Size::Small
    }
}

fn source_of(child: &Child) -> Option<crate::freelist::Run> {
    match child {
        Child::Node(node) => node.source,
        Child::Page(_) => unreachable!("only nodes change"),
    }
}

/// Moves the elements of a node to the end of the one on its left.
fn merge(work: &mut Work, branches: &mut Vec<Branch>, right: usize) -> Result<(), Damaged> {
    work.open(&mut branches[right].child)?;
    work.open(&mut branches[right - 1].child)?;
    let Child::Node(from) = branches.remove(right).child else { unreachable!("was just opened") };
    let Child::Node(into) = &mut branches[right - 1].child else { unreachable!("was just opened") };
    work.freed.extend(from.source);
    match (&mut into.elements, from.elements) {
        (Elements::Leaf(into), Elements::Leaf(mut from)) => into.append(&mut from),
        (Elements::Branch(into), Elements::Branch(mut from)) => into.append(&mut from),
        _ => return Err(work.state.damaged(0, "a branch and a leaf beside each other")),
    }
    Ok(())
}
