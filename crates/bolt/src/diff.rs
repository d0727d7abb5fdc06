//! What changed between two states of a file, found without reading what did not.
//!
//! Both states are held, so a page that both reach is the same page: nothing was written over it. The trees are gone through level by
//! level, side by side; whatever page is in both is left out with all that is below it. What remains are the leaves that only
//! one of them has, and a merge of their entries tells what was put and deleted.
//!
//! ```text
//!   before            after
//!      [3]              [9]             level 3:  3 | 9      nothing in common, go down
//!     /   \            /   \
//!   [4]   [5]        [4]   [8]          level 2:  5 | 8      4 is in both
//!   / \   / \        / \   / \
//!                       [6]  [11]       level 1:  7 | 11     6 is in both; compare the entries of 7 and 11
//! ```
//!
//! The same finds everything there is in a state, as what changed since there was nothing.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use crate::bucket::Bucket;
use crate::error::Damaged;
use crate::page::{LeafElement, Page, PageId, compare};
use crate::state::{DEPTH_MAX, State};
use crate::tree::Subtree;

/// Told what changed, bucket by bucket, keys in order.
pub(crate) trait Changes {
    type Error: From<Damaged>;

    fn put(&mut self, bucket: &[&[u8]], key: &[u8], value: &[u8]) -> Result<(), Self::Error>;
    fn delete(&mut self, bucket: &[&[u8]], key: &[u8]) -> Result<(), Self::Error>;
    fn create_bucket(&mut self, bucket: &[&[u8]], name: &[u8]) -> Result<(), Self::Error>;
    fn delete_bucket(&mut self, bucket: &[&[u8]], name: &[u8]) -> Result<(), Self::Error>;
    fn set_sequence(&mut self, bucket: &[&[u8]], sequence: u64) -> Result<(), Self::Error>;
}

/// Tells what has to be done to a bucket, and those inside it, to get from one state to the other.
pub(crate) fn diff<'a, C: Changes>(
    before: Option<&Bucket<'a>>,
    after: &Bucket<'a>,
    path: &mut Vec<&'a [u8]>,
    changes: &mut C,
) -> Result<(), C::Error> {
    if path.len() > DEPTH_MAX {
        return Err(after.tree.too_deep(after.tree.root).into());
    }
    if before.map_or(0, |bucket| bucket.sequence) != after.sequence {
        changes.set_sequence(path, after.sequence)?;
    }
    let (old, new) = changed_leaves(before, after)?;
    let mut old = Entries::new(before.map_or(after.tree.state, |bucket| bucket.tree.state), &old);
    let mut new = Entries::new(after.tree.state, &new);
    loop {
        let order = match (old.peek()?, new.peek()?) {
            (None, None) => return Ok(()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => compare(old.key, new.key),
        };
        let old = if order.is_le() { old.take()? } else { None };
        let new = if order.is_ge() { new.take()? } else { None };
        change(before, after, old, new, path, changes)?;
    }
}

/// One key: what it was, what it is.
fn change<'a, C: Changes>(
    before: Option<&Bucket<'a>>,
    after: &Bucket<'a>,
    old: Option<LeafElement<'a>>,
    new: Option<LeafElement<'a>>,
    path: &mut Vec<&'a [u8]>,
    changes: &mut C,
) -> Result<(), C::Error> {
    if old == new {
        return Ok(());
    }
    let stays_bucket = old.is_some_and(|old| old.is_bucket) && new.is_some_and(|new| new.is_bucket);
    if let Some(old) = old
        && !stays_bucket
    {
        match (old.is_bucket, new) {
            (true, _) => changes.delete_bucket(path, old.key)?,
            // A pair that takes its place replaces it.
            (false, Some(new)) if !new.is_bucket => {}
            (false, _) => changes.delete(path, old.key)?,
        }
    }
    let Some(new) = new else { return Ok(()) };
    if !new.is_bucket {
        return changes.put(path, new.key, new.value);
    }
    let was = match (before, old) {
        (Some(before), Some(old)) if stays_bucket => Some(before.inner(old)?),
        _ => {
            changes.create_bucket(path, new.key)?;
            None
        }
    };
    path.push(new.key);
    diff(was.as_ref(), &after.inner(new)?, path, changes)?;
    path.pop();
    Ok(())
}

/// The leaves that only one of two trees has, in order.
type Leaves<'a> = (Vec<Page<'a>>, Vec<Page<'a>>);

fn changed_leaves<'a>(
    before: Option<&Bucket<'a>>,
    after: &Bucket<'a>,
) -> Result<Leaves<'a>, Damaged> {
    let mut old = Level::new(before)?;
    let mut new = Level::new(Some(after))?;
    loop {
        leave_out_common(&mut old.pages, &mut new.pages);
        let height = old.height.max(new.height);
        if height == 0 {
            return Ok((old.leaves()?, new.leaves()?));
        }
        for level in [&mut old, &mut new] {
            if level.height == height {
                level.go_down()?;
            }
        }
    }
}

fn leave_out_common(old: &mut Vec<PageId>, new: &mut Vec<PageId>) {
    let in_new: BTreeSet<PageId> = new.iter().copied().collect();
    let common: BTreeSet<PageId> = old.iter().copied().filter(|id| in_new.contains(id)).collect();
    old.retain(|id| !common.contains(id));
    new.retain(|id| !common.contains(id));
}

/// The pages at one height of a tree, or what is left of them.
struct Level<'a> {
    state: Option<&'a State>,
    inline: Option<Page<'a>>,
    pages: Vec<PageId>,
    /// Zero for leaves.
    height: usize,
}

impl<'a> Level<'a> {
    fn new(bucket: Option<&Bucket<'a>>) -> Result<Level<'a>, Damaged> {
        let state = bucket.map(|bucket| bucket.tree.state);
        let mut level = Level { state, inline: None, pages: Vec::new(), height: 0 };
        let Some(bucket) = bucket else { return Ok(level) };
        match bucket.tree.root {
            Subtree::Inline(page) => level.inline = Some(page),
            Subtree::Page(id) => {
                level.pages.push(id);
                level.height = height_of(bucket.tree.state, id)?;
            }
            Subtree::Node(_) => unreachable!("a committed state has no nodes"),
        }
        Ok(level)
    }

    fn go_down(&mut self) -> Result<(), Damaged> {
        let state = self.state.expect("a level with pages has a state");
        let mut below = Vec::new();
        for id in &self.pages {
            let page = state.page(*id)?;
            if page.is_leaf {
                return Err(state.damaged(*id, "a leaf beside a branch"));
            }
            for index in 0..page.count() {
                below.push(page.child(index).map_err(|reason| state.damaged(*id, reason))?);
            }
            if below.len() as u64 > state.meta.high_water {
                return Err(state.damaged(*id, "more pages below than there are"));
            }
        }
        self.pages = below;
        self.height -= 1;
        Ok(())
    }

    fn leaves(self) -> Result<Vec<Page<'a>>, Damaged> {
        let Some(state) = self.state else { return Ok(Vec::new()) };
        let leaf = |id: PageId| {
            let page = state.page(id)?;
            if page.is_leaf { Ok(page) } else { Err(state.damaged(id, "a branch beside a leaf")) }
        };
        self.inline.map(Ok).into_iter().chain(self.pages.into_iter().map(leaf)).collect()
    }
}

/// Levels above the leaves, which are all equally deep.
fn height_of(state: &State, root: PageId) -> Result<usize, Damaged> {
    let mut id = root;
    for height in 0..DEPTH_MAX {
        let page = state.page(id)?;
        if page.is_leaf {
            return Ok(height);
        }
        id = page.child(0).map_err(|reason| state.damaged(id, reason))?;
    }
    Err(state.damaged(root, format!("more than {DEPTH_MAX} levels deep")))
}

/// The entries of some leaves, one after the other.
struct Entries<'a, 'l> {
    state: &'a State,
    leaves: std::slice::Iter<'l, Page<'a>>,
    leaf: Option<&'l Page<'a>>,
    index: usize,
}

impl<'a, 'l> Entries<'a, 'l> {
    fn new(state: &'a State, leaves: &'l [Page<'a>]) -> Entries<'a, 'l> {
        let mut leaves = leaves.iter();
        Entries { state, leaf: leaves.next(), leaves, index: 0 }
    }

    fn peek(&mut self) -> Result<Option<LeafElement<'a>>, Damaged> {
        while let Some(leaf) = self.leaf {
            if self.index < leaf.count() {
                let found = leaf.leaf_element(self.index);
                return found.map(Some).map_err(|reason| self.state.damaged(leaf.id, reason));
            }
            self.leaf = self.leaves.next();
            self.index = 0;
        }
        Ok(None)
    }

    fn take(&mut self) -> Result<Option<LeafElement<'a>>, Damaged> {
        let found = self.peek()?;
        self.index += 1;
        Ok(found)
    }
}
