//! A walk over all pages that a state reaches.

use crate::bucket::Bucket;
use crate::error::CorruptPage;
use crate::freelist::PageSet;
use crate::meta::NO_FREELIST;
use crate::page::{FREELIST, PageId};
use crate::snapshot::{Snapshot, root};
use crate::state::{CommittedState, DEPTH_MAX};
use crate::tree::{Subtree, View};

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
    walk.bucket(&root(state), 0)?;
    Ok(walk.used)
}

struct Walk<'a> {
    state: &'a CommittedState,
    used: PageSet,
}

impl<'a> Walk<'a> {
    fn bucket(&mut self, bucket: &Bucket<'a>, nesting: usize) -> Result<(), CorruptPage> {
        let tree = bucket.tree;
        let mut todo = vec![(tree.root, 0)];
        while let Some((subtree, depth)) = todo.pop() {
            if depth >= DEPTH_MAX || nesting >= DEPTH_MAX {
                return Err(tree.too_deep(subtree));
            }
            let view = tree.view(subtree)?;
            let View::Page(page) = view else {
                unreachable!("a committed state has no in-memory nodes")
            };
            if let Subtree::Page(id) = subtree {
                let pages = (page.bytes().len() / self.state.meta.page_size) as u64;
                mark_used(self.state, &mut self.used, id, pages)?;
            }
            let mut checked = false;
            for index in 0..page.count() {
                if page.is_leaf {
                    if tree.at_page(&view, page.is_bucket(index))? {
                        // Overlapping elements may hold the same inline bucket many times;
                        // following them would take quadratic time.
                        if !checked {
                            tree.at_page(&view, page.verify_no_overlap())?;
                            checked = true;
                        }
                        let element = tree.at_page(&view, page.leaf_element(index))?;
                        self.bucket(&bucket.inner(element)?, nesting + 1)?;
                    }
                } else {
                    todo.push((Subtree::Page(tree.at_page(&view, page.child(index))?), depth + 1));
                }
            }
        }
        Ok(())
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
