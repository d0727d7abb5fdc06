//! A bucket: a sorted map from keys to values or nested buckets, stored as one B+tree.
//!
//! ```text
//!  value of a bucket's element:  | root page id u64 | sequence u64 |
//!  value of an inline one:       | 0                | sequence u64 | leaf page of any size ...
//! ```
//!
//! A small bucket without nested buckets is inline: its only leaf page, header included, is stored
//! as the value of its element in the parent's leaf.

use std::collections::BTreeMap;

use crate::cursor::Cursor;
use crate::error::CorruptPage;
use crate::finger::Finger;
use crate::page::{LeafElement, Page, PageId, u64_at};
use crate::state::{CommittedState, DEPTH_MAX};
use crate::tree::{CommittedSubtree, Subtree, SubtreeContent, Tree};
use crate::write::OpenBucket;

/// Size of a bucket header, in bytes.
pub(crate) const BUCKET_HEADER: usize = 16;

/// The header of a bucket, stored as the value of its element in the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BucketHeader {
    /// Root page, or 0 for an inline bucket.
    pub(crate) root: PageId,
    pub(crate) sequence: u64,
}

impl BucketHeader {
    pub(crate) fn decode(value: &[u8]) -> Result<BucketHeader, &'static str> {
        if value.len() < BUCKET_HEADER {
            return Err("bucket header truncated");
        }
        Ok(BucketHeader { root: u64_at(value, 0), sequence: u64_at(value, 8) })
    }

    pub(crate) fn encode(&self) -> [u8; BUCKET_HEADER] {
        let mut bytes = [0; BUCKET_HEADER];
        bytes[..8].copy_from_slice(&self.root.to_le_bytes());
        bytes[8..].copy_from_slice(&self.sequence.to_le_bytes());
        bytes
    }
}

/// A read-only view of a bucket, in a snapshot or in an open write transaction.
#[derive(Clone, Copy, Debug)]
pub struct Bucket<'a> {
    pub(crate) tree: Tree<'a>,
    pub(crate) sequence: u64,
    /// Nested buckets that the write transaction has opened. Their elements in the tree are stale.
    pub(crate) open: Option<&'a BTreeMap<Box<[u8]>, OpenBucket>>,
}

impl<'a> Bucket<'a> {
    /// Returns the value of a key, or `None` if the key is absent or names a bucket.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<&'a [u8]>, CorruptPage> {
        Ok(self.tree.get(key)?.filter(|found| !found.is_bucket).map(|found| found.value))
    }

    /// Returns the nested bucket of that name, or `None` if the name is absent or holds a value.
    pub fn bucket(&self, name: &[u8]) -> Result<Option<Bucket<'a>>, CorruptPage> {
        if let Some(open) = self.open.and_then(|open| open.get(name)) {
            return Ok(Some(open.read(self.tree.state, self.tree.bytes)));
        }
        match self.tree.get(name)? {
            Some(found) if found.is_bucket => self.inner(found).map(Some),
            _ => Ok(None),
        }
    }

    /// Decodes the nested bucket stored in an element of this bucket's tree.
    pub(crate) fn inner(&self, element: LeafElement<'a>) -> Result<Bucket<'a>, CorruptPage> {
        let CommittedBucket { root, sequence, .. } = self.committed_inner(element)?;
        Ok(Bucket { tree: Tree { root: root.into(), ..self.tree }, sequence, open: None })
    }

    /// Decodes the nested bucket stored in an element of this bucket's tree, as committed.
    pub(crate) fn committed_inner(
        &self,
        element: LeafElement<'a>,
    ) -> Result<CommittedBucket<'a>, CorruptPage> {
        let is_inline = matches!(self.tree.root, Subtree::Inline(_));
        CommittedBucket::decode(self.tree.state, element, self.root_page(), is_inline)
    }

    /// Returns a cursor positioned before the first item.
    pub fn cursor(&self) -> Cursor<'a> {
        Cursor::new(self.tree)
    }

    /// Returns a [`Finger`] for looking up many keys, preferably close to each other.
    pub fn finger(&self) -> Finger<'a> {
        Finger::new(self.tree)
    }

    /// Returns the bucket's sequence number, a counter for its users.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Reports whether the bucket has no items.
    pub fn is_empty(&self) -> Result<bool, CorruptPage> {
        Ok(self.cursor().first()?.is_none())
    }

    /// Counts the items and pages of the bucket and its nested buckets by walking all of them.
    pub fn stats(&self) -> Result<BucketStats, CorruptPage> {
        let mut stats = BucketStats::default();
        self.add_stats(&mut stats, 0)?;
        Ok(stats)
    }

    /// The root page, or 0 for an inline bucket.
    pub(crate) fn root_page(&self) -> PageId {
        match self.tree.root {
            Subtree::Page(id) => id,
            Subtree::Inline(_) | Subtree::Node(_) => 0,
        }
    }

    fn add_stats(&self, stats: &mut BucketStats, nesting: usize) -> Result<(), CorruptPage> {
        stats.buckets += 1;
        if let Subtree::Inline(_) = self.tree.root {
            stats.inline_buckets += 1;
        }
        let mut todo = vec![(self.tree.root, 1)];
        while let Some((subtree, depth)) = todo.pop() {
            let seen = stats.branch_pages + stats.leaf_pages;
            if nesting.max(depth) > DEPTH_MAX || seen > self.tree.state.meta.high_water {
                return Err(self.tree.too_deep(subtree));
            }
            stats.depth = stats.depth.max(depth);
            let view = self.tree.view(subtree)?;
            stats.add_page(&view, self.tree.state.meta.page_size);
            if let SubtreeContent::Page(page) = &view {
                self.tree.at_page(&view, page.verify_no_overlap())?;
            }
            for index in 0..view.count() {
                if !view.is_leaf() {
                    todo.push((self.tree.at_page(&view, view.child(index))?, depth + 1));
                    continue;
                }
                let element = self.tree.at_page(&view, view.element(index))?;
                stats.keys += 1;
                if element.is_bucket
                    && let Some(inner) = self.bucket(element.key)?
                {
                    inner.add_stats(stats, nesting + 1)?;
                }
            }
        }
        Ok(())
    }
}

/// A bucket of a committed state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommittedBucket<'a> {
    pub(crate) state: &'a CommittedState,
    pub(crate) root: CommittedSubtree<'a>,
    pub(crate) sequence: u64,
}

impl<'a> CommittedBucket<'a> {
    /// The root bucket of a state.
    pub(crate) fn root_of(state: &'a CommittedState) -> CommittedBucket<'a> {
        let root = CommittedSubtree::Page(state.meta.root);
        CommittedBucket { state, root, sequence: state.meta.sequence }
    }

    /// Decodes the nested bucket stored in an element of this bucket's tree.
    pub(crate) fn inner(
        &self,
        element: LeafElement<'a>,
    ) -> Result<CommittedBucket<'a>, CorruptPage> {
        let is_inline = matches!(self.root, CommittedSubtree::Inline(_));
        CommittedBucket::decode(self.state, element, self.root_page(), is_inline)
    }

    /// Decodes the bucket stored in an element, and names its parent in errors.
    fn decode(
        state: &'a CommittedState,
        element: LeafElement<'a>,
        parent: PageId,
        is_parent_inline: bool,
    ) -> Result<CommittedBucket<'a>, CorruptPage> {
        if is_parent_inline {
            return Err(state.corrupt(0, "inline bucket contains a bucket"));
        }
        let bucket = BucketHeader::decode(element.value).and_then(|header| {
            let root = match header.root {
                0 => CommittedSubtree::Inline(Page::inline(&element.value[BUCKET_HEADER..])?),
                id => CommittedSubtree::Page(id),
            };
            Ok(CommittedBucket { state, root, sequence: header.sequence })
        });
        bucket.map_err(|reason| state.corrupt(parent, reason))
    }

    /// The root page, or 0 for an inline bucket.
    pub(crate) fn root_page(&self) -> PageId {
        self.root.page_id()
    }
}

/// Statistics of a bucket, including its nested buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketStats {
    /// Key-value pairs and nested buckets; a nested bucket counts as an item of its parent.
    pub keys: u64,
    /// Height of the deepest tree, in levels.
    pub depth: usize,
    /// Branch pages; a page with overflow pages counts once.
    pub branch_pages: u64,
    /// Leaf pages; a page with overflow pages counts once. Pages of inline buckets do not count.
    pub leaf_pages: u64,
    /// Overflow pages.
    pub overflow_pages: u64,
    /// Bytes of all these pages.
    pub allocated_bytes: u64,
    /// Buckets, including this one.
    pub buckets: u64,
    /// Inline buckets among `buckets`.
    pub inline_buckets: u64,
}

impl BucketStats {
    fn add_page(&mut self, view: &SubtreeContent<'_>, page_size: usize) {
        let SubtreeContent::Page(page) = view else { return };
        if page.id == 0 {
            return;
        }
        *(if page.is_leaf { &mut self.leaf_pages } else { &mut self.branch_pages }) += 1;
        self.overflow_pages += (page.bytes().len() / page_size - 1) as u64;
        self.allocated_bytes += page.bytes().len() as u64;
    }
}
