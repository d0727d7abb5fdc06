//! A walk over all pages that a state reaches.

use crate::bucket::CommittedBucket;
use crate::error::CorruptPage;
use crate::freelist::PageSet;
use crate::meta::NO_FREELIST;
use crate::page::{FREELIST, Page, PageId};
use crate::snapshot::Snapshot;
use crate::state::{CommittedState, DEPTH_MAX};
use crate::tree::CommittedSubtree;

impl Snapshot {
    /// Verifies that the file could be opened for writing: every reachable page is readable and
    /// reached once. Opening verifies the same; this neither changes the file nor blocks other
    /// readers.
    pub fn check_reachable(&self) -> Result<(), CorruptPage> {
        used_pages(&self.state).map(drop)
    }
}

/// Returns all pages that a state reaches, including those of the saved freelist. Fails if a page
/// is reached twice: changing it in one place would change the other, and freeing it in one would
/// free it in the other.
pub(crate) fn used_pages(state: &CommittedState) -> Result<PageSet, CorruptPage> {
    let mut used = PageSet::default();
    if state.meta.freelist != NO_FREELIST {
        let id = state.meta.freelist;
        let (header, _) = state.raw(id).map_err(|reason| state.corrupt(id, reason))?;
        if header.flags != FREELIST {
            return Err(state.corrupt(id, "not a freelist page"));
        }
        mark_used(state, &mut used, id, u64::from(header.overflow) + 1)?;
    }
    let mut walk = Walk { state, used };
    walk.bucket(&CommittedBucket::root_of(state), 0)?;
    Ok(walk.used)
}

struct Walk<'a> {
    state: &'a CommittedState,
    used: PageSet,
}

impl<'a> Walk<'a> {
    fn bucket(&mut self, bucket: &CommittedBucket<'a>, nesting: usize) -> Result<(), CorruptPage> {
        let mut todo = vec![(bucket.root, 0)];
        while let Some((subtree, depth)) = todo.pop() {
            if depth >= DEPTH_MAX || nesting >= DEPTH_MAX {
                return Err(self.state.too_deep(subtree.page_id()));
            }
            let page = self.page(subtree)?;
            let corrupt = |reason| self.state.corrupt(page.id, reason);
            let mut checked = false;
            for index in 0..page.count() {
                if !page.is_leaf {
                    let child = page.child(index).map_err(corrupt)?;
                    todo.push((CommittedSubtree::Page(child), depth + 1));
                } else if page.is_bucket(index).map_err(corrupt)? {
                    // Overlapping elements may hold the same inline bucket many times; following
                    // them would take quadratic time.
                    if !checked {
                        page.verify_no_overlap().map_err(corrupt)?;
                        checked = true;
                    }
                    let element = page.leaf_element(index).map_err(corrupt)?;
                    self.bucket(&bucket.inner(element)?, nesting + 1)?;
                }
            }
        }
        Ok(())
    }

    /// Reads the top page of a subtree and marks it as used. An inline page is part of another.
    fn page(&mut self, subtree: CommittedSubtree<'a>) -> Result<Page<'a>, CorruptPage> {
        match subtree {
            CommittedSubtree::Inline(page) => Ok(page),
            CommittedSubtree::Page(id) => {
                let page = self.state.page(id)?;
                let pages = (page.bytes().len() / self.state.meta.page_size) as u64;
                mark_used(self.state, &mut self.used, id, pages)?;
                Ok(page)
            }
        }
    }
}

/// Marks pages as used. Fails if one of them already is.
fn mark_used(
    state: &CommittedState,
    used: &mut PageSet,
    id: PageId,
    pages: u64,
) -> Result<(), CorruptPage> {
    for page in id..id + pages {
        if !used.insert(page) {
            return Err(state.corrupt(page, "reached twice"));
        }
    }
    Ok(())
}
