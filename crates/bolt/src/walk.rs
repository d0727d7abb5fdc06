//! A walk over everything that a state reaches, page by page.

use crate::bucket::Bucket;
use crate::error::Damaged;
use crate::freelist::PageSet;
use crate::meta::NO_FREELIST;
use crate::page::{FREELIST, PageId};
use crate::snapshot::{Snapshot, root};
use crate::state::{DEPTH_MAX, State};
use crate::tree::{Subtree, View};

impl Snapshot {
    /// Whether this could be opened to be written: every page that it leads to can be read, and is reached once. That is what opening
    /// makes sure of; here nothing is changed, and nobody else is kept from reading.
    pub fn check_reach(&self) -> Result<(), Damaged> {
        used_pages(&self.state).map(drop)
    }
}

/// All pages that a state reaches, those of the saved freelist included. A page reached twice is an error: changing one place would
/// change the other, and giving it up at one would free it at the other.
pub(crate) fn used_pages(state: &State) -> Result<PageSet, Damaged> {
    let mut used = PageSet::default();
    if state.meta.freelist != NO_FREELIST {
        let id = state.meta.freelist;
        let (header, _) = state.raw(id).map_err(|reason| state.damaged(id, reason))?;
        if header.flags != FREELIST {
            return Err(state.damaged(id, "not a list of free pages"));
        }
        take(state, &mut used, id, u64::from(header.overflow) + 1)?;
    }
    let mut walk = Walk { state, used };
    walk.bucket(&root(state), 0)?;
    Ok(walk.used)
}

struct Walk<'a> {
    state: &'a State,
    used: PageSet,
}

impl<'a> Walk<'a> {
    fn bucket(&mut self, bucket: &Bucket<'a>, nesting: usize) -> Result<(), Damaged> {
        let tree = bucket.tree;
        let mut todo = vec![(tree.root, 0)];
        while let Some((subtree, depth)) = todo.pop() {
            if depth >= DEPTH_MAX || nesting >= DEPTH_MAX {
                return Err(tree.too_deep(subtree));
            }
            let view = tree.view(subtree)?;
            let View::Page(page) = view else { unreachable!("a committed state has no nodes") };
            if let Subtree::Page(id) = subtree {
                let pages = (page.bytes().len() / self.state.meta.page_size) as u64;
                take(self.state, &mut self.used, id, pages)?;
            }
            let mut apart = false;
            for index in 0..page.count() {
                if page.is_leaf {
                    if tree.ok(&view, page.is_bucket(index))? {
                        // Buckets that share bytes would be gone through again and again.
                        if !apart {
                            tree.ok(&view, page.verify_apart())?;
                            apart = true;
                        }
                        let element = tree.ok(&view, page.leaf_element(index))?;
                        self.bucket(&bucket.inner(element)?, nesting + 1)?;
                    }
                } else {
                    todo.push((Subtree::Page(tree.ok(&view, page.child(index))?), depth + 1));
                }
            }
        }
        Ok(())
    }
}

/// Marks pages as used, each for the first time.
fn take(state: &State, used: &mut PageSet, id: PageId, pages: u64) -> Result<(), Damaged> {
    for page in id..id + pages {
        if !used.insert(page) {
            return Err(state.damaged(page, "reached twice"));
        }
    }
    Ok(())
}
