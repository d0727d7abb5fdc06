//! A mutable bucket of a write transaction.

use crate::bucket::{Bucket, BucketHeader};
use crate::cursor::Cursor;
use crate::error::{CorruptPage, Error, PutError};
use crate::freelist::Run;
use crate::node::{Child, KeyRef, LeafEntry, Node};
use crate::page::Page;
use crate::state::DEPTH_MAX;
use crate::tree::{CommittedSubtree, SubtreeContent};
use crate::write::{FILL_PERCENT_MAX, FILL_PERCENT_MIN, OpenBucket, TxWork, edit};

/// Maximum key size, in bytes.
pub const KEY_MAX: usize = 32_768;
/// Maximum value size, in bytes.
pub const VALUE_MAX: usize = (1 << 31) - 2;

/// Maximum nesting depth of buckets. bbolt has no bound, and its users need two or three levels.
pub const NESTING_MAX: usize = DEPTH_MAX - 1;

/// A mutable bucket. Reads through it see the transaction's own changes.
#[derive(Debug)]
pub struct BucketMut<'t> {
    work: &'t mut TxWork,
    bucket: &'t mut OpenBucket,
    /// Nesting depth; 0 for the root bucket.
    nesting: usize,
}

impl<'t> BucketMut<'t> {
    /// The root bucket of a transaction.
    pub(crate) fn root(work: &'t mut TxWork, bucket: &'t mut OpenBucket) -> BucketMut<'t> {
        BucketMut { work, bucket, nesting: 0 }
    }

    fn reborrow(&mut self) -> BucketMut<'_> {
        BucketMut { work: self.work, bucket: self.bucket, nesting: self.nesting }
    }

    /// Returns a read-only view of the bucket.
    pub fn read(&self) -> Bucket<'_> {
        self.bucket.read(&self.work.state, Some(self.work.bytes()))
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &[u8]) -> Result<Option<&[u8]>, Error> {
        Ok(self.read().get(key)?)
    }

    /// Returns a cursor positioned before the first item.
    pub fn cursor(&self) -> Cursor<'_> {
        self.read().cursor()
    }

    /// Sets the value of a key.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        PutError::check(key, value)?;
        self.set(key, value, false)
    }

    /// Deletes a key. Returns false if it does not exist.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, Error> {
        match self.read().tree.get(key)? {
            None => return Ok(false),
            Some(found) if found.is_bucket => return Err(Error::IncompatibleValue),
            Some(_) => {}
        }
        edit::remove(self.work, &mut self.bucket.root, key)?;
        self.bucket.changed = true;
        Ok(true)
    }

    /// Opens a nested bucket.
    pub fn bucket(&mut self, name: &[u8]) -> Result<BucketMut<'_>, Error> {
        self.reborrow().into_bucket(name)
    }

    /// Creates a nested bucket.
    pub fn create_bucket(&mut self, name: &[u8]) -> Result<BucketMut<'_>, Error> {
        if name.is_empty() {
            return Err(Error::BucketNameRequired);
        }
        if name.len() > KEY_MAX {
            return Err(PutError::KeyTooLarge.into());
        }
        match self.read().tree.get(name)? {
            Some(found) if found.is_bucket => return Err(Error::BucketExists),
            Some(_) => return Err(Error::IncompatibleValue),
            None => {}
        }
        if self.nesting >= NESTING_MAX {
            return Err(Error::BucketTooDeep);
        }
        // Reserves the element; the commit writes its final value.
        self.set(name, &BucketHeader { root: 0, sequence: 0 }.encode(), true)?;
        self.bucket.open.insert(name.into(), OpenBucket::empty());
        self.bucket(name)
    }

    /// Opens a nested bucket, creating it if it is missing.
    pub fn create_bucket_if_missing(&mut self, name: &[u8]) -> Result<BucketMut<'_>, Error> {
        self.reborrow().into_bucket_if_missing(name)
    }

    /// Deletes a nested bucket with all its contents.
    pub fn delete_bucket(&mut self, name: &[u8]) -> Result<(), Error> {
        if name.is_empty() {
            return Err(Error::BucketNameRequired);
        }
        match self.read().tree.get(name)? {
            None => return Err(Error::BucketNotFound),
            Some(found) if !found.is_bucket => return Err(Error::IncompatibleValue),
            Some(_) => {}
        }
        let inner = self.read().bucket(name)?.ok_or(Error::BucketNotFound)?;
        let mut freed = Vec::new();
        pages_of(&inner, &mut freed, 0)?;
        edit::remove(self.work, &mut self.bucket.root, name)?;
        self.work.freed.append(&mut freed);
        self.bucket.open.remove(name);
        self.bucket.changed = true;
        Ok(())
    }

    /// Returns the sequence number of the bucket.
    pub fn sequence(&self) -> u64 {
        self.bucket.sequence
    }

    /// Sets the sequence number of the bucket.
    pub fn set_sequence(&mut self, sequence: u64) {
        self.bucket.sequence = sequence;
        self.bucket.changed = true;
    }

    /// Sets the fraction of a page, 0.1 to 1, to which this transaction fills pages. High values
    /// suit sequential keys.
    pub fn set_fill_percent(&mut self, share: f64) {
        self.bucket.fill_percent = share.clamp(FILL_PERCENT_MIN, FILL_PERCENT_MAX);
    }

    /// Like [`BucketMut::bucket`], but borrows from the transaction.
    pub fn into_bucket(self, name: &[u8]) -> Result<BucketMut<'t>, Error> {
        if name.is_empty() {
            return Err(Error::BucketNameRequired);
        }
        if !self.bucket.open.contains_key(name) {
            let opened = self.open(name)?;
            self.bucket.open.insert(name.into(), opened);
        }
        let bucket = self.bucket.open.get_mut(name).expect("inserted above if it was missing");
        Ok(BucketMut { work: self.work, bucket, nesting: self.nesting + 1 })
    }

    /// Like [`BucketMut::create_bucket_if_missing`], but borrows from the transaction.
    pub fn into_bucket_if_missing(mut self, name: &[u8]) -> Result<BucketMut<'t>, Error> {
        match self.create_bucket(name) {
            Ok(_) | Err(Error::BucketExists) => self.into_bucket(name),
            Err(error) => Err(error),
        }
    }

    fn open(&self, name: &[u8]) -> Result<OpenBucket, Error> {
        let found = self.read().tree.get(name)?.ok_or(Error::BucketNotFound)?;
        if !found.is_bucket {
            return Err(Error::IncompatibleValue);
        }
        let inner = self.read().committed_inner(found)?;
        let root = match inner.root {
            CommittedSubtree::Page(id) => Child::Page(id),
            CommittedSubtree::Inline(page) => Child::Node(Box::new(self.copy_inline(&page)?)),
        };
        Ok(OpenBucket::new(root, inner.sequence))
    }

    /// Decodes the page of an inline bucket. Its bytes lie within the value of an element, in the
    /// map.
    fn copy_inline(&self, page: &Page<'_>) -> Result<Node, CorruptPage> {
        let state = &self.work.state;
        let start = state.map.get(0, 0).map_or(0, |start| start.as_ptr().addr());
        let base = page.bytes().as_ptr().addr() - start;
        Node::read(page, base as u64).map_err(|reason| state.corrupt(0, reason))
    }

    /// Inserts a key-value pair or the element of a nested bucket.
    fn set(&mut self, key: &[u8], value: &[u8], is_bucket: bool) -> Result<(), Error> {
        set(self.work, self.bucket, key, value, is_bucket)
    }
}

/// Inserts a key-value pair or the element of a nested bucket.
pub(crate) fn set(
    work: &mut TxWork,
    bucket: &mut OpenBucket,
    key: &[u8],
    value: &[u8],
    is_bucket: bool,
) -> Result<(), Error> {
    let addr = work.arena.add(key, value);
    let len = |bytes: &[u8]| u32::try_from(bytes.len()).expect("bounded by KEY_MAX and VALUE_MAX");
    let entry = LeafEntry { key: KeyRef { addr, len: len(key) }, value_len: len(value), is_bucket };
    edit::insert(work, &mut bucket.root, key, entry)?;
    bucket.changed = true;
    Ok(())
}

/// Collects the on-disk pages of a bucket and its nested buckets.
fn pages_of(bucket: &Bucket<'_>, pages: &mut Vec<Run>, nesting: usize) -> Result<(), CorruptPage> {
    let tree = bucket.tree;
    let mut todo = vec![(tree.root, 0)];
    while let Some((subtree, depth)) = todo.pop() {
        if depth > DEPTH_MAX || nesting > DEPTH_MAX {
            return Err(tree.too_deep(subtree));
        }
        let view = tree.view(subtree)?;
        pages.extend(run_of(&view, tree.state.meta.page_size));
        for index in 0..view.count() {
            if !view.is_leaf() {
                todo.push((tree.at_page(&view, view.child(index))?, depth + 1));
                continue;
            }
            let element = tree.at_page(&view, view.element(index))?;
            if element.is_bucket
                && let Some(inner) = bucket.bucket(element.key)?
            {
                pages_of(&inner, pages, nesting + 1)?;
            }
        }
    }
    Ok(())
}

fn run_of(view: &SubtreeContent<'_>, page_size: usize) -> Option<Run> {
    match view {
        SubtreeContent::Page(page) if page.id == 0 => None,
        SubtreeContent::Page(page) => Some((page.id, (page.bytes().len() / page_size) as u64)),
        SubtreeContent::Node(node, _) => node.source,
    }
}
