//! Consistency check of a whole file: each page is reachable exactly once or free, and keys are
//! sorted.

use std::collections::BTreeSet;

use crate::bucket::CommittedBucket;
use crate::error::CorruptPage;
use crate::freelist::{self, PageSet};
use crate::meta::NO_FREELIST;
use crate::page::{Page, PageId};
use crate::snapshot::Snapshot;
use crate::state::CommittedState;
use crate::tree::CommittedSubtree;

/// Maximum number of reported errors; a corrupt file may have one for every page.
const ERRORS_MAX: usize = 1000;

/// Maximum depth of the walk, counting tree levels and nested buckets together. Bounds the stack of
/// the recursion.
const LEVELS_MAX: usize = 512;

impl Snapshot {
    /// Walks the whole state and returns all inconsistencies: unreadable pages, pages reached twice
    /// or both reachable and free, unsorted keys, and a saved freelist that differs from the set of
    /// unreachable pages.
    pub fn check(&self) -> Vec<CorruptPage> {
        let state = &*self.state;
        let mut check = Check { state, used: PageSet::default(), errors: Vec::new() };
        check.bucket(&self.committed_root(), 0);
        check.freelist();
        check.errors
    }
}

struct Check<'a> {
    state: &'a CommittedState,
    used: PageSet,
    errors: Vec<CorruptPage>,
}

/// Bounds that a branch element sets for the keys below it.
#[derive(Clone, Copy)]
struct Bounds<'a> {
    /// Inclusive lower bound.
    from: Option<&'a [u8]>,
    /// Exclusive upper bound.
    to: Option<&'a [u8]>,
}

impl<'a> Check<'a> {
    fn bucket(&mut self, bucket: &CommittedBucket<'a>, level: usize) {
        let all = Bounds { from: None, to: None };
        match bucket.root {
            CommittedSubtree::Page(id) => self.page(bucket, id, all, level),
            CommittedSubtree::Inline(page) => self.elements(bucket, &page, all, level),
        }
    }

    fn page(&mut self, bucket: &CommittedBucket<'a>, id: PageId, bounds: Bounds<'a>, level: usize) {
        if level >= LEVELS_MAX {
            return self.error(id, format!("more than {LEVELS_MAX} levels deep"));
        }
        match self.state.page(id) {
            Err(corrupt) => self.push(corrupt),
            Ok(page) => {
                let pages = (page.bytes().len() / self.state.meta.page_size) as u64;
                // A page that was reached before is not followed again, so the walk ends even if
                // the tree has a cycle.
                if self.mark_used(id, pages) {
                    self.elements(bucket, &page, bounds, level);
                }
            }
        }
    }

    fn elements(
        &mut self,
        bucket: &CommittedBucket<'a>,
        page: &Page<'a>,
        bounds: Bounds<'a>,
        level: usize,
    ) {
        // Overlapping elements may hold the same inline bucket many times; following them would
        // take quadratic time.
        if let Err(reason) = page.verify_no_overlap() {
            return self.error(page.id, reason.to_owned());
        }
        let mut previous: Option<&[u8]> = None;
        for index in 0..page.count() {
            let key = match page.key(index) {
                Ok(key) => key,
                Err(reason) => return self.error(page.id, format!("element {index}: {reason}")),
            };
            self.order(page, index, key, previous, bounds);
            previous = Some(key);
            if page.is_leaf {
                self.leaf_element(bucket, page, index, level);
            } else {
                let next =
                    if index + 1 < page.count() { page.key(index + 1).ok() } else { bounds.to };
                match page.child(index) {
                    Ok(child) => {
                        self.page(bucket, child, Bounds { from: Some(key), to: next }, level + 1);
                    }
                    Err(reason) => self.error(page.id, format!("element {index}: {reason}")),
                }
            }
        }
    }

    fn order(
        &mut self,
        page: &Page<'a>,
        index: usize,
        key: &[u8],
        previous: Option<&[u8]>,
        bounds: Bounds<'a>,
    ) {
        if key.is_empty() {
            self.error(page.id, format!("element {index} has an empty key"));
        }
        if previous.is_some_and(|previous| previous >= key) {
            self.error(
                page.id,
                format!("key of element {index} is not greater than the previous key"),
            );
        }
        if bounds.from.is_some_and(|from| key < from) || bounds.to.is_some_and(|to| key >= to) {
            self.error(
                page.id,
                format!("key of element {index} is outside the bounds of its branch element"),
            );
        }
    }

    fn leaf_element(
        &mut self,
        bucket: &CommittedBucket<'a>,
        page: &Page<'a>,
        index: usize,
        level: usize,
    ) {
        match page.leaf_element(index) {
            Err(reason) => self.error(page.id, format!("element {index}: {reason}")),
            Ok(element) if element.is_bucket => match bucket.inner(element) {
                Ok(inner) => self.bucket(&inner, level + 1),
                Err(corrupt) => self.error(page.id, corrupt.reason().to_owned()),
            },
            Ok(_) => {}
        }
    }

    /// Checks that the saved freelist holds each unreachable page exactly once. An unsaved one
    /// cannot be wrong.
    fn freelist(&mut self) {
        let id = self.state.meta.freelist;
        if id == NO_FREELIST {
            return;
        }
        let (header, bytes) = match self.state.raw(id) {
            Ok(found) => found,
            Err(reason) => return self.error(id, reason.to_owned()),
        };
        self.mark_used(id, u64::from(header.overflow) + 1);
        let ids = match freelist::load(header, bytes) {
            Ok(ids) => ids,
            Err(reason) => return self.error(id, reason.to_owned()),
        };
        let mut free = BTreeSet::new();
        for page in ids {
            if page < 2 || page >= self.state.meta.high_water {
                self.error(page, "in the freelist but beyond the high water mark".to_owned());
            } else if !free.insert(page) {
                self.error(page, "twice in the freelist".to_owned());
            } else if self.used.contains(page) {
                self.error(page, "in the freelist but reachable".to_owned());
            }
        }
        for page in 2..self.state.meta.high_water {
            if !self.used.contains(page) && !free.contains(&page) {
                self.error(page, "unreachable but not in the freelist".to_owned());
            }
        }
    }

    fn mark_used(&mut self, id: PageId, pages: u64) -> bool {
        for page in id..id + pages {
            if !self.used.insert(page) {
                self.error(page, "reached twice".to_owned());
                return false;
            }
        }
        true
    }

    fn error(&mut self, page: PageId, reason: String) {
        self.push(self.state.corrupt(page, reason));
    }

    fn push(&mut self, corrupt: CorruptPage) {
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(corrupt);
        }
    }
}
