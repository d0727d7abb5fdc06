//! A bucket: a sorted map from keys to values or further buckets.
//!
//! ```text
//!  value of a bucket's element:  | root page id u64 | sequence u64 |
//!  an inline one, root 0:        | 0                | sequence u64 | a leaf page of the bucket's own size ...
//! ```
//!
//! A small bucket without buckets of its own is inline: it lies, page header and all, in its parent's leaf.

use std::collections::BTreeMap;

use crate::cursor::Cursor;
use crate::error::Damaged;
use crate::finger::Finger;
use crate::page::{LeafElement, Page, PageId, u64_at};
use crate::state::DEPTH_MAX;
use crate::tree::{Subtree, Tree, View};
use crate::write::OpenBucket;

/// Bytes of a bucket's header.
pub(crate) const BUCKET_HEADER: usize = 16;

/// A bucket's header, as in its element's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BucketHeader {
    /// Zero for an inline bucket.
    pub(crate) root: PageId,
    pub(crate) sequence: u64,
}

impl BucketHeader {
    pub(crate) fn decode(value: &[u8]) -> Result<BucketHeader, &'static str> {
        if value.len() < BUCKET_HEADER {
            return Err("a bucket without a header");
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

/// A bucket to read, of a snapshot or of a transaction that is being written.
#[derive(Clone, Copy, Debug)]
pub struct Bucket<'a> {
    pub(crate) tree: Tree<'a>,
    pub(crate) sequence: u64,
    /// Buckets inside that the transaction has opened: what their elements say is out of date.
    pub(crate) open: Option<&'a BTreeMap<Box<[u8]>, OpenBucket>>,
}

impl<'a> Bucket<'a> {
    /// The value of a key. A bucket is no value.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<&'a [u8]>, Damaged> {
        Ok(self.tree.get(key)?.filter(|found| !found.is_bucket).map(|found| found.value))
    }

    /// The bucket of a name inside this one. A value is no bucket.
    pub fn bucket(&self, name: &[u8]) -> Result<Option<Bucket<'a>>, Damaged> {
        if let Some(open) = self.open.and_then(|open| open.get(name)) {
            return Ok(Some(open.read(self.tree.state, self.tree.bytes)));
        }
        match self.tree.get(name)? {
            Some(found) if found.is_bucket => self.inner(found).map(Some),
            _ => Ok(None),
        }
    }

    /// The bucket in an element of this one's tree.
    pub(crate) fn inner(&self, element: LeafElement<'a>) -> Result<Bucket<'a>, Damaged> {
        if let Subtree::Inline(_) = self.tree.root {
            return Err(self.tree.state.damaged(0, "a bucket inside an inline bucket"));
        }
        let inner = BucketHeader::decode(element.value).and_then(|header| {
            let root = match header.root {
                0 => Subtree::Inline(Page::inline(&element.value[BUCKET_HEADER..])?),
                id => Subtree::Page(id),
            };
            Ok(Bucket { tree: Tree { root, ..self.tree }, sequence: header.sequence, open: None })
        });
        inner.map_err(|reason| self.tree.state.damaged(self.root_page(), reason))
    }

    /// A cursor before the first item.
    pub fn cursor(&self) -> Cursor<'a> {
        Cursor::new(self.tree)
    }

    /// To look up many keys, which may be near each other.
    pub fn finger(&self) -> Finger<'a> {
        Finger::new(self.tree)
    }

    /// A number that users of the bucket may count with.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> Result<bool, Damaged> {
        Ok(self.cursor().first()?.is_none())
    }

    /// What it consists of, by a walk through all of it and the buckets inside.
    pub fn stats(&self) -> Result<BucketStats, Damaged> {
        let mut stats = BucketStats::default();
        self.add_stats(&mut stats, 0)?;
        Ok(stats)
    }

    /// The page of the root, or zero for an inline bucket.
    pub(crate) fn root_page(&self) -> PageId {
        match self.tree.root {
            Subtree::Page(id) => id,
            Subtree::Inline(_) | Subtree::Node(_) => 0,
        }
    }

    fn add_stats(&self, stats: &mut BucketStats, nesting: usize) -> Result<(), Damaged> {
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
            if let View::Page(page) = &view {
                self.tree.ok(&view, page.verify_apart())?;
            }
            for index in 0..view.count() {
                if !view.is_leaf() {
                    todo.push((self.tree.ok(&view, view.child(index))?, depth + 1));
                    continue;
                }
                let element = self.tree.ok(&view, view.element(index))?;
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

/// What a bucket consists of, those inside it included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketStats {
    /// Pairs, and buckets as items of the one they are in.
    pub keys: u64,
    /// Levels of the deepest tree.
    pub depth: usize,
    /// Branch pages, those that other pages continue counted once.
    pub branch_pages: u64,
    /// Leaf pages, likewise. The page of an inline bucket is none.
    pub leaf_pages: u64,
    /// Pages that continue another.
    pub overflow_pages: u64,
    /// Bytes of all these pages.
    pub allocated_bytes: u64,
    /// Buckets, this one included.
    pub buckets: u64,
    /// Of these, inline ones.
    pub inline_buckets: u64,
}

impl BucketStats {
    fn add_page(&mut self, view: &View<'_>, page_size: usize) {
        let View::Page(page) = view else { return };
        if page.id == 0 {
            return;
        }
        *(if page.is_leaf { &mut self.leaf_pages } else { &mut self.branch_pages }) += 1;
        self.overflow_pages += (page.bytes().len() / page_size - 1) as u64;
        self.allocated_bytes += page.bytes().len() as u64;
    }
}
