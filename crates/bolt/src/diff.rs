//! The difference between two states of a file, found without reading the pages they share.
//!
//! Both states are pinned, so a page id that both reach denotes the same, unchanged page. The walk
//! descends both trees level by level and skips each shared page with everything below it. Merging
//! the entries of the remaining leaves yields the puts and deletes.
//!
//! ```text
//!   before            after
//!      [3]              [9]             level 3:  3 | 9      nothing shared: descend
//!     /   \            /   \
//!   [4]   [5]        [4]   [8]          level 2:  5 | 8      4 is shared
//!   / \   / \        / \   / \
//!                       [6]  [11]       level 1:  7 | 11     6 is shared: compare 7 and 11
//! ```
//!
//! A diff against the empty state lists everything in a state.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use crate::bucket::CommittedBucket;
use crate::error::CorruptPage;
use crate::page::{LeafElement, Page, PageId, compare};
use crate::state::{CommittedState, DEPTH_MAX};
use crate::tree::CommittedSubtree;

/// Receives the changes, bucket by bucket, with keys in order.
pub(crate) trait ChangeSink {
    type Error: From<CorruptPage>;

    fn put(&mut self, bucket: &[&[u8]], key: &[u8], value: &[u8]) -> Result<(), Self::Error>;
    fn delete(&mut self, bucket: &[&[u8]], key: &[u8]) -> Result<(), Self::Error>;
    fn create_bucket(&mut self, bucket: &[&[u8]], name: &[u8]) -> Result<(), Self::Error>;
    fn delete_bucket(&mut self, bucket: &[&[u8]], name: &[u8]) -> Result<(), Self::Error>;
    fn set_sequence(&mut self, bucket: &[&[u8]], sequence: u64) -> Result<(), Self::Error>;
}

/// Reports the operations that turn the `before` state of a bucket into `after`, including nested
/// buckets.
pub(crate) fn diff<'a, C: ChangeSink>(
    before: Option<&CommittedBucket<'a>>,
    after: &CommittedBucket<'a>,
    path: &mut Vec<&'a [u8]>,
    changes: &mut C,
) -> Result<(), C::Error> {
    if path.len() > DEPTH_MAX {
        return Err(after.state.too_deep(after.root_page()).into());
    }
    if before.map_or(0, |bucket| bucket.sequence) != after.sequence {
        changes.set_sequence(path, after.sequence)?;
    }
    let (old, new) = changed_leaves(before, after)?;
    let mut old = LeafEntries::new(before.map_or(after.state, |bucket| bucket.state), &old);
    let mut new = LeafEntries::new(after.state, &new);
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

/// Reports the change of one key.
fn change<'a, C: ChangeSink>(
    before: Option<&CommittedBucket<'a>>,
    after: &CommittedBucket<'a>,
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
            // A put overwrites the old pair.
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

/// The leaves that only one of the two trees has, in key order: `(before, after)`.
type Leaves<'a> = (Vec<Page<'a>>, Vec<Page<'a>>);

fn changed_leaves<'a>(
    before: Option<&CommittedBucket<'a>>,
    after: &CommittedBucket<'a>,
) -> Result<Leaves<'a>, CorruptPage> {
    let mut old = Level::new(before)?;
    let mut new = Level::new(Some(after))?;
    loop {
        remove_shared(&mut old.pages, &mut new.pages);
        let height = old.height.max(new.height);
        if height == 0 {
            return Ok((old.leaves()?, new.leaves()?));
        }
        for level in [&mut old, &mut new] {
            if level.height == height {
                level.descend()?;
            }
        }
    }
}

fn remove_shared(old: &mut Vec<PageId>, new: &mut Vec<PageId>) {
    let in_new: BTreeSet<PageId> = new.iter().copied().collect();
    let common: BTreeSet<PageId> = old.iter().copied().filter(|id| in_new.contains(id)).collect();
    old.retain(|id| !common.contains(id));
    new.retain(|id| !common.contains(id));
}

/// The remaining pages at one height of a tree.
struct Level<'a> {
    state: Option<&'a CommittedState>,
    inline: Option<Page<'a>>,
    pages: Vec<PageId>,
    /// 0 for leaves.
    height: usize,
}

impl<'a> Level<'a> {
    fn new(bucket: Option<&CommittedBucket<'a>>) -> Result<Level<'a>, CorruptPage> {
        let state = bucket.map(|bucket| bucket.state);
        let mut level = Level { state, inline: None, pages: Vec::new(), height: 0 };
        let Some(bucket) = bucket else { return Ok(level) };
        match bucket.root {
            CommittedSubtree::Inline(page) => level.inline = Some(page),
            CommittedSubtree::Page(id) => {
                level.pages.push(id);
                level.height = height_of(bucket.state, id)?;
            }
        }
        Ok(level)
    }

    fn descend(&mut self) -> Result<(), CorruptPage> {
        let state = self.state.expect("a level with pages has a state");
        let mut below = Vec::new();
        for id in &self.pages {
            let page = state.page(*id)?;
            if page.is_leaf {
                return Err(state.corrupt(*id, "leaf at the level of a branch"));
            }
            for index in 0..page.count() {
                below.push(page.child(index).map_err(|reason| state.corrupt(*id, reason))?);
            }
            if below.len() as u64 > state.meta.high_water {
                return Err(state.corrupt(*id, "more child pages than the file has"));
            }
        }
        self.pages = below;
        self.height -= 1;
        Ok(())
    }

    fn leaves(self) -> Result<Vec<Page<'a>>, CorruptPage> {
        let Some(state) = self.state else { return Ok(Vec::new()) };
        let leaf = |id: PageId| {
            let page = state.page(id)?;
            if page.is_leaf {
                Ok(page)
            } else {
                Err(state.corrupt(id, "branch at the level of a leaf"))
            }
        };
        self.inline.map(Ok).into_iter().chain(self.pages.into_iter().map(leaf)).collect()
    }
}

/// Levels above the leaves. All leaves of a tree have the same depth.
fn height_of(state: &CommittedState, root: PageId) -> Result<usize, CorruptPage> {
    let mut id = root;
    for height in 0..DEPTH_MAX {
        let page = state.page(id)?;
        if page.is_leaf {
            return Ok(height);
        }
        id = page.child(0).map_err(|reason| state.corrupt(id, reason))?;
    }
    Err(state.corrupt(root, format!("more than {DEPTH_MAX} levels deep")))
}

/// Iterates over the entries of a list of leaves.
struct LeafEntries<'a, 'l> {
    state: &'a CommittedState,
    leaves: std::slice::Iter<'l, Page<'a>>,
    leaf: Option<&'l Page<'a>>,
    index: usize,
}

impl<'a, 'l> LeafEntries<'a, 'l> {
    fn new(state: &'a CommittedState, leaves: &'l [Page<'a>]) -> LeafEntries<'a, 'l> {
        let mut leaves = leaves.iter();
        LeafEntries { state, leaf: leaves.next(), leaves, index: 0 }
    }

    fn peek(&mut self) -> Result<Option<LeafElement<'a>>, CorruptPage> {
        while let Some(leaf) = self.leaf {
            if self.index < leaf.count() {
                let found = leaf.leaf_element(self.index);
                return found.map(Some).map_err(|reason| self.state.corrupt(leaf.id, reason));
            }
            self.leaf = self.leaves.next();
            self.index = 0;
        }
        Ok(None)
    }

    fn take(&mut self) -> Result<Option<LeafElement<'a>>, CorruptPage> {
        let found = self.peek()?;
        self.index += 1;
        Ok(found)
    }
}
