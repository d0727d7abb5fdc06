//! Whether a file is what it should be: everything reachable once, in order, and the rest free.

use std::collections::BTreeSet;

use crate::bucket::Bucket;
use crate::error::Damaged;
use crate::freelist::{self, PageSet};
use crate::meta::NO_FREELIST;
use crate::page::{Page, PageId};
use crate::snapshot::Snapshot;
use crate::state::State;
use crate::tree::Subtree;

/// Most errors that are told; a damaged file may have one for every page.
const ERRORS_MAX: usize = 1000;

/// Most levels below the root, of trees and of buckets inside buckets together. It bounds the stack that a check takes.
const LEVELS_MAX: usize = 512;

impl Snapshot {
    /// Walks through everything and tells what is wrong: pages that cannot be read, that are reached twice or both reached and free,
    /// keys out of order, a saved freelist that is not just the pages that nothing reaches.
    pub fn check(&self) -> Vec<Damaged> {
        let state = &*self.state;
        let mut check = Check { state, used: PageSet::default(), errors: Vec::new() };
        check.bucket(&self.root(), 0);
        check.freelist();
        check.errors
    }
}

struct Check<'a> {
    state: &'a State,
    used: PageSet,
    errors: Vec<Damaged>,
}

/// The keys that may be below some branch element.
#[derive(Clone, Copy)]
struct Bounds<'a> {
    /// Not less than this.
    from: Option<&'a [u8]>,
    /// Less than this.
    to: Option<&'a [u8]>,
}

impl<'a> Check<'a> {
    fn bucket(&mut self, bucket: &Bucket<'a>, level: usize) {
        let all = Bounds { from: None, to: None };
        match bucket.tree.root {
            Subtree::Page(id) => self.page(bucket, id, all, level),
            Subtree::Inline(page) => self.elements(bucket, &page, all, level),
            Subtree::Node(_) => unreachable!("a committed state has no nodes"),
        }
    }

    fn page(&mut self, bucket: &Bucket<'a>, id: PageId, bounds: Bounds<'a>, level: usize) {
        if level >= LEVELS_MAX {
            return self.error(id, format!("more than {LEVELS_MAX} levels deep"));
        }
        match self.state.page(id) {
            Err(damaged) => self.push(damaged),
            Ok(page) => {
                let pages = (page.bytes().len() / self.state.meta.page_size) as u64;
                // One that was reached before is not followed again, so this ends.
                if self.take(id, pages) {
                    self.elements(bucket, &page, bounds, level);
                }
            }
        }
    }

    fn elements(&mut self, bucket: &Bucket<'a>, page: &Page<'a>, bounds: Bounds<'a>, level: usize) {
        // Buckets that share bytes would be gone through again and again, so such a page is not followed.
        if let Err(reason) = page.verify_apart() {
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
            self.error(page.id, format!("element {index} is not greater than the one before it"));
        }
        if bounds.from.is_some_and(|from| key < from) || bounds.to.is_some_and(|to| key >= to) {
            self.error(
                page.id,
                format!("element {index} is outside of what the branch above says"),
            );
        }
    }

    fn leaf_element(&mut self, bucket: &Bucket<'a>, page: &Page<'a>, index: usize, level: usize) {
        match page.leaf_element(index) {
            Err(reason) => self.error(page.id, format!("element {index}: {reason}")),
            Ok(element) if element.is_bucket => match bucket.inner(element) {
                Ok(inner) => self.bucket(&inner, level + 1),
                Err(damaged) => self.error(page.id, damaged.reason().to_owned()),
            },
            Ok(_) => {}
        }
    }

    /// The saved freelist has each page that nothing reaches, once. One that is not saved cannot be wrong.
    fn freelist(&mut self) {
        let id = self.state.meta.freelist;
        if id == NO_FREELIST {
            return;
        }
        let (header, bytes) = match self.state.raw(id) {
            Ok(found) => found,
            Err(reason) => return self.error(id, reason.to_owned()),
        };
        self.take(id, u64::from(header.overflow) + 1);
        let ids = match freelist::load(header, bytes) {
            Ok(ids) => ids,
            Err(reason) => return self.error(id, reason.to_owned()),
        };
        let mut free = BTreeSet::new();
        for page in ids {
            if page < 2 || page >= self.state.meta.high_water {
                self.error(page, "free, and beyond the used pages".to_owned());
            } else if !free.insert(page) {
                self.error(page, "free twice".to_owned());
            } else if self.used.contains(page) {
                self.error(page, "free, and reachable".to_owned());
            }
        }
        for page in 2..self.state.meta.high_water {
            if !self.used.contains(page) && !free.contains(&page) {
                self.error(page, "unreachable, and not free".to_owned());
            }
        }
    }

    fn take(&mut self, id: PageId, pages: u64) -> bool {
        for page in id..id + pages {
            if !self.used.insert(page) {
                self.error(page, "reached twice".to_owned());
                return false;
            }
        }
        true
    }

    fn error(&mut self, page: PageId, reason: String) {
        self.push(self.state.damaged(page, reason));
    }

    fn push(&mut self, damaged: Damaged) {
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(damaged);
        }
    }
}
